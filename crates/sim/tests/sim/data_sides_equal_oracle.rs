//! Data sides with ranges, coalescing and ways that are switched off, against the slow model of `oracle`: every
//! counter, on random machines together, and streams with maps, unmaps and changes of rights.

use crate::random::{self, ALL, NONE, Op, Program, Random};
use crate::sides::machine;
use crate::slow::feed;
use pagewalk_mm::frames::MAX_ORDER;
use pagewalk_mm::{AddressSpace, Change, HugeAdvice, Thp, ThpMode};
use pagewalk_oracle::{Frames, cases, data_side as oracle};
use pagewalk_sim::{DataSideTotals, DataSides, DesignSpec, RangeTotals, System};
use pagewalk_trace::{MappingKind, Protection};
use pagewalk_translate::{
    Coalesce, DataSideCounts, LiteHistory, MachineSpec, RangeBacking, RangeFill, TlbSpec, WalkerSpec,
};
use pagewalk_units::Draws;
use proptest::prelude::*;
use std::ops::Range;
use std::sync::Arc;

/// The slow model of the machine.
fn slow_side(machine: &MachineSpec, huge: bool) -> oracle::DataSide {
    let side = machine.data_side.as_deref().unwrap();
    let of = |tlb: &TlbSpec| {
        let mut shifts: Vec<u32> = tlb.page_sizes.iter().map(|size| size.shift() - 12).collect();
        let group = match tlb.coalesce {
            Some(Coalesce::Clustered(pages)) => Some((oracle::Rule::Clustered, u64::from(pages))),
            Some(Coalesce::Contiguous(pages)) => Some((oracle::Rule::Contiguous, u64::from(pages))),
            Some(Coalesce::Aligned(pages)) => {
                shifts.push(pages.ilog2());
                None
            }
            Some(Coalesce::Anchor(_)) | None => None,
        };
        shifts.sort_unstable();
        let mut slow = oracle::PageTlb::new(tlb.geometry.sets(), tlb.geometry.ways(), shifts, group);
        if let Some(Coalesce::Anchor(pages)) = tlb.coalesce {
            slow.anchors = Some(oracle::Anchors { distance: pages.into(), counts: [0; 3] });
        }
        slow
    };
    let level = |level: u8| machine.level(level).map(|(_, tlb)| of(tlb)).collect();
    let aligned = |tlb: &TlbSpec| match tlb.coalesce {
        Some(Coalesce::Aligned(pages)) => Some(pages.ilog2()),
        _ => None,
    };
    let ranges = |level: u8| {
        let spec = side.range_tlbs.iter().find(|ranges| ranges.level == level)?;
        Some(oracle::RangeTlb { entries: spec.entries as usize, ..oracle::RangeTlb::default() })
    };
    let WalkerSpec::Radix(radix) = &machine.walker else { unreachable!() };
    let caches = radix.caches.iter().map(|(level, cache)| {
        let shape = (cache.geometry.sets(), cache.geometry.ways());
        oracle::WalkCache {
            height: level.height() as u32,
            shape,
            held: vec![Vec::new(); shape.0],
            counts: [0; 2],
        }
    });
    let first = |&at: &usize| {
        let name = &machine.tlbs[at].name;
        machine.level(1).position(|(_, tlb)| tlb.name == *name).unwrap()
    };
    let lite = side.lite.as_ref().map(|lite| {
        let mut draws = Draws::new(lite.seed);
        let chance = |_| (draws.below(1 << 32) as f64) < lite.reactivation * 2f64.powi(32);
        oracle::Lite {
            tlbs: lite.tlbs.iter().map(first).collect(),
            threshold: (lite.threshold, lite.relative, lite.floor),
            interval: lite.interval,
            minimum: lite.history == LiteHistory::Minimum,
            chances: (0..1000).map(chance).collect(),
            previous: None,
            since: (0, 0),
            counts: [0; 3],
        }
    });
    let collapse = side.collapse.map(|spec| oracle::Collapse {
        interval: spec.interval,
        least: (spec.blocks as usize, spec.pages as usize),
        from: 0,
        last: None,
        walked: Default::default(),
        done: 0,
    });
    let predictor = side.predictor.map(|entries| oracle::Predictor {
        entries: entries.into(),
        huge: Default::default(),
        again: [0; 2],
    });
    let backing = side.memory.as_ref().map(|memory| {
        let size: u64 = memory["size"].as_str().unwrap().trim_end_matches('M').parse().unwrap();
        oracle::Backing {
            memory: Frames::new(size << 20 >> 12, MAX_ORDER),
            eager: side.backing == RangeBacking::Eager,
            frames: Default::default(),
            unbacked: 0,
        }
    });
    oracle::DataSide {
        backing,
        collapse,
        predictor,
        anchors: side.anchor_interval.map(|interval| (interval, 0)),
        first: level(1),
        second: level(2),
        ranges: [ranges(1), ranges(2)],
        fills_mapped: side.range_fill == RangeFill::Mapped,
        aligned: machine.tlbs.iter().filter_map(aligned).collect(),
        caches: caches.collect(),
        levels: radix.levels.into(),
        threshold: side.range_threshold,
        huge: huge && machine.has_huge_pages(),
        hugetlb: machine.has_huge_pages(),
        lite,
        ..oracle::DataSide::default()
    }
}

