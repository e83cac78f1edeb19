//! Recent translations, for references whose page is touched, backed and in place.
//!
//! A *repetition* of the last page of a set hits and only changes a count. Any other page of the direct-mapped table is
//! looked up in its single array. What may change a mapping, or switches the process, clears both. What only drops
//! pages from arrays, or switches the core, clears repetitions.
//!
//! A kernel that looks at times of use learns only whether a page was used since its last look. So each look clears
//! both, and the first use after it is recorded: the page is then translated anew.

use super::System;
use super::page::Page;
use crate::classes::{CLASSES, FETCH, LOAD, STORE, class_of};
use pagewalk_setassoc::Entry;
use pagewalk_trace::{Batch, Ref};
use pagewalk_translate::Asid;
use pagewalk_units::{Kind, PageSize, VirtAddr};

const SLOTS: usize = 1024;
/// Sets tracked. Arrays with more sets share them.
const SETS: usize = 64;

/// The only first-level array for pages of a size, and its classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ArrayPlace {
    pub array: u8,
    /// Bit by class.
    pub classes: u8,
}

impl ArrayPlace {
    /// The first array, for all classes.
    pub const EVERY: ArrayPlace = ArrayPlace { array: 0, classes: (1 << CLASSES) - 1 };

    pub fn serves(self, class: usize) -> bool {
        self.classes >> class & 1 == 1
    }
}

/// The only array for base pages of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BaseArray {
    pub array: u8,
    /// Sets by low bits of base page numbers; 1 if indexed otherwise, or if the array holds other pages too.
    pub sets: usize,
}

/// The translation of a base page.
#[derive(Clone, Copy)]
pub(super) struct CachedTranslation {
    pub vpn: u64,
    pub entry: Entry,
    pub place: ArrayPlace,
    /// Whether it has been stored to, so that stores need nothing more.
    pub stored: bool,
}

/// No page has this number.
const NONE: u64 = u64::MAX;

/// The last page of each set, by class: looking it up again changes nothing.
struct LastLookups {
    pages: [[u64; SETS]; CLASSES],
    masks: [u64; CLASSES],
    homes: [Option<BaseArray>; CLASSES],
    repetitions: [u64; CLASSES],
}

impl LastLookups {
    fn new(homes: [Option<BaseArray>; CLASSES]) -> LastLookups {
        let masks = homes.map(|home| home.map_or(1, |home| home.sets.min(SETS)) as u64 - 1);
        LastLookups { pages: [[NONE; SETS]; CLASSES], masks, homes, repetitions: [0; CLASSES] }
    }

    #[inline(always)]
    fn holds(&self, class: usize, vpn: u64) -> bool {
        self.pages[class][(vpn & self.masks[class]) as usize % SETS] == vpn
    }

    /// Records the lookup of a page that its array holds now; `serves`: the array serves this class.
    #[inline]
    fn looked_up(&mut self, class: usize, known: &CachedTranslation, serves: bool) {
        if self.homes[class].is_some_and(|home| home.array == known.place.array) {
            let page = &mut self.pages[class][(known.vpn & self.masks[class]) as usize % SETS];
            *page = if serves { known.vpn } else { NONE };
        }
    }

    /// Whether a data reference repeats; false also if it may reach into the next page.
    #[inline(always)]
    fn repeats(&self, record: Ref, grain: PageGrain) -> bool {
        let (address, class) = (record.address(), class_of(record.kind(), true));
        class != FETCH && grain.holds_all(address) && self.holds(class, grain.base.number(address))
    }

    /// Counts data references up to the first that may not repeat; returns their number.
    #[inline(always)]
    fn repeat(&mut self, refs: &[Ref], grain: PageGrain) -> usize {
        let repeats = |record: &&Ref| self.repeats(**record, grain);
        let mut stores = 0;
        let count = refs.iter().take_while(repeats).fold(0, |count, record| {
            stores += u64::from(class_of(record.kind(), true) == STORE);
            count + 1
        });
        self.repetitions[STORE] += stores;
        self.repetitions[LOAD] += count - stores;
        count as usize
    }
}

/// Knows of most references inside a page that they are.
#[derive(Clone, Copy)]
pub(super) struct PageGrain {
    base: PageSize,
    /// Offsets from which a reference may reach into the next page.
    end: u64,
}

impl PageGrain {
    /// For the references of a batch.
    pub fn of(base: PageSize, batch: &Batch<'_>) -> PageGrain {
        let widest = if batch.wide { base.bytes() } else { u64::from(Batch::WIDE_BYTES) - 1 };
        PageGrain { base, end: base.bytes() - widest }
    }

    /// Whether a reference lies in the page of its first byte for certain.
    #[inline(always)]
    fn holds_all(self, address: VirtAddr) -> bool {
        address.0 & (self.base.bytes() - 1) < self.end
    }
}

/// Recent translations by class.
pub(super) struct TranslationCache {
    /// Slots by group of classes, then by page.
    slots: Vec<Option<(u64, CachedTranslation)>>,
    epoch: u64,
    changes: u64,
    latest: LastLookups,
    /// The group of each class; classes that share arrays share a group.
    groups: [usize; CLASSES],
}

impl TranslationCache {
    /// An empty cache.
    pub fn new(groups: [usize; CLASSES], homes: [Option<BaseArray>; CLASSES]) -> TranslationCache {
        TranslationCache {
            slots: vec![None; CLASSES * SLOTS],
            epoch: 0,
            changes: 0,
            latest: LastLookups::new(homes),
            groups,
        }
    }

