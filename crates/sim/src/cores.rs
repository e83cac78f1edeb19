//! Several cores: each runs threads of its own on a private hierarchy; arrays of the last level may be shared.
//!
//! Every machine has one design for each core; only those of the core that runs are active. What the store keeps of
//! times is parked with a core that does not run, since its arrays see its references alone. A shared array belongs to
//! the design whose core runs, and moves with every switch.

use crate::attribution::{NoObserver, WalkObserver};
use crate::counts::DesignCounts;
use crate::design::{Design, DesignSpec};
use crate::error::PassError;
use crate::pass::Pass;
use crate::store::{CLASSES, PageStore};
use pagewalk_translate::{MachineSpec, WalkerSpec};
use pagewalk_units::ThreadId;

/// What belongs to a core that does not run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Core {
    /// By page.
    stamps: Vec<[u64; CLASSES]>,
    /// By unit.
    unit_stamps: [Vec<u64>; CLASSES],
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

    /// Forgets the times of a unit that is gone: its number may be given to one in another block, which some core
    /// holds.
    pub fn forget_unit(&mut self, unit: u32) {
        for stamps in self.all.iter_mut().flat_map(|core| &mut core.unit_stamps) {
            if let Some(stamp) = stamps.get_mut(unit as usize) {
                *stamp = 0;
            }
        }
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
        self.store.park(&mut self.cores.all[before]);
        self.store.resume(&mut self.cores.all[core]);
        self.active = self.cores.mask(core);
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
    fn park(&mut self, core: &mut Core) {
        core.stamps.clear();
        core.stamps.extend(self.pages.iter().map(|page| page.stamps));
        std::mem::swap(&mut self.unit_stamps, &mut core.unit_stamps);
        core.totals = self.totals;
    }

    /// Pages and units that are new since the core was parked are in none of its arrays: their times say nothing.
    fn resume(&mut self, core: &mut Core) {
        core.stamps.resize(self.pages.len(), [0; CLASSES]);
        for (page, &stamps) in self.pages.iter_mut().zip(&core.stamps) {
            page.stamps = stamps;
        }
        std::mem::swap(&mut self.unit_stamps, &mut core.unit_stamps);
        for stamps in &mut self.unit_stamps {
            stamps.resize(self.units.len().max(stamps.len()), 0);
        }
        self.totals = core.totals;
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
    let once =
        |counts: &DesignCounts| counts.cycles.total - (counts.cycles.walk + counts.cycles.lower_hit) as f64;
    let instructions = once(&sum);
    for core in cores {
        sum.add_core(&core);
    }
    sum.cycles.total = instructions + (sum.cycles.walk + sum.cycles.lower_hit) as f64;
    sum
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
        for (sum, own) in self.caches.iter_mut().zip(&core.caches) {
            sum.counts.lookups += own.counts.lookups;
            sum.counts.hits += own.counts.hits;
        }
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
        self.cycles.walk += core.cycles.walk;
        self.cycles.lower_hit += core.cycles.lower_hit;
    }
}
