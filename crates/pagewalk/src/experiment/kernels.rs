//! Simulates one process under several kernels, which build superpages as it runs: the experiment's, and those of
//! machines with an `[os]`. OFFLINE knows the future; for that it reads the trace several times.

use super::groups::groups;
use super::profile;
use super::rivals::{KernelDesign, Rivals};
use super::rows::{self, followed, modelled, perfect};
use super::spec::Experiment;
use crate::error::{Error, Fault};
use crate::findings::{Detail, Namer, short};
use crate::listener::Listener;
use crate::machines;
use crate::stream::{Ending, ReadablePrefix, follow_ahead};
use crate::traces::open_for;
use pagewalk_capture::{Window, read_ahead};
use pagewalk_layout::rebase::{PlanBinding, RebasedSource};
use pagewalk_mm::promotion::OfflineSettings;
use pagewalk_mm::{InferredAreas, OsKernel, OsSpec};
use pagewalk_report::schema::{Attribution, KernelResult, ProcessResult};
use pagewalk_sim::{Arrangement, DesignCounts, OfflineError, PassError, check_offline, held_orders, offline};
use pagewalk_trace::{Origin, Source};
use pagewalk_translate::{Asid, MachineSpec};
use std::path::{Path, PathBuf};

/// Parses kernels from policies, such as `asap:threshold=2`.
///
/// # Errors
/// If there is no such policy or key.
pub fn policies(texts: &[String]) -> Result<Vec<OsSpec>, Error> {
    let parse = |text: &String| {
        let mut os = OsSpec::from_text(text).map_err(|e| usage(&e))?;
        os.read_files(|path| std::fs::read_to_string(path)).map_err(|e| usage(&e))?;
        Ok(os)
    };
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
            let kernel = os.build(machine.paging, held_orders(machine)).map_err(|e| usage(&e))?;
            all.push(KernelDesign { machine: index, policy: os.name.clone(), kernel });
        }
    }
    Ok(all)
}

/// The error for a design that cannot be simulated.
pub fn unfit(error: &PassError) -> Error {
    Error::new(Fault::Usage, error).or(match error {
        PassError::DesignCount(_) => "give fewer machines with -m",
        PassError::Unfit(_) => "give --thp never, and --os POLICY for superpages",
        _ => {
            "give machines with the same page sizes, whose TLBs hold the pages of the policies, or other policies"
        }
    })
}

/// Checks that kernels which know the future suit the machines.
pub fn check(kernels: &Rivals, machines: &[MachineSpec]) -> Result<(), Error> {
    for under in &kernels.kernels {
        if let OsKernel::Offline(settings) = &under.kernel {
            check_offline(&machines[under.machine], settings).map_err(|e| unfit(&e))?;
        }
    }
    Ok(())
}

/// Checks that every trace can be read as often as the kernels need. No `traces` means a program that runs.
pub fn check_replays(kernels: &Rivals, traces: &[PathBuf]) -> Result<(), Error> {
    let Some(KernelDesign { policy, .. }) = kernels.replaying() else { return Ok(()) };
    if traces.is_empty() {
        let why = format!("policy `{policy}` replays the stream, and a program runs only once");
        let way_out = "record it with `pagewalk record -o T.pwt -- CMD…` and simulate T.pwt";
        return Err(Error::new(Fault::Usage, why).or(way_out));
    }
    // A missing file is reported when it is opened.
    let is_no_file = |trace: &&PathBuf| trace.metadata().is_ok_and(|about| !about.is_file());
    match traces.iter().find(is_no_file) {
        None => Ok(()),
        Some(trace) => {
            let trace = trace.display();
            let why =
                format!("{trace}: policy `{policy}` reads a trace once for each replay, and this is no file");
            Err(Error::new(Fault::BadInput, why).or("write it to a file first"))
        }
    }
}

