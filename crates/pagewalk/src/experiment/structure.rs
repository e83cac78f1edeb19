//! Programs in an operating system whose kernel and servers touch pages of their own.

use super::groups::groups;
use super::kernels;
use super::kernels::Under;
use super::rows::{self, followed, modelled, perfect};
use super::spec::Experiment;
use crate::error::Error;
use crate::findings::short;
use crate::machines;
use crate::stream::{Ending, follow_ahead};
use pagewalk_mm::ThpMode;
use pagewalk_mm::structure::StructureSpec;
use pagewalk_report::schema::{Attribution, ProcessResult, WhatIf};
use pagewalk_sim::{Arrangement, DesignCounts};
use pagewalk_trace::{Origin, Source};
use pagewalk_translate::{Asid, MachineSpec};

/// Checks that everything can be simulated.
pub fn check(experiment: &Experiment) -> Result<(), Error> {
    let kernels = kernels::running_kernels(experiment, "--structure")?;
    kernels::arranged(experiment, &experiment.machines, &kernels, ThpMode::Never, &Arrangement::default())
        .map(drop)
}

/// Follows `source` to its end.
pub fn once<S: Source + Send>(
    experiment: &Experiment,
    structure: &StructureSpec,
    source: S,
) -> (ProcessResult, Ending) {
    let header = source.header().clone();
    let thp = machines::thp(experiment.thp, &header.thp);
    let kernels = kernels::running_kernels(experiment, "--structure").expect("the experiment was checked");
    let inside = Arrangement { structure: Some(structure.clone()), ..Arrangement::default() };
    let within = |machines: &[MachineSpec], kernels: &[Under], arrangement: &Arrangement| {
        kernels::arranged(experiment, machines, kernels, thp, arrangement)
            .expect("the experiment was checked")
    };
    let mut system = within(&experiment.machines, &kernels, &inside);
    if header.origin == Origin::Fork {
        system.begin_as_child(Asid::default());
    }
    // All machines in the system, and the first one without it.
    let mut both = (system, within(&experiment.machines[..1], &[], &Arrangement::default()));
    let ending = follow_ahead(source, &experiment.window, &mut both);
    let (mut system, mut alone) = both;
    let counts = system.finish();
    let groups = groups(experiment, std::slice::from_ref(&header), &mut system);
    let did = system.counts().unwrap_or_default();
    let machines = rows::machines(&experiment.machines, &counts, Some(&did), &[]);
    let (bases, under) = counts.split_at(experiment.machines.len());
    let under = kernels::rows(experiment, &kernels, bases, under);
    let mut what_if = what_if(&counts[0], &alone.finish()[0]);
    what_if.splice(2..2, under.under);
    let process = ProcessResult {
        structure: Some(structure.name.clone()),
        machines,
        advice: advice(&what_if, short(&header.program), structure, &experiment.machines[0].name),
        attribution: Attribution { groups, ..Attribution::default() },
        what_if,
        kernels: under.kernels,
        ..followed(&header, &ending)
    };
    (process, ending)
}

fn what_if(base: &DesignCounts, alone: &DesignCounts) -> Vec<WhatIf> {
    vec![
        modelled(base, "baseline", "as it is", base),
        modelled(base, "program", "the program's own references alone", alone),
        perfect(base),
    ]
}

fn advice(what_if: &[WhatIf], program: &str, structure: &StructureSpec, machine: &str) -> String {
    let walks = |id: &str| what_if.iter().find(|row| row.id == id).map_or(0, |row| row.walks);
    let (all, program_alone) = (walks("baseline"), walks("program"));
    let more = all.saturating_sub(program_alone);
    format!(
        "In {} the kernel and {} servers cost {more} page walks more on {machine}: {all}, where {program} alone \
         takes {program_alone}.",
        structure.title,
        structure.servers.len(),
    )
}
