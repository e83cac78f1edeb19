//! The counts of one design, final and exact.

use crate::attribution::WalkObserver;
use crate::caches::Memory;
use crate::classes::{CLASSES, FETCH, KINDS, LOAD, STORE};
use crate::data_side::DataSideTotals;
use crate::design::{Design, HUGE, MissCounts, SIZES, SMALL};
use crate::pass::Pass;
use crate::pass::cores::sum;
use crate::pass::software::SoftwareTotals;
use pagewalk_cache::{CacheCounts, CacheSpec, Requester};
use pagewalk_cost::{Cycles, Prices, price};
use pagewalk_mm::{Accounts, KernelCounts, Killed, MemorySample, MemoryTotals, Scope};
use pagewalk_translate::{ArrayCounts, CostSpec, MachineSpec, NestedCounts, PrefetchCounts, Walker};

/// Lookups and hits of one named array or walk cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassCounts {
    /// The array's name in its machine.
    pub name: String,
    /// TLB level; 0 for walk caches.
    pub level: u8,
    /// Times it was probed.
    pub lookups: u64,
    /// Times the entry was there.
    pub hits: u64,
}

/// What the prefetcher of one named array did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefetchTotals {
    /// The array's name in its machine.
    pub name: String,
    /// Its counts.
    pub counts: PrefetchCounts,
}

/// What one requester did in one cache of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheTotals {
    /// The cache's name in its machine.
    pub name: String,
    /// Whose accesses.
    pub requester: Requester,
    /// Their counts.
    pub counts: CacheCounts,
}

/// All counts of one design.
// Many fields: one for each kind of count; results list them by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DesignCounts {
    /// The design's name.
    pub name: String,
    /// Instructions executed.
    pub instructions: u64,
    /// Of those, how many were a thread waiting by spinning.
    pub spin_instructions: u64,
    /// Data references.
    pub data_references: u64,
    /// Fetch references: one per instruction; 0 of a data side.
    pub fetch_references: u64,
    /// Base pages touched (again after they were unmapped counts again); 0 of a data side, which meets a page when it
    /// walks for it.
    pub pages_touched: u64,
    /// Translations that its arrays were asked for, by fetches and by data references.
    pub translations: [u64; 2],
    /// TLB arrays in the machine's order.
    pub arrays: Vec<ClassCounts>,
    /// Misses of each level as a whole, level 1 first: no array of it had the page.
    pub level_misses: Vec<u64>,
    /// First-level misses that a lower level or a prefetch buffer served.
    pub lower_hits: u64,
    /// Walks by fetches.
    pub walks_fetch: u64,
    /// Walks by data references.
    pub walks_data: u64,
    /// Page-table entries read by walks.
    pub walk_references: u64,
    /// Those of a nested walker by dimension; reads for prefetches count here too.
    pub nested_walk_references: Option<NestedCounts>,
    /// Prefetchers, in the machine's order.
    pub prefetchers: Vec<PrefetchTotals>,
    /// Page-walk caches, deepest level first.
    pub walk_caches: Vec<ClassCounts>,
    /// Caches of memory by requester, in the machine's order; reads for prefetches are walks too.
    pub caches: Vec<CacheTotals>,
    /// Page-table entries that walks read from memory, where there are caches.
    pub walk_references_in_memory: Option<u64>,
    /// Most bytes that were backed and never touched at one time.
    pub untouched_bytes: u64,
    /// Of a kernel of its own.
    pub kernel: Option<KernelTotals>,
    /// Of a software-managed TLB whose page tables are mapped.
    pub software: Option<SoftwareTotals>,
    /// Of a data side.
    pub data_side: Option<Box<DataSideTotals>>,
    /// Memory over time, under a kernel of its own.
    pub memory_samples: Vec<MemorySample>,
    /// Modelled cycles, but for the kernel's.
    pub cycles: Cycles,
}

/// What a design's kernel did, and what that cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelTotals {
    /// Cycles by account.
    pub accounts: Accounts,
    /// Events.
    pub counts: KernelCounts,
    /// The physical memory at the end, if it has one.
    pub memory: Option<MemoryTotals>,
    /// How the process ended, if the kernel killed it: all counts of the design are those until then.
    pub killed: Option<Killed>,
}

impl KernelTotals {
    /// Those of two processes together.
    pub(crate) fn and(self, other: KernelTotals) -> KernelTotals {
        KernelTotals {
            accounts: self.accounts + other.accounts,
            counts: self.counts + other.counts,
            memory: self.memory.or(other.memory),
            killed: self.killed.or(other.killed),
        }
    }
}

