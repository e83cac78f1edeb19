//! Memory that huge pages back and nothing touches, step by step: the rule of `untouched.rs`.

use crate::random::{Op, Program, Random};
use crate::slow;
use pagewalk_mm::{Thp, ThpMode};
use pagewalk_sim::{DesignSpec, Library, NoObserver, Pass};
use pagewalk_trace::{Block, BlockEnd, Dictionary, Instruction, Site};
use pagewalk_units::{Access, Kind, Size, ThreadId, VirtAddr};
use std::sync::Arc;

/// First page of a block of 2 MiB, the first of three that are mapped.
const FIRST: u64 = 1 << 20;

/// Untouched pages at the worst moment under THP. `load` loads from a page, counted from the first.
fn untouched_pages(ops: &[(&str, u64, u64)]) -> u64 {
    let mut blocks = Dictionary::default();
    let access = Access { kind: Kind::Load, size: Size::of_bytes(8).unwrap() };
    let block = blocks.intern(Block {
        instructions: [Instruction { address: VirtAddr(0x10_0000), length: 4 }].into(),
        sites: [Site { instruction: 0, access }].into(),
        code: Box::default(),
        end: BlockEnd::Jump,
    });
    let op = |&(what, page, pages): &(&str, u64, u64)| {
        let start = FIRST + page;
        match what {
            "load" => Op::Run { block, addresses: vec![start << 12] },
            "unmap" => Op::Unmap { start, pages },
            "discard" => Op::Discard { start, pages },
            _ => Op::Protect { start, pages, rights: 1 },
        }
    };
    let map = Op::Map { start: FIRST, pages: 3 * 512, anonymous: true };
    let ops = [map].into_iter().chain(ops.iter().map(op)).collect();
    let machine = Library::get("skylake_sp").unwrap();
    let thp = Arc::new(Thp { mode: ThpMode::Always });
    let mut pass = Pass::new(vec![DesignSpec::new(&machine, thp)], NoObserver).unwrap();
    slow::feed(&mut pass, &Program { thread: ThreadId(1), blocks, ops }, &mut Random::new(1));
    pass.finish()[0].untouched_bytes / 4096
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
