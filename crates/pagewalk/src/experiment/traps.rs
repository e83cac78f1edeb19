//! Simulates a software-managed TLB in full, and from a host's misses alone.

use super::rows::followed;
use super::spec::Experiment;
use super::turns::{follow_turns, interleaved};
use crate::error::{Error, Fault};
use crate::stream::{Ending, follow};
use pagewalk_mm::Small;
use pagewalk_report::metrics::record_count;
use pagewalk_report::schema::{MachineResult, Metrics, ProcessResult};
use pagewalk_sim::{DesignCounts, DesignSpec, PassError, Simulation, TrapSpec};
use pagewalk_sweep::metrics;
use pagewalk_trace::{Source, StreamHeader};
use pagewalk_translate::{MachineSpec, MissClass, NestedMisses, SoftwareCounts};
use std::sync::Arc;

/// The miss classes that a TLB takes part in.
const CLASSES: [MissClass; 4] = [MissClass::L1u, MissClass::L1k, MissClass::L2, MissClass::L3];

/// Refuses what traps cannot simulate.
pub fn check(experiment: &Experiment, host: u32) -> Result<(), Error> {
    let has_own = |machine: &MachineSpec| machine.os.is_some();
    let has_globals = experiment.sharing.as_ref().is_some_and(|sharing| sharing.global_files);
    let asked = [
        (!experiment.kernels.is_empty(), "--os", "superpages"),
        (experiment.machines.iter().any(has_own), "the [os] of a machine", "superpages"),
        (experiment.what_if, "--what-if", "other TLBs"),
        (has_globals, "--global-files", "global pages"),
    ];
    if let Some((_, what, needs)) = asked.into_iter().find(|(is_asked, ..)| *is_asked) {
        let why = format!("--by-traps sees only misses of one TLB's base pages, and {what} needs {needs}");
        return Err(Error::new(Fault::Usage, why).or("leave out one of the two"));
    }
    simulation(experiment, host).map(drop)
}

/// Each machine in full, by traps, and by traps that count every nested miss by itself.
fn simulation(experiment: &Experiment, host: u32) -> Result<Simulation, Error> {
    let mut designs = Vec::new();
    for machine in &experiment.machines {
        let by_traps = |name: String, nested| DesignSpec::by_traps(name, machine, TrapSpec { host, nested });
        designs.push(DesignSpec::new(machine, Arc::new(Small)));
        designs.push(by_traps(format!("{} by traps", machine.name), NestedMisses::WithParent));
        let counted = format!("{} by traps, nested misses counted", machine.name);
        designs.push(by_traps(counted, NestedMisses::Counted));
    }
    Simulation::new(designs, &experiment.arrangement()).map_err(|error| match &error {
        PassError::NoTraps(machine) => {
            let why =
                format!("machine `{machine}`: --by-traps is for software-managed TLBs with [walker.mapped]");
            Error::new(Fault::Usage, why).or("give one with -m, such as mips_r2000")
        }
        PassError::Traps(..) => Error::new(Fault::BadInput, error),
        _ => Error::new(Fault::Usage, error),
    })
}

/// Follows `source` to its end on the experiment's machines, with host TLBs of `host` slots.
pub fn stream<S: Source>(experiment: &Experiment, source: S, host: u32) -> (ProcessResult, Ending) {
    let header = source.header().clone();
    let mut all = simulation(experiment, host).expect("the experiment was checked");
    let ending = follow(source, &experiment.window, &mut all);
    let process = result(experiment, &mut all, host, followed(&header, &ending));
    (process, ending)
}

/// Follows `sources` in the experiment's turns to their ends.
pub fn turns<S: Source>(
    experiment: &Experiment,
    sources: Vec<S>,
    host: u32,
) -> Result<(ProcessResult, Vec<Ending>), Error> {
    let headers: Vec<StreamHeader> = sources.iter().map(|source| source.header().clone()).collect();
    let mut all = simulation(experiment, host)?;
    let (endings, _) = follow_turns(experiment, sources, |_, switch, item| {
        switch.into_iter().for_each(|asid| all.switch_to(asid));
        item.play(&mut all);
    });
    let process = interleaved(experiment, &headers, &endings);
    Ok((result(experiment, &mut all, host, process), endings))
}

/// The counts of the machines, and whether traps agree.
fn result(experiment: &Experiment, all: &mut Simulation, host: u32, process: ProcessResult) -> ProcessResult {
    let several = experiment.machines.len() > 1;
    let (mut machines, mut advice) = (Vec::new(), Vec::new());
    for (counts, machine) in all.finish().chunks_exact(3).zip(&experiment.machines) {
        let [full, by_traps, counted] = counts else { unreachable!("three for each machine") };
        machines.push(MachineResult::new(&machine.name, metrics(full)));
        machines.extend([by_traps, counted].map(|of| MachineResult::new(&of.name, trapped(of))));
        let of_machine = if several { format!("{}: ", machine.name) } else { String::new() };
        advice.push(format!("{of_machine}{}", comparison(full, by_traps, counted, host)));
    }
    let structure = experiment.structure.as_ref().map(|structure| structure.name.clone());
    ProcessResult { structure, machines, advice: advice.join(" "), ..process }
}

fn classes(counts: &DesignCounts) -> SoftwareCounts {
    counts.software.as_ref().map(|software| software.counts).unwrap_or_default()
}

fn trapped(of: &DesignCounts) -> Metrics {
    let counts = classes(of);
    let mut metrics = Metrics::new();
    for class in CLASSES {
        record_count(&mut metrics, format!("misses.{}", class.name()), counts.of(class));
    }
    let walks = counts.of(MissClass::L1u) + counts.of(MissClass::L1k);
    let references = CLASSES.iter().map(|&class| counts.of(class)).sum();
    let others = [
        ("walks", walks),
        ("walk_references", references),
        ("walk_cycles", counts.total_cycles()),
        ("host_misses", of.host_misses.unwrap_or(0)),
    ];
    others.into_iter().for_each(|(name, count)| record_count(&mut metrics, name, count));
    metrics
}

/// Whether the engines agree, and what the rule for nested misses changes.
fn comparison(full: &DesignCounts, by_traps: &DesignCounts, counted: &DesignCounts, host: u32) -> String {
    let host_misses = by_traps.host_misses.unwrap_or(0);
    let [full, traps, counted] = [full, by_traps, counted].map(classes);
    let differs: Vec<&str> =
        CLASSES.into_iter().filter(|&class| traps.of(class) != full.of(class)).map(MissClass::name).collect();
    let equal = match differs[..] {
        [] => "count what full simulation counts, in every class".to_owned(),
        _ => format!("differ from full simulation in {}", differs.join(", ")),
    };
    let bias = |class: MissClass| {
        let (is, would) = (full.of(class), counted.of(class));
        (is != would).then(|| format!("{} as {would} instead of {is}", class.name()))
    };
    let biases: Vec<String> = CLASSES.into_iter().filter_map(bias).collect();
    let bias = match biases[..] {
        [] => "nothing else".to_owned(),
        _ => biases.join(", "),
    };
    format!(
        "{host_misses} traps of a host of {host} slots {equal}. Counting every nested miss would give {bias}."
    )
}