impl DesignCounts {
    /// Walks in all.
    pub fn walks(&self) -> u64 {
        self.walks_fetch + self.walks_data
    }

    /// Tells the misses of lower levels too: what one level's arrays did not hit goes to the next. Only of all cores
    /// together, as one core's share of an array that cores share may hold more hits than its own misses.
    pub(crate) fn with_level_misses(mut self) -> DesignCounts {
        let last = self.arrays.iter().map(|array| array.level).max().unwrap_or(1);
        for level in 2..=last {
            let hits: u64 =
                self.arrays.iter().filter(|array| array.level == level).map(|array| array.hits).sum();
            self.level_misses.push(self.level_misses[self.level_misses.len() - 1] - hits);
        }
        self
    }
}

/// What a specification has below its first level.
struct Below<'a> {
    name: &'a str,
    machine: &'a MachineSpec,
    walker: &'a Walker,
    /// Of these, what walks count.
    counts: &'a MissCounts,
    lower_hits: u64,
    arrays: Vec<(usize, ArrayCounts)>,
}

impl<O: WalkObserver> Pass<O> {
    /// Ends the pass and returns the counts of every specification, in the order given.
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
        self.order.iter().map(of_machine).collect()
    }

    pub(crate) fn design_counts(&self, design: usize, sibling: Option<usize>) -> DesignCounts {
        if let Some((_, counts)) = self.killed.iter().find(|&&(killed, _)| killed == design) {
            return counts.clone();
        }
        let design = &self.designs[design];
        let misses = design.counts.first_level.map(|by_size| by_size.iter().sum::<u64>());
        let first_misses = misses.iter().sum();
        let below = match sibling {
            None => Below {
                name: &design.name,
                machine: &design.machine,
                walker: &design.walker,
                counts: &design.counts,
                lower_hits: design.counts.lower_hits,
                arrays: design.lower.counts().collect(),
            },
            Some(index) => {
                let sibling = design.siblings.get(index);
                Below {
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

    fn counts_with(&self, design: &Design, below: &Below<'_>, first_misses: u64) -> DesignCounts {
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
            instructions: self.instructions,
            spin_instructions: self.spun,
            data_references: self.data_references,
            fetch_references: self.instructions,
            pages_touched: self.pages_touched,
            translations: [lookups(FETCH), lookups(LOAD) + lookups(STORE)],
            level_misses: vec![first_misses],
            lower_hits: below.lower_hits,
            walks_fetch: counts.walks[0],
            walks_data: counts.walks[1],
            walk_references: counts.walk_references,
            nested_walk_references: below.walker.nested_entries_read(),
            prefetchers: prefetchers.collect(),
            walk_caches: walk_caches.collect(),
            caches: design.memory.iter().flat_map(|memory| cache_totals(below.machine, memory)).collect(),
            walk_references_in_memory: design.memory.as_ref().map(|memory| memory.walks_in_memory),
            untouched_bytes: match &design.os {
                Some(os) => os.kernel.counts().untouched_bytes_peak,
                None => self.untouched_bytes(design.mask()),
            },
            kernel: design.os.as_ref().map(|os| KernelTotals {
                accounts: *os.kernel.accounts(),
                counts: *os.kernel.counts(),
                memory: os.kernel.memory_totals(),
                killed: os.kernel.killed(),
            }),
            memory_samples: design.os.as_ref().map_or_else(Vec::new, |os| os.samples(self.instructions)),
            cycles: price(
                &prices(&below.machine.cost),
                self.instructions,
                below.lower_hits,
                counts.walk_cycles,
                software.as_ref().map_or(0, SoftwareTotals::trap_cycles),
            ),
            software,
            data_side: None,
            arrays,
        }
    }

    /// Lookups and hits of each TLB array. A level-1 array is probed by every reference of the kinds it
    /// serves, whatever the page's size.
    fn arrays(&self, design: &Design, below: &Below<'_>, totals: [u64; CLASSES]) -> Vec<ClassCounts> {
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
        // Siblings list their first levels in one order, among other arrays or not.
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

pub(crate) fn cache_totals(machine: &MachineSpec, memory: &Memory) -> Vec<CacheTotals> {
    let of_cache = |(index, cache): (usize, &CacheSpec)| -> Vec<CacheTotals> {
        let totals = cache.serves.iter().map(|requester| CacheTotals {
            name: cache.name.clone(),
            requester,
            counts: memory.hierarchy.counts(index, requester),
        });
        totals.collect()
    };
    machine.caches.iter().enumerate().flat_map(of_cache).collect()
}

pub(crate) fn prices(cost: &CostSpec) -> Prices {
    Prices { lower_hit: cost.l2_hit, instruction: cost.cycles_per_instruction }
}
