//! Code and data where addresses end: above the 57 bits that records hold, and across their end.

use crate::random::{Op, Program, Random};
use crate::slow;
use crate::stream::{LOAD, block};
use pagewalk_mm::{Everything, PageSizePolicy, Small, Thp, ThpMode};
use pagewalk_sim::{Arrangement, DesignCounts, DesignSpec, Library, NoObserver, Pass, Simulation, TrapSpec};
use pagewalk_trace::{Dictionary, Ref};
use pagewalk_translate::{MissClass, NestedMisses};
use pagewalk_units::ThreadId;
use std::sync::Arc;

/// The page of code that old kernels have at the same place in every program.
const VSYSCALL: u64 = 0xffff_ffff_ff60_0000;

/// Runs a block of the instructions at these addresses, the first of which loads words.
fn run(blocks: &mut Dictionary, instructions: &[u64], loads: &[u64]) -> Op {
    let block = blocks.intern(block(instructions.iter().copied(), &vec![LOAD; loads.len()]));
    Op::Run { block, addresses: loads.to_vec() }
}

/// Code and data at the top, a load from page 0, and changes of mappings at the top in between.
fn at_the_top() -> Program {
    let mut blocks = Dictionary::default();
    let top = [
        run(&mut blocks, &[VSYSCALL, VSYSCALL + 0x400], &[]),
        run(&mut blocks, &[u64::MAX - 1], &[Ref::ADDRESS_END - 4]),
        run(&mut blocks, &[VSYSCALL], &[8]),
    ];
    let last = ((u64::MAX >> 12) - 1, 1);
    let maps = [
        Op::Map { start: last.0, pages: last.1, anonymous: true },
        Op::Unmap { start: last.0, pages: last.1 },
    ];
    let end = Ref::ADDRESS_END >> 12;
    let across = Op::Discard { start: end - 1, pages: 4 };
    let ops = [&top[..], &maps, &top, &[across], &top].concat();
    program(blocks, ops)
}

fn program(blocks: Dictionary, ops: Vec<Op>) -> Program {
    Program { thread: ThreadId(1), blocks, ops }
}

fn counts(machine: &str, policy: Arc<dyn PageSizePolicy>, program: &Program) -> DesignCounts {
    let machine = Library::get(machine).unwrap();
    let mut pass = Pass::new(vec![DesignSpec::new(&machine, policy)], NoObserver).unwrap();
    slow::feed(&mut pass, program, &mut Random::new(1));
    pass.finish().remove(0)
}

fn pages_touched(machine: &str, policy: Arc<dyn PageSizePolicy>, program: &Program) -> u64 {
    counts(machine, policy, program).pages_touched
}

/// The page of the kernel, the last and the first.
#[test]
fn what_lies_above_is_found_below_and_nothing_beyond_the_end() {
    let small: Arc<dyn PageSizePolicy> = Arc::new(Small);
    let thp = Arc::new(Thp { mode: ThpMode::Always });
    let program = at_the_top();
    for name in ["skylake_sp", "neoverse_n1", "p550", "la464", "mips_r4000", "konireddygari_u256"] {
        for policy in [small.clone(), thp.clone(), Arc::new(Everything)] {
            assert_eq!(pages_touched(name, policy, &program), 3, "{name}");
        }
    }
    assert_eq!(pages_touched("mips_r2000", small, &program), 3);
}

/// Page 0 has the same place among those that all designs hold as one beyond the last would have.
#[test]
fn a_reference_across_the_end_touches_one_page() {
    let mut blocks = Dictionary::default();
    let mut touched = 1;
    for loads in [&[Ref::ADDRESS_END - 4][..], &[Ref::ADDRESS_END - 4, 0]] {
        let ops = vec![run(&mut blocks, &[0x40_0000], loads)];
        touched += 1;
        assert_eq!(pages_touched("skylake_sp", Arc::new(Small), &program(blocks.clone(), ops)), touched);
    }
}

#[test]
fn trap_driven_engines_take_them_too() {
    let machine = Library::get("mips_r2000").unwrap();
    let traps = TrapSpec { host: 64, nested: NestedMisses::WithParent };
    let design = DesignSpec::by_traps("by traps".to_owned(), &machine, traps);
    let mut engine = Simulation::new(vec![design], &Arrangement::default()).unwrap();
    let program = at_the_top();
    slow::feed(&mut engine, &program, &mut Random::new(1));
    let full = counts("mips_r2000", Arc::new(Small), &program).software.unwrap();
    let counts = engine.finish().swap_remove(0).software.unwrap().counts;
    for class in [MissClass::L1u, MissClass::L1k, MissClass::L2, MissClass::L3] {
        assert_eq!(counts.of(class), full.counts.of(class), "{class:?}");
    }
}
