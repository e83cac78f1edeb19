//! Runs a process's threads on several cores.

use super::groups::payers;
use super::readings::EarlierReadings;
use super::rivals::{RivalCounts, Rivals};
use super::rows::{self, followed, modelled, perfect};
use super::spec::Experiment;
use crate::error::Error;
use crate::findings::{Detail, Namer, Payers, short};
use crate::machines;
use crate::stream::{Ending, follow};
use pagewalk_mm::ThpMode;
use pagewalk_report::count;
use pagewalk_report::schema::{ProcessResult, WhatIf};
use pagewalk_sim as sim;
use pagewalk_sim::{Arrangement, DesignCounts};
use pagewalk_trace::{Analysis, Batch, Event, Origin, Source, StreamHeader};
use pagewalk_translate::{Asid, MachineSpec};
use pagewalk_units::RefIndex;

/// One stream on machines with several cores, and with one.
struct Cores {
    /// The machines, then the first one with a private last level per core, and with a shared one.
    several: sim::Simulation,
    one: sim::Simulation,
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

/// Follows `source` to its end on the experiment's cores of each machine. `earlier` are its readings before.
pub fn stream<S: Source>(
    experiment: &Experiment,
    source: S,
    namer: (&Namer, Detail),
    earlier: &EarlierReadings,
) -> (ProcessResult, Ending) {
    let header = source.header().clone();
    let thp = machines::thp(experiment.thp, &header.thp);
    let rivals = Rivals::of(experiment, thp, &earlier.to_try).expect("the experiment was checked");
    let (several, one) = arranged(experiment, &rivals, thp).expect("the experiment was checked");
    let mut all = Cores { several, one };
    if header.origin == Origin::Fork {
        all.several.begin_as_child(Asid::default());
    }
    let ending = follow(source, &experiment.window, &mut (&mut all, namer.0.ahead()));
    (result(experiment, (&header, &ending), &mut all, (namer, &rivals), &earlier.replayed), ending)
}

/// The machines on their cores, then the first one with private and with shared last level, then all rivals; and the
/// first machine on one core.
pub fn arranged(
    experiment: &Experiment,
    rivals: &Rivals,
    thp: ThpMode,
) -> Result<(sim::Simulation, sim::Simulation), Error> {
    let first = &experiment.machines[0];
    let mut machines = experiment.machines.clone();
    machines.extend([false, true].map(|shared| with_last_level(first, shared)));
    let one = Arrangement { cores: 1, ..experiment.arrangement() };
    rivals.with_other(experiment, &machines, thp, &one)
}

/// The machine with its last level shared by all cores, or by none.
fn with_last_level(machine: &MachineSpec, shared: bool) -> MachineSpec {
    let mut machine = machine.clone();
    let last = machine.last_level();
    for tlb in machine.tlbs.iter_mut().filter(|tlb| tlb.level > 1) {
        tlb.shared = shared && tlb.level == last;
    }
    machine
}

/// Counters over all cores, and for each.
fn result(
    experiment: &Experiment,
    (header, ending): (&StreamHeader, &Ending),
    all: &mut Cores,
    (namer, rivals): ((&Namer, Detail), &Rivals),
    replayed: &[DesignCounts],
) -> ProcessResult {
    let cores = experiment.cores.map_or(1, usize::from);
    let counts = all.several.finish();
    let one = all.one.finish();
    let Payers { attribution, heat, losses } =
        payers(experiment, namer, std::slice::from_ref(header), &mut all.several);
    let machine = &experiment.machines[0];
    let did = all.several.counts();
    let machines = rows::machines(&experiment.machines, &counts, did.as_ref(), &[("cores", cores as u64)]);
    let [base, private, shared] =
        [&counts[0], &counts[experiment.machines.len()], &counts[experiment.machines.len() + 1]];
    let row = |id, title, counts| modelled(base, id, title, counts);
    let (bases, rest) = counts.split_at(experiment.machines.len());
    let what_if = vec![
        row("baseline", "as it is", base),
        row("private", "a last level for each core", private),
        row("shared", "one last level for all cores", shared),
        row("one_core", "all threads on one core", &one[0]),
        perfect(base),
    ];
    let mut process = ProcessResult {
        structure: experiment.structure.as_ref().map(|structure| structure.name.clone()),
        machines,
        advice: advice(&what_if, short(&header.program), cores, &machine.name),
        attribution,
        heat,
        what_if,
        losses: [ending.told_losses(), losses].concat(),
        ..followed(header, ending)
    };
    rivals.add_rows(experiment, RivalCounts { bases, rivals: &rest[2..], replayed }, &mut process);
    process
}

fn advice(what_if: &[WhatIf], program: &str, cores: usize, machine: &str) -> String {
    let walks = |id: &str| what_if.iter().find(|row| row.id == id).map_or(0, |row| row.walks);
    let [private, shared, one] = ["private", "shared", "one_core"].map(|id| count(walks(id)));
    match cores {
        1 => format!("On one core of {machine}, {program} takes {one} page walks."),
        _ => format!(
            "On {cores} cores of {machine}, {program} takes {private} page walks with a last level for each core and \
             {shared} with one for all; on one core {one}."
        ),
    }
}
