//! The counts of a system.

use super::process::{Memory, Process};
use super::tlbs::Tlbs;
use super::{Core, System};
use crate::classes::{FETCH, LOAD, STORE};
use crate::counts::{
    ClassCounts, DataSideTotals, DesignCounts, KernelTotals, PrefetchTotals, SoftwareTotals, add_caches,
    prices, sum,
};
use crate::data_side::SideOf;
use crate::untouched::most_at_once;
use pagewalk_cost::Cycles;
use pagewalk_mm::{Kernel, MemorySample};
use pagewalk_translate::{Asid, DataSide};

impl System {
    /// All counts so far.
    pub fn counts(&self) -> DesignCounts {
        self.killed.as_deref().cloned().unwrap_or_else(|| self.count())
    }

    /// Counts of one core. A shared array counts for the core that used it last, so misses cover the first level only.
    pub fn core_counts(&self, core: usize) -> DesignCounts {
        let core = &self.cores[core];
        // Counts of memory and of a segment are for all cores together.
        if self.is_side() { self.of_sides(&[core], &[]) } else { self.of_core(&core.tlbs) }
    }

    /// Counts of cores that are data sides, with their processes.
    fn of_sides(&self, cores: &[&Core], processes: &[SideOf<'_>]) -> DesignCounts {
        let mut sides = cores.iter().filter_map(|core| core.tlbs.side()).map(DataSide::counts);
        let mut counts = sides.next().expect("cores are data sides");
        sides.for_each(|of_core| counts.add(&of_core));
        let executed = (self.clock.instructions, self.clock.data_references);
        let totals = DataSideTotals::new(self.machine(), counts, executed, processes);
        let walked = cores.iter().map(|core| core.tlbs.counts.walk_cycles);
        let walked = walked.fold(0u64, u64::saturating_add);
        let price = self.machine().side_walk_cycles();
        // A segment reduces walks.
        let walk_cycles = price.map_or(walked, |price| price.saturating_mul(totals.counts.walks));
        let in_memory = cores.iter().filter_map(|core| core.tlbs.memory_counts());
        let mut caches = cores[0].tlbs.caches();
        for own in cores[1..].iter().map(|core| core.tlbs.caches()) {
            add_caches(&mut caches, &own);
        }
        let memory = in_memory.reduce(|mut sum, own| {
            sum.add(own);
            sum
        });
        let side = DesignCounts::of_data_side(self.spec.name.clone(), totals, walk_cycles);
        let waited = memory.map_or(0, |memory| memory.stall_cycles);
        DesignCounts {
            spin_instructions: self.clock.spun,
            caches,
            memory,
            cycles: Cycles { memory: waited, ..side.cycles },
            untouched_bytes: if self.spec.kernel.is_some() { self.untouched_bytes() } else { 0 },
            kernel: self.kernel_totals(),
            memory_samples: self.samples(),
            ..side
        }
    }

    pub(super) fn count(&self) -> DesignCounts {
        if self.is_side() {
            return self.of_sides(&self.cores.iter().collect::<Vec<_>>(), &self.sides());
        }
        let cores = self.cores.iter().map(|core| self.of_core(&core.tlbs)).collect();
        sum(cores).with_level_misses()
    }

    fn of_core(&self, tlbs: &Tlbs) -> DesignCounts {
        let machine = self.machine();
        let counts = &tlbs.counts;
        let software = SoftwareTotals::of(tlbs.as_software());
        let walk_caches = tlbs.walker().counts().into_iter().map(|(name, counts)| ClassCounts {
            name,
            level: 0,
            lookups: counts.lookups,
            hits: counts.hits,
        });
        let prefetchers = tlbs.prefetchers().iter().map(|prefetcher| PrefetchTotals {
            name: machine.tlbs[prefetcher.array].name.clone(),
            counts: prefetcher.counts(),
        });
        DesignCounts {
            name: self.spec.name.clone(),
            instructions: self.clock.instructions,
            spin_instructions: self.clock.spun,
            data_references: self.clock.data_references,
            fetch_references: self.clock.instructions,
            pages_touched: self.clock.pages_touched,
            translations: [tlbs.lookups[FETCH], tlbs.lookups[LOAD] + tlbs.lookups[STORE]],
            arrays: tlbs.arrays(),
            level_misses: vec![counts.first_level.as_flattened().iter().sum()],
            lower_hits: counts.lower_hits,
            walks_fetch: counts.walks[0],
            walks_data: counts.walks[1],
            walk_references: counts.walk_references,
            nested_walk_references: tlbs.walker().nested_entries_read(),
            prefetchers: prefetchers.collect(),
            walk_caches: walk_caches.collect(),
            caches: tlbs.caches(),
            memory: tlbs.memory_counts(),
            untouched_bytes: self.untouched_bytes(),
            kernel: self.kernel_totals(),
            memory_samples: self.samples(),
            host_misses: None,
            data_side: None,
            cycles: Cycles {
                walk: counts.walk_cycles,
                traps: software.as_ref().map_or(0, SoftwareTotals::trap_cycles),
                memory: tlbs.memory_counts().map_or(0, |memory| memory.stall_cycles),
                ..Cycles::new(&prices(&machine.cost), self.clock.instructions, counts.lower_hits)
            },
            software,
        }
    }

    /// Simulated kernels of the programs that have run, in order.
    pub(crate) fn kernels_by_process(&self) -> Vec<(Asid, &Kernel)> {
        let programs = self.processes.iter().filter(|(asid, _)| !self.visitors.contains(asid));
        let mut kernels: Vec<_> =
            programs.filter_map(|(&asid, process)| Some((asid, &process.own()?.kernel))).collect();
        kernels.sort_unstable_by_key(|&(asid, _)| asid);
        kernels
    }

    fn kernels(&self) -> impl Iterator<Item = &Kernel> {
        self.kernels_by_process().into_iter().map(|(_, kernel)| kernel)
    }

    fn untouched_bytes(&self) -> u64 {
        if self.spec.kernel.is_some() {
            return self.kernels().map(|kernel| kernel.counts().untouched_bytes_peak).max().unwrap_or(0);
        }
        let lives = |process: &Process| match &process.memory {
            Memory::Host(host) => host.lives(&process.space, self.clock.instructions),
            Memory::Own(_) => Vec::new(),
        };
        most_at_once(self.processes.values().flat_map(lives)) * self.machine().paging.base().bytes()
    }

    /// Totals of all processes' kernels; of one that did nothing if no process has run.
    fn kernel_totals(&self) -> Option<KernelTotals> {
        let idle = self.spec.kernel.as_ref().filter(|_| self.kernels().next().is_none());
        let totals = self.kernels().chain(idle).map(|kernel| KernelTotals {
            places: kernel.colors_by().is_some(),
            accounts: *kernel.accounts(),
            counts: *kernel.counts(),
            memory: None,
            killed: kernel.killed(),
        });
        let holder = self.holder.and_then(|holder| self.processes[&holder].own());
        let memory = holder.map(|own| &own.kernel).or(idle).and_then(Kernel::memory_totals);
        Some(KernelTotals { memory, ..totals.reduce(KernelTotals::and)? })
    }

    /// Memory over time, for a single process.
    fn samples(&self) -> Vec<MemorySample> {
        let mut kernels = self.kernels();
        match (kernels.next(), kernels.next()) {
            (Some(kernel), None) => {
                let mut kernel = kernel.clone();
                kernel.reached(self.clock.instructions);
                kernel.samples().to_vec()
            }
            _ => Vec::new(),
        }
    }
}
