//! Translations that were looked up lately: what a reference needs that finds its page touched, backed and in place.
//!
//! A *repetition* of the page that was looked up last in its set hits, and changes nothing but a count. Any other page
//! of the direct-mapped table is looked up in its one array. Whatever may map a page otherwise, take it away or switch
//! who runs forgets all of both at once.

use crate::classes::{CLASSES, STORE};
use pagewalk_setassoc::Entry;

const SLOTS: usize = 1024;
/// Sets that are told apart. Where an array has more, several are as one.
const SETS: usize = 64;

/// The only array of the first level that holds pages of a size, and for which classes it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ArrayPlace {
    pub array: u8,
    /// Bit by class.
    pub classes: u8,
}

impl ArrayPlace {
    pub fn serves(self, class: usize) -> bool {
        self.classes >> class & 1 == 1
    }
}

/// Where alone base pages of a class lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BaseArray {
    pub array: u8,
    /// Sets that the low bits of base pages' numbers tell apart; 1 where they do not, or other pages lie there too.
    pub sets: usize,
}

/// One translation of a base page.
#[derive(Clone, Copy)]
pub(super) struct CachedTranslation {
    pub vpn: u64,
    pub entry: Entry,
    pub place: ArrayPlace,
    /// Whether stores need nothing more: it was stored to.
    pub stored: bool,
}

/// No page has this number.
const NONE: u64 = u64::MAX;

/// The pages of one class whose next lookup is a hit that changes nothing, by set.
#[derive(Clone)]
struct LastLookups {
    pages: [u64; SETS],
    home: Option<BaseArray>,
    mask: u64,
    repetitions: u64,
}

impl LastLookups {
    fn new(home: Option<BaseArray>) -> LastLookups {
        let sets = home.map_or(1, |home| home.sets.min(SETS));
        LastLookups { pages: [NONE; SETS], home, mask: sets as u64 - 1, repetitions: 0 }
    }

    #[inline]
    fn holds(&self, vpn: u64) -> bool {
        self.pages[(vpn & self.mask) as usize % SETS] == vpn
    }

    /// A page was looked up in some array, and is held there now; `serves`: references of this class find it there.
    #[inline]
    fn looked_up(&mut self, known: &CachedTranslation, serves: bool) {
        if self.home.is_some_and(|home| home.array == known.place.array) {
            let page = &mut self.pages[(known.vpn & self.mask) as usize % SETS];
            *page = if serves { known.vpn } else { NONE };
        }
    }
}

/// What is known.
pub(super) struct TranslationCache {
    /// By group of classes, then by page.
    slots: Vec<Option<(u64, CachedTranslation)>>,
    epoch: u64,
    latest: [LastLookups; CLASSES],
    /// By class: its group, of those that share arrays.
    groups: [usize; CLASSES],
}

impl TranslationCache {
    /// Nothing is known yet.
    pub fn new(groups: [usize; CLASSES], homes: [Option<BaseArray>; CLASSES]) -> TranslationCache {
        TranslationCache {
            slots: vec![None; CLASSES * SLOTS],
            epoch: 0,
            latest: homes.map(LastLookups::new),
            groups,
        }
    }

    /// Whether a reference repeats a hit.
    #[inline]
    pub fn repeats(&self, class: usize, vpn: u64) -> bool {
        self.latest[class].holds(vpn)
    }

    /// Counts references that did.
    #[inline]
    pub fn repeated(&mut self, class: usize, times: u32) {
        self.latest[class].repetitions += u64::from(times);
    }

    /// Repetitions by class since they were taken last, and their array.
    pub fn take_repetitions(&mut self) -> [Option<(u8, u64)>; CLASSES] {
        self.latest.each_mut().map(|latest| {
            let times = std::mem::take(&mut latest.repetitions);
            latest.home.map(|home| (home.array, times))
        })
    }

    fn slot(&self, class: usize, vpn: u64) -> usize {
        self.groups[class] * SLOTS + vpn as usize % SLOTS
    }

    /// The translation, if a reference of this class need only look it up.
    #[inline]
    pub fn get(&self, class: usize, vpn: u64) -> Option<CachedTranslation> {
        let (epoch, known) = self.slots[self.slot(class, vpn)]?;
        let is_whole = known.place.serves(class) && (class != STORE || known.stored);
        (known.vpn == vpn && epoch == self.epoch && is_whole).then_some(known)
    }

    /// Keeps a translation, in the place of the slot's last.
    pub fn note(&mut self, class: usize, known: CachedTranslation) {
        let slot = self.slot(class, known.vpn);
        let is_stored = |&(epoch, before): &(u64, CachedTranslation)| {
            epoch == self.epoch && before.vpn == known.vpn && before.stored
        };
        let stored = known.stored || self.slots[slot].as_ref().is_some_and(is_stored);
        self.slots[slot] = Some((self.epoch, CachedTranslation { stored, ..known }));
    }

    /// A page was looked up that its array holds now.
    #[inline]
    pub fn looked_up(&mut self, known: &CachedTranslation) {
        for (class, latest) in self.latest.iter_mut().enumerate() {
            latest.looked_up(known, known.place.serves(class) && (class != STORE || known.stored));
        }
    }

    /// Any array may have been looked up, or another core runs.
    pub fn forget_repetitions(&mut self) {
        self.latest.iter_mut().for_each(|latest| latest.pages = [NONE; SETS]);
    }

    /// Whether no other class has lookups in the arrays of this one.
    pub fn is_alone(&self, class: usize) -> bool {
        self.groups.iter().filter(|&&group| group == self.groups[class]).count() == 1
    }

    /// Changes whenever something is forgotten.
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    pub fn forget(&mut self) {
        self.epoch += 1;
        self.forget_repetitions();
    }
}
