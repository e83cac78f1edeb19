//! Software-managed TLBs simulated from the misses of a host's TLB alone, and whether that counts alike.

use super::spec::Experiment;
use crate::error::{Error, Fault};
use pagewalk_mm::Small;
use pagewalk_report::count;
use pagewalk_report::schema::{MachineResult, ProcessResult};
use pagewalk_sim::{DesignCounts, DesignSpec, PassError, TrapSpec};
use pagewalk_sweep::{TRAPPED, metrics};
use pagewalk_translate::{MachineSpec, MissClass, NestedMisses, SoftwareCounts, TrapDriven};
use std::sync::Arc;

/// Refuses machines that traps cannot simulate, if the experiment has traps.
pub fn check(experiment: &Experiment) -> Result<(), Error> {
    let Some(host) = experiment.by_traps else { return Ok(()) };
    if host == 0 {
        return Err(Error::new(Fault::Usage, "--by-traps 0: the host's TLB has 1 slot or more"));
    }
    experiment.machines.iter().try_for_each(|machine| {
        let name = &machine.name;
        let Some(software) = machine.software() else {
            let why =
                format!("machine `{name}`: --by-traps is for software-managed TLBs with [walker.mapped]");
            let way_out = "give one whose page tables are mapped too: of the library's, mips_r2000";
            return Err(Error::new(Fault::Usage, why).or(way_out));
        };
        let simulated = TrapDriven::new(software, host, NestedMisses::default());
        simulated
            .map(drop)
            .map_err(|error| Error::new(Fault::BadInput, PassError::Traps(name.clone(), error)))
    })
}

/// The designs of each machine: in full with base pages, if it may have others; by traps; and by traps that count every
/// nested miss by itself. None if the experiment has no traps.
pub fn designs(experiment: &Experiment) -> Vec<DesignSpec> {
    let Some(host) = experiment.by_traps else { return Vec::new() };
    let of_machine = |machine: &MachineSpec| {
        let by_traps = |how: &str, nested| {
            let name = format!("{} by traps{how}", machine.name);
            DesignSpec::by_traps(name, machine, TrapSpec { host, nested })
        };
        let full = machine.has_huge_pages().then(|| DesignSpec {
            name: format!("{}, base pages", machine.name),
            ..DesignSpec::new(machine, Arc::new(Small))
        });
        let counted = by_traps(", nested misses counted", NestedMisses::Counted);
        full.into_iter().chain([by_traps("", NestedMisses::WithParent), counted])
    };
    experiment.machines.iter().flat_map(of_machine).collect()
}

/// Adds a machine's rows by traps after it, and whether they agree with full simulation: `bases` are the counts of the
/// machines under the host's kernel, `counts` those of [`designs`].
pub fn add_rows(
    experiment: &Experiment,
    bases: &[DesignCounts],
    counts: &[DesignCounts],
    process: &mut ProcessResult,
) {
    let Some(host) = experiment.by_traps else { return };
    let mut counts = counts.iter();
    let mut next = || counts.next().expect("each design has counts");
    let mut advice = vec![std::mem::take(&mut process.advice)];
    advice.retain(|told| !told.is_empty());
    let own = std::mem::take(&mut process.machines);
    assert_eq!(own.len(), bases.len(), "each machine has a row");
    for ((row, base), machine) in own.into_iter().zip(bases).zip(&experiment.machines) {
        let small = machine.has_huge_pages().then(&mut next);
        let (by_traps, counted) = (next(), next());
        let of_machine = if bases.len() > 1 { format!("{}: ", row.name) } else { String::new() };
        let compared = comparison(small.unwrap_or(base), by_traps, counted, host);
        advice.push(format!("{of_machine}{compared}"));
        process.machines.push(row);
        process.machines.extend(small.map(|of| MachineResult::new(&of.name, metrics(of))));
        process.machines.extend([by_traps, counted].map(|of| MachineResult::new(&of.name, metrics(of))));
    }
    process.advice = advice.join(" ");
}

fn classes(counts: &DesignCounts) -> SoftwareCounts {
    counts.software.as_ref().map(|software| software.counts).unwrap_or_default()
}

/// Whether the engines agree, and what the rule for nested misses changes.
fn comparison(full: &DesignCounts, by_traps: &DesignCounts, counted: &DesignCounts, host: u32) -> String {
    let host_misses = by_traps.host_misses.unwrap_or(0);
    let [full, traps, counted] = [full, by_traps, counted].map(classes);
    let differs: Vec<&str> =
        TRAPPED.into_iter().filter(|&class| traps.of(class) != full.of(class)).map(MissClass::name).collect();
    let equal = match differs[..] {
        [] => "counts what full simulation counts, in every class".to_owned(),
        _ => format!("differs from full simulation in {}", differs.join(", ")),
    };
    let bias = |class: MissClass| {
        let (is, would) = (full.of(class), counted.of(class));
        (is != would).then(|| format!("{} as {would} instead of {is}", class.name()))
    };
    let biases: Vec<String> = TRAPPED.into_iter().filter_map(bias).collect();
    let bias = match biases[..] {
        [] => "Counting every nested miss would change nothing.".to_owned(),
        _ => format!("Counting every nested miss would give {}.", biases.join(", ")),
    };
    let slots = if host == 1 { "slot" } else { "slots" };
    format!(
        "From {} traps of a host's TLB of {host} {slots}, simulation by traps {equal}. {bias}",
        count(host_misses)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_without_slots_is_refused() {
        let r2000 = pagewalk_sim::Library::get("mips_r2000").expect("it is in the library");
        let experiment = |slots| Experiment { by_traps: Some(slots), ..Experiment::new(vec![r2000.clone()]) };
        assert!(experiment(1).check(&[]).is_ok());
        let error = experiment(0).check(&[]).expect_err("no slots");
        assert_eq!(error.to_string(), "--by-traps 0: the host's TLB has 1 slot or more");
    }
}