    /// Whether a reference repeats the last page of its set.
    #[inline]
    pub fn repeats(&self, class: usize, vpn: u64) -> bool {
        self.latest.holds(class, vpn)
    }

    /// Counts such repetitions.
    #[inline]
    pub fn repeated(&mut self, class: usize, times: u32) {
        self.latest.repetitions[class] += u64::from(times);
    }

    /// Counts the repetitions with which data references begin; returns their number.
    #[inline(always)]
    pub fn repeat(&mut self, refs: &[Ref], grain: PageGrain) -> usize {
        self.latest.repeat(refs, grain)
    }

    /// Takes the repetitions since the last call, by class, with their array.
    pub fn take_repetitions(&mut self) -> [Option<(u8, u64)>; CLASSES] {
        let LastLookups { homes, repetitions, .. } = &mut self.latest;
        let taken = std::mem::take(repetitions);
        [FETCH, LOAD, STORE].map(|class| homes[class].map(|home| (home.array, taken[class])))
    }

    fn slot(&self, class: usize, vpn: u64) -> usize {
        self.groups[class] * SLOTS + vpn as usize % SLOTS
    }

    /// The cached translation, if a reference of this class needs only a lookup.
    #[inline]
    pub fn get(&self, class: usize, vpn: u64) -> Option<CachedTranslation> {
        let (epoch, known) = self.slots[self.slot(class, vpn)]?;
        let is_whole = known.place.serves(class) && (class != STORE || known.stored);
        (known.vpn == vpn && epoch == self.epoch && is_whole).then_some(known)
    }

    /// Caches a translation, replacing the slot's.
    pub fn note(&mut self, class: usize, known: CachedTranslation) {
        let slot = self.slot(class, known.vpn);
        let is_stored = |&(epoch, before): &(u64, CachedTranslation)| {
            epoch == self.epoch && before.vpn == known.vpn && before.stored
        };
        let stored = known.stored || self.slots[slot].as_ref().is_some_and(is_stored);
        self.slots[slot] = Some((self.epoch, CachedTranslation { stored, ..known }));
    }

    /// Records the lookup of a page that its array holds now.
    #[inline]
    pub fn looked_up(&mut self, known: &CachedTranslation) {
        for class in 0..CLASSES {
            let serves = known.place.serves(class) && (class != STORE || known.stored);
            self.latest.looked_up(class, known, serves);
        }
    }

    /// Forgets the last pages: any array may have been looked up, or another core runs.
    pub fn forget_repetitions(&mut self) {
        self.latest.pages = [[NONE; SETS]; CLASSES];
    }

    /// Whether no other class shares arrays with this one.
    pub fn is_alone(&self, class: usize) -> bool {
        self.groups.iter().filter(|&&group| group == self.groups[class]).count() == 1
    }

    /// A number that changes at each [`TranslationCache::forget`].
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// A number that changes at each [`TranslationCache::forget`] and [`TranslationCache::dropped`].
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// A mapping may have changed, another process runs, or a kernel looked at times of use.
    pub fn forget(&mut self) {
        self.epoch += 1;
        self.dropped();
    }

    /// Arrays or caches may have lost something; mappings are as they were.
    pub fn dropped(&mut self) {
        self.changes += 1;
        self.forget_repetitions();
    }
}

impl System {
    /// Whether a data reference lies in one page, whose translation is cached and hits. Then it is looked up; else
    /// nothing changes.
    #[inline(always)]
    pub(super) fn hits(&mut self, record: Ref, grain: PageGrain) -> bool {
        let (class, vpn) = (class_of(record.kind(), true), grain.base.number(record.address()));
        if class == FETCH || self.is_side() || !grain.holds_all(record.address()) {
            return false;
        }
        let Some(known) = self.known.get(class, vpn) else { return false };
        let hit = self.tlbs().hits(class, known.place.array, known.entry);
        if hit {
            self.clock.now += 1;
            self.known.looked_up(&known);
        }
        hit
    }

    /// Looks up a cached translation.
    #[inline]
    pub(super) fn look_up(&mut self, class: usize, kind: Kind, known: CachedTranslation) {
        self.clock.now += 1;
        let is_side = self.is_side();
        let hit = match is_side {
            true => class == FETCH || self.tlbs().side_hits(class, known.entry.key),
            false => self.tlbs().hits(class, known.place.array, known.entry),
        };
        if !hit {
            self.tlbs().lookups[class] += u64::from(!is_side);
            let changes = self.known.changes();
            match is_side {
                true => self.miss_side(class, kind, known.vpn),
                false => self.miss(class, kind, known.vpn),
            }
            if self.known.changes() != changes {
                return self.used(known.vpn);
            }
        }
        self.known.looked_up(&known);
    }

    /// Looks up a page that is not cached: it may change at each use, or lie in several arrays.
    pub(super) fn look_everywhere(&mut self, class: usize, kind: Kind, vpn: u64, (asid, page): (Asid, Page)) {
        self.clock.now += 1;
        self.known.forget_repetitions();
        if !self.tlbs().look_up(class, kind, asid, page) {
            self.miss(class, kind, vpn);
        }
    }

    /// Records a page's use, if kernels read them. Cached translations need it only after a kernel's look, which makes
    /// the cache forget them.
    pub(super) fn used(&mut self, vpn: u64) {
        let now = self.clock.now;
        if self.records_uses
            && let Some(touched) = self.process().pages.get_mut(&vpn)
        {
            touched.used = now;
        }
    }
}
