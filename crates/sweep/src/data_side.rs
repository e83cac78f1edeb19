//! A data side's own counts under their long names, and its energy.

use pagewalk_cost::{EnergyError, EnergyTable, Structure, Use};
use pagewalk_report::metrics::{record, record_count};
use pagewalk_report::schema::{Metrics, Number};
use pagewalk_sim::{DataSideTotals, RangeTotals};
use pagewalk_translate::{ArrayUse, MachineSpec, RangeTable, TlbSpec};

/// Adds the counts by their names in the registry; `miss_cycles` is the sum over all misses.
///
/// # Panics
/// If its energy cannot be priced: see [`check_energy`].
pub(crate) fn add_data_side(metrics: &mut Metrics, totals: &DataSideTotals, miss_cycles: u64) {
    let mut count = |name: String, value: u64| record_count(metrics, name, value);
    let (machine, counts) = (&totals.machine, &totals.counts);
    count("translations".into(), counts.references);
    for array in &counts.arrays {
        of_array(array, &mut count);
    }
    for (name, _, ways) in machine.tlbs.iter().enumerate().flat_map(|of| shapes(machine, of)) {
        let array = counts.arrays.iter().find(|array| array.name == name && array.level == 1);
        if let Some(array) = array {
            let of = array.operations.iter().find(|of| of.ways == ways).copied().unwrap_or_default();
            count(format!("tlb.{name}.searches_with_ways.{ways}"), of.reads);
            count(format!("tlb.{name}.writes_with_ways.{ways}"), of.writes);
        }
    }
    of_ranges(totals, &mut count);
    let optional = [
        ("walks_without_frame", totals.unbacked_walks),
        ("segment_hits", totals.segment_hits),
        ("collapses", totals.collapses),
    ];
    for (name, value) in optional {
        value.into_iter().for_each(|value| count(name.into(), value));
    }
    if let Some(anchors) = counts.anchors {
        count("anchors.lookups".into(), anchors.lookups);
        count("anchors.hits".into(), anchors.hits);
        count("anchors.distance".into(), anchors.distance);
        count("anchors.distance_changes".into(), anchors.changes);
    }
    if let Some([first, second]) = counts.searched_again {
        count("predictor.second_searches_level1".into(), first);
        count("predictor.second_searches_level2".into(), second);
    }
    let side = machine.data_side.as_deref();
    if side.is_some_and(|side| side.lite.is_some()) {
        count("lite.intervals".into(), counts.intervals);
        count("lite.reactivations_by_chance".into(), counts.reactivations[0]);
        count("lite.reactivations_by_misses".into(), counts.reactivations[1]);
    }
    count("miss_cycles".into(), miss_cycles);
    if let Some(table) = side.and_then(|side| side.energy.as_deref()) {
        let added = EnergyTable::named(table).and_then(|table| add_energy(&table, totals, metrics));
        added.expect("energy was checked before anything was simulated");
    }
}

/// Fails if a machine names an energy table that lacks an entry, before anything is simulated.
pub fn check_energy(machine: &MachineSpec) -> Result<(), EnergyError> {
    let Some(side) = machine.data_side.as_deref() else { return Ok(()) };
    let Some(table) = side.energy.as_deref().map(EnergyTable::named).transpose()? else { return Ok(()) };
    for (name, sets, ways) in machine.tlbs.iter().enumerate().flat_map(|of| shapes(machine, of)) {
        table.of(name, Structure::PageTlb, sets * ways, ways)?;
    }
    for ranges in &side.range_tlbs {
        table.of(&ranges.name, Structure::RangeTlb, ranges.entries, ranges.entries)?;
    }
    for (name, cache) in machine.walker.caches() {
        let shape = cache.geometry;
        table.of(&name, Structure::WalkCache, shape.entries() as u32, shape.ways() as u32)?;
    }
    Ok(())
}

/// The name and sets of an array, for each number of ways that may be on.
fn shapes<'a>(machine: &MachineSpec, (index, tlb): (usize, &'a TlbSpec)) -> Vec<(&'a str, u32, u32)> {
    let (sets, all) = (tlb.geometry.sets() as u32, tlb.geometry.ways() as u32);
    let lite = machine.data_side.as_deref().and_then(|side| side.lite.as_ref());
    let least = if lite.is_some_and(|lite| lite.tlbs.contains(&index)) { 1 } else { all };
    let halves = std::iter::successors(Some(all), |ways| Some(ways / 2));
    halves.take_while(|&ways| ways >= least).map(|ways| (tlb.name.as_str(), sets, ways)).collect()
}

