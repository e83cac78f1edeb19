//! Several cores: each runs its own threads on a private hierarchy; arrays of the last level may be shared.
//!
//! Every machine has one design per core; only the running core's designs are active. A core's arrays see its own
//! references only, so the times of what they hold must be its own too: a parked core keeps them. All other times may
//! be another core's. They are earlier than the core's next references, so no array that fills a page relies on them. A
//! shared array belongs to the running core's design, and moves with every switch.

use crate::classes::CLASSES;
use crate::deal::Deal;
use crate::design::first_level::resident;
use crate::store::PageStore;
use crate::store::entry::EntryId;
use pagewalk_units::ThreadId;

/// The state of a core that does not run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Core {
    /// For each page or unit in its arrays, the times by class.
    times: Vec<(EntryId, u32, [u64; CLASSES])>,
    /// References by class.
    pub totals: [u64; CLASSES],
}

/// The cores of a pass and their threads.
#[derive(Clone, Debug)]
pub(crate) struct Cores {
    pub all: Vec<Core>,
    pub runs: usize,
    threads: Deal<ThreadId>,
    /// Designs per core.
    pub designs: usize,
}

impl Cores {
    /// `count` cores with `designs` each; the first runs.
    pub fn new(count: usize, designs: usize) -> Cores {
        Cores { all: vec![Core::default(); count], runs: 0, threads: Deal::default(), designs }
    }

    /// The designs of a core, one bit each.
    pub fn mask(&self, core: usize) -> u64 {
        (u64::MAX >> (u64::BITS as usize - self.designs)) << (core * self.designs)
    }

    /// The core on which a thread runs.
    pub fn of(&mut self, thread: ThreadId) -> usize {
        self.threads.core_of(thread, self.all.len())
    }
}

impl PageStore {
    /// Saves the times of what the core's arrays hold.
    pub fn park(&self, core: &mut Core, all_held: impl Iterator<Item = EntryId>) {
        core.totals = self.totals;
        core.times.clear();
        for held in all_held {
            let of_unit = |&unit: &u32| (held, unit, self.unit_times(unit));
            match held {
                EntryId::Page(page) => core.times.push((held, page, self.pages[page as usize].stamps)),
                EntryId::Unit(unit) => core.times.push(of_unit(&unit)),
                EntryId::Block(block) => {
                    core.times.extend(self.blocks[block as usize].units.iter().map(of_unit))
                }
                EntryId::Super(_) => unreachable!("kernels that build superpages manage one core"),
            }
        }
    }

    /// Restores the times of what the arrays of the core's `designs` still hold.
    pub fn resume(&mut self, core: &Core, designs: u64) {
        self.totals = core.totals;
        let is_held = |held: EntryId| (0..CLASSES).any(|class| resident(self, held, class) & designs != 0);
        let kept: Vec<_> = core.times.iter().filter(|&&(held, ..)| is_held(held)).collect();
        // Only other cores have touched units created since.
        for (held, ..) in &kept {
            if let EntryId::Block(block) = *held {
                for at in 0..self.blocks[block as usize].units.len() {
                    self.set_unit_times(self.blocks[block as usize].units[at], [0; CLASSES]);
                }
            }
        }
        for &(held, id, times) in kept {
            match held {
                EntryId::Page(_) => self.pages[id as usize].stamps = times,
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
