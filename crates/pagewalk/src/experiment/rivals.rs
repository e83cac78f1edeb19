//! Rivals to the machines under the host's kernel, in any arrangement: the same machines under other kernels, simulated
//! by traps, and alternatives to the first machine.

use super::kernels::{under_kernels, unfit};
use super::readings::MappingToTry;
use super::rows::modelled;
use super::spec::Experiment;
use super::traps;
use crate::error::Error;
use crate::findings::uncounted;
use crate::stream::processors;
use pagewalk_mm::{MemorySample, OsKernel, ProcessMapping, ThpMode};
use pagewalk_report::metrics::record_count;
use pagewalk_report::schema::{KernelResult, MemoryPoint, Metrics, ProcessResult, WhatIf};
use pagewalk_sim as sim;
use pagewalk_sim::{
    AlternativeKind, Arrangement, DesignCounts, DesignSpec, HostKernel, alternatives, colored_second_level,
    one_mapping,
};
use pagewalk_sweep::metrics;
use pagewalk_translate::MachineSpec;
use pagewalk_units::PageSize;

/// A machine under one of the kernels.
pub struct KernelDesign {
    /// The machine's index in the experiment.
    pub machine: usize,
    /// The kernel's name.
    pub policy: String,
    /// The kernel.
    pub kernel: OsKernel,
}

/// A kernel whose pages are spread evenly over the colors of the second-level cache.
struct RecoloredDesign {
    /// The index among the kernels of the one that it is like otherwise.
    like: usize,
    /// For people, such as `fixed:memory=1G, with page coloring for l2`.
    title: String,
    design: DesignSpec,
}

/// Kernels, then alternatives to them, then to the first machine under the host's kernel, then traps.
#[derive(Default)]
pub struct Rivals {
    /// The machines of the experiment under its kernels.
    pub kernels: Vec<KernelDesign>,
    recolored: Vec<RecoloredDesign>,
    alternatives: Vec<(AlternativeKind, DesignSpec)>,
    /// The mappings that some of them put on huge pages.
    tried: Vec<MappingToTry>,
    traps: Vec<DesignSpec>,
}

/// Counts of an arrangement.
#[derive(Clone, Copy)]
pub struct RivalCounts<'a> {
    /// Of the machines under the host's kernel.
    pub bases: &'a [DesignCounts],
    /// Of their rivals, except kernels that know the future.
    pub rivals: &'a [DesignCounts],
    /// Of those kernels.
    pub replayed: &'a [DesignCounts],
}

impl Rivals {
    /// The kernels, alternatives and traps of an experiment whose host kernel is in mode `thp`; `tried` are mappings to
    /// put on huge pages. A profile simulates alternatives to machines under the host's kernel itself.
    ///
    /// # Errors
    /// If a kernel cannot be built.
    pub fn of(experiment: &Experiment, thp: ThpMode, tried: &[MappingToTry]) -> Result<Rivals, Error> {
        let first = &experiment.machines[0];
        let mut alternatives = match experiment.has_alternatives_in_order() {
            true => alternatives(&HostKernel::new(thp).design(first), thp),
            false => Vec::new(),
        };
        alternatives.extend(tried.iter().map(|tried| one_mapping(first, thp, tried.mapping)));
        if experiment.arrangement().global_files {
            // If all pages are huge, no page belongs to a file alone, so none could be global.
            alternatives.retain(|(kind, _)| *kind != AlternativeKind::AllHuge);
        }
        let kernels = under_kernels(experiment)?;
        let recolored = if experiment.what_if { recolored(experiment, &kernels) } else { Vec::new() };
        let traps = traps::designs(experiment);
        Ok(Rivals { kernels, recolored, alternatives, tried: tried.to_vec(), traps })
    }

