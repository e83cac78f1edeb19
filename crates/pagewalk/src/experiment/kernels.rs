//! One process under several kernels, which build superpages as it runs: those of the experiment, and of machines with
//! an `[os]`. One that knows the future, OFFLINE, reads the trace again, several times.

use super::groups::groups;
use super::rows::{self, followed, modelled, perfect};
use super::spec::Experiment;
use crate::error::{Error, Fault};
use crate::findings::short;
use crate::listener::Listener;
use crate::machines;
use crate::stream::{Ending, UpToDamage, follow_ahead};
use crate::traces::open_for;
use pagewalk_capture::{Window, read_ahead};
use pagewalk_mm::promotion::OfflineSettings;
use pagewalk_mm::{MemorySample, OsKernel, OsSpec, ThpMode};
use pagewalk_report::metrics::record_count;
use pagewalk_report::schema::{
    Attribution, Group, KernelResult, MemoryPoint, Metrics, ProcessResult, WhatIf,
};
use pagewalk_sim as sim;
use pagewalk_sim::{
    Arrangement, DesignCounts, DesignSpec, HostKernel, OfflineError, check_offline, held_orders, offline,
};
use pagewalk_sweep::metrics;
use pagewalk_trace::{Origin, Source, StreamHeader};
use pagewalk_translate::{Asid, MachineSpec};
use pagewalk_units::PageSize;
use std::path::{Path, PathBuf};

/// Kernels by their policies, such as `asap:threshold=2`.
///
/// # Errors
/// If one has no such policy or key.
pub fn policies(texts: &[String]) -> Result<Vec<OsSpec>, Error> {
    let parse = |text: &String| {
        let mut os = OsSpec::from_text(text).map_err(|e| usage(&e))?;
        os.read_files(|path| std::fs::read_to_string(path)).map_err(|e| usage(&e))?;
        Ok(os)
    };
    texts.iter().map(parse).collect()
}

fn usage(error: &dyn std::fmt::Display) -> Error {
    Error::new(Fault::Usage, error).or("docs/kernel-policies.md lists policies and their keys")
}

/// A machine under one of the kernels.
pub struct Under {
    /// Which machine of the experiment.
    machine: usize,
    policy: String,
    kernel: OsKernel,
}

/// Each machine under the kernel of its own file and those of the experiment.
fn all_kernels(experiment: &Experiment) -> Result<Vec<Under>, Error> {
    let mut all = Vec::new();
    for (index, machine) in experiment.machines.iter().enumerate() {
        let own = machines::kernel(machine).map_err(|e| usage(&e))?;
        all.extend(own.map(|(os, kernel)| Under { machine: index, policy: os.name, kernel }));
        for os in &experiment.kernels {
            let kernel = os.build(machine.paging, held_orders(machine)).map_err(|e| usage(&e))?;
            all.push(Under { machine: index, policy: os.name.clone(), kernel });
        }
    }
    Ok(all)
}

/// `machines`, each under the host's kernel, and after them those of the experiment under `kernels` that decide while
/// the stream runs.
pub fn arranged(
    experiment: &Experiment,
    machines: &[MachineSpec],
    kernels: &[Under],
    thp: ThpMode,
    arrangement: &Arrangement,
) -> Result<sim::Experiment, Error> {
    let host = HostKernel::new(thp);
    let mut designs: Vec<DesignSpec> = machines.iter().map(|machine| host.design(machine)).collect();
    designs.extend(kernels.iter().filter_map(|under| match &under.kernel {
        OsKernel::Running(kernel) => {
            let machine = &experiment.machines[under.machine];
            Some(DesignSpec::with_kernel(under.policy.clone(), machine, (**kernel).clone()))
        }
        OsKernel::Offline(_) => None,
    }));
    sim::Experiment::new(designs, arrangement).map_err(|e| unfit(&e))
}

/// The kernels of a experiment that is to run in another arrangement than one process on one core. `what` names that.
pub fn running_kernels(experiment: &Experiment, what: &str) -> Result<Vec<Under>, Error> {
    check_no_replays(experiment, what)?;
    if experiment.has_kernels() { all_kernels(experiment) } else { Ok(Vec::new()) }
}

fn unfit(error: &dyn std::fmt::Display) -> Error {
    Error::new(Fault::Usage, error)
        .or("give machines with the same page sizes, whose TLBs hold the pages of the policies, or other policies")
}

/// Checks that the kernels can work on the machines.
pub fn check(experiment: &Experiment) -> Result<(), Error> {
    let kernels = all_kernels(experiment)?;
    for under in &kernels {
        if let OsKernel::Offline(settings) = &under.kernel {
            check_offline(&experiment.machines[under.machine], settings).map_err(|e| unfit(&e))?;
        }
    }
    arranged(experiment, &experiment.machines, &kernels, ThpMode::Never, &Arrangement::default()).map(drop)
}

