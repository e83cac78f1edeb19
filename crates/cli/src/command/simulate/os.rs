//! `pagewalk simulate --os POLICY`: one process under several kernels, which build superpages as it runs.

use crate::command::profile::Study;
use crate::error::{CliError, Code};
use crate::findings::short;
use crate::machine;
use crate::process::{Ending, follow_ahead};
use pagewalk_mm::{OsSpec, ThpMode};
use pagewalk_report::schema::{
    Attribution, Heat, KernelResult, MachineResult, Metrics, Number, ProcessResult, WhatIf,
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

/// Machines, each under the host's kernel and then under all of `kernels`, in one pass.
pub fn pass(machines: &[MachineSpec], kernels: &[OsSpec], thp: ThpMode) -> Result<Pass, CliError> {
    let host = HostKernel::new(thp);
    let mut designs: Vec<DesignSpec> = machines.iter().map(|machine| host.design(machine)).collect();
    for machine in machines {
        for os in kernels {
            let kernel = os.kernel(machine.paging, held_orders(machine)).map_err(|e| usage(&e))?;
            designs.push(DesignSpec::with_kernel(os.name.clone(), machine, kernel));
        }
    }
    Pass::new(designs, NoObserver).map_err(|e| {
        CliError::new(Code::Usage, e).or("give a machine whose TLBs hold these pages, or other policies")
    })
}

/// Follows `source` to its end.
pub fn stream<S: Source + Send>(study: &Study, source: S) -> (ProcessResult, Ending) {
    let header = source.header().clone();
    let thp = machine::thp(study.model.thp, &header.thp);
    let mut pass = pass(&study.machines, &study.kernels, thp).expect("the study was checked");
    let ending = follow_ahead(source, &study.region, &mut pass);
    (result(study, &header, &pass.finish(), &ending), ending)
}

fn result(study: &Study, header: &StreamHeader, counts: &[DesignCounts], ending: &Ending) -> ProcessResult {
    let (bases, under) = counts.split_at(study.machines.len());
    let machines = study.machines.iter().zip(bases);
    let machines = machines
        .map(|(machine, counts)| MachineResult { name: machine.name.clone(), metrics: metrics(counts) });
    let mut kernels = Vec::new();
    for ((machine, base), under) in study.machines.iter().zip(bases).zip(under.chunks(study.kernels.len())) {
        let row = |policy: &str, class: &str, metrics: Metrics| KernelResult {
            machine: machine.name.clone(),
            policy: policy.to_owned(),
            class: class.to_owned(),
            metrics,
        };
        kernels.push(row("host", "modelled", metrics(base)));
        let named = study.kernels.iter().zip(under);
        kernels.extend(named.map(|(os, counts)| {
            let mut metrics = metrics(counts);
            add_promotions(&mut metrics, counts, machine);
            row(&os.name, "modelled", metrics)
        }));
    }
    let base = &bases[0];
    let mut what_if = vec![row(base, "baseline", "as the host's kernel has it", "modelled", base)];
    let first = under.iter().take(study.kernels.len());
    what_if.extend(
        study.kernels.iter().zip(first).map(|(os, counts)| row(base, "kernel", &os.name, "modelled", counts)),
    );
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

/// What costs least in all, translation and the kernel's work together.
fn advice(kernels: &[KernelResult], machine: &str, program: &str) -> String {
    let cost = |row: &KernelResult| row.metrics.get("tlb_mcpi").map_or(0.0, |value| value.as_f64());
    let mut rows: Vec<&KernelResult> = kernels.iter().filter(|row| row.machine == machine).collect();
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
