//! A software-managed TLB with its handlers.

use super::slots::{Part, Slots};
use super::spec::{MissClass, SoftwareSpec};
use super::tuner::Tuner;
use crate::Asid;

/// Marks keys of table pages; callers' keys are below.
const TABLE: u64 = 1 << 63;
/// Marks table pages of level 2.
const LEVEL_2: u64 = 1 << 62;
/// The position of the address space in keys of table pages.
const ASID_SHIFT: u32 = 54;

/// A request to refill a page that the TLB lacks.
#[derive(Clone, Copy, Debug)]
pub struct RefillRequest {
    /// The caller's key: unique among held pages, below [`SoftwareMmu::KEYS`].
    pub key: u64,
    /// The address space whose table has its PTE; [`Asid::GLOBAL`] for a kernel page.
    pub asid: Asid,
    /// Its number among pages of its size, which selects the set.
    pub number: u64,
    /// The number of the requested base page. A superpage has equal PTEs for all its base pages.
    pub base: u64,
    /// Whether it is a kernel page.
    pub kernel: bool,
}

/// An entry on its way into the TLB.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub class: MissClass,
    pub key: u64,
    /// Selects the set.
    pub number: u64,
    /// The index of its PTE in the address space's table.
    pub pte: u64,
    pub asid: Asid,
}

impl From<RefillRequest> for Entry {
    fn from(page: RefillRequest) -> Entry {
        let class = if page.kernel { MissClass::L1k } else { MissClass::L1u };
        Entry { class, key: page.key, number: page.number, pte: page.base, asid: page.asid }
    }
}

impl Entry {
    /// The table page of its PTE, if the system maps it.
    pub fn table(self, spec: &SoftwareSpec) -> Option<Entry> {
        let number = self.pte >> spec.entries_shift;
        let (class, level, levels) = match self.class {
            MissClass::L1u => (MissClass::L2, 0, 2),
            MissClass::L1k | MissClass::L2 => (MissClass::L3, LEVEL_2, 3),
            _ => return None,
        };
        let key = TABLE | level | (self.asid.index() as u64) << ASID_SHIFT | number;
        (spec.system.tables >= levels).then_some(Entry { class, key, number, pte: number, asid: self.asid })
    }

    /// The part of the TLB for it.
    pub fn part(self, spec: &SoftwareSpec) -> Part {
        if spec.placement.is_below(self.class) { Part::Lower } else { Part::Upper }
    }

    /// Whether it is a caller's key.
    pub fn is_page(key: u64) -> bool {
        key < SoftwareMmu::KEYS
    }
}

/// The cost of a miss, and the pages that it evicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refill {
    /// PTEs loaded, one per handler run.
    pub references: u32,
    /// Cycles of all handler runs.
    pub cycles: u64,
    /// Evicted keys, at most one per new entry.
    evicted: [Option<u64>; 3],
}

impl Refill {
    /// The evicted pages, without table pages.
    pub fn evicted(&self) -> impl Iterator<Item = u64> + use<> {
        self.evicted.into_iter().flatten()
    }
}

/// Counts and cycles by class, in the order of [`MissClass::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SoftwareCounts {
    /// Events.
    pub misses: [u64; MissClass::COUNT],
    /// Their cycles; 0 for a class without a price.
    pub cycles: [u64; MissClass::COUNT],
}

impl SoftwareCounts {
    /// Events of one class.
    pub fn of(&self, class: MissClass) -> u64 {
        self.misses[class as usize]
    }

    /// Cycles of all classes.
    pub fn total_cycles(&self) -> u64 {
        self.cycles.iter().fold(0, |sum, &cycles| sum.saturating_add(cycles))
    }

    /// Adds other counts.
    pub fn add(&mut self, other: &SoftwareCounts) {
        for (sum, own) in self.misses.iter_mut().zip(other.misses) {
            *sum += own;
        }
        for (sum, own) in self.cycles.iter_mut().zip(other.cycles) {
            *sum = sum.saturating_add(own);
        }
    }

    /// Counts events of a class at its price; returns their cycles.
    pub fn charge(&mut self, spec: &SoftwareSpec, class: MissClass, events: u64) -> u64 {
        let cycles = spec.system.cycles[class as usize].unwrap_or(0).saturating_mul(events);
        self.misses[class as usize] += events;
        self.cycles[class as usize] = self.cycles[class as usize].saturating_add(cycles);
        cycles
    }

