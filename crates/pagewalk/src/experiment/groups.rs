//! Who pays in an arrangement: mappings, functions and pages, and the parts of a run: processes, an operating system's
//! kernel and servers, cores and threads.

use super::spec::Experiment;
use crate::findings::{Detail, Namer, Payers, threads};
use pagewalk_mm::structure::Visitor;
use pagewalk_report::metrics::record_count;
use pagewalk_report::schema::{Group, Metrics};
use pagewalk_sim as sim;
use pagewalk_sim::{DesignCounts, SpaceCounts};
use pagewalk_sweep::group_metrics;
use pagewalk_trace::StreamHeader;
use pagewalk_translate::Asid;

/// Who pays in a finished arrangement of these streams, on the first machine.
pub fn payers(
    experiment: &Experiment,
    (namer, detail): (&Namer, Detail),
    headers: &[StreamHeader],
    system: &mut sim::Simulation,
) -> Payers {
    let owners = if experiment.sharing.is_some() { programs(headers) } else { Vec::new() };
    let mut payers = namer.programs(&experiment.machines[0], headers, system.programs(), &owners, detail);
    if !experiment.machines[0].has_segment() {
        payers.attribution.groups = groups(experiment, headers, system);
    }
    payers
}

/// The groups of a finished arrangement of these streams. A lone process is no group: it is the whole.
fn groups(experiment: &Experiment, headers: &[StreamHeader], system: &mut sim::Simulation) -> Vec<Group> {
    let takes_turns = experiment.sharing.is_some();
    let names = programs(headers);
    let program = |space: Asid| names.get(space.index()).cloned();
    let mut groups = Vec::new();
    if takes_turns || experiment.structure.is_some() {
        let process =
            |(space, counts)| group("process", program(space).unwrap_or_default(), group_metrics(&counts));
        groups.extend(system.program_counts().into_iter().map(process));
        groups.extend(visitors(experiment, system));
    }
    let cores = 0..experiment.cores.map_or(0, usize::from);
    groups.extend(cores.map(|core| group("core", core.to_string(), of_core(&system.core_counts(core)[0]))));
    groups.extend(threads(&system.groups(), |space| program(space).filter(|_| takes_turns)));
    if experiment.machines[0].data_side.is_some() {
        // Data sides that are alone do not count them.
        groups.iter_mut().for_each(|group| _ = group.metrics.remove("pages_touched"));
    }
    groups
}

/// The kernel and the servers of a structure.
fn visitors(experiment: &Experiment, system: &mut sim::Simulation) -> Vec<Group> {
    let Some(structure) = &experiment.structure else { return Vec::new() };
    let visitor = |(who, counts): (Visitor, SpaceCounts)| {
        let metrics = group_metrics(&counts);
        match who {
            Visitor::Kernel => group("kernel", structure.name.clone(), metrics),
            Visitor::Server(index) => group("server", structure.servers[index].name.clone(), metrics),
        }
    };
    system.visitor_counts().into_iter().map(visitor).collect()
}

/// A core's lookups and walks.
fn of_core(counts: &DesignCounts) -> Metrics {
    let all = [
        ("translations_fetch", counts.translations[0]),
        ("translations_data", counts.translations[1]),
        ("walks", counts.walks()),
        ("walks_fetch", counts.walks_fetch),
        ("walks_data", counts.walks_data),
        ("walk_cycles", counts.cycles.walk),
    ];
    let mut metrics = Metrics::new();
    all.into_iter().for_each(|(name, count)| record_count(&mut metrics, name, count));
    metrics
}

fn group(kind: &str, name: String, metrics: Metrics) -> Group {
    Group { kind: kind.to_owned(), name, metrics }
}

/// The names of streams' programs in groups: with their numbers if several are alike.
pub fn programs(headers: &[StreamHeader]) -> Vec<String> {
    let is_alike =
        |one: &StreamHeader, other: &StreamHeader| (&one.program, one.pid) == (&other.program, other.pid);
    let name = |(number, header): (usize, &StreamHeader)| {
        // Formats of other tools tell no process.
        let pid = (header.pid != 0).then(|| format!("pid {}", header.pid));
        let alike = headers.iter().filter(|other| is_alike(header, other)).count();
        let number = (alike > 1).then(|| format!("trace {}", number + 1));
        let which: Vec<String> = pid.into_iter().chain(number).collect();
        match which.is_empty() {
            true => header.program.clone(),
            false => format!("{} ({})", header.program, which.join(", ")),
        }
    };
    headers.iter().enumerate().map(name).collect()
}
