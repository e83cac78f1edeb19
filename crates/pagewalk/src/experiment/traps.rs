//! Simulates a software-managed TLB in full, and from a host's misses alone.

use super::rows::followed;
use super::spec::Experiment;
use crate::error::{Error, Fault};
use crate::stream::{Ending, follow};
use pagewalk_mm::Small;
use pagewalk_report::metrics::record_count;
use pagewalk_report::schema::{MachineResult, Metrics, ProcessResult};
use pagewalk_sim::{DesignSpec, NoObserver, Pass, TrapSimulation};
use pagewalk_sweep::metrics;
use pagewalk_trace::{Analysis, Batch, Event, Source};
use pagewalk_translate::{MachineSpec, MissClass, NestedMisses, SoftwareCounts};
use pagewalk_units::RefIndex;
use std::sync::Arc;

/// The miss classes that a TLB takes part in.
const CLASSES: [MissClass; 4] = [MissClass::L1u, MissClass::L1k, MissClass::L2, MissClass::L3];

/// Refuses what traps cannot simulate.
pub fn check(experiment: &Experiment, host: u32) -> Result<(), Error> {
    let has_own = |machine: &MachineSpec| machine.os.is_some();
    let asked = [
        (!experiment.kernels.is_empty(), "--os"),
        (experiment.machines.iter().any(has_own), "the [os] of a machine"),
        (experiment.what_if, "--what-if"),
        (experiment.sharing.is_some(), "--quantum or --switch-at"),
        (experiment.cores.is_some(), "--cores"),
        (experiment.structure.is_some(), "--structure"),
    ];
    if let Some((_, what)) = asked.into_iter().find(|(is_asked, _)| *is_asked) {
        let why = format!("--by-traps sees only misses of one process on base pages, and {what} needs more");
        return Err(Error::new(Fault::Usage, why).or("leave out one of the two"));
    }
    experiment.machines.iter().try_for_each(|machine| MachineByTraps::new(machine, host).map(drop))
}

/// Follows `source` to its end on the experiment's machines, with a host TLB of `host` slots.
pub fn stream<S: Source>(experiment: &Experiment, source: S, host: u32) -> (ProcessResult, Ending) {
    let header = source.header().clone();
    let ways = experiment.machines.iter().map(|machine| MachineByTraps::new(machine, host));
    let mut ways = ways.collect::<Result<Vec<_>, _>>().expect("the experiment was checked");
    let ending = follow(source, &experiment.window, &mut ways);
    let several = ways.len() > 1;
    let (mut machines, mut advice) = (Vec::new(), Vec::new());
    for (MachineByTraps { mut pass, by_traps, counted }, MachineSpec { name, .. }) in
        ways.into_iter().zip(&experiment.machines)
    {
        let counts = pass.finish().swap_remove(0);
        let full = counts.software.as_ref().map(|software| software.counts).unwrap_or_default();
        machines.push(MachineResult::new(name, metrics(&counts)));
        machines.push(MachineResult::new(format!("{name} by traps"), trapped(&by_traps)));
        machines
            .push(MachineResult::new(format!("{name} by traps, nested misses counted"), trapped(&counted)));
        let of_machine = if several { format!("{name}: ") } else { String::new() };
        advice.push(format!("{of_machine}{}", comparison(&full, &by_traps, &counted, host)));
    }
    let process = ProcessResult { machines, advice: advice.join(" "), ..followed(&header, &ending) };
    (process, ending)
}

/// One machine, in full and by traps.
struct MachineByTraps {
    pass: Pass,
    by_traps: TrapSimulation,
    /// Counts every nested miss by itself.
    counted: TrapSimulation,
}

impl MachineByTraps {
    fn new(machine: &MachineSpec, host: u32) -> Result<MachineByTraps, Error> {
        let by_traps = engine(machine, host, NestedMisses::WithParent)?;
        let counted = engine(machine, host, NestedMisses::Counted)?;
        let pass = Pass::new(vec![DesignSpec::new(machine, Arc::new(Small))], NoObserver);
        let pass = pass.map_err(|error| Error::new(Fault::Usage, error))?;
        Ok(MachineByTraps { pass, by_traps, counted })
    }
}

impl Analysis for MachineByTraps {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        self.pass.on_batch(batch);
        self.by_traps.on_batch(batch);
        self.counted.on_batch(batch);
    }

    fn on_event(&mut self, at: RefIndex, event: &Event) {
        self.pass.on_event(at, event);
        self.by_traps.on_event(at, event);
        self.counted.on_event(at, event);
    }
}

fn engine(machine: &MachineSpec, host: u32, nested: NestedMisses) -> Result<TrapSimulation, Error> {
    let name = &machine.name;
    match TrapSimulation::new(machine, host, nested) {
        Some(engine) => {
            engine.map_err(|error| Error::new(Fault::BadInput, format!("machine `{name}`: {error}")))
        }
        None => {
            let why =
                format!("machine `{name}`: --by-traps is for software-managed TLBs with [walker.mapped]");
            Err(Error::new(Fault::Usage, why).or("give one with -m, such as mips_r2000"))
        }
    }
}

fn trapped(engine: &TrapSimulation) -> Metrics {
    let counts = engine.counts();
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
        ("host_misses", engine.host_misses()),
    ];
    others.into_iter().for_each(|(name, count)| record_count(&mut metrics, name, count));
    metrics
}

/// Whether the engines agree, and what the rule for nested misses changes.
fn comparison(
    full: &SoftwareCounts,
    by_traps: &TrapSimulation,
    counted: &TrapSimulation,
    host: u32,
) -> String {
    let (traps, counted) = (by_traps.counts(), counted.counts());
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
        "{} traps of a host of {host} slots {equal}. Counting every nested miss would give {bias}.",
        by_traps.host_misses()
    )
}
