//! The energy of a run against prices paid reference by reference along the slow model of `oracle`.

use crate::common::{Program, Step, program};
use pagewalk_cost::{EnergyTable, Structure, StructureEnergy};
use pagewalk_mm::{AddressSpace, Change, Thp, ThpMode};
use pagewalk_oracle::data_side as slow;
use pagewalk_report::schema::Number;
use pagewalk_sim::{Arrangement, DesignSpec, Library, Simulation};
use pagewalk_sweep::metrics;
use pagewalk_trace::MappingKind;
use pagewalk_translate::{LiteHistory, MachineSpec};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Lines of a node of the range table.
const NODE_LINES: f64 = 2.0;

/// The first level of 4K pages and the second, as all the machines have them; and the page-walk caches of Sandy Bridge.
fn sandy_bridge() -> slow::DataSide {
    let cache = |height, sets, ways| slow::WalkCache {
        height,
        shape: (sets, ways),
        held: vec![Vec::new(); sets],
        counts: [0; 2],
    };
    slow::DataSide {
        first: vec![slow::PageTlb::new(16, 4, vec![0], None)],
        second: vec![slow::PageTlb::new(128, 4, vec![0], None)],
        caches: vec![cache(1, 16, 2), cache(2, 1, 4), cache(3, 1, 2)],
        levels: 4,
        threshold: 8,
        ..slow::DataSide::default()
    }
}

fn thp() -> slow::DataSide {
    let mut side = sandy_bridge();
    side.first.push(slow::PageTlb::new(8, 4, vec![9], None));
    slow::DataSide { huge: true, ..side }
}

/// `karakostas_rmm_lite` as [`decided_often`] leaves it.
fn rmm_lite() -> slow::DataSide {
    let ranges = |entries| Some(slow::RangeTlb { entries, ..slow::RangeTlb::default() });
    let lite = slow::Lite {
        tlbs: vec![0],
        threshold: (100.0, false, 0.0),
        interval: 500,
        minimum: false,
        chances: vec![false; 10_000],
        previous: None,
        since: (0, 0),
        counts: [0; 3],
    };
    slow::DataSide { ranges: [ranges(4), ranges(32)], lite: Some(lite), ..sandy_bridge() }
}

/// The machine with decision periods suited to a short stream.
fn decided_often(mut machine: MachineSpec) -> MachineSpec {
    let side = machine.data_side.as_deref_mut().expect("it is a data side");
    let lite = side.lite.as_mut().expect("ways are switched off");
    assert!(!lite.relative && lite.history == LiteHistory::Previous);
    (lite.interval, lite.threshold, lite.reactivation) = (500, 100.0, 0.0);
    machine
}

/// Searches and writes by kind of structure, entries and ways.
type Operations = BTreeMap<(Structure, u32, u32), [u64; 2]>;

/// The slow model so far: its operations on each structure, and cache lines read by walks.
fn operations(side: &slow::DataSide) -> (Operations, f64) {
    let mut all = BTreeMap::new();
    let mut add = |kind, entries: usize, ways: usize, [reads, writes]: [u64; 2]| {
        let of: &mut [u64; 2] = all.entry((kind, entries as u32, ways as u32)).or_default();
        (of[0], of[1]) = (of[0] + reads, of[1] + writes);
    };
    for tlb in side.first.iter().chain(&side.second) {
        for (&ways, &(reads, writes)) in &tlb.operations {
            add(Structure::PageTlb, tlb.sets * ways, ways, [reads, writes]);
        }
    }
    for ranges in side.ranges.iter().flatten() {
        let [lookups, _, _, writes] = ranges.counts;
        add(Structure::RangeTlb, ranges.entries, ranges.entries, [lookups, writes]);
    }
    let [.., walks, walk_references, range_walks] = side.counts;
    for cache in &side.caches {
        let (sets, ways) = cache.shape;
        add(Structure::WalkCache, sets * ways, ways, [walks, cache.counts[1]]);
    }
    // The stream's one range is a table of one node.
    (all, walk_references as f64 + range_walks as f64 * NODE_LINES)
}