    /// Each of `machines` under the host's kernel, then their rivals, except kernels that replay the stream.
    ///
    /// # Errors
    /// If a design cannot be simulated in the arrangement.
    pub fn arranged(
        &self,
        experiment: &Experiment,
        machines: &[MachineSpec],
        thp: ThpMode,
        arrangement: &Arrangement,
    ) -> Result<sim::Simulation, Error> {
        let host = HostKernel::new(thp);
        let mut designs: Vec<DesignSpec> = machines.iter().map(|machine| host.design(machine)).collect();
        designs.extend(self.kernels.iter().filter_map(|under| match &under.kernel {
            OsKernel::Running(kernel) => {
                let machine = &experiment.machines[under.machine];
                Some(DesignSpec::with_kernel(under.policy.clone(), machine, (**kernel).clone()))
            }
            OsKernel::Offline(_) => None,
        }));
        designs.extend(self.recolored.iter().map(|recolored| recolored.design.clone()));
        designs.extend(self.alternatives.iter().map(|(_, design)| design.clone()));
        designs.extend(self.traps.iter().cloned());
        let simulation = sim::Simulation::new(designs, arrangement).map_err(|error| unfit(&error))?;
        Ok(simulation.on_threads(processors(), sim::Simulation::STRETCH))
    }

    /// `machines` with their rivals in the experiment's arrangement; and the first machine in `other`, without rivals.
    ///
    /// # Errors
    /// As [`Rivals::arranged`].
    pub fn with_other(
        &self,
        experiment: &Experiment,
        machines: &[MachineSpec],
        thp: ThpMode,
        other: &Arrangement,
    ) -> Result<(sim::Simulation, sim::Simulation), Error> {
        let one = Rivals::default().arranged(experiment, &machines[..1], thp, other)?;
        let all = self.arranged(experiment, machines, thp, &experiment.arrangement())?;
        Ok((all.keeping_walks(), one))
    }

    /// Adds the rows of all rivals to a process's, alternatives before the first bound.
    pub fn add_rows(&self, experiment: &Experiment, counts: RivalCounts<'_>, process: &mut ProcessResult) {
        let RivalCounts { bases, rivals, replayed } = counts;
        let (running, rest) = rivals.split_at(self.kernels.len() - replayed.len());
        let (of_recolored, rest) = rest.split_at(self.recolored.len());
        let (of_alternatives, of_traps) = rest.split_at(self.alternatives.len());
        let what_if = self.alternatives.iter().zip(of_alternatives);
        let mut what_if: Vec<WhatIf> = what_if
            .map(|((kind, _), counts)| {
                let row = uncounted(*kind, &experiment.machines[0], |of| self.names(of, process));
                self.alternative(*kind, row, &bases[0], counts)
            })
            .collect();
        if !self.kernels.is_empty() {
            let of_kernels = self.of_kernels(running, replayed);
            process.kernels = self.kernel_rows(experiment, bases, &of_kernels);
            for (at, (under, &counts)) in self.kernels.iter().zip(&of_kernels).enumerate() {
                // A killed program cannot be compared with the whole run.
                if under.machine == experiment.profiled() && !was_killed(counts) {
                    let (base, price) = (&bases[under.machine], counts.untouched_bytes);
                    what_if.push(priced(price, modelled(base, "kernel", &under.policy, counts)));
                    what_if.extend(self.recolored_row(at, counts, of_recolored));
                }
            }
        }
        let bound = process.what_if.iter().position(|row| row.class == "bound");
        let bound = bound.unwrap_or(process.what_if.len());
        process.what_if.splice(bound..bound, what_if);
        traps::add_rows(experiment, bases, of_traps, process);
    }

    /// A mapping that is tried on huge pages.
    fn tried(&self, mapping: ProcessMapping) -> &MappingToTry {
        self.tried.iter().find(|tried| tried.mapping == mapping).expect("it is one of them")
    }

    /// Its name, plain and for people.
    fn names(&self, mapping: ProcessMapping, process: &ProcessResult) -> (String, String) {
        let tried = self.tried(mapping);
        (tried.name.clone(), tried.label(&process.attribution.mappings))
    }

