//! The final counts of a pass.

use crate::attribution::Observer;
use crate::classes::{CLASSES, FETCH, KINDS, LOAD, STORE};
use crate::counts::{
    ClassCounts, DesignCounts, KernelTotals, MissCounts, PrefetchTotals, SoftwareTotals, prices, sum,
};
use crate::design::Design;
use crate::pass::Pass;
use crate::sizes::{HUGE, SIZES, SMALL};
use pagewalk_cost::Cycles;
use pagewalk_mm::Scope;
use pagewalk_translate::{ArrayCounts, MachineSpec, Walker};

/// A specification's part below the first level.
struct LowerPart<'a> {
    name: &'a str,
    machine: &'a MachineSpec,
    walker: &'a Walker,
    /// Its counts of misses and walks.
    counts: &'a MissCounts,
    lower_hits: u64,
    arrays: Vec<(usize, ArrayCounts)>,
}

impl<O: Observer> Pass<O> {
    /// Ends the pass and returns the counts of every specification, in order.
    pub fn finish(&mut self) -> Vec<DesignCounts> {
        self.settle();
        self.note_extents(|_| true);
        for unit in 0..self.store.units.len() {
            self.store.settle_unit(unit as u32);
        }
        let on_core = |core: usize, &(design, sibling): &(usize, Option<usize>)| {
            self.design_counts(core * self.cores.designs + design, sibling)
        };
        let of_machine =
            |of| sum((0..self.cores.all.len()).map(|core| on_core(core, of)).collect()).with_level_misses();
        self.results.order.iter().map(of_machine).collect()
    }

    pub(crate) fn design_counts(&self, design: usize, sibling: Option<usize>) -> DesignCounts {
        if let Some((_, counts)) = self.results.killed.iter().find(|&&(killed, _)| killed == design) {
            return counts.clone();
        }
        if self.is_twin(design) {
            return self.twin_counts(design);
        }
        let design = &self.designs[design];
        let misses = design.counts.first_level.map(|by_size| by_size.iter().sum::<u64>());
        let first_misses = misses.iter().sum();
        let below = match sibling {
            None => LowerPart {
                name: &design.name,
                machine: &design.machine,
                walker: &design.walker,
                counts: &design.counts,
                lower_hits: design.counts.lower_hits,
                arrays: design.lower.counts().collect(),
            },
            Some(index) => {
                let sibling = design.siblings.get(index);
                LowerPart {
                    name: &sibling.name,
                    machine: &sibling.machine,
                    walker: &sibling.walker,
                    counts: &sibling.counts,
                    lower_hits: design.siblings.lower_hits(index, first_misses),
                    arrays: design.siblings.lower_counts(index, misses),
                }
            }
        };
        self.counts_with(design, &below, first_misses)
    }

    fn counts_with(&self, design: &Design, below: &LowerPart<'_>, first_misses: u64) -> DesignCounts {
        let counts = below.counts;
        let core = if self.cores.all.len() > 1 { design.bit / self.cores.designs } else { 0 };
        let totals = self.totals_of(core);
        let arrays = self.arrays(design, below, totals);
        let lookups = |class: usize| totals[class] - design.counts.inside_huge[class];
        let walk_caches = below.walker.counts().into_iter().map(|(name, counts)| ClassCounts {
            name,
            level: 0,
            lookups: counts.lookups,
            hits: counts.hits,
        });
        let prefetchers = design.prefetchers.iter().map(|prefetcher| PrefetchTotals {
            name: design.machine.tlbs[prefetcher.array].name.clone(),
            counts: prefetcher.counts(),
        });
        let software = design.software_totals();
        DesignCounts {
            name: below.name.to_owned(),
            instructions: self.executed.instructions,
            spin_instructions: self.executed.spun,
            data_references: self.executed.data_references,
            fetch_references: self.executed.instructions,
            pages_touched: self.executed.pages_touched,
            translations: [lookups(FETCH), lookups(LOAD) + lookups(STORE)],
            level_misses: vec![first_misses],
            lower_hits: below.lower_hits,
            walks_fetch: counts.walks[0],
            walks_data: counts.walks[1],
            walk_references: counts.walk_references,
            nested_walk_references: below.walker.nested_entries_read(),
            prefetchers: prefetchers.collect(),
            walk_caches: walk_caches.collect(),
            caches: self.caches_of(design),
            memory: design.memory.as_ref().map(|memory| memory.counts),
            untouched_bytes: match &design.os {
                Some(os) => os.kernel.counts().untouched_bytes_peak,
                None => self.untouched.bytes(&self.store, design.mask(), self.executed.instructions),
            },
            kernel: design.os.as_ref().map(|os| KernelTotals {
                places: false,
                accounts: *os.kernel.accounts(),
                counts: *os.kernel.counts(),
                memory: os.kernel.memory_totals(),
                killed: os.kernel.killed(),
            }),
            memory_samples: design
                .os
                .as_ref()
                .map_or_else(Vec::new, |os| os.samples(self.executed.instructions)),
            cycles: Cycles {
                walk: counts.walk_cycles,
                traps: software.as_ref().map_or(0, SoftwareTotals::trap_cycles),
                memory: design.memory.as_ref().map_or(0, |memory| memory.counts.stall_cycles),
                ..Cycles::new(&prices(&below.machine.cost), self.executed.instructions, below.lower_hits)
            },
            software,
            host_misses: None,
            data_side: None,
            arrays,
        }
    }

    /// Lookups and hits of each TLB array. Every reference of the kinds that a level-1 array serves looks it up,
    /// whatever the page's size.
    fn arrays(&self, design: &Design, below: &LowerPart<'_>, totals: [u64; CLASSES]) -> Vec<ClassCounts> {
        let lookups = |class: usize| totals[class] - design.counts.inside_huge[class];
        let huge = |class: usize| match design.policy.scope() {
            _ if design.in_pieces => 0,
            Scope::Block if design.policy.may_be_huge() => lookups(class),
            _ => self.store.huge_refs[design.bit][class] - design.counts.inside_huge[class],
        };
        let mut arrays: Vec<ClassCounts> = below
            .machine
            .tlbs
            .iter()
            .map(|tlb| ClassCounts { name: tlb.name.clone(), level: tlb.level, lookups: 0, hits: 0 })
            .collect();
        // Siblings list their first levels in the same order, possibly among other arrays.
        let at: Vec<usize> = below.machine.level(1).map(|(index, _)| index).collect();
        for (index, tlb) in below.machine.level(1) {
            let classes = (0..CLASSES).filter(|&class| tlb.serves.has(KINDS[class]));
            arrays[index].lookups += classes.map(lookups).sum::<u64>();
        }
        let superpages = design.os.as_ref().map(|os| os.lookups(&self.store));
        for class in 0..CLASSES {
            let mut by_size = [0; SIZES];
            match &superpages {
                Some(superpages) => by_size = superpages[class],
                None => by_size[HUGE] = huge(class),
            }
            by_size[SMALL] = lookups(class) - by_size.iter().sum::<u64>();
            for (size, references) in by_size.into_iter().enumerate() {
                if let Some(array) = design.array[class][size] {
                    arrays[at[array]].hits += references - design.counts.first_level[class][size];
                }
            }
        }
        for &(index, counts) in &below.arrays {
            (arrays[index].lookups, arrays[index].hits) = (counts.lookups, counts.hits);
        }
        arrays
    }
}
