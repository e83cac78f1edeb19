//! Global pages of files, step by step: the rule of `global.rs`.

use crate::random::{Op, Program, Random};
use crate::slow;
use crate::stream::{LOAD, one_block};
use pagewalk_mm::{Everything, PageSizePolicy, Small};
use pagewalk_sim::{DesignSpec, NoObserver, Pass, PassError, System};
use pagewalk_trace::Dictionary;
use pagewalk_translate::{Asid, MachineSpec, MissClass};
use pagewalk_units::{BlockId, ThreadId};
use std::sync::Arc;

/// A machine that translates only data, by a TLB with this number of address-space identifiers.
fn pass(asids: u32, policy: Arc<dyn PageSizePolicy>) -> Result<Pass, PassError> {
    let text = format!(
        "schema = 1\nname = \"m\"\nasids = {asids}\n[[tlb]]\nname = \"l1\"\nlevel = 1\n\
         serves = [\"fetch\", \"load\", \"store\"]\npage_sizes = [\"4K\", \"2M\"]\nentries = 64\n\
         [walker]\nkind = \"software\"\nrefill_cycles = 20\n[cost]\n"
    );
    let machine = MachineSpec::from_toml("m.toml", &text).unwrap();
    Pass::new(vec![DesignSpec::new(&machine, policy)], NoObserver)?.with_global_files()
}

/// One load.
fn code() -> (Dictionary, BlockId) {
    one_block(0x10_0000, &[LOAD])
}

/// Walks by data of each step: a space and what it does. `load` loads from page 0x400.
fn walks(asids: u32, steps: &[(u32, Op)]) -> Vec<u64> {
    let mut pass = pass(asids, Arc::new(Small)).unwrap();
    let mut before = 0;
    let mut after = |&(space, ref op): &(u32, Op)| {
        pass.switch_to(Asid::new(space).unwrap());
        let program = Program { thread: ThreadId(1), blocks: code().0, ops: vec![op.clone()] };
        slow::feed(&mut pass, &program, &mut Random::new(1));
        let walks = pass.finish()[0].walks_data;
        walks - std::mem::replace(&mut before, walks)
    };
    steps.iter().map(&mut after).collect()
}

fn map(file: u64, offset: u64, rights: u8) -> Op {
    Op::MapFile { start: 0x400, pages: 1, file, offset, rights }
}

fn load() -> Op {
    Op::Run { block: code().1, addresses: vec![0x400 << 12] }
}

#[test]
fn one_walk_serves_all_that_map_a_page_alike() {
    for asids in [0, 2] {
        let steps = [(0, map(1, 7, 1)), (0, load()), (1, map(1, 7, 1)), (1, load()), (0, load())];
        assert_eq!(walks(asids, &steps), [0, 1, 0, 0, 0], "{asids} identifiers");
    }
}

#[test]
fn who_touches_something_else_there_ends_a_global_page() {
    for other in [map(2, 7, 1), map(1, 8, 1), map(1, 7, 0), map(1, 7, 3)] {
        let begin = [(0, map(1, 7, 1)), (0, load()), (1, other.clone()), (0, load())];
        let steps = [&begin[..], &[(1, load()), (0, load()), (1, load()), (0, load())]].concat();
        assert_eq!(walks(2, &steps), [0, 1, 0, 0, 1, 1, 0, 0], "{other:?}");
        // Each space has its own page, which flushes remove.
        assert_eq!(walks(0, &steps), [0, 1, 0, 0, 1, 1, 1, 1], "{other:?}");
        // A third, which maps what the first maps, has one too.
        let third = [(2, map(1, 7, 1)), (2, load()), (0, load())];
        assert_eq!(walks(3, &[&steps[..], &third].concat())[steps.len()..], [0, 1, 0], "{other:?}");
    }
}

#[test]
fn a_change_in_one_space_drops_the_translation_for_all() {
    let write = Op::Protect { start: 0x400, pages: 1, rights: 3 };
    let both = [(0, map(1, 7, 1)), (1, map(1, 7, 1)), (0, load()), (1, load())];
    let then = |rest: &[(u32, Op)]| walks(2, &[&both[..], rest].concat())[both.len()..].to_vec();
    // A space that may write has its own page from then on.
    assert_eq!(then(&[(1, write), (0, load()), (1, load()), (0, load())]), [0, 1, 1, 0]);
    // A space that unmaps the page and maps it again shares it again.
    let discard = Op::Discard { start: 0x400, pages: 1 };
    assert_eq!(then(&[(1, discard), (0, load()), (1, load())]), [0, 1, 0]);
    // A space that maps something else instead does not share it.
    assert_eq!(then(&[(1, map(2, 7, 1)), (0, load()), (1, load()), (0, load())]), [0, 1, 1, 1]);
    // When no space uses the page any more, the next one decides its content.
    let unmap = Op::Unmap { start: 0x400, pages: 1 };
    let rest =
        [(0, unmap.clone()), (1, unmap), (0, map(2, 7, 1)), (1, map(2, 7, 1)), (0, load()), (1, load())];
    assert_eq!(then(&rest), [0, 0, 0, 0, 1, 0]);
}

#[test]
fn huge_pages_everywhere_leave_no_base_page_to_be_global() {
    let error = pass(0, Arc::new(Everything)).map(drop).unwrap_err();
    assert_eq!(error.to_string(), "`m` maps everything by huge pages, but global pages are base pages");
}

/// A page of code and the global page behind it have their entries in one page of the space's own table.
#[test]
fn a_global_pages_entry_is_in_the_table_of_the_running_space() {
    let machine = "schema = 1\nname = \"m\"\nasids = 4\n[[tlb]]\nname = \"tlb\"\nlevel = 1\n\
                   serves = [\"fetch\", \"load\", \"store\"]\npage_sizes = [\"4K\"]\nentries = 64\n\
                   replacement = \"fifo\"\n[walker]\nkind = \"software\"\n[walker.mapped]\nlower = 8\n\
                   entry_bytes = 2\n[walker.mapped.systems.one]\ntables = 2\n[cost]\n";
    let machine = MachineSpec::from_toml("m.toml", machine).unwrap();
    let design = || DesignSpec::new(&machine, Arc::new(Small));
    let mut pass = Pass::new(vec![design()], NoObserver).unwrap().with_global_files().unwrap();
    let mut system = System::new(design(), 1).unwrap().with_global_files();
    for space in [0, 1, 0] {
        let program = Program { thread: ThreadId(1), blocks: code().0, ops: vec![map(1, 7, 1), load()] };
        pass.switch_to(Asid::new(space).unwrap());
        slow::feed(&mut pass, &program, &mut Random::new(1));
        system.switch_to(Asid::new(space).unwrap());
        slow::feed(&mut system, &program, &mut Random::new(1));
    }
    for counts in [pass.finish().remove(0), system.counts()] {
        let counts = counts.software.unwrap().counts;
        // Each space's code; the global page, and again after space 0 has mapped it anew.
        assert_eq!([MissClass::L1u, MissClass::L2].map(|class| counts.of(class)), [4, 2]);
    }
}
