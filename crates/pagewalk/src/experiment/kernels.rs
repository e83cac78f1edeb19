//! Simulates one process with rivals: by traps, and under several kernels, which build superpages as it runs: the
//! experiment's, and those of machines with an `[os]`. Machines that fit no profile have no other way.

use super::groups::payers;
use super::profile;
use super::readings::EarlierReadings;
use super::rivals::{KernelDesign, RivalCounts, Rivals};
use super::rows::{self, followed, modelled, perfect};
use super::spec::Experiment;
use crate::error::{Error, Fault};
use crate::findings::{Detail, Namer, Payers, short};
use crate::machines;
use crate::stream::{Ending, follow_ahead};
use pagewalk_mm::{OsError, OsSpec};
use pagewalk_report::kernel_costs::{USUAL_WORK, charge_alike, usual_work};
use pagewalk_report::schema::{KernelResult, ProcessResult, WhatIf};
use pagewalk_sim::{Arrangement, DesignCounts, KernelError, PassError, held_orders};
use pagewalk_trace::{Origin, Source};
use pagewalk_translate::Asid;

/// Parses kernels from policies, such as `asap:threshold=2`.
///
/// # Errors
/// If there is no such policy or key, or two are equal.
pub fn policies(texts: &[String]) -> Result<Vec<OsSpec>, Error> {
    let parse = |text: &String| {
        let mut os = OsSpec::from_text(text).map_err(|e| usage(&e))?;
        os.read_files(|path| std::fs::read_to_string(path)).map_err(|e| usage(&e))?;
        Ok(os)
    };
    for (number, text) in texts.iter().enumerate() {
        if texts[..number].contains(text) {
            let twice = format!("two kernels are named `{text}`");
            return Err(Error::new(Fault::Usage, twice).or("give each kernel once"));
        }
    }
    texts.iter().map(parse).collect()
}

fn usage(error: &dyn std::fmt::Display) -> Error {
    Error::new(Fault::Usage, error).or("`pagewalk schema policies` lists policies and their keys")
}

/// Each machine under the kernel of its own file and under the experiment's kernels.
pub fn under_kernels(experiment: &Experiment) -> Result<Vec<KernelDesign>, Error> {
    let mut all = Vec::new();
    for (index, machine) in experiment.machines.iter().enumerate() {
        let own = machines::kernel(machine).map_err(|e| usage(&e))?;
        all.extend(own.map(|(os, kernel)| KernelDesign { machine: index, policy: os.name, kernel }));
        for os in &experiment.kernels {
            let kernel = os.build(machine.paging, held_orders(machine));
            let kernel = kernel.map_err(|error| match (&error, experiment.machines.len()) {
                (OsError::Policy(_), _) => {
                    usage(&format!("`{}` on machine `{}`: {error}", os.name, machine.name))
                }
                (_, 1) => usage(&error),
                _ => usage(&format!("machine `{}`: {error}", machine.name)),
            })?;
            all.push(KernelDesign { machine: index, policy: os.name.clone(), kernel });
        }
    }
    Ok(all)
}

/// The error for a design that cannot be simulated.
pub fn unfit(error: &PassError) -> Error {
    Error::new(Fault::Usage, error).or(match error {
        PassError::Kernel { error: KernelError::Colors(_), .. } => {
            "name such a cache with `placement.cache`, or leave out placement and recoloring"
        }
        _ => "give machines whose TLBs hold the pages of the policies, or other policies",
    })
}

/// Follows `source` to its end. `earlier` are its readings before.
pub fn once<S: Source + Send>(
    experiment: &Experiment,
    source: S,
    (namer, detail): (&Namer, Detail),
    earlier: &EarlierReadings,
) -> (ProcessResult, Ending) {
    let thp = machines::thp(experiment.thp, &source.header().thp);
    let rivals = Rivals::of(experiment, thp, &earlier.to_try).expect("the experiment was checked");
    let followed = PassResult::through(experiment, &rivals, source, namer, detail);
    followed.result(experiment, &rivals, &earlier.replayed)
}

/// The result of one pass over a stream.
struct PassResult {
    /// The process under the host's kernel.
    process: ProcessResult,
    ending: Ending,
    /// The machines, then their rivals.
    counts: Vec<DesignCounts>,
}