/// Checks that everything can be read as often as the kernels want it: `traces`, or a program that is to run where
/// there are none.
pub fn check_replays(experiment: &Experiment, traces: &[PathBuf]) -> Result<(), Error> {
    let kernels = if experiment.has_kernels() { all_kernels(experiment)? } else { Vec::new() };
    let Some(under) = kernels.iter().find(|under| matches!(under.kernel, OsKernel::Offline(_))) else {
        return Ok(());
    };
    let policy = &under.policy;
    if traces.is_empty() {
        let why = format!("policy `{policy}` replays the stream, and a program runs only once");
        let way_out = "record it with `pagewalk record -o T.pwt -- CMD…` and simulate T.pwt";
        return Err(Error::new(Fault::Usage, why).or(way_out));
    }
    // What is not there is told when it is opened.
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

/// Refuses kernels that replay the stream, where `what` is asked for.
pub fn check_no_replays(experiment: &Experiment, what: &str) -> Result<(), Error> {
    let kernels = if experiment.has_kernels() { all_kernels(experiment)? } else { Vec::new() };
    match kernels.iter().find(|under| matches!(under.kernel, OsKernel::Offline(_))) {
        None => Ok(()),
        Some(under) => {
            let why =
                format!("policy `{}` replays the stream as it was recorded, without {what}", under.policy);
            Err(Error::new(Fault::Usage, why).or("leave out one of the two"))
        }
    }
}

/// Follows `source` to its end, under kernels that decide while it runs.
pub fn once<S: Source + Send>(experiment: &Experiment, source: S) -> (ProcessResult, Ending) {
    let all = all_kernels(experiment).expect("the experiment was checked");
    let (followed, ending) = first_pass(experiment, &all, source);
    (result(experiment, &all, &followed, &followed.counts, &ending), ending)
}

/// Follows `reader`, which reads `trace` from its beginning, and reads it again for kernels that know the future.
pub fn trace<S: Source + Send>(
    experiment: &Experiment,
    reader: S,
    trace: &Path,
    listener: &dyn Listener,
) -> Result<(ProcessResult, Ending), Error> {
    let all = all_kernels(experiment)?;
    let (followed, ending) = first_pass(experiment, &all, reader);
    let (bases, running) = followed.counts.split_at(experiment.machines.len());
    let (mut counts, mut running) = (bases.to_vec(), running.iter().cloned());
    for under in &all {
        counts.push(match &under.kernel {
            OsKernel::Running(_) => running.next().expect("a design of the pass"),
            OsKernel::Offline(settings) => {
                let found = Replayed { experiment, trace, under, listener }.offline(settings)?;
                if found.instructions != bases[0].instructions {
                    let why = format!("{}: the file changed while it was read", trace.display());
                    return Err(Error::new(Fault::BadInput, why));
                }
                found
            }
        });
    }
    Ok((result(experiment, &all, &followed, &counts, &ending), ending))
}

/// What was found in one pass over a stream.
struct Followed {
    header: StreamHeader,
    groups: Vec<Group>,
    counts: Vec<DesignCounts>,
}

/// One pass over `source`: the counts of the machines, and of the kernels that decide while it runs.
fn first_pass<S: Source + Send>(experiment: &Experiment, kernels: &[Under], source: S) -> (Followed, Ending) {
    let header = source.header().clone();
    let thp = machines::thp(experiment.thp, &header.thp);
    let alone = Arrangement::default();
    let mut pass =
        arranged(experiment, &experiment.machines, kernels, thp, &alone).expect("the experiment was checked");
    if header.origin == Origin::Fork {
        pass.begin_as_child(Asid::default());
    }
    let ending = follow_ahead(source, &experiment.window, &mut pass);
    let counts = pass.finish();
    let groups = groups(experiment, std::slice::from_ref(&header), &mut pass);
    (Followed { header, groups, counts }, ending)
}

/// A trace that is read again.
struct Replayed<'a> {
    experiment: &'a Experiment,
    trace: &'a Path,
    under: &'a Under,
    listener: &'a dyn Listener,
}

impl Replayed<'_> {
    /// A machine's counts with the superpages that OFFLINE finds, each replay with a progress bar.
    fn offline(&self, settings: &OfflineSettings) -> Result<DesignCounts, Error> {
        let machine = &self.experiment.machines[self.under.machine];
        let mut replay = 0;
        let found = std::thread::scope(|scope| {
            let open = || {
                replay += 1;
                let what = format!("{}, {}, replay {replay}", self.trace.display(), self.under.policy);
                let reader = open_for(self.trace, &what, self.listener)?;
                let source = Window::new(UpToDamage(reader), self.experiment.window);
                read_ahead(scope, source).map_err(|error| {
                    Error::new(Fault::Failed, format!("no thread to decode the stream on: {error}"))
                })
            };
            offline(open, machine, settings, |_| {})
        });
        found.map(|found| found.counts).map_err(|error| match error {
            OfflineError::Open(error) => error,
            other => Error::new(Fault::BadInput, format!("{}: {other}", self.trace.display())),
        })
    }
}