/// Feeds the slow model, and pays for what each reference adds.
fn paid(mut side: slow::DataSide, program: &Program, table: &EnergyTable) -> f64 {
    let price = |(kind, entries, ways)| -> StructureEnergy {
        table.of("replay", kind, entries, ways).unwrap_or_else(|why| panic!("{why}"))
    };
    let line = price((Structure::Cache, 512, 8)).read;
    let mut space = AddressSpace::default();
    let (mut total, mut before) = (0.0, operations(&side));
    for step in &program.steps {
        let Step::Run { block, refs } = step else {
            let Step::Event(event) = step else { unreachable!("a step is one or the other") };
            let mut changes = Vec::new();
            space.apply(event, &mut changes);
            for change in changes {
                let (Change::Gone { start, bytes } | Change::Flushed { start, bytes }) = change;
                let pages = start.0 >> 12..(start.0 + bytes) >> 12;
                side.change(pages, matches!(change, Change::Gone { .. }));
            }
            side.areas = space.areas().map(area).collect();
            continue;
        };
        side.execute(program.blocks.get(*block).instructions.len() as u64);
        for reference in refs {
            side.reference(reference.address().0 >> 12);
            let now = operations(&side);
            for (structure, [reads, writes]) in &now.0 {
                let [reads_before, writes_before] = before.0.get(structure).copied().unwrap_or_default();
                let StructureEnergy { read, write, .. } = price(*structure);
                total += (reads - reads_before) as f64 * read + (writes - writes_before) as f64 * write;
            }
            total += (now.1 - before.1) * line;
            before = now;
        }
    }
    total
}

fn area(vma: &pagewalk_mm::Vma) -> slow::Area {
    slow::Area {
        pages: vma.start >> 12..vma.end >> 12,
        rights: u8::from(vma.protection.read) << 2
            | u8::from(vma.protection.write) << 1
            | u8::from(vma.protection.execute),
        anonymous: vma.kind == MappingKind::Anonymous,
        hugetlb: false,
        mapping: vma.mapping.0,
    }
}

#[test]
fn energy_is_the_sum_over_references() {
    let machine = |name| Library::get(name).unwrap_or_else(|why| panic!("{why}"));
    let table = EnergyTable::named("karakostas_32nm").unwrap();
    let sides =
        [(machine("karakostas_thp"), thp()), (decided_often(machine("karakostas_rmm_lite")), rmm_lite())];
    for seed in 1..=3 {
        let program = program(seed, 4000);
        for (machine, side) in &sides {
            let design = DesignSpec::new(machine, Arc::new(Thp { mode: ThpMode::Always }));
            let mut experiment = Simulation::new(vec![design], &Arrangement::default()).unwrap();
            program.play(&mut experiment);
            let metrics = metrics(&experiment.finish()[0]);
            let (whole, sum) = (metrics["energy_pj.all"].as_f64(), paid(side.clone(), &program, &table));
            assert!((whole - sum).abs() < 1e-9 * sum, "{} of {seed}: {whole} pJ, {sum} pJ", machine.name);
            // Everything priced occurred: both page sizes, or fewer ways and a range table of one node.
            let met: &[&str] = match machine.name.as_str() {
                "karakostas_thp" => &["tlb.l1_2m.searches", "tlb.l2_4k.hits", "walk_references"],
                _ => &["tlb.l1_4k.searches_with_ways.1", "range_walks", "range_tlb.l1_range.writes"],
            };
            for name in met {
                assert!(!matches!(metrics[*name], Number::Count(0)), "{}: {name}", machine.name);
            }
            assert!(metrics.get("range_table.nodes").is_none_or(|nodes| *nodes == Number::Count(1)));
        }
    }
}
