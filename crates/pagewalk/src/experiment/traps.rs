//! Software-managed TLBs simulated from the misses of a host's TLB alone, and whether that counts alike.

use super::spec::Experiment;
use crate::error::{Error, Fault};
use pagewalk_mm::Small;
use pagewalk_report::metrics::record_count;
use pagewalk_report::schema::{MachineResult, Metrics, ProcessResult};
use pagewalk_sim::{DesignCounts, DesignSpec, PassError, Simulation, TrapSpec};
use pagewalk_translate::{MissClass, NestedMisses, SoftwareCounts};
use std::sync::Arc;

/// The miss classes that a TLB takes part in.
const CLASSES: [MissClass; 4] = [MissClass::L1u, MissClass::L1k, MissClass::L2, MissClass::L3];

/// The designs of each machine: base pages in full, by traps, and by traps that count every nested miss by itself. None
/// if the experiment has no traps.
///
/// # Errors
/// If a machine's TLB cannot be simulated by traps.
pub fn designs(experiment: &Experiment) -> Result<Vec<DesignSpec>, Error> {
    let Some(host) = experiment.by_traps else { return Ok(Vec::new()) };
    let mut designs = Vec::new();
    for machine in &experiment.machines {
        let by_traps = |name: String, nested| DesignSpec::by_traps(name, machine, TrapSpec { host, nested });
        designs.push(DesignSpec::new(machine, Arc::new(Small)));
        designs.push(by_traps(format!("{} by traps", machine.name), NestedMisses::WithParent));
        let counted = format!("{} by traps, nested misses counted", machine.name);
        designs.push(by_traps(counted, NestedMisses::Counted));
    }
    // Traps first: their reason is the nearest.
    let trapping = designs.iter().filter(|design| design.traps.is_some()).cloned().collect();
    Simulation::new(trapping, &experiment.arrangement()).map_err(|error| match &error {
        PassError::NoTraps(machine) => {
            let why =
                format!("machine `{machine}`: --by-traps is for software-managed TLBs with [walker.mapped]");
            Error::new(Fault::Usage, why).or("give one with -m, such as mips_r2000")
        }
        PassError::Traps(..) => Error::new(Fault::BadInput, error),
        _ => Error::new(Fault::Usage, error),
    })?;
    Ok(designs)
}

/// Adds a machine's rows by traps after it, and whether they agree with full simulation. `counts` are those of
/// [`designs`].
pub fn add_rows(experiment: &Experiment, counts: &[DesignCounts], process: &mut ProcessResult) {
    let Some(host) = experiment.by_traps else { return };
    let mut advice = vec![std::mem::take(&mut process.advice)];
    advice.retain(|told| !told.is_empty());
    let full = std::mem::take(&mut process.machines);
    for (row, counts) in full.into_iter().zip(counts.chunks_exact(3)) {
        let [full, by_traps, counted] = counts else { unreachable!("three for each machine") };
        let of_machine =
            if experiment.machines.len() > 1 { format!("{}: ", row.name) } else { String::new() };
        advice.push(format!("{of_machine}{}", comparison(full, by_traps, counted, host)));
        process.machines.push(row);
        process.machines.extend([by_traps, counted].map(|of| MachineResult::new(&of.name, trapped(of))));
    }
    process.advice = advice.join(" ");
}

fn classes(counts: &DesignCounts) -> SoftwareCounts {
    counts.software.as_ref().map(|software| software.counts).unwrap_or_default()
}

fn trapped(of: &DesignCounts) -> Metrics {
    let counts = classes(of);
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
        ("host_misses", of.host_misses.unwrap_or(0)),
    ];
    others.into_iter().for_each(|(name, count)| record_count(&mut metrics, name, count));
    metrics
}

/// Whether the engines agree, and what the rule for nested misses changes.
fn comparison(full: &DesignCounts, by_traps: &DesignCounts, counted: &DesignCounts, host: u32) -> String {
    let host_misses = by_traps.host_misses.unwrap_or(0);
    let [full, traps, counted] = [full, by_traps, counted].map(classes);
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
        "{host_misses} traps of a host of {host} slots {equal}. Counting every nested miss would give {bias}."
    )
}