fn result(
    experiment: &Experiment,
    all: &[Under],
    Followed { header, groups, .. }: &Followed,
    counts: &[DesignCounts],
    ending: &Ending,
) -> ProcessResult {
    let (bases, under) = counts.split_at(experiment.machines.len());
    let Rows { kernels, under } = rows(experiment, all, bases, under);
    let base = &bases[0];
    let mut what_if = vec![row(base, "baseline", "as the host's kernel has it", base)];
    what_if.extend(under);
    what_if.push(perfect(base));
    ProcessResult {
        machines: rows::machines(&experiment.machines, bases, None, &[]),
        advice: advice(&kernels, &experiment.machines[0].name, short(&header.program)),
        attribution: Attribution { groups: groups.clone(), ..Attribution::default() },
        what_if,
        kernels,
        ..followed(header, ending)
    }
}

/// What kernels came to.
#[derive(Default)]
pub struct Rows {
    /// Each machine under the host's kernel and under the others.
    pub kernels: Vec<KernelResult>,
    /// The first machine under the others, beside the host's.
    pub under: Vec<WhatIf>,
}

/// Rows of all kernels; none where there is none. `bases`: the machines under the host's kernel; `under`: what is under
/// `all`, in order.
pub fn rows(experiment: &Experiment, all: &[Under], bases: &[DesignCounts], under: &[DesignCounts]) -> Rows {
    if all.is_empty() {
        return Rows::default();
    }
    let mut rows = Rows::default();
    for (index, (machine, base)) in experiment.machines.iter().zip(bases).enumerate() {
        let kernel = |policy: &str, metrics: Metrics| KernelResult {
            machine: machine.name.clone(),
            policy: policy.to_owned(),
            class: "modelled".to_owned(),
            metrics,
            memory: Vec::new(),
        };
        rows.kernels.push(kernel("host", metrics(base)));
        for (of, counts) in all.iter().zip(under).filter(|(of, _)| of.machine == index) {
            let mut metrics = metrics(counts);
            add_promotions(&mut metrics, counts, machine);
            rows.kernels.push(KernelResult { memory: memory(counts), ..kernel(&of.policy, metrics) });
            // Where it was killed, it cannot be compared with the whole run.
            if index == 0 && !was_killed(counts) {
                rows.under.push(row(&bases[0], "kernel", &of.policy, counts));
            }
        }
    }
    rows
}

fn was_killed(counts: &DesignCounts) -> bool {
    counts.kernel.is_some_and(|kernel| kernel.killed.is_some())
}

/// Memory over time.
fn memory(counts: &DesignCounts) -> Vec<MemoryPoint> {
    let point = |sample: &MemorySample| MemoryPoint {
        instructions: sample.instructions,
        backed_bytes: sample.backed_bytes,
        touched_bytes: sample.touched_bytes,
    };
    counts.memory_samples.iter().map(point).collect()
}

/// Superpages built, by size.
fn add_promotions(metrics: &mut Metrics, counts: &DesignCounts, machine: &MachineSpec) {
    let Some(kernel) = &counts.kernel else { return };
    for (order, &built) in (0u32..).zip(&kernel.counts.promotions).filter(|&(_, &built)| built > 0) {
        if let Some(size) = PageSize::from_shift(machine.paging.base().shift() + order) {
            record_count(metrics, format!("kernel.promotions.{size}"), built);
        }
    }
}

fn row(base: &DesignCounts, id: &str, title: &str, counts: &DesignCounts) -> WhatIf {
    let memory_price_mib = counts.untouched_bytes as f64 / f64::from(1 << 20);
    WhatIf { memory_price_mib, ..modelled(base, id, title, counts) }
}

/// Which kernel costs least in all, translation and its work together, where the program ran to its end. The host's
/// work is not counted, so the host is compared by translation alone.
fn advice(kernels: &[KernelResult], machine: &str, program: &str) -> String {
    let value = |row: &KernelResult, name: &str| row.metrics.get(name).map_or(0.0, |value| value.as_f64());
    let cost = |row: &KernelResult| value(row, "tlb_mcpi");
    let translation = |row: &KernelResult| {
        let instructions = value(row, "instructions").max(1.0);
        cost(row) - value(row, "kernel.cycles") / instructions
    };
    let ended = |row: &&KernelResult| row.machine == machine && !row.metrics.contains_key("kernel.killed_at");
    let (host, others): (Vec<&KernelResult>, Vec<_>) =
        kernels.iter().filter(ended).partition(|row| row.policy == "host");
    let Some(best) = others.into_iter().min_by(|a, b| cost(a).total_cmp(&cost(b))) else {
        return String::new();
    };
    let of_host = host.first().map_or(String::new(), |host| {
        format!(
            " Translation alone costs {:.4} under it, and {:.4} under the host's, whose work is not counted.",
            translation(best),
            translation(host)
        )
    });
    format!(
        "Of these kernels, {} costs least on {machine} for {program}: {:.4} cycles an instruction, its own work \
         included.{of_host}",
        best.policy,
        cost(best)
    )
}
