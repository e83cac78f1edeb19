//! Several cores: each runs threads of its own on a private hierarchy; arrays of the last level may be shared.
//!
//! Every machine has one design for each core; only those of the core that runs are active. Its arrays see its own
//! references alone, so the times of what they hold must be its own too: these are kept for a core that does not run.
//! All other times may be another core's. They are earlier than whatever the core itself references next, so no array
//! that fills a page goes by them. A shared array belongs to the design whose core runs, and moves with every switch.

use crate::attribution::{NoObserver, WalkObserver};
use crate::bits::bits;
use crate::classes::CLASSES;
use crate::counts::{CacheTotals, DesignCounts};
use crate::design::first_level::{FirstLevel, resident};
use crate::design::{Design, DesignSpec};
use crate::error::PassError;
use crate::pass::Pass;
use crate::store::PageStore;
use crate::store::held::Held;
use pagewalk_cost::Cycles;
use pagewalk_trace::Batch;
use pagewalk_translate::{MachineSpec, WalkerSpec};
use pagewalk_units::ThreadId;

/// What belongs to a core that does not run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Core {
    /// Of what its arrays hold, the times of each page or unit by class.
    times: Vec<(Held, u32, [u64; CLASSES])>,
    /// References by class.
    pub totals: [u64; CLASSES],
}

/// The cores of a pass and who runs where.
#[derive(Clone, Debug)]
pub(crate) struct Cores {
    pub all: Vec<Core>,
    pub runs: usize,
    /// In order of appearance: each has the core that follows the last one's, from the first again after the last.
    threads: Vec<ThreadId>,
    /// Designs of each.
    pub designs: usize,
}

impl Cores {
    /// `count` cores with so many designs each; the first runs.
    pub fn new(count: usize, designs: usize) -> Cores {
        Cores { all: vec![Core::default(); count], runs: 0, threads: Vec::new(), designs }
    }

    /// The designs of a core: a bit each.
    pub fn mask(&self, core: usize) -> u64 {
        (u64::MAX >> (u64::BITS as usize - self.designs)) << (core * self.designs)
    }

    fn of(&mut self, thread: ThreadId) -> usize {
        let known = self.threads.iter().position(|&other| other == thread);
        let number = known.unwrap_or_else(|| {
            self.threads.push(thread);
            self.threads.len() - 1
        });
        number % self.all.len()
    }
}

impl Pass<NoObserver> {
    /// A pass over machines of `cores` cores each: threads run on them in order of appearance, from the first core
    /// again after the last. Cores would share what lies in memory, so machines whose tables or caches are simulated
    /// there (hashed tables, nested walks, `[[cache]]`) can have one core only.
    pub fn with_cores(specs: Vec<DesignSpec>, cores: usize) -> Result<Pass, PassError> {
        let alone = |machine: &MachineSpec| {
            let registers_only = matches!(machine.walker, WalkerSpec::Radix(_) | WalkerSpec::Software);
            !registers_only || !machine.caches.is_empty()
        };
        match specs.iter().find(|spec| cores > 1 && alone(&spec.machine)) {
            Some(spec) => Err(PassError::OneCore(spec.machine.name.clone())),
            None => Pass::build(specs, cores.max(1), NoObserver),
        }
    }

    /// Counts of one core for every specification, in the order given. An array that cores share is counted for the
    /// core that used it last, so misses are told of the first level only.
    pub fn core_counts(&self, core: usize) -> Vec<DesignCounts> {
        let first = core * self.cores.designs;
        self.order.iter().map(|&(design, sibling)| self.design_counts(first + design, sibling)).collect()
    }
}

impl<O: WalkObserver> Pass<O> {
    /// Runs the spans `spans` of a batch, on the core of its thread.
    pub(crate) fn run_on_core(&mut self, batch: &Batch<'_>, spans: std::ops::Range<usize>) {
        if self.cores.all.len() > 1 {
            self.run_thread(batch.thread);
        }
        self.run(batch, spans);
    }

    /// From now on `thread` runs.
    pub(crate) fn run_thread(&mut self, thread: ThreadId) {
        let core = self.cores.of(thread);
        if core == self.cores.runs {
            return;
        }
        self.settle();
        for unit in 0..self.store.units.len() {
            self.store.settle_unit(unit as u32);
        }
        let before = std::mem::replace(&mut self.cores.runs, core);
        let held = bits(self.cores.mask(before)).flat_map(|design| &self.designs[design].first);
        self.store.park(&mut self.cores.all[before], held.flat_map(FirstLevel::held));
        self.active = self.cores.mask(core);
        self.store.resume(&self.cores.all[core], self.active);
        self.store.credited = self.active;
        self.store.forget_latest();
        for design in 0..self.cores.designs {
            let [from, to] = [before, core].map(|core| core * self.cores.designs + design);
            let [from, to] =
                self.designs.get_disjoint_mut([from, to]).expect("two cores have no design in common");
            from.give_shared(to);
        }
    }

    /// References by class that a core's arrays have seen.
    pub(crate) fn totals_of(&self, core: usize) -> [u64; CLASSES] {
        if core == self.cores.runs { self.store.totals } else { self.cores.all[core].totals }
    }
}

