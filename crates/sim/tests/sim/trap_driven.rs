//! Trap-driven simulation against full simulation, count for count: random machines on random hosts, streams of several
//! address spaces with pages of the kernel and unmaps.

use crate::random::{self, Program, Random};
use crate::slow::feed;
use crate::stream::{batch, block};
use pagewalk_mm::Small;
use pagewalk_oracle::cases;
use pagewalk_sim::{
    Arrangement, DesignCounts, DesignSpec, Library, NoObserver, Pass, Simulation, Structures, TrapSpec,
};
use pagewalk_trace::{Analysis, Block, BlockEnd, Dictionary, Ref, Span};
use pagewalk_translate::{
    Asid, MachineSpec, MissClass, NestedMisses, RefillRequest, SoftwareCounts, SoftwareMmu, SoftwareSpec,
    TrapDriven,
};
use pagewalk_units::{Access, Kind, Size, ThreadId, VirtAddr};
use proptest::prelude::*;
use std::sync::Arc;

/// A page of a space; the kernel's belong to all.
fn page(space: u32, number: u64, kernel: bool) -> RefillRequest {
    let asid = if kernel { Asid::GLOBAL } else { Asid::new(space).unwrap() };
    RefillRequest { key: (asid.index() as u64) << 40 | number, asid, number, base: number, kernel }
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Reference { space: u32, number: u64, kernel: bool },
    Unmap { space: u32, number: u64 },
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let number = prop_oneof![3 => 0..12u64, 2 => 0..150u64, 1 => (0..40u64).prop_map(|n| n * 700)];
    let reference = (0..3u32, number.clone(), prop::bool::weighted(0.2))
        .prop_map(|(space, number, kernel)| Op::Reference { space, number, kernel });
    let unmap = (0..3u32, number).prop_map(|(space, number)| Op::Unmap { space, number });
    prop::collection::vec(prop_oneof![40 => reference, 1 => unmap], 0..1500)
}

/// A TLB and its tables: few entries in a table page, so that tables compete.
fn simulated(tables: impl Strategy<Value = u8>) -> impl Strategy<Value = SoftwareSpec> {
    let shape = (prop::sample::select(vec![4u32, 8, 16, 64]), prop::sample::select(vec![0u32, 1, 2, 4]));
    let choices = (prop::sample::select(vec!["a", "b", "c", "d"]), any::<bool>(), any::<bool>(), 0..100u32);
    (shape, choices, tables, 0..9u64).prop_map(
        |((slots, ways), (placement, lower, upper, part), tables, seed)| {
            let ways = ways.min(slots);
            let unit = ways.max(1);
            let most = (slots / unit - 1).max(1);
            let placement = if slots / unit < 2 { "d" } else { placement };
            let below = if placement == "d" { 0 } else { (1 + part % most) * unit };
            let name = |random: bool| if random { "random" } else { "fifo" };
            let seeded =
                |key: &str, random: bool| if random { format!("{key} = {seed}\n") } else { String::new() };
            let text = format!(
                "schema = 1\nname = \"m\"\n[paging]\nbase = \"4K\"\n[[tlb]]\nname = \"tlb\"\nlevel = 1\n\
             serves = [\"fetch\", \"load\", \"store\"]\npage_sizes = [\"4K\"]\nentries = {slots}\n{}\
             replacement = \"{}\"\n{}[walker]\nkind = \"software\"\n[walker.mapped]\nlower = {below}\n\
             placement = \"{placement}\"\nentry_bytes = 256\nlower_replacement = \"{}\"\n{}\
             [walker.mapped.systems.one]\ntables = {tables}\n[cost]\n",
                if ways == 0 { String::new() } else { format!("ways = {ways}\n") },
                name(upper),
                seeded("seed", upper),
                name(lower),
                seeded("lower_seed", lower),
            );
            let machine = MachineSpec::from_toml("m", &text).unwrap_or_else(|why| panic!("{why}\n{text}"));
            machine.software().unwrap().clone()
        },
    )
}

fn full(spec: &SoftwareSpec, ops: &[Op]) -> SoftwareCounts {
    let mut mmu = SoftwareMmu::new(spec);
    for &op in ops {
        match op {
            Op::Reference { space, number, kernel } => {
                let page = page(space, number, kernel);
                if !mmu.contains(page.key) {
                    mmu.refill(page, 0);
                }
            }
            Op::Unmap { space, number } => _ = mmu.remove(page(space, number, false).key),
        }
    }
    *mmu.counts()
}

fn by_traps(spec: &SoftwareSpec, host: u32, nested: NestedMisses, ops: &[Op]) -> SoftwareCounts {
    let mut trapped = TrapDriven::new(spec, host, nested).unwrap();
    for &op in ops {
        match op {
            Op::Reference { space, number, kernel } => {
                trapped.reference(page(space, number, kernel));
            }
            Op::Unmap { space, number } => trapped.remove(page(space, number, false).key),
        }
        assert!(trapped.is_included());
    }
    *trapped.counts()
}