fn of_ranges(totals: &DataSideTotals, count: &mut impl FnMut(String, u64)) {
    let counts = &totals.counts;
    for ranges in &counts.ranges {
        let name = &ranges.name;
        count(format!("range_tlb.{name}.lookups"), ranges.lookups);
        count(format!("range_tlb.{name}.hits"), ranges.hits);
        count(format!("range_tlb.{name}.misses"), ranges.lookups - ranges.hits);
        count(format!("range_tlb.{name}.repeated_hits"), ranges.mru_hits);
        count(format!("range_tlb.{name}.searches"), ranges.reads);
        count(format!("range_tlb.{name}.writes"), ranges.writes);
    }
    if let Some(ranges) = totals.ranges {
        count("range_table.ranges".into(), ranges.ranges);
        count("range_table.nodes".into(), ranges.nodes);
        count("range_table.pages".into(), ranges.covered);
        count("range_table.pages_of_all".into(), ranges.pages);
        count("range_table.median_pages".into(), ranges.median);
        count("range_table.largest_pages".into(), ranges.largest);
        for (share, needed) in RangeTotals::SHARES.into_iter().zip(ranges.for_share) {
            count(format!("range_table.ranges_for_{share}_percent"), needed);
        }
        count("range_walks".into(), counts.range_walks);
        count("range_walk_nodes".into(), counts.range_nodes);
    }
}

fn of_array(array: &ArrayUse, count: &mut impl FnMut(String, u64)) {
    let name = &array.name;
    if array.level == 0 {
        count(format!("walk_cache.{name}.writes"), array.writes());
        return;
    }
    count(format!("tlb.{name}.searches"), array.reads());
    count(format!("tlb.{name}.writes"), array.writes());
}

/// The operations that energy is priced by.
pub fn uses(totals: &DataSideTotals) -> Vec<Use> {
    let of_array = |array: &ArrayUse| -> Vec<Use> {
        let kind = if array.level == 0 { Structure::WalkCache } else { Structure::PageTlb };
        let of = |of: &pagewalk_translate::Operations| Use {
            name: array.name.clone(),
            kind,
            entries: array.sets * of.ways,
            ways: of.ways,
            reads: of.reads,
            writes: of.writes,
        };
        array.operations.iter().map(of).collect()
    };
    let ranges = totals.counts.ranges.iter().map(|ranges| Use {
        name: ranges.name.clone(),
        kind: Structure::RangeTlb,
        entries: ranges.entries,
        ways: ranges.entries,
        reads: ranges.reads,
        writes: ranges.writes,
    });
    totals.counts.arrays.iter().flat_map(of_array).chain(ranges).collect()
}

fn add_energy(
    table: &EnergyTable,
    totals: &DataSideTotals,
    metrics: &mut Metrics,
) -> Result<(), EnergyError> {
    let counts = &totals.counts;
    let energy =
        table.energy(&uses(totals), counts.walk_references, counts.range_nodes * RangeTable::NODE_LINES)?;
    let mut add = |name: String, value: f64| record(metrics, name, Number::Real(value));
    // Idle arrays have figures too.
    let arrays = counts.arrays.iter().map(|array| &array.name);
    for name in arrays.chain(counts.ranges.iter().map(|ranges| &ranges.name)) {
        add(format!("energy_pj.{name}.searches"), 0.0);
        add(format!("energy_pj.{name}.writes"), 0.0);
    }
    for (name, reads, writes) in &energy.structures {
        add(format!("energy_pj.{name}.searches"), *reads);
        add(format!("energy_pj.{name}.writes"), *writes);
    }
    // The table prices reads of the nearest cache, regardless of simulated caches.
    if !totals.machine.caches.is_empty() {
        return Ok(());
    }
    add("energy_pj.walks".into(), energy.walks);
    add("energy_pj.range_walks".into(), energy.range_walks);
    add("energy_pj.all".into(), energy.total());
    if let Some(beyond) = energy.walks_beyond {
        add("energy_pj.all_if_walks_miss_l1".into(), energy.total() + beyond);
    }
    Ok(())
}
