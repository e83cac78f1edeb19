//! Machines with `side = "data"`: designs that count every operation, with its energy.

use super::groups::payers;
use super::rows::{beside, followed};
use super::spec::Experiment;
use crate::findings::{Detail, Namer, Payers};
use crate::machines;
use crate::stream::{Ending, follow_ahead};
use pagewalk_mm::ThpMode;
use pagewalk_report::schema::{MachineResult, Metrics, Number, ProcessResult, WhatIf};
use pagewalk_sim::{self as sim, Arrangement, HostKernel};
use pagewalk_sweep::metrics;
use pagewalk_trace::Source;
use pagewalk_translate::MachineSpec;

/// Least cycles of a walk that reads one entry, by where the entry is found, and of a perfect third-level TLB: measured
/// on a Xeon E3-1230 (Karakostas 2016, section 3.5, equations 3.2 to 3.5).
const LIMITS: [(&str, &str, u64); 4] = [
    ("perfect_walk_llc", "each walk one read of the LLC", 43),
    ("perfect_walk_l2", "each walk one read of L2", 20),
    ("perfect_walk_l1", "each walk one read of L1", 12),
    ("perfect_third_level", "a full third-level TLB", 7),
];

/// Separates whole machines from data sides.
pub fn split(machines: &[MachineSpec]) -> (Vec<MachineSpec>, Vec<MachineSpec>) {
    machines.iter().cloned().partition(|machine| machine.data_side.is_none())
}

/// Data sides under the host's kernel.
pub fn designs(sides: &[MachineSpec], thp: ThpMode) -> sim::Simulation {
    let host = HostKernel::new(thp);
    let designs = sides.iter().map(|machine| host.design(machine)).collect();
    sim::Simulation::new(designs, &Arrangement::default()).expect("each was checked")
}

/// Their results.
pub fn results(designs: &mut sim::Simulation) -> Vec<MachineResult> {
    designs.finish().iter().map(|counts| MachineResult::new(&counts.name, metrics(counts))).collect()
}

/// Follows `source` to its end, through the experiment's machines and the data sides in `beside`.
pub fn once<S: Source + Send>(
    experiment: &Experiment,
    source: S,
    (namer, detail): (&Namer, Detail),
    beside: Option<&mut sim::Simulation>,
) -> (ProcessResult, Ending) {
    let header = source.header().clone();
    let sides = designs(&experiment.machines, machines::thp(experiment.thp, &header.thp)).keeping_walks();
    let mut all = ((sides, beside), namer.ahead());
    let ending = follow_ahead(source, &experiment.window, &mut all);
    let ((mut sides, _), _) = all;
    let machines = results(&mut sides);
    let Payers { attribution, heat, losses } =
        payers(experiment, (namer, detail), std::slice::from_ref(&header), &mut sides);
    let process = ProcessResult {
        advice: advice(&machines),
        what_if: limits(&machines[0]),
        machines,
        attribution,
        heat,
        losses: [ending.told_losses(), losses].concat(),
        ..followed(&header, &ending)
    };
    (process, ending)
}

fn value(metrics: &Metrics, name: &str) -> f64 {
    metrics.get(name).map_or(0.0, |number| number.as_f64())
}

/// The first machine as it is, and with perfect walks.
fn limits(machine: &MachineResult) -> Vec<WhatIf> {
    let count = |name: &str| match machine.metrics.get(name) {
        Some(Number::Count(count)) => *count,
        _ => 0,
    };
    let (walks, cycles) = (count("walks"), count("walk_cycles"));
    let row = |id: &str, title: &str, class: &str, walk_cycles: u64| {
        beside((walks, cycles), id, title, class, (walks, walk_cycles))
    };
    let limits = LIMITS.iter().map(|&(id, title, each)| row(id, title, "bound", walks.saturating_mul(each)));
    std::iter::once(row("baseline", "as it is", "modelled", cycles)).chain(limits).collect()
}

/// Which machine spends least, compared with the first.
fn advice(machines: &[MachineResult]) -> String {
    let first = &machines[0];
    let best = |name: &str| {
        let has = machines.iter().filter(|machine| machine.metrics.contains_key(name));
        has.min_by(|a, b| value(&a.metrics, name).total_cmp(&value(&b.metrics, name)))
    };
    let against = |machine: &MachineResult, name: &str| {
        let base = value(&first.metrics, name);
        if base > 0.0 { (value(&machine.metrics, name) / base - 1.0) * 100.0 } else { 0.0 }
    };
    let told = |name: &str, what: &str| {
        let machine = best(name).filter(|_| first.metrics.contains_key(name))?;
        let less = -against(machine, name);
        Some(match less > 0.0 {
            true => format!("{} spends {less:.1} % less {what}", machine.name),
            false => format!("none of them spends less {what}"),
        })
    };
    let all = [told("miss_cycles", "time on misses"), told("energy_pj.all", "energy on translation")];
    let all: Vec<String> = all.into_iter().flatten().collect();
    match machines.len() {
        1 => {
            let other =
                if first.name == "karakostas_rmm_lite" { "karakostas_thp" } else { "karakostas_rmm_lite" };
            format!("Name other machines with -m to compare {} with, such as {other}.", first.name)
        }
        _ => format!("Against {}: {}.", first.name, all.join("; ")),
    }
}
