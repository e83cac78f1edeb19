//! `pagewalk simulate --by-traps N T.pwt`: a software-managed TLB, simulated in full and by a host's misses alone.

use crate::command::profile::Study;
use crate::error::{CliError, Code};
use crate::process::{Ending, follow};
use pagewalk_mm::Small;
use pagewalk_report::metrics::record_count;
use pagewalk_report::schema::{Attribution, Heat, MachineResult, Metrics, ProcessResult};
use pagewalk_sim::{ByTraps, DesignSpec, NoObserver, Pass};
use pagewalk_sweep::metrics;
use pagewalk_trace::Source;
use pagewalk_translate::{MachineSpec, MissClass, NestedMisses, SoftwareCounts};
use std::sync::Arc;

/// The classes that a TLB has a part in.
const CLASSES: [MissClass; 4] = [MissClass::L1u, MissClass::L1k, MissClass::L2, MissClass::L3];

/// Refuses what traps cannot simulate.
pub fn check(study: &Study) -> Result<(), CliError> {
    study.check_kernels_are_none("--by-traps")?;
    match study.machines[..] {
        [_] => Ok(()),
        _ => Err(CliError::new(Code::Usage, "--by-traps simulates one machine: give one -m")),
    }
}

/// Follows `source` to its end on the study's machine, with a host of `host` slots.
pub fn stream<S: Source>(study: &Study, source: S, host: u32) -> Result<(ProcessResult, Ending), CliError> {
    let header = source.header().clone();
    let machine = &study.machines[0];
    let pass = Pass::new(vec![DesignSpec::new(machine, Arc::new(Small))], NoObserver);
    let pass = pass.map_err(|error| CliError::new(Code::Usage, error))?;
    let by_traps = engine(machine, host, NestedMisses::WithParent)?;
    // Every nested miss for its own.
    let counted = engine(machine, host, NestedMisses::Counted)?;
    let mut ways = (pass, (by_traps, counted));
    let ending = follow(source, &study.region, &mut ways);
    let (mut pass, (by_traps, counted)) = ways;
    let counts = pass.finish().swap_remove(0);
    let full = counts.software.as_ref().map(|software| software.counts).unwrap_or_default();
    let name = &machine.name;
    let process = ProcessResult {
        pid: header.pid,
        parent: header.parent,
        origin: "by traps".to_owned(),
        thp_disable: None,
        structure: None,
        program: header.program.clone(),
        command_line: header.arguments.clone(),
        ended: ending.describe(),
        losses: ending.losses.clone(),
        cut_short: None,
        machines: vec![
            MachineResult::new(name, metrics(&counts)),
            MachineResult::new(format!("{name} by traps"), trapped(&by_traps)),
            MachineResult::new(format!("{name} by traps, nested misses counted"), trapped(&counted)),
        ],
        advice: said(&full, &by_traps, &counted, host),
        attribution: Attribution::default(),
        heat: Heat::default(),
        reach: Vec::new(),
        what_if: Vec::new(),
        kernels: Vec::new(),
    };
    Ok((process, ending))
}

fn engine(machine: &MachineSpec, host: u32, nested: NestedMisses) -> Result<ByTraps, CliError> {
    let name = &machine.name;
    match ByTraps::new(machine, host, nested) {
        Some(engine) => {
            engine.map_err(|error| CliError::new(Code::BadInput, format!("machine `{name}`: {error}")))
        }
        None => {
            let why =
                format!("machine `{name}`: --by-traps is for software-managed TLBs with [walker.mapped]");
            Err(CliError::new(Code::Usage, why).or("give one with -m, such as mips_r2000"))
        }
    }
}

fn trapped(engine: &ByTraps) -> Metrics {
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

/// Whether the engines agree, and what the rule for nested misses is worth.
fn said(full: &SoftwareCounts, by_traps: &ByTraps, counted: &ByTraps, host: u32) -> String {
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
