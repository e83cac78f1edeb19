//! `pagewalk simulate --os POLICY`, and machines whose files have an `[os]`: one process under several kernels, which
//! build superpages as it runs.

use crate::command::profile::Study;
use crate::error::{CliError, Code};
use crate::findings::short;
use crate::machine;
use crate::process::{Ending, follow_ahead};
use pagewalk_mm::{Kernel, MemorySample, OsSpec, ThpMode};
use pagewalk_report::schema::{
    Attribution, Heat, KernelResult, MachineResult, MemoryPoint, Metrics, Number, ProcessResult, WhatIf,
};
use pagewalk_sim::{DesignCounts, DesignSpec, HostKernel, NoObserver, Pass, held_orders};
use pagewalk_sweep::metrics;
use pagewalk_trace::{Source, StreamHeader};
use pagewalk_translate::MachineSpec;
use pagewalk_units::PageSize;

/// Kernels from the command line.
pub fn kernels(texts: &[String]) -> Result<Vec<OsSpec>, CliError> {
    let parse = |text: &String| {
        let mut os = OsSpec::from_text(text).map_err(|e| usage(&e))?;
        os.read_files(|path| std::fs::read_to_string(path)).map_err(|e| usage(&e))?;
        Ok(os)
    };
    texts.iter().map(parse).collect()
}

fn usage(error: &dyn std::fmt::Display) -> CliError {
    CliError::new(Code::Usage, error).or("docs/kernel-policies.md lists policies and their keys")
}

/// A machine under one of the kernels.
struct Under {
    /// Which machine of the study.
    machine: usize,
    policy: String,
    kernel: Kernel,
}

/// Each machine under the kernel of its own file and those of the command line.
fn all_kernels(study: &Study) -> Result<Vec<Under>, CliError> {
    let mut all = Vec::new();
    for (index, machine) in study.machines.iter().enumerate() {
        let own = machine::kernel(machine).map_err(|e| usage(&e))?;
        all.extend(own.map(|(os, kernel)| Under { machine: index, policy: os.name, kernel }));
        for os in &study.kernels {
            let kernel = os.kernel(machine.paging, held_orders(machine)).map_err(|e| usage(&e))?;
            all.push(Under { machine: index, policy: os.name.clone(), kernel });
        }
    }
    Ok(all)
}

/// Machines, each under the host's kernel, and all of `kernels`, in one pass.
fn pass(study: &Study, kernels: &[Under], thp: ThpMode) -> Result<Pass, CliError> {
    let host = HostKernel::new(thp);
    let mut designs: Vec<DesignSpec> = study.machines.iter().map(|machine| host.design(machine)).collect();
    designs.extend(kernels.iter().map(|under| {
        let machine = &study.machines[under.machine];
        DesignSpec::with_kernel(under.policy.clone(), machine, under.kernel.clone())
    }));
    Pass::new(designs, NoObserver).map_err(|e| {
        CliError::new(Code::Usage, e).or("give a machine whose TLBs hold these pages, or other policies")
    })
}

/// Checks that the kernels can work on the machines.
pub fn check(study: &Study) -> Result<(), CliError> {
    pass(study, &all_kernels(study)?, ThpMode::Never).map(drop)
}

/// Follows `source` to its end.
pub fn stream<S: Source + Send>(study: &Study, source: S) -> (ProcessResult, Ending) {
    let header = source.header().clone();
    let thp = machine::thp(study.model.thp, &header.thp);
    let kernels = all_kernels(study).expect("the study was checked");
    let mut pass = pass(study, &kernels, thp).expect("the study was checked");
    let ending = follow_ahead(source, &study.region, &mut pass);
    (result(study, &header, &kernels, &pass.finish(), &ending), ending)
}

fn result(
    study: &Study,
    header: &StreamHeader,
    all: &[Under],
    counts: &[DesignCounts],
    ending: &Ending,
) -> ProcessResult {
    let (bases, under) = counts.split_at(study.machines.len());
    let machines = study.machines.iter().zip(bases);
    let machines = machines
        .map(|(machine, counts)| MachineResult { name: machine.name.clone(), metrics: metrics(counts) });
    let mut kernels = Vec::new();
    let base = &bases[0];
    let mut what_if = vec![row(base, "baseline", "as the host's kernel has it", "modelled", base)];
    for (index, (machine, base)) in study.machines.iter().zip(bases).enumerate() {
        let kernel = |policy: &str, metrics: Metrics| KernelResult {
            machine: machine.name.clone(),
            policy: policy.to_owned(),
            class: "modelled".to_owned(),
            metrics,
            memory: Vec::new(),
        };
        kernels.push(kernel("host", metrics(base)));
        for (of, counts) in all.iter().zip(under).filter(|(of, _)| of.machine == index) {
            let mut metrics = metrics(counts);
            add_promotions(&mut metrics, counts, machine);
            kernels.push(KernelResult { memory: memory(counts), ..kernel(&of.policy, metrics) });
            // Where it was killed, it cannot be compared with the whole run.
            if index == 0 && !was_killed(counts) {
                what_if.push(row(base, "kernel", &of.policy, "modelled", counts));
            }
        }
    }
    what_if.push(super::compared(base, "perfect_tlb", "a perfect TLB", "bound", 0, 0));
    ProcessResult {
        pid: header.pid,
        parent: header.parent,
        origin: "kernels".to_owned(),
        program: header.program.clone(),
        command_line: header.arguments.clone(),
        ended: ending.describe(),
        losses: ending.losses.clone(),
        machines: machines.collect(),
        advice: advice(&kernels, &study.machines[0].name, short(&header.program)),
        attribution: Attribution::default(),
        heat: Heat::default(),
        reach: Vec::new(),
        what_if,
        kernels,
    }
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
            metrics.insert(format!("kernel.promotions.{size}"), Number::Count(built));
        }
    }
}

fn row(base: &DesignCounts, id: &str, title: &str, class: &str, counts: &DesignCounts) -> WhatIf {
    let memory_price_mib = counts.untouched_bytes as f64 / f64::from(1 << 20);
    let row = super::compared(base, id, title, class, counts.walks(), counts.cycles.walk);
    WhatIf { memory_price_mib, ..row }
}

/// What costs least in all, translation and the kernel's work together, where the program ran to its end.
fn advice(kernels: &[KernelResult], machine: &str, program: &str) -> String {
    let cost = |row: &KernelResult| row.metrics.get("tlb_mcpi").map_or(0.0, |value| value.as_f64());
    let ended = |row: &&KernelResult| row.machine == machine && !row.metrics.contains_key("kernel.killed_at");
    let mut rows: Vec<&KernelResult> = kernels.iter().filter(ended).collect();
    let host = rows.first().map_or(0.0, |row| cost(row));
    rows.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
    let Some(best) = rows.first() else { return String::new() };
    match best.policy.as_str() {
        "host" => format!(
            "None of these kernels beats the host's on {machine} for {program}: translation costs {host:.4} cycles an \
             instruction under it."
        ),
        policy => format!(
            "On {machine}, translation of {program} costs least under {policy}: {:.4} cycles an instruction, the \
             kernel's own work included, against {host:.4} under the host's.",
            cost(best)
        ),
    }
}