/// Feeds the slow model, operation by operation. Returns the walks by area.
fn feed_slow(side: &mut oracle::DataSide, program: &Program) -> oracle::Segments {
    let (mut space, mut segments) = (AddressSpace::default(), oracle::Segments::default());
    for op in &program.ops {
        if let Op::Run { block, addresses } = op {
            let block = program.blocks.get(*block);
            side.execute(block.instructions.len() as u64);
            for (site, &address) in block.sites.iter().zip(addresses) {
                let last = address + u64::from(site.access.size.bytes()) - 1;
                for page in address >> 12..=last >> 12 {
                    let [_, _, before, ..] = side.counts;
                    side.reference(page);
                    segments.walked(page, side.counts[2] - before);
                }
            }
            continue;
        }
        let mut changes = Vec::new();
        space.apply(&op.event(), &mut changes);
        for change in changes {
            let (Change::Gone { start, bytes } | Change::Flushed { start, bytes }) = change;
            let pages = start.0 >> 12..(start.0 + bytes) >> 12;
            side.change(pages, matches!(change, Change::Gone { .. }));
        }
        let area = |vma: &pagewalk_mm::Vma| oracle::Area {
            pages: vma.start >> 12..vma.end >> 12,
            rights: rights(vma.protection),
            anonymous: vma.kind == MappingKind::Anonymous
                && vma.advice != HugeAdvice::NoHugePage
                && vma.page_bytes == 4096,
            hugetlb: vma.page_bytes >= 2 << 20,
            mapping: vma.mapping.0,
        };
        let before = std::mem::replace(&mut side.areas, space.areas().map(area).collect());
        match *op {
            Op::Map { start, pages, .. }
            | Op::MapFile { start, pages, .. }
            | Op::MapHuge { start, pages, .. } => {
                open(side, &[], start..start + pages);
                segments.map(start..start + pages, side.instructions);
            }
            Op::Protect { start, pages, .. } => open(side, &before, start..start + pages),
            Op::Unmap { start, pages } => segments.unmap(&(start..start + pages), side.instructions),
            Op::Advise { start, pages, .. } => side.part(start..start + pages),
            Op::Run { .. } | Op::Discard { .. } | Op::Forbid(_) => {}
        }
    }
    segments
}

/// Read, write, execute: a bit each.
fn rights(protection: Protection) -> u8 {
    let Protection { read, write, execute } = protection;
    u8::from(read) << 2 | u8::from(write) << 1 | u8::from(execute)
}

/// Tells of the pages of a range that may be used now, and were closed in these areas or in none.
fn open(side: &mut oracle::DataSide, before: &[oracle::Area], range: Range<u64>) {
    let usable = |areas: &[oracle::Area], page: u64| {
        areas.iter().any(|area| area.rights != 0 && area.pages.contains(&page))
    };
    let new: Vec<u64> = range.filter(|&page| usable(&side.areas, page) && !usable(before, page)).collect();
    for run in new.chunk_by(|page, next| page + 1 == *next) {
        side.open(run[0]..run[0] + run.len() as u64);
    }
}

/// The ranges at the end. How many nodes they take, `translate` tests.
fn slow_ranges(slow: &oracle::DataSide, nodes: u64) -> RangeTotals {
    let (pages, mut lengths) = (slow.backed(), slow.ranges());
    lengths.sort_unstable();
    let median = lengths.get(lengths.len() / 2).copied().unwrap_or(0);
    lengths.reverse();
    let sum = |longest: u64| lengths[..longest as usize].iter().sum::<u64>();
    let ranges = lengths.len() as u64;
    let needed = |share| (1..=ranges).find(|&longest| sum(longest) * 100 >= pages * share).unwrap_or(0);
    RangeTotals {
        ranges,
        nodes,
        pages,
        covered: sum(ranges),
        median,
        largest: lengths.first().copied().unwrap_or(0),
        for_share: RangeTotals::SHARES.map(needed),
    }
}