impl PassResult {
    /// Follows `source` to its end, through the profiler too if there is one.
    fn through<S: Source + Send>(
        experiment: &Experiment,
        rivals: &Rivals,
        source: S,
        namer: &Namer,
        detail: Detail,
    ) -> PassResult {
        let header = source.header().clone();
        let thp = machines::thp(experiment.thp, &header.thp);
        let pass = rivals.arranged(experiment, &experiment.machines, thp, &Arrangement::default());
        let mut pass = pass.expect("the experiment was checked");
        if header.origin == Origin::Fork {
            pass.begin_as_child(Asid::default());
        }
        let all = &experiment.machines;
        if experiment.profiles_beside() {
            let (process, ending) = profile::once(experiment, all, source, (namer, detail), Some(&mut pass));
            let counts = pass.finish();
            return PassResult { process, ending, counts };
        }
        let mut pass = pass.keeping_walks();
        let ending = follow_ahead(source, &experiment.window, &mut (&mut pass, namer.ahead()));
        let counts = pass.finish();
        let Payers { attribution, heat, losses } =
            payers(experiment, (namer, detail), std::slice::from_ref(&header), &mut pass);
        let process = ProcessResult {
            machines: rows::machines(all, &counts, None, &[]),
            attribution,
            heat,
            what_if: if experiment.has_rivals() || experiment.what_if {
                bounds(&counts[0])
            } else {
                Vec::new()
            },
            losses: [ending.told_losses(), losses].concat(),
            ..followed(&header, &ending)
        };
        PassResult { process, ending, counts }
    }

    /// The process with its rivals.
    fn result(
        self,
        experiment: &Experiment,
        rivals: &Rivals,
        replayed: &[DesignCounts],
    ) -> (ProcessResult, Ending) {
        let mut process = self.process;
        let (bases, rest) = self.counts.split_at(experiment.machines.len());
        rivals.add_rows(experiment, RivalCounts { bases, rivals: rest, replayed }, &mut process);
        let machine = &experiment.machines[experiment.profiled()].name;
        let of_kernels = advice(&process.kernels, machine, short(&process.program));
        let of_machine = experiment.is_in_order().then(|| {
            let base = experiment.machines[experiment.profiled()].paging.base();
            pagewalk_report::advise(&process, base.bytes())
        });
        let parts = [of_machine.unwrap_or_default(), std::mem::take(&mut process.advice), of_kernels];
        process.advice = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
        (process, self.ending)
    }
}

/// A machine under the host's kernel, and what walks cost at most.
fn bounds(base: &DesignCounts) -> Vec<WhatIf> {
    vec![modelled(base, "baseline", "as the host's kernel has it", base), perfect(base)]
}

