//! Programs in an operating system whose kernel and servers touch pages of their own.

use super::kernels;
use super::kernels::Under;
use super::rows::{self, followed, group, modelled, perfect};
use super::spec::Experiment;
use crate::error::Error;
use crate::findings::{groups, short};
use crate::machines;
use crate::stream::{Ending, follow_ahead};
use pagewalk_mm::ThpMode;
use pagewalk_mm::structure::{StructureSpec, Who};
use pagewalk_report::schema::{Attribution, MappingRow, ProcessResult, WhatIf};
use pagewalk_sim as sim;
use pagewalk_sim::{Arrangement, DesignCounts, SpaceCounts};
use pagewalk_trace::{Origin, Source, StreamHeader};
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
    let programs = system.program_counts();
    let mut mappings: Vec<MappingRow> =
        programs.iter().map(|(_, counts)| row(program(&header), counts)).collect();
    mappings.extend(visitors(structure, &mut system));
    mappings.sort_by_key(|row| std::cmp::Reverse(row.walk_cycles));
    let counts = system.finish();
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
        attribution: Attribution {
            mappings,
            groups: groups(&system.groups(), |_| None),
            ..Attribution::default()
        },
        what_if,
        kernels: under.kernels,
        ..followed(&header, "structure", &ending)
    };
    (process, ending)
}

/// The kernel and the servers, to stand among processes.
pub fn visitors(structure: &StructureSpec, system: &mut sim::Experiment) -> Vec<MappingRow> {
    let row = |(who, counts): (Who, SpaceCounts)| {
        let name = match who {
            Who::Kernel => format!("kernel of {}", structure.name),
            Who::Server(index) => format!("server {}", structure.servers[index].name),
        };
        self::row(name, &counts)
    };
    system.visitor_counts().into_iter().map(row).collect()
}

/// The name of a stream's program among processes.
pub(super) fn program(header: &StreamHeader) -> String {
    format!("{} (pid {})", header.program, header.pid)
}

/// One program, server or kernel.
pub(super) fn row(name: String, counts: &SpaceCounts) -> MappingRow {
    MappingRow {
        pages_touched: counts.pages_touched,
        references_fetch: counts.instructions,
        references_data: counts.data_references,
        walks_fetch: counts.walks_fetch,
        walks_data: counts.walks_data,
        walk_cycles: counts.walk_cycles,
        ..group(name, "process")
    }
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
