//! A process's threads on several cores.

use super::kernels::Under;
use super::rows::{self, followed, group, modelled, perfect};
use super::spec::Experiment;
use super::{kernels, structure};
use crate::error::Error;
use crate::findings::{groups, short};
use crate::machines;
use crate::stream::{Ending, follow};
use pagewalk_report::schema::{Attribution, MappingRow, ProcessResult, WhatIf};
use pagewalk_sim as sim;
use pagewalk_sim::{Arrangement, DesignCounts};
use pagewalk_trace::{Analysis, Batch, Event, Origin, Source, StreamHeader};
use pagewalk_translate::{Asid, MachineSpec};
use pagewalk_units::RefIndex;

/// The same stream on machines of several cores and of one.
struct Cores {
    /// The machines, and after them the first one with its last level private to each core, and shared.
    several: sim::Experiment,
    one: sim::Experiment,
}

impl Analysis for Cores {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        self.several.on_batch(batch);
        self.one.on_batch(batch);
    }

    fn on_event(&mut self, at: RefIndex, event: &Event) {
        self.several.on_event(at, event);
        self.one.on_event(at, event);
    }
}

/// Follows `source` to its end on `cores` cores of each machine.
pub fn stream<S: Source>(
    experiment: &Experiment,
    source: S,
    cores: usize,
) -> Result<(ProcessResult, Ending), Error> {
    let header = source.header().clone();
    let thp = machines::thp(experiment.thp, &header.thp);
    let kernels = kernels::running_kernels(experiment, "--cores")?;
    let first = &experiment.machines[0];
    let mut machines = experiment.machines.clone();
    machines.extend([false, true].map(|shared| with_last_level(first, shared)));
    let on = |machines: &[MachineSpec], kernels: &[Under], cores: usize| {
        let structure = experiment.structure.clone();
        kernels::arranged(
            experiment,
            machines,
            kernels,
            thp,
            &Arrangement { cores, structure, ..Arrangement::default() },
        )
    };
    let mut all =
        Cores { several: on(&machines, &kernels, cores)?, one: on(std::slice::from_ref(first), &[], 1)? };
    if header.origin == Origin::Fork {
        all.several.begin_as_child(Asid::default());
    }
    let ending = follow(source, &experiment.window, &mut all);
    Ok((result(experiment, &header, &mut all, &kernels, cores, &ending), ending))
}

/// The machine with the arrays of its last level shared by all cores, or none.
fn with_last_level(machine: &MachineSpec, shared: bool) -> MachineSpec {
    let mut machine = machine.clone();
    let last = machine.last_level();
    for tlb in machine.tlbs.iter_mut().filter(|tlb| tlb.level > 1) {
        tlb.shared = shared && tlb.level == last;
    }
    machine
}

/// Counters of all cores together, and the cores in the place of mappings.
fn result(
    experiment: &Experiment,
    header: &StreamHeader,
    all: &mut Cores,
    kernels: &[Under],
    cores: usize,
    ending: &Ending,
) -> ProcessResult {
    let counts = all.several.finish();
    let one = all.one.finish();
    let machine = &experiment.machines[0];
    let groups = groups(&all.several.groups(), |_| None);
    let mut mappings: Vec<MappingRow> =
        (0..cores).map(|core| core_row(core, &all.several.core_counts(core)[0])).collect();
    mappings.extend(
        experiment.structure.iter().flat_map(|structure| structure::visitors(structure, &mut all.several)),
    );
    let did = all.several.counts();
    let machines = rows::machines(&experiment.machines, &counts, did.as_ref(), &[("cores", cores as u64)]);
    let [base, private, shared] =
        [&counts[0], &counts[experiment.machines.len()], &counts[experiment.machines.len() + 1]];
    let row = |id, title, counts| modelled(base, id, title, counts);
    let under = &counts[experiment.machines.len() + 2..];
    let under = kernels::rows(experiment, kernels, &counts[..experiment.machines.len()], under);
    let mut what_if = vec![
        row("baseline", "as it is", base),
        row("private", "a last level for each core", private),
        row("shared", "one last level for all cores", shared),
        row("one_core", "all threads on one core", &one[0]),
        perfect(base),
    ];
    what_if.splice(4..4, under.under);
    ProcessResult {
        structure: experiment.structure.as_ref().map(|structure| structure.name.clone()),
        machines,
        advice: advice(&what_if, short(&header.program), cores, &machine.name),
        attribution: Attribution { mappings, groups, ..Attribution::default() },
        what_if,
        kernels: under.kernels,
        ..followed(header, "cores", ending)
    }
}

/// References are those that the core's arrays were asked for: one to two pages counts twice.
fn core_row(core: usize, counts: &DesignCounts) -> MappingRow {
    let [fetch, data] = counts.translations;
    MappingRow {
        references_fetch: fetch,
        references_data: data,
        walks_fetch: counts.walks_fetch,
        walks_data: counts.walks_data,
        walk_cycles: counts.cycles.walk,
        ..group(format!("core {core}"), "core")
    }
}

fn advice(what_if: &[WhatIf], program: &str, cores: usize, machine: &str) -> String {
    let walks = |id: &str| what_if.iter().find(|row| row.id == id).map_or(0, |row| row.walks);
    format!(
        "On {cores} cores of {machine} the threads of {program} take {} page walks with a last level for each core, {} \
         with one for all, {} on one core.",
        walks("private"),
        walks("shared"),
        walks("one_core")
    )
}