/// Refuses kernels that replay the stream, which do not go with `what`.
pub fn check_no_replays(kernels: &Rivals, what: &str) -> Result<(), Error> {
    match kernels.replaying() {
        None => Ok(()),
        Some(KernelDesign { policy, .. }) => {
            let why = format!("policy `{policy}` replays the stream as it was recorded, without {what}");
            Err(Error::new(Fault::Usage, why).or("leave out one of the two"))
        }
    }
}

/// Follows `source` to its end, under kernels that decide as it runs.
pub fn once<S: Source + Send>(
    experiment: &Experiment,
    source: S,
    namer: &Namer,
    detail: Detail,
) -> (ProcessResult, Ending) {
    let kernels = Rivals::kernels(experiment).expect("the experiment was checked");
    PassResult::through(experiment, &kernels, source, namer, detail).result(experiment, &kernels)
}

/// A trace to read again, with its shared objects moved if `bound` says so.
#[derive(Clone, Copy)]
pub struct ReplayableTrace<'a> {
    pub trace: &'a Path,
    pub bound: Option<&'a PlanBinding>,
    pub listener: &'a dyn Listener,
}

/// Follows `source`, the trace from its beginning, and reads it `again` for kernels that know the future.
pub fn trace<S: Source + Send>(
    experiment: &Experiment,
    source: S,
    namer: &Namer,
    again: ReplayableTrace<'_>,
) -> Result<(ProcessResult, Ending), Error> {
    let kernels = Rivals::kernels(experiment)?;
    let mut followed = PassResult::through(experiment, &kernels, source, namer, Detail::Full);
    let (bases, running) = followed.counts.split_at(experiment.machines.len());
    let (mut counts, mut running) = (bases.to_vec(), running.iter().cloned());
    for under in &kernels.kernels {
        counts.push(match &under.kernel {
            OsKernel::Running(_) => running.next().expect("a design of the pass"),
            OsKernel::Offline(settings) => {
                let found = KernelReplay { experiment, again, under }.offline(settings)?;
                if found.instructions != bases[0].instructions {
                    let why = format!("{}: the file changed while it was read", again.trace.display());
                    return Err(Error::new(Fault::BadInput, why));
                }
                found
            }
        });
    }
    followed.counts = counts;
    Ok(followed.result(experiment, &kernels))
}

/// The result of one pass over a stream.
struct PassResult {
    /// The process under the host's kernel.
    process: ProcessResult,
    ending: Ending,
    /// The machines, then those under kernels; at first only kernels that decide as the stream runs.
    counts: Vec<DesignCounts>,
}

impl PassResult {
    /// Follows `source` to its end; with alternatives, through the profiler too.
    fn through<S: Source + Send>(
        experiment: &Experiment,
        kernels: &Rivals,
        source: S,
        namer: &Namer,
        detail: Detail,
    ) -> PassResult {
        let header = source.header().clone();
        let thp = machines::thp(experiment.thp, &header.thp);
        let pass = kernels.arranged(experiment, &experiment.machines, thp, &Arrangement::default());
        let mut pass = pass.expect("the experiment was checked");
        if header.origin == Origin::Fork {
            pass.begin_as_child(Asid::default());
        }
        if experiment.what_if {
            let (process, ending) = profile::once(experiment, source, namer, detail, Some(&mut pass));
            return PassResult { process, ending, counts: pass.finish() };
        }
        let ending = follow_ahead(source, &experiment.window, &mut pass);
        let counts = pass.finish();
        let groups = groups(experiment, std::slice::from_ref(&header), &mut pass);
        let base = &counts[0];
        let process = ProcessResult {
            machines: rows::machines(&experiment.machines, &counts[..experiment.machines.len()], None, &[]),
            attribution: Attribution { groups, ..Attribution::default() },
            what_if: vec![modelled(base, "baseline", "as the host's kernel has it", base), perfect(base)],
            ..followed(&header, &ending)
        };
        PassResult { process, ending, counts }
    }

