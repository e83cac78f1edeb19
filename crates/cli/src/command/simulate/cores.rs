//! `pagewalk simulate --cores N T.pwt`: a process's threads on several cores.

use super::os::Under;
use super::{compared, os, structure};
use crate::command::profile::Study;
use crate::error::CliError;
use crate::findings::{groups, short};
use crate::machine;
use crate::process::{Ending, follow};
use pagewalk_report::metrics::record_count;
use pagewalk_report::schema::{Attribution, Heat, MachineResult, MappingRow, ProcessResult, WhatIf};
use pagewalk_sim::{Arrangement, DesignCounts, Experiment};
use pagewalk_sweep::{add_structure, metrics, partition};
use pagewalk_trace::{Analysis, Batch, Event, Origin, Source, StreamHeader};
use pagewalk_translate::{Asid, MachineSpec};
use pagewalk_units::RefIndex;

/// The same stream on machines of several cores and of one.
struct Cores {
    /// The machines, and after them the first one with its last level private to each core, and shared.
    several: Experiment,
    one: Experiment,
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
    study: &Study,
    source: S,
    cores: usize,
) -> Result<(ProcessResult, Ending), CliError> {
    let header = source.header().clone();
    let thp = machine::thp(study.model.thp, &header.thp);
    let kernels = os::running_kernels(study, "--cores")?;
    let first = &study.machines[0];
    let mut machines = study.machines.clone();
    machines.extend([false, true].map(|shared| with_last_level(first, shared)));
    let on = |machines: &[MachineSpec], kernels: &[Under], cores: usize| {
        let structure = study.structure.clone();
        os::experiment(
            study,
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
    let ending = follow(source, &study.region, &mut all);
    Ok((result(study, &header, &mut all, &kernels, cores, &ending), ending))
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
    study: &Study,
    header: &StreamHeader,
    all: &mut Cores,
    kernels: &[Under],
    cores: usize,
    ending: &Ending,
) -> ProcessResult {
    let counts = all.several.finish();
    let one = all.one.finish();
    let machine = &study.machines[0];
    let groups = groups(&all.several.groups(), |_| None);
    let mut mappings: Vec<MappingRow> =
        (0..cores).map(|core| core_row(core, &all.several.core_counts(core)[0])).collect();
    mappings
        .extend(study.structure.iter().flat_map(|structure| structure::rows(structure, &mut all.several)));
    let did = all.several.counts();
    let machines = study.machines.iter().zip(&counts).map(|(machine, counts)| {
        let mut metrics = metrics(counts);
        record_count(&mut metrics, "cores", cores as u64);
        if let Some(did) = &did {
            add_structure(&mut metrics, did);
        }
        MachineResult { name: machine.name.clone(), metrics, partition: partition(counts) }
    });
    let [base, private, shared] =
        [&counts[0], &counts[study.machines.len()], &counts[study.machines.len() + 1]];
    let row = |id: &str, title: &str, counts: &DesignCounts| {
        compared(base, id, title, "modelled", counts.walks(), counts.cycles.walk)
    };
    let under = &counts[study.machines.len() + 2..];
    let rows = os::rows(study, kernels, &counts[..study.machines.len()], under);
    let mut what_if = vec![
        row("baseline", "as it is", base),
        row("private", "a last level for each core", private),
        row("shared", "one last level for all cores", shared),
        row("one_core", "all threads on one core", &one[0]),
        compared(base, "perfect_tlb", "a perfect TLB", "bound", 0, 0),
    ];
    what_if.splice(4..4, rows.under);
    ProcessResult {
        pid: header.pid,
        parent: header.parent,
        origin: "cores".to_owned(),
        program: header.program.clone(),
        command_line: header.arguments.clone(),
        ended: ending.describe(),
        losses: ending.losses.clone(),
        cut_short: None,
        thp_disable: None,
        structure: study.structure.as_ref().map(|structure| structure.name.clone()),
        machines: machines.collect(),
        advice: advice(&what_if, short(&header.program), cores, &machine.name),
        attribution: Attribution { mappings, groups, ..Attribution::default() },
        heat: Heat::default(),
        reach: Vec::new(),
        what_if,
        kernels: rows.kernels,
    }
}

/// References are those that the core's arrays were asked for: one to two pages counts twice.
fn core_row(core: usize, counts: &DesignCounts) -> MappingRow {
    let [fetch, data] = counts.translations;
    MappingRow {
        page_bytes: 4096,
        late_blocks: 0,
        late_blocks_small_anyway: 0,
        name: format!("core {core}"),
        kind: "core".to_owned(),
        build_id: None,
        start: 0,
        bytes: 0,
        pages_touched: 0,
        references_fetch: fetch,
        references_data: data,
        walks_fetch: counts.walks_fetch,
        walks_data: counts.walks_data,
        walk_cycles: counts.cycles.walk,
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