/// Which kernel costs least, translation and its own work together, if the program ran to its end. Work that any kernel
/// does counts only between kernels that charge it alike; the host's is not counted.
fn advice(kernels: &[KernelResult], machine: &str, program: &str) -> String {
    let value = |row: &KernelResult, name: &str| row.metrics.get(name).map_or(0.0, |value| value.as_f64());
    let has_caches = kernels.iter().any(|row| row.machine == machine && row.metrics.contains_key("mcpi"));
    let (costs, what) =
        if has_caches { ("mcpi", "translation and memory take") } else { ("tlb_mcpi", "translation takes") };
    let cost = |row: &KernelResult| value(row, costs);
    let translation =
        |row: &KernelResult| cost(row) - value(row, "kernel.cycles") / value(row, "instructions");
    // Without instructions there are no cycles for each.
    let ended = |row: &&KernelResult| {
        row.machine == machine
            && value(row, "instructions") > 0.0
            && !row.metrics.contains_key("kernel.killed_at")
    };
    let (host, others): (Vec<&KernelResult>, Vec<_>) =
        kernels.iter().filter(ended).partition(|row| row.policy == "host");
    let is_alone = others.len() == 1;
    let is_alike = charge_alike(others.iter().copied());
    let against_host = |row: &KernelResult| cost(row) - usual_work(row);
    let footing = |row: &KernelResult| if is_alike { cost(row) } else { against_host(row) };
    let Some(best) = others.into_iter().min_by(|a, b| footing(a).total_cmp(&footing(b))) else {
        return String::new();
    };
    let lead = match (is_alone, is_alike) {
        (true, _) => format!("under {}", best.policy),
        (false, true) => format!("of these kernels, {} costs least:", best.policy),
        (false, false) => {
            let not_alike = format!("without {USUAL_WORK}, which not all charge");
            format!("of these kernels, {} costs least {not_alike}:", best.policy)
        }
    };
    // Four decimals: a difference that nobody sees is no gain.
    let told = |cycles: f64| format!("{cycles:.4}");
    let (now, own) = (translation(best), told(cost(best) - translation(best)));
    let usual = match told(usual_work(best)) {
        none if none == told(0.0) => "; the host's is not counted".to_owned(),
        usual => format!("; of that, {usual} for {USUAL_WORK} is left out, as the host's is not counted"),
    };
    let of_program = format!("{lead} {what} {} cycles an instruction of {program} on {machine}", told(now));
    match host.first().map(|host| translation(host)) {
        Some(before) => {
            let gain =
                if against_host(best) < before && told(now) != told(before) { "Gain" } else { "No gain" };
            format!(
                "{gain}: {of_program}, and {} under the host's kernel. Its own work takes another {own}{usual}.",
                told(before)
            )
        }
        None => {
            format!("Without the host's kernel to compare with: {of_program}, and its own work {own}.")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewalk_report::schema::{Metrics, Number};

    /// A kernel of 1000 instructions: cycles of walks, of faults and of copying.
    fn row(machine: &str, policy: &str, [walks, fault, copy]: [u64; 3]) -> KernelResult {
        let own = fault + copy;
        let counts = [("kernel.fault_cycles", fault), ("kernel.copy_cycles", copy), ("kernel.cycles", own)];
        let counts = counts.into_iter().filter(|_| policy != "host").chain([("instructions", 1000)]);
        let mut metrics: Metrics =
            counts.map(|(name, count)| (name.to_owned(), Number::Count(count))).collect();
        metrics.insert("tlb_mcpi".to_owned(), Number::Real((walks + own) as f64 / 1000.0));
        let (machine, policy) = (machine.to_owned(), policy.to_owned());
        KernelResult { machine, policy, class: "modelled".to_owned(), metrics, memory: Vec::new() }
    }

    #[test]
    fn kernels_are_compared_on_one_footing() {
        let of = |rows: &[(&str, [u64; 3])]| {
            let rows: Vec<_> = rows.iter().map(|&(policy, cycles)| row("m", policy, cycles)).collect();
            advice(&rows, "m", "gups")
        };
        let (host, romers) = (("host", [500, 0, 0]), ("asap", [300, 0, 100]));
        assert_eq!(
            of(&[host, romers, ("linux", [200, 900, 50])]),
            "Gain: of these kernels, linux costs least without faults, clearing, files and flushes, which not all \
             charge: translation takes 0.2000 cycles an instruction of gups on m, and 0.5000 under the host's kernel. \
             Its own work takes another 0.9500; of that, 0.9000 for faults, clearing, files and flushes is left out, \
             as the host's is not counted."
        );
        let alike = of(&[host, ("linux:thp=never", [500, 1400, 0]), ("linux", [510, 900, 0])]);
        let start = "No gain: of these kernels, linux costs least: translation takes 0.5100";
        assert!(alike.starts_with(start), "{alike}");
        let alone = of(&[host, romers]);
        assert!(alone.starts_with("Gain: under asap translation takes 0.3000"), "{alone}");
        assert!(alone.ends_with("Its own work takes another 0.1000; the host's is not counted."), "{alone}");
    }

    #[test]
    fn caches_of_another_machine_do_not_matter() {
        let mut rows = vec![row("m", "host", [500, 0, 0]), row("m", "asap", [300, 0, 0])];
        let before = advice(&rows, "m", "gups");
        let mut other = row("m+caches", "asap", [300, 0, 0]);
        other.metrics.insert("mcpi".to_owned(), Number::Real(9.0));
        rows.push(other);
        assert_eq!(advice(&rows, "m", "gups"), before);
        assert!(before.contains("translation takes 0.3000"), "{before}");
    }
}
