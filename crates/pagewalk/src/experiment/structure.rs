//! Runs programs in an operating system whose kernel and servers touch pages of their own.

use super::groups::payers;
use super::readings::EarlierReadings;
use super::rivals::{RivalCounts, Rivals};
use super::rows::{self, followed, modelled, perfect};
use super::spec::Experiment;
use crate::error::Error;
use crate::findings::{Detail, Namer, Payers, short};
use crate::machines;
use crate::stream::{Ending, follow_ahead};
use pagewalk_mm::ThpMode;
use pagewalk_mm::structure::StructureSpec;
use pagewalk_report::schema::{ProcessResult, WhatIf};
use pagewalk_sim as sim;
use pagewalk_sim::{Arrangement, DesignCounts};
use pagewalk_trace::{Origin, Source};
use pagewalk_translate::Asid;
use std::cmp::Ordering;

/// The machines in the system with their rivals, and the first one without the system.
pub fn arranged(
    experiment: &Experiment,
    rivals: &Rivals,
    thp: ThpMode,
) -> Result<(sim::Simulation, sim::Simulation), Error> {
    rivals.with_other(experiment, &experiment.machines, thp, &Arrangement::default())
}

/// Follows `source` to its end. `earlier` are its readings before.
pub fn once<S: Source + Send>(
    experiment: &Experiment,
    structure: &StructureSpec,
    source: S,
    namer: (&Namer, Detail),
    earlier: &EarlierReadings,
) -> (ProcessResult, Ending) {
    let header = source.header().clone();
    let thp = machines::thp(experiment.thp, &header.thp);
    let rivals = Rivals::of(experiment, thp, &earlier.to_try).expect("the experiment was checked");
    let mut both = arranged(experiment, &rivals, thp).expect("the experiment was checked");
    if header.origin == Origin::Fork {
        both.0.begin_as_child(Asid::default());
    }
    let ending = follow_ahead(source, &experiment.window, &mut (&mut both, namer.0.ahead()));
    let (mut system, mut alone) = both;
    let counts = system.finish();
    let Payers { attribution, heat, losses } =
        payers(experiment, namer, std::slice::from_ref(&header), &mut system);
    let did = system.counts().unwrap_or_default();
    let machines = rows::machines(&experiment.machines, &counts, Some(&did), &[]);
    let (bases, rest) = counts.split_at(experiment.machines.len());
    let what_if = what_if(&counts[0], &alone.finish()[0]);
    let mut process = ProcessResult {
        structure: Some(structure.name.clone()),
        machines,
        advice: advice(&what_if, short(&header.program), structure, &experiment.machines[0].name),
        attribution,
        heat,
        what_if,
        losses: [ending.told_losses(), losses].concat(),
        ..followed(&header, &ending)
    };
    rivals.add_rows(
        experiment,
        RivalCounts { bases, rivals: rest, replayed: &earlier.replayed },
        &mut process,
    );
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
    let servers = match structure.servers.len() {
        0 => String::new(),
        1 => " and its server".to_owned(),
        many => format!(" and its {many} servers"),
    };
    let change = match all.cmp(&program_alone) {
        Ordering::Less => format!("{} fewer than alone", program_alone - all),
        Ordering::Equal => "as many as alone".to_owned(),
        Ordering::Greater => format!("{} more than alone", all - program_alone),
    };
    format!(
        "Under structure {}, with its kernel{servers}, {program} takes {all} page walks on {machine}, {change}.",
        structure.name
    )
}
