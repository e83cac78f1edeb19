//! Memory that huge pages back and nothing touches, step by step: the rule of `untouched.rs`.

use crate::random::{Op, Program, Random};
use crate::slow::{self, Slow};
use crate::stream::{LOAD, one_block};
use crate::systems::Systems;
use pagewalk_mm::{Thp, ThpMode};
use pagewalk_oracle::Paging;
use pagewalk_sim::{DesignSpec, Library, NoObserver, Pass};
use pagewalk_translate::MachineSpec;
use pagewalk_units::ThreadId;
use std::sync::Arc;

/// First page of a block of 2 MiB, the first of three that are mapped.
const FIRST: u64 = 1 << 20;

/// A program that maps three blocks and then does this. `load` loads from a page, counted from the first; `file` maps
/// pages of a file to read them.
fn program(ops: &[(&str, u64, u64)]) -> Program {
    let (blocks, block) = one_block(0x10_0000, &[LOAD]);
    let op = |&(what, page, pages): &(&str, u64, u64)| {
        let start = FIRST + page;
        match what {
            "load" => Op::Run { block, addresses: vec![start << 12] },
            "unmap" => Op::Unmap { start, pages },
            "discard" => Op::Discard { start, pages },
            "file" => Op::MapFile { start, pages, file: 1, offset: 0, rights: 1 },
            _ => Op::Protect { start, pages, rights: 1 },
        }
    };
    let map = Op::Map { start: FIRST, pages: 3 * 512, anonymous: true };
    let ops = [map].into_iter().chain(ops.iter().map(op)).collect();
    Program { thread: ThreadId(1), blocks, ops }
}

/// Untouched pages at the worst moment under THP.
fn untouched_pages(ops: &[(&str, u64, u64)]) -> u64 {
    let machine = Library::get("skylake_sp").unwrap();
    let thp = Arc::new(Thp { mode: ThpMode::Always });
    let mut pass = Pass::new(vec![DesignSpec::new(&machine, thp)], NoObserver).unwrap();
    slow::feed(&mut pass, &program(ops), &mut Random::new(1));
    pass.finish()[0].untouched_bytes / 4096
}

/// The same with global pages and base pages of this size: in the pass, the system and the slow model.
fn untouched_beside_globals(base: &str, ops: &[(&str, u64, u64)]) -> [u64; 3] {
    let text = format!(
        "schema = 1\nname = \"m\"\n[[tlb]]\nname = \"l1\"\nlevel = 1\nserves = [\"fetch\", \"load\", \"store\"]\n\
         page_sizes = [\"{base}\", \"2M\"]\nentries = 64\n[paging]\nbase = \"{base}\"\nhuge = \"2M\"\n\
         [walker]\nkind = \"software\"\nrefill_cycles = 20\n[cost]\n"
    );
    let machine = MachineSpec::from_toml("m.toml", &text).unwrap();
    let specs = vec![DesignSpec::new(&machine, Arc::new(Thp { mode: ThpMode::Always }))];
    let mut slow = Slow { global_files: true, ..Slow::new(&machine, Paging::Thp) };
    let systems = Systems::new(&specs, 1).with_global_files();
    let pass = Pass::new(specs, NoObserver).unwrap().with_global_files().unwrap();
    let (program, mut both) = (program(ops), (pass, systems));
    slow::feed(&mut both, &program, &mut Random::new(1));
    program.ops.iter().for_each(|op| slow.op(&program, op));
    let system = both.1.0[0].counts();
    [both.0.finish()[0].untouched_bytes, system.untouched_bytes, slow.untouched_bytes()]
        .map(|bytes| bytes / machine.paging.base().bytes())
}

#[test]
fn what_a_split_leaves_stays_backed() {
    for change in ["unmap", "discard"] {
        let split = [("load", 0, 0), (change, 9, 1)];
        assert_eq!(untouched_pages(&split), 511, "{change}");
        assert_eq!(untouched_pages(&[&split[..], &[("load", 512, 0)]].concat()), 510 + 511, "{change}");
    }
    let protected = [("load", 0, 0), ("protect", 9, 1), ("load", 512, 0)];
    assert_eq!(untouched_pages(&protected), 511 + 511);
}

#[test]
fn it_is_freed_page_by_page_or_with_the_last_that_is_touched() {
    let split = [("load", 0, 0), ("discard", 9, 1)];
    let then = |rest: &[(&str, u64, u64)]| untouched_pages(&[&split[..], rest, &[("load", 512, 0)]].concat());
    assert_eq!(then(&[("discard", 100, 50)]), 460 + 511);
    // What was discarded before is not backed.
    assert_eq!(then(&[("discard", 0, 1)]), 511);
    assert_eq!(then(&[("load", 300, 0), ("discard", 0, 1)]), 509 + 511);
}

#[test]
fn what_is_touched_later_was_not_backed_for_nothing() {
    assert_eq!(untouched_pages(&[("load", 0, 0), ("discard", 9, 1), ("load", 5, 0)]), 510);
}

#[test]
fn a_page_that_becomes_global_is_touched() {
    // Three quarters of the second page are unmapped, so it stays. Then all of it is a file's.
    let remainder = [("load", 0, 0), ("unmap", 4, 3), ("file", 4, 4)];
    assert_eq!(untouched_beside_globals("16K", &remainder), [127; 3]);
    assert_eq!(untouched_beside_globals("16K", &[&remainder[..], &[("load", 4, 0)]].concat()), [126; 3]);
}

#[test]
fn a_global_page_keeps_what_a_split_leaves() {
    let split = [("load", 0, 0), ("file", 9, 1), ("load", 9, 0), ("discard", 0, 1)];
    let then = |rest: &[(&str, u64, u64)]| {
        untouched_beside_globals("4K", &[&split[..], rest, &[("load", 512, 0)]].concat())
    };
    assert_eq!(then(&[]), [510 + 511; 3]);
    assert_eq!(then(&[("discard", 9, 1)]), [511; 3]);
}