    /// The process under all kernels.
    fn result(self, experiment: &Experiment, kernels: &Rivals) -> (ProcessResult, Ending) {
        let mut process = self.process;
        let (bases, under) = self.counts.split_at(experiment.machines.len());
        process.kernels = kernels.rows(experiment, bases, under).add_to(&mut process.what_if);
        let machine = &experiment.machines[experiment.profiled()].name;
        let of_kernels = advice(&process.kernels, machine, short(&process.program));
        let parts = [std::mem::take(&mut process.advice), of_kernels];
        process.advice = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
        (process, self.ending)
    }
}

/// A replay of a trace for one machine and kernel.
struct KernelReplay<'a> {
    experiment: &'a Experiment,
    again: ReplayableTrace<'a>,
    under: &'a KernelDesign,
}

impl KernelReplay<'_> {
    /// The machine's counts with the superpages that OFFLINE finds; each replay has a progress bar.
    fn offline(&self, settings: &OfflineSettings) -> Result<DesignCounts, Error> {
        let machine = &self.experiment.machines[self.under.machine];
        let ReplayableTrace { trace, bound, listener } = self.again;
        let mut replay = 0;
        let found = std::thread::scope(|scope| {
            let open = || {
                replay += 1;
                let what = format!("{}, {}, replay {replay}", trace.display(), self.under.policy);
                let reader = InferredAreas::new(open_for(trace, &what, listener)?, self.experiment.areas);
                let reader = ReadablePrefix(reader);
                let source: Box<dyn Source + Send> = match bound {
                    Some(bound) => Box::new(RebasedSource::new(reader, bound)),
                    None => Box::new(reader),
                };
                read_ahead(scope, Window::new(source, self.experiment.window)).map_err(|error| {
                    Error::new(Fault::Failed, format!("no thread to decode the stream on: {error}"))
                })
            };
            offline(open, machine, settings, |_| {})
        });
        found.map(|found| found.counts).map_err(|error| match error {
            OfflineError::Open(error) => error,
            other => Error::new(Fault::BadInput, format!("{}: {other}", trace.display())),
        })
    }
}

/// Accounts of work that every kernel does; the host's is not counted.
const EVERY_KERNELS: [&str; 4] = ["fault", "zero", "file", "flush"];

/// Which kernel costs least, translation and its own work together, if the program ran to its end. Against the host's,
/// whose work is not counted, only work counts that not every kernel does.
fn advice(kernels: &[KernelResult], machine: &str, program: &str) -> String {
    let value = |row: &KernelResult, name: &str| row.metrics.get(name).map_or(0.0, |value| value.as_f64());
    let has_caches = kernels.iter().any(|row| row.metrics.contains_key("mcpi"));
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
    let Some(best) = others.into_iter().min_by(|a, b| cost(a).total_cmp(&cost(b))) else {
        return String::new();
    };
    let lead = match is_alone {
        true => format!("under {}", best.policy),
        false => format!("of these kernels, {} costs least:", best.policy),
    };
    // Four decimals: a difference that nobody sees is no gain.
    let told = |cycles: f64| format!("{cycles:.4}");
    let (now, own) = (translation(best), told(cost(best) - translation(best)));
    let usual: f64 =
        EVERY_KERNELS.map(|account| value(best, &format!("kernel.{account}_cycles"))).iter().sum();
    let in_all = cost(best) - usual / value(best, "instructions");
    let of_program = format!("{lead} {what} {} cycles an instruction of {program} on {machine}", told(now));
    match host.first().map(|host| translation(host)) {
        Some(before) => {
            let gain = if in_all < before && told(now) != told(before) { "Gain" } else { "No gain" };
            format!(
                "{gain}: {of_program}, and {} under the host's kernel. Its own work takes another {own}; the host's \
                 is not counted.",
                told(before)
            )
        }
        None => {
            format!("Without the host's kernel to compare with: {of_program}, and its own work {own}.")
        }
    }
}