    /// The row of an alternative with its counts.
    fn alternative(
        &self,
        kind: AlternativeKind,
        row: WhatIf,
        base: &DesignCounts,
        counts: &DesignCounts,
    ) -> WhatIf {
        let process = match kind {
            AlternativeKind::Mapping(mapping) => self.tried(mapping).program.clone(),
            _ => None,
        };
        let price = counts.untouched_bytes.saturating_sub(base.untouched_bytes);
        let counted = priced(price, modelled(base, &row.id, &row.title, counts));
        let WhatIf { mapping, page_size, cache_level, .. } = row;
        WhatIf { mapping, process, page_size, cache_level, ..counted }
    }

    /// The counts of all kernels.
    fn of_kernels<'a>(
        &self,
        running: &'a [DesignCounts],
        replayed: &'a [DesignCounts],
    ) -> Vec<&'a DesignCounts> {
        let (mut running, mut replayed) = (running.iter(), replayed.iter());
        let of_kernel = |under: &KernelDesign| match under.kernel {
            OsKernel::Running(_) => running.next().expect("its design was simulated"),
            OsKernel::Offline(_) => replayed.next().expect("the streams were replayed for it"),
        };
        self.kernels.iter().map(of_kernel).collect()
    }

    /// Each machine under the host's kernel and the others.
    fn kernel_rows(
        &self,
        experiment: &Experiment,
        bases: &[DesignCounts],
        of_kernels: &[&DesignCounts],
    ) -> Vec<KernelResult> {
        let mut rows = Vec::new();
        for (index, (machine, base)) in experiment.machines.iter().zip(bases).enumerate() {
            rows.push(kernel(machine, "host", metrics(base)));
            let here = self.kernels.iter().zip(of_kernels).filter(|(under, _)| under.machine == index);
            rows.extend(here.map(|(under, &counts)| {
                let mut metrics = metrics(counts);
                add_promotions(&mut metrics, counts, machine);
                KernelResult { memory: memory(counts), ..kernel(machine, &under.policy, metrics) }
            }));
        }
        rows
    }

    /// The alternative to a kernel, with that kernel as its baseline, if there is one; `counts` are the kernel's.
    fn recolored_row(&self, kernel: usize, counts: &DesignCounts, all: &[DesignCounts]) -> Option<WhatIf> {
        let found = self.recolored.iter().zip(all).find(|(recolored, _)| recolored.like == kernel);
        let (recolored, otherwise) = found.filter(|(_, otherwise)| !was_killed(otherwise))?;
        let price = otherwise.untouched_bytes.saturating_sub(counts.untouched_bytes);
        let row = priced(price, modelled(counts, "recolored", &recolored.title, otherwise));
        Some(WhatIf { like: Some(self.kernels[kernel].policy.clone()), ..row })
    }
}

/// The kernels that give pages frames, on a machine where the color of a frame matters, with other frames.
fn recolored(experiment: &Experiment, kernels: &[KernelDesign]) -> Vec<RecoloredDesign> {
    let profiled = experiment.profiled();
    let machine = &experiment.machines[profiled];
    let Some(cache) = colored_second_level(machine) else { return Vec::new() };
    let of_kernel = |(like, under): (usize, &KernelDesign)| {
        let OsKernel::Running(kernel) = &under.kernel else { return None };
        let (kernel, placement) = kernel.recolored(&cache.name)?;
        let cache = kernel.colors_by().flatten().map_or_else(String::new, |cache| format!(" for {cache}"));
        let title = format!("{}, with {placement}{cache}", under.policy);
        Some(RecoloredDesign { like, design: DesignSpec::with_kernel(title.clone(), machine, kernel), title })
    };
    let on_it = kernels.iter().enumerate().filter(|(_, under)| under.machine == profiled);
    on_it.filter_map(of_kernel).collect()
}

/// A row with the memory that it backs but the program never touches.
fn priced(untouched_bytes: u64, row: WhatIf) -> WhatIf {
    WhatIf { memory_price_mib: untouched_bytes as f64 / f64::from(1 << 20), ..row }
}

fn kernel(machine: &MachineSpec, policy: &str, metrics: Metrics) -> KernelResult {
    KernelResult {
        machine: machine.name.clone(),
        policy: policy.to_owned(),
        class: "modelled".to_owned(),
        metrics,
        memory: Vec::new(),
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
            record_count(metrics, format!("kernel.promotions.{size}"), built);
        }
    }
}