    /// The first class with events and no price.
    pub fn unpriced(&self, spec: &SoftwareSpec) -> Option<MissClass> {
        let is = |&class: &MissClass| {
            self.misses[class as usize] > 0 && spec.system.cycles[class as usize].is_none()
        };
        MissClass::ALL.into_iter().find(is)
    }
}

/// The TLB, its handlers, and their counts.
#[derive(Clone, Debug)]
pub struct SoftwareMmu {
    spec: SoftwareSpec,
    slots: Slots,
    counts: SoftwareCounts,
    tuner: Option<Tuner>,
    /// The instruction at which the tuner's time is stopped, while it is.
    stopped: Option<u64>,
}

impl SoftwareMmu {
    /// Callers' keys are below this.
    pub const KEYS: u64 = TABLE;

    /// An empty TLB.
    pub fn new(spec: &SoftwareSpec) -> SoftwareMmu {
        SoftwareMmu {
            slots: spec.slots(),
            counts: SoftwareCounts::default(),
            tuner: spec.tuning.map(|tuning| Tuner::new(tuning, spec.lower)),
            stopped: None,
            spec: spec.clone(),
        }
    }

    /// Whether a page is held.
    pub fn contains(&self, key: u64) -> bool {
        self.slots.contains(key)
    }

    /// The held pages, without table pages, slot by slot.
    pub fn pages(&self) -> impl Iterator<Item = u64> + '_ {
        self.slots.keys().filter(|&key| Entry::is_page(key))
    }

    /// Stops the tuner's time at an instruction, or resumes it: the partition moves in the programs' time, but visitors
    /// miss too.
    pub fn stop_time(&mut self, at: Option<u64>) {
        self.stopped = at;
    }

    /// Serves the miss of a page, with its nested misses.
    pub fn refill(&mut self, page: RefillRequest, instructions: u64) -> Refill {
        let mut done = Refill::default();
        self.serve(page.into(), &mut done);
        if let Some(tuner) = &mut self.tuner {
            let misses = u64::from(done.references);
            let now = self.stopped.unwrap_or(instructions);
            if let Some(border) = tuner.note(misses, done.cycles, now) {
                self.slots.set_border(border as usize);
            }
        }
        done
    }

    fn serve(&mut self, entry: Entry, done: &mut Refill) {
        let place = done.references as usize;
        done.references += 1;
        done.cycles = done.cycles.saturating_add(self.counts.charge(&self.spec, entry.class, 1));
        if let Some(table) = entry.table(&self.spec).filter(|table| !self.slots.contains(table.key)) {
            self.serve(table, done);
        }
        let gone = self.slots.insert(entry.part(&self.spec), entry.number, entry.key);
        done.evicted[place] = gone.filter(|&key| Entry::is_page(key));
    }

    /// Inserts a missing page whose miss was served already. Returns the evicted page.
    pub fn put(&mut self, page: RefillRequest) -> Option<u64> {
        let entry = Entry::from(page);
        let gone = self.slots.insert(entry.part(&self.spec), entry.number, entry.key);
        gone.filter(|&key| Entry::is_page(key))
    }

    /// Counts a class that depends on no TLB.
    pub fn count(&mut self, class: MissClass) {
        self.counts.charge(&self.spec, class, 1);
    }

    /// Drops a page; false if it is not held.
    pub fn remove(&mut self, key: u64) -> bool {
        self.slots.remove(key)
    }

    /// Its counts.
    pub fn counts(&self) -> &SoftwareCounts {
        &self.counts
    }

    /// Its specification.
    pub fn spec(&self) -> &SoftwareSpec {
        &self.spec
    }

    /// Slots below the partition now.
    pub fn lower(&self) -> u32 {
        self.slots.border() as u32
    }

    /// The instruction of each move of the partition, and the slots below it from then on; empty if it does not move.
    pub fn moves(&self) -> &[(u64, u32)] {
        self.tuner.as_ref().map_or(&[], Tuner::moves)
    }
}

impl SoftwareSpec {
    /// Its slots, empty.
    pub(super) fn slots(&self) -> Slots {
        let ways = (self.ways < self.slots).then_some(self.ways as usize);
        let replacement = [self.lower_replacement, self.upper_replacement];
        Slots::new(self.slots as usize, self.lower as usize, ways, replacement)
    }
}