impl PageStore {
    /// Keeps the times of what the core's arrays hold.
    fn park(&self, core: &mut Core, all_held: impl Iterator<Item = Held>) {
        core.totals = self.totals;
        core.times.clear();
        for held in all_held {
            let of_unit = |&unit: &u32| (held, unit, self.unit_times(unit));
            match held {
                Held::Page(page) => core.times.push((held, page, self.pages[page as usize].stamps)),
                Held::Unit(unit) => core.times.push(of_unit(&unit)),
                Held::Block(block) => {
                    core.times.extend(self.blocks[block as usize].units.iter().map(of_unit))
                }
                Held::Super(_) => unreachable!("kernels that build superpages manage one core"),
            }
        }
    }

    /// Makes times the core's again, of what the arrays of its `designs` hold still.
    fn resume(&mut self, core: &Core, designs: u64) {
        self.totals = core.totals;
        let is_held = |held: Held| (0..CLASSES).any(|class| resident(self, held, class) & designs != 0);
        let kept: Vec<_> = core.times.iter().filter(|&&(held, ..)| is_held(held)).collect();
        // Units that are new since were touched by other cores only.
        for (held, ..) in &kept {
            if let Held::Block(block) = *held {
                for at in 0..self.blocks[block as usize].units.len() {
                    self.set_unit_times(self.blocks[block as usize].units[at], [0; CLASSES]);
                }
            }
        }
        for &(held, id, times) in kept {
            match held {
                Held::Page(_) => self.pages[id as usize].stamps = times,
                _ => self.set_unit_times(id, times),
            }
        }
    }

    fn unit_times(&self, unit: u32) -> [u64; CLASSES] {
        self.unit_stamps.each_ref().map(|stamps| stamps[unit as usize])
    }

    fn set_unit_times(&mut self, unit: u32, times: [u64; CLASSES]) {
        for (stamps, time) in self.unit_stamps.iter_mut().zip(times) {
            stamps[unit as usize] = time;
        }
    }
}

impl Design {
    /// Hands the arrays that all cores share to the same machine's design for another core.
    fn give_shared(&mut self, to: &mut Design) {
        self.lower.swap_shared(&mut to.lower);
        for (own, other) in self.prefetchers.iter_mut().zip(&mut to.prefetchers) {
            if self.machine.tlbs[own.array].shared {
                std::mem::swap(own, other);
            }
        }
        self.siblings.give_shared(&mut to.siblings);
    }
}

/// The counts of all cores together. What a pass counts once, such as instructions, is the same in each.
pub(crate) fn sum(cores: Vec<DesignCounts>) -> DesignCounts {
    let mut cores = cores.into_iter();
    let mut sum = cores.next().expect("there is a core");
    let translation = |cycles: &Cycles| cycles.walk as f64 + cycles.lower_hit as f64 + cycles.traps as f64;
    let instructions = sum.cycles.total - translation(&sum.cycles);
    for core in cores {
        sum.add_core(&core);
    }
    sum.cycles.total = instructions + translation(&sum.cycles);
    sum
}

/// Adds another core's caches of memory.
pub(crate) fn add_caches(sum: &mut [CacheTotals], own: &[CacheTotals]) {
    for (sum, own) in sum.iter_mut().zip(own) {
        sum.counts.lookups += own.counts.lookups;
        sum.counts.hits += own.counts.hits;
    }
}

impl DesignCounts {
    fn add_core(&mut self, core: &DesignCounts) {
        let classes = self.arrays.iter_mut().chain(&mut self.walk_caches);
        for (sum, own) in classes.zip(core.arrays.iter().chain(&core.walk_caches)) {
            sum.lookups += own.lookups;
            sum.hits += own.hits;
        }
        for (sum, own) in self.level_misses.iter_mut().zip(&core.level_misses) {
            *sum += own;
        }
        for (sum, own) in self.prefetchers.iter_mut().zip(&core.prefetchers) {
            sum.counts.issued += own.counts.issued;
            sum.counts.useful += own.counts.useful;
            sum.counts.walk_references += own.counts.walk_references;
        }
        add_caches(&mut self.caches, &core.caches);
        if let (Some(sum), Some(own)) = (&mut self.nested_walk_references, &core.nested_walk_references) {
            sum.guest += own.guest;
            sum.host += own.host;
        }
        if let (Some(sum), Some(own)) = (&mut self.walk_references_in_memory, core.walk_references_in_memory)
        {
            *sum += own;
        }
        for (sum, own) in self.translations.iter_mut().zip(&core.translations) {
            *sum += own;
        }
        self.lower_hits += core.lower_hits;
        self.walks_fetch += core.walks_fetch;
        self.walks_data += core.walks_data;
        self.walk_references += core.walk_references;
        // As dear as a machine file makes them, each core's may be as many as there can be.
        self.cycles.traps = self.cycles.traps.saturating_add(core.cycles.traps);
        if let (Some(sum), Some(own)) = (&mut self.software, &core.software) {
            sum.add(own);
        }
        self.cycles.walk = self.cycles.walk.saturating_add(core.cycles.walk);
        self.cycles.lower_hit = self.cycles.lower_hit.saturating_add(core.cycles.lower_hit);
    }
}