/// The fast engine's values of all counts of the slow model.
fn compare(
    fast: &DataSideTotals,
    slow: &oracle::DataSide,
    segments: &oracle::Segments,
    machine: &MachineSpec,
) {
    let side = machine.data_side.as_deref().unwrap();
    let served = side.segment.map(|alive| segments.served(alive, slow.instructions));
    assert_eq!(fast.segment_hits, served);
    let DataSideCounts { references, level1_misses, walk_references, range_walks, .. } = fast.counts;
    let walks = fast.counts.walks + served.unwrap_or(0);
    assert_eq!([references, level1_misses, walks, walk_references, range_walks], slow.counts);
    let (mut first, mut second) = (slow.first.iter(), slow.second.iter());
    let mut arrays = fast.counts.arrays.iter();
    for tlb in &machine.tlbs {
        let slow = if tlb.level == 1 { first.next() } else { second.next() }.unwrap();
        let fast = arrays.next().unwrap();
        let operations: Vec<_> =
            fast.operations.iter().map(|of| (of.ways as usize, (of.reads, of.writes))).collect();
        let expected: Vec<_> =
            slow.operations.iter().map(|(&ways, &of)| (ways, of)).filter(|(_, of)| *of != (0, 0)).collect();
        let operations: Vec<_> = operations.into_iter().filter(|(_, of)| *of != (0, 0)).collect();
        assert_eq!((fast.hits, operations), (slow.hits, expected), "{}", tlb.name);
    }
    for (cache, fast) in slow.caches.iter().zip(arrays) {
        assert_eq!([fast.hits, fast.writes(), fast.reads()], [cache.counts[0], cache.counts[1], walks]);
    }
    for fast in &fast.counts.ranges {
        let slow = slow.ranges[usize::from(fast.level) - 1].as_ref().unwrap();
        assert_eq!([fast.lookups, fast.hits, fast.mru_hits, fast.writes], slow.counts, "{}", fast.name);
    }
    assert_eq!(fast.unbacked_walks, slow.backing.as_ref().map(|backing| backing.unbacked));
    assert_eq!(fast.ranges.is_some(), !side.range_tlbs.is_empty());
    assert_eq!(fast.ranges, fast.ranges.map(|ranges| slow_ranges(slow, ranges.nodes)));
    assert_eq!(fast.collapses, slow.collapse.as_ref().map(|collapse| collapse.done));
    assert_eq!(fast.counts.searched_again, slow.predictor.as_ref().map(|predictor| predictor.again));
    let anchors = slow.second.iter().find_map(|tlb| tlb.anchors);
    let told = fast.counts.anchors.map(|of| (of.distance, [of.lookups, of.hits, of.changes]));
    assert_eq!(told, anchors.map(|of| (of.distance, of.counts)));
    if let Some(lite) = &slow.lite {
        let [chance, growth] = fast.counts.reactivations;
        assert_eq!([fast.counts.intervals, chance, growth], lite.counts);
    }
}

fn check(seed: u64) {
    let mut random = Random::new(seed);
    let mut program = random::program(&mut random, true, &[]);
    for op in &mut program.ops {
        match *op {
            Op::Protect { ref mut rights, .. } => *rights = random.of(&[ALL, 2, 1, NONE]),
            Op::Map { start, pages, .. } if random.below(4) == 0 => {
                *op = Op::MapFile { start, pages, file: 0, offset: 0, rights: NONE };
            }
            _ => {}
        }
    }
    if random.below(2) == 0 {
        random::add_hugetlb(&mut random, &mut program);
        program.ops.retain(|op| !matches!(op, Op::Forbid(_)));
    }
    let machines: Vec<MachineSpec> =
        (0..1 + random.below(4) as usize).map(|at| machine(&mut random, at)).collect();
    let mode = random.of(&[ThpMode::Always, ThpMode::Always, ThpMode::Never]);
    let mut pass = DataSides::new(&machines, Arc::new(Thp { mode })).unwrap();
    feed(&mut pass, &program, &mut random);
    for (machine, fast) in machines.iter().zip(pass.finish()) {
        let design = DesignSpec::new(machine, Arc::new(Thp { mode }));
        let mut system = System::new(design, 1).unwrap();
        feed(&mut system, &program, &mut random);
        assert_eq!(system.counts().data_side.as_deref(), Some(&fast), "the system's counts, and the pass's");
        let mut side = slow_side(machine, mode == ThpMode::Always);
        let segments = feed_slow(&mut side, &program);
        compare(&fast, &side, &segments, machine);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(120), ..ProptestConfig::default() })]

    #[test]
    fn data_sides_count_what_the_slow_model_counts(seed in any::<u64>()) {
        check(seed);
    }
}