fn config() -> ProptestConfig {
    ProptestConfig { cases: cases(1000), failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    /// Uhlig 1994, target 22: without nested references, the counts always agree.
    #[test]
    fn uhlig_1994_flat_streams_count_alike(spec in simulated(Just(1)), host in 1..80u32, ops in ops()) {
        let expected = full(&spec, &ops);
        for nested in [NestedMisses::WithParent, NestedMisses::Counted] {
            prop_assert_eq!(by_traps(&spec, host, nested, &ops), expected);
        }
    }

    /// With nested references, the counts agree if nested misses are treated like their parents.
    #[test]
    fn nested_misses_with_their_parents_count_alike(spec in simulated(2..4u8), host in 1..80u32, ops in ops()) {
        prop_assert_eq!(by_traps(&spec, host, NestedMisses::WithParent, &ops), full(&spec, &ops));
    }
}

/// The classes that a TLB takes part in.
const CLASSES: [MissClass; 4] = [MissClass::L1u, MissClass::L1k, MissClass::L2, MissClass::L3];

fn classes(counts: &DesignCounts) -> [u64; CLASSES.len()] {
    CLASSES.map(|class| counts.software.as_ref().unwrap().counts.of(class))
}

fn trapped(machine: &MachineSpec, host: u32) -> DesignSpec {
    let traps = TrapSpec { host, nested: NestedMisses::WithParent };
    DesignSpec::by_traps("by traps".to_owned(), machine, traps)
}

/// Programs in turns, on cores and among servers miss as in full simulation, however many identifiers there are.
fn check_arrangement(seed: u64) {
    let mut random = Random::new(seed);
    let turns = random.below(2) == 0;
    let arrangement = Arrangement {
        turns,
        global_files: turns && random.below(2) == 0,
        cores: 1 + random.below(3) as usize,
        structure: (random.below(2) == 0).then(|| Structures::get("mach3").unwrap()),
    };
    let asids = random.of(&[0, 1, 2, 64]);
    let machine = MachineSpec { asids, ..Library::get("mips_r2000").unwrap() };
    let host = 1 + random.below(80) as u32;
    let designs = vec![DesignSpec::new(&machine, Arc::new(Small)), trapped(&machine, host)];
    let mut simulation = Simulation::new(designs, &arrangement).unwrap();
    let libraries = random::libraries(&mut random);
    let programs = [(); 3].map(|()| random::program(&mut random, true, &libraries));
    let mut done = [0; 3];
    for _ in 0..20 {
        let space = if arrangement.turns { random.below(3) as usize } else { 0 };
        let Program { blocks, ops, .. } = &programs[space];
        let end = (done[space] + 1 + random.below(200) as usize).min(ops.len());
        let ops = ops[done[space]..end].to_vec();
        let turn = Program { thread: ThreadId(1 + random.below(4) as u32), blocks: blocks.clone(), ops };
        done[space] = end;
        simulation.switch_to(Asid::new(space as u32).unwrap());
        feed(&mut simulation, &turn, &mut random);
    }
    let [full, by_traps] = &simulation.finish()[..] else { unreachable!("two designs") };
    assert_eq!(classes(by_traps), classes(full), "seed {seed}");
    assert_eq!(by_traps.instructions, full.instructions, "seed {seed}");
    assert_eq!(by_traps.data_references, full.data_references, "seed {seed}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(400), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_arrangement_counts_alike(seed in any::<u64>()) {
        check_arrangement(seed);
    }
}

/// A host TLB smaller than the simulated one causes additional nested misses.
#[test]
fn counting_every_nested_miss_overstates_them() {
    let machine = "schema = 1\nname = \"m\"\n[[tlb]]\nname = \"tlb\"\nlevel = 1\n\
                   serves = [\"fetch\", \"load\", \"store\"]\npage_sizes = [\"4K\"]\nentries = 128\n\
                   replacement = \"fifo\"\n[walker]\nkind = \"software\"\n[walker.mapped]\nlower = 8\n\
                   entry_bytes = 4\n[walker.mapped.systems.one]\ntables = 3\n[cost]\n";
    let machine = MachineSpec::from_toml("m", machine).unwrap();
    let spec = machine.software().unwrap();
    // Twelve pages, each in a table of its own, again and again: eight table pages are held, and all the pages.
    let ops: Vec<Op> =
        (0..600).map(|i| Op::Reference { space: 0, number: (i % 12) << 10, kernel: false }).collect();
    let expected = full(spec, &ops);
    assert_eq!((expected.of(MissClass::L1u), expected.of(MissClass::L2)), (12, 12));
    assert_eq!(by_traps(spec, 8, NestedMisses::WithParent, &ops), expected);
    let biased = by_traps(spec, 8, NestedMisses::Counted, &ops);
    assert_eq!(biased.of(MissClass::L1u), 12);
    assert!(biased.of(MissClass::L2) > 100, "{biased:?}");
}

/// Importers that know no code tell of references in blocks without instructions.
#[test]
fn references_without_code_are_taken() {
    let machine = Library::get("mips_r2000").unwrap();
    let mut blocks = Dictionary::default();
    let access = Access { kind: Kind::Load, size: Size::of_bytes(4).unwrap() };
    let block = blocks.intern(Block { end: BlockEnd::Other, ..block([], &[access; 3]) });
    let spans: Vec<Span> = (0..100).map(|n| Span { block, first: 3 * n }).collect();
    let refs: Vec<Ref> = (0..300).map(|n: u64| Ref::new(VirtAddr((n * 7 % 90) << 22), access)).collect();
    let batch = batch((0, 0), &refs, &spans, &blocks);
    let mut engine = Simulation::new(vec![trapped(&machine, 64)], &Arrangement::default()).unwrap();
    engine.on_batch(&batch);
    let mut pass = Pass::new(vec![DesignSpec::new(&machine, Arc::new(Small))], NoObserver).unwrap();
    pass.on_batch(&batch);
    let full = pass.finish().remove(0).software.unwrap();
    assert_eq!(classes(&engine.finish()[0]), CLASSES.map(|class| full.counts.of(class)));
    assert!(full.counts.of(MissClass::L1u) >= 90);
}
