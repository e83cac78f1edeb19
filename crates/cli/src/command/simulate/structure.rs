//! `pagewalk simulate --structure STRUCTURE`: programs in an operating system whose kernel and servers touch pages of
//! their own.

use super::os::Under;
use super::{compared, os};
use crate::command::profile::Study;
use crate::error::CliError;
use crate::findings::{groups, short};
use crate::machine;
use crate::process::{Ending, follow_ahead};
use pagewalk_mm::ThpMode;
use pagewalk_mm::structure::{StructureSpec, Who};
use pagewalk_report::schema::{Attribution, Heat, MachineResult, MappingRow, ProcessResult, WhatIf};
use pagewalk_sim::{Arrangement, DesignCounts, Experiment, SpaceCounts};
use pagewalk_sweep::{add_structure, metrics, partition};
use pagewalk_trace::{Origin, Source, StreamHeader};
use pagewalk_translate::{Asid, MachineSpec};

/// Checks that everything can be simulated.
pub fn check(study: &Study) -> Result<(), CliError> {
    let kernels = os::running_kernels(study, "--structure")?;
    os::experiment(study, &study.machines, &kernels, ThpMode::Never, &Arrangement::default()).map(drop)
}

/// Follows `source` to its end.
pub fn once<S: Source + Send>(
    study: &Study,
    structure: &StructureSpec,
    source: S,
) -> (ProcessResult, Ending) {
    let header = source.header().clone();
    let thp = machine::thp(study.model.thp, &header.thp);
    let kernels = os::running_kernels(study, "--structure").expect("the study was checked");
    let inside = Arrangement { structure: Some(structure.clone()), ..Arrangement::default() };
    let experiment = |machines: &[MachineSpec], kernels: &[Under], arrangement: &Arrangement| {
        os::experiment(study, machines, kernels, thp, arrangement).expect("the study was checked")
    };
    let mut system = experiment(&study.machines, &kernels, &inside);
    if header.origin == Origin::Fork {
        system.begin_as_child(Asid::default());
    }
    // All machines in the system, and the first one without it.
    let mut both = (system, experiment(&study.machines[..1], &[], &Arrangement::default()));
    let ending = follow_ahead(source, &study.region, &mut both);
    let (mut system, mut alone) = both;
    let programs = system.program_counts();
    let mut rows: Vec<MappingRow> =
        programs.iter().map(|(_, counts)| row(program(&header), counts)).collect();
    rows.extend(self::rows(structure, &mut system));
    rows.sort_by_key(|row| std::cmp::Reverse(row.walk_cycles));
    let counts = system.finish();
    let did = system.counts().unwrap_or_default();
    let machines = study.machines.iter().zip(&counts).map(|(machine, counts)| {
        let mut metrics = metrics(counts);
        add_structure(&mut metrics, &did);
        MachineResult { name: machine.name.clone(), metrics, partition: partition(counts) }
    });
    let (bases, under) = counts.split_at(study.machines.len());
    let under = os::rows(study, &kernels, bases, under);
    let mut what_if = what_if(&counts[0], &alone.finish()[0]);
    what_if.splice(2..2, under.under);
    let process = ProcessResult {
        pid: header.pid,
        parent: header.parent,
        origin: "structure".to_owned(),
        program: header.program.clone(),
        command_line: header.arguments.clone(),
        ended: ending.describe(),
        losses: ending.losses.clone(),
        cut_short: None,
        thp_disable: None,
        structure: Some(structure.name.clone()),
        machines: machines.collect(),
        advice: advice(&what_if, short(&header.program), structure, &study.machines[0].name),
        attribution: Attribution {
            mappings: rows,
            groups: groups(&system.groups(), |_| None),
            ..Attribution::default()
        },
        heat: Heat::default(),
        reach: Vec::new(),
        what_if,
        kernels: under.kernels,
    };
    (process, ending)
}

/// The kernel and the servers, to stand among processes.
pub fn rows(structure: &StructureSpec, system: &mut Experiment) -> Vec<MappingRow> {
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
        page_bytes: 4096,
        late_blocks: 0,
        late_blocks_small_anyway: 0,
        name,
        kind: "process".to_owned(),
        build_id: None,
        start: 0,
        bytes: 0,
        pages_touched: counts.pages_touched,
        references_fetch: counts.instructions,
        references_data: counts.data_references,
        walks_fetch: counts.walks_fetch,
        walks_data: counts.walks_data,
        walk_cycles: counts.walk_cycles,
    }
}

fn what_if(base: &DesignCounts, alone: &DesignCounts) -> Vec<WhatIf> {
    let row = |id: &str, title: &str, class: &str, walks: u64, cycles: u64| {
        compared(base, id, title, class, walks, cycles)
    };
    vec![
        row("baseline", "as it is", "modelled", base.walks(), base.cycles.walk),
        row("program", "the program's own references alone", "modelled", alone.walks(), alone.cycles.walk),
        row("perfect_tlb", "a perfect TLB", "bound", 0, 0),
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
