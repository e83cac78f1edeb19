//! Base pages larger than the 4 KiB in which mappings are recorded: the rule of `kernel.rs`, step by step.

use crate::random::{Op, Program, Random};
use crate::slow;
use crate::stream::{LOAD, one_block};
use pagewalk_mm::Small;
use pagewalk_sim::{DesignSpec, NoObserver, Pass, PassError};
use pagewalk_translate::MachineSpec;
use pagewalk_units::ThreadId;
use std::sync::Arc;

fn machine(base: &str) -> MachineSpec {
    let text = format!(
        "schema = 1\nname = \"m{base}\"\n[[tlb]]\nname = \"l1\"\nlevel = 1\n\
         serves = [\"fetch\", \"load\", \"store\"]\npage_sizes = [\"{base}\"]\nentries = 64\n\
         [paging]\nbase = \"{base}\"\n[walker]\nkind = \"software\"\nrefill_cycles = 20\n[cost]\n"
    );
    MachineSpec::from_toml("m.toml", &text).unwrap()
}

fn design(machine: MachineSpec) -> DesignSpec {
    DesignSpec::new(&machine, Arc::new(Small))
}

/// Pages touched and walks by data, after these operations. `Run` loads the byte at its address.
fn counts(base: &str, ops: &[(&str, u64, u64)]) -> (u64, u64) {
    // Code far from the data: one more page.
    let (blocks, block) = one_block(0x10_0000, &[LOAD]);
    let op = |&(what, start, pages): &(&str, u64, u64)| match what {
        "map" => Op::Map { start, pages, anonymous: true },
        "map shared" => Op::Map { start, pages, anonymous: false },
        "unmap" => Op::Unmap { start, pages },
        "discard" => Op::Discard { start, pages },
        "protect" => Op::Protect { start, pages, rights: 1 },
        _ => Op::Run { block, addresses: vec![start << 12] },
    };
    let program = Program { thread: ThreadId(1), blocks, ops: ops.iter().map(op).collect() };
    let mut pass = Pass::new(vec![design(machine(base))], NoObserver).unwrap();
    slow::feed(&mut pass, &program, &mut Random::new(1));
    let counts = &pass.finish()[0];
    (counts.pages_touched - 1, counts.walks_data)
}

#[test]
fn a_page_that_straddles_mappings_is_one_page() {
    let mapped = [("map", 0x400, 2), ("map shared", 0x402, 2)];
    let loads = [("load", 0x400, 0), ("load", 0x403, 0)];
    let ops: Vec<_> = mapped.into_iter().chain(loads).collect();
    assert_eq!(counts("4K", &ops), (2, 2));
    assert_eq!(counts("16K", &ops), (1, 1));
}

#[test]
fn a_change_of_a_part_drops_the_translation_and_keeps_the_page() {
    for change in ["unmap", "discard", "protect"] {
        let ops = [("map", 0x400, 4), ("load", 0x403, 0), (change, 0x400, 2), ("load", 0x403, 0)];
        assert_eq!(counts("16K", &ops), (1, 2), "{change}");
        assert_eq!(counts("4K", &ops), (1, 1), "{change}");
    }
}

#[test]
fn a_page_is_gone_when_a_change_covers_it_or_leaves_nothing_mapped() {
    for change in ["unmap", "discard"] {
        let ops = [("map", 0x400, 8), ("load", 0x403, 0), (change, 0x3ff, 6), ("load", 0x403, 0)];
        assert_eq!(counts("16K", &ops), (2, 2), "{change}");
    }
    // The second unmapping covers only half of the page, but the other half went before.
    let halves = [("unmap", 0x400, 2), ("unmap", 0x402, 2)];
    let [first, second] = halves;
    let ops = [("map", 0x400, 4), ("load", 0x403, 0), first, second, ("map", 0x400, 4), ("load", 0x403, 0)];
    assert_eq!(counts("16K", &ops), (2, 2));
}

#[test]
fn machines_of_different_pages_do_not_share_a_pass() {
    let error =
        Pass::new(vec![design(machine("4K")), design(machine("16K"))], NoObserver).map(drop).unwrap_err();
    assert!(matches!(error, PassError::Paging { .. }));
    assert!(error.to_string().contains("`m16K` of 16K and 32M"), "{error}");
}
