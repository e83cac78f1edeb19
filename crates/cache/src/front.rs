//! The front: lines whose next access by a requester hits its nearest cache and changes only counts.
//!
//! That holds for the line used last in a set, if no other cache's business changes what the cache holds and its policy
//! need not see repeated hits. Of the lines with equal low bits the front keeps the one used last, so it is that of its
//! set too: sets are chosen by those bits and maybe more.

use crate::{AddressUsed, CacheAddress, CacheOrganisation, CacheSpec, Requester};
use pagewalk_setassoc::RelevantHits;

/// Lines of a requester. Caches of fewer sets have fewer.
const LINES: usize = 64;

/// Marks an empty place: no line has this number.
const NONE: u64 = u64::MAX;

/// One requester's front.
#[derive(Clone, Debug)]
pub(crate) struct Front {
    lines: [u64; LINES],
    mask: u64,
    shift: u32,
    address: AddressUsed,
    /// Hits counted here.
    pub hits: u64,
    /// Whose fronts are of the same cache. None if that cache has no fronts.
    sharers: Box<[Requester]>,
    /// Whether an access of this requester always leaves its line in the cache.
    stays: bool,
}

impl Front {
    /// The empty front of a requester. `paths`: the caches that serve each, nearest first; `stays`: its accesses end in
    /// the nearest and fill it.
    pub fn new(
        specs: &[CacheSpec],
        requester: Requester,
        stays: bool,
        paths: &[&[usize]; Requester::ALL.len()],
    ) -> Front {
        let nearest = paths[requester as usize].first().copied();
        let spec = nearest.map(|index| &specs[index]);
        let serves = |other: &Requester| nearest.is_some_and(|index| paths[*other as usize].contains(&index));
        let is_first = |other: &Requester| paths[*other as usize].first().copied() == nearest;
        let servers = Requester::ALL.into_iter().filter(serves);
        let is_quiet = servers.clone().all(|other| is_first(&other));
        let notes = spec.filter(|spec| {
            is_quiet
                && spec.slices == 1
                && !matches!(spec.organisation, CacheOrganisation::Column { .. })
                && spec.replacement.relevant_hits() != RelevantHits::Each
        });
        Front {
            lines: [NONE; LINES],
            mask: notes.map_or(0, |spec| spec.geometry.sets().min(LINES) as u64 - 1),
            shift: spec.map_or(0, |spec| spec.line_shift),
            address: spec.map_or(AddressUsed::Physical, |spec| spec.address),
            hits: 0,
            sharers: servers.filter(|_| notes.is_some()).collect(),
            stays,
        }
    }

    #[inline]
    fn place(&self, line: u64) -> usize {
        (line & self.mask) as usize % LINES
    }

    /// Whether an access to these bytes changes only counts.
    #[inline]
    pub fn has(&self, address: CacheAddress, bytes: u64) -> bool {
        let start = address.line(self.address, 0);
        let line = start >> self.shift;
        self.lines[self.place(line)] == line && (start + bytes.saturating_sub(1)) >> self.shift == line
    }

    /// Whether it ever has lines.
    pub fn is_used(&self) -> bool {
        self.stays && !self.sharers.is_empty()
    }

    fn forget(&mut self, address: CacheAddress) {
        let line = address.line(self.address, self.shift);
        let place = self.place(line);
        self.lines[place] = NONE;
    }
}

/// The fronts of all requesters.
#[derive(Clone, Debug)]
pub(crate) struct Fronts(pub [Front; Requester::ALL.len()]);

impl Fronts {
    /// Notes an access to a line.
    #[inline]
    pub fn note(&mut self, requester: Requester, address: CacheAddress) {
        let own = &self.0[requester as usize];
        let (stays, line) = (own.stays, address.line(own.address, own.shift));
        let place = own.place(line);
        for at in 0..own.sharers.len() {
            let sharer = self.0[requester as usize].sharers[at];
            let front = &mut self.0[sharer as usize];
            let held = &mut front.lines[place];
            // Only a store makes sure that the line is dirty, and the next store needs that.
            let soiled = sharer != Requester::Store || requester == Requester::Store || *held == line;
            *held = if stays && front.stays && soiled { line } else { NONE };
        }
    }

    /// Forgets a line that a cache may have lost.
    pub fn forget(&mut self, address: CacheAddress) {
        self.0.iter_mut().for_each(|front| front.forget(address));
    }

    /// Keeps no lines, from before the first access on.
    pub fn disable(&mut self) {
        self.0.iter_mut().for_each(|front| front.sharers = Box::default());
    }

    /// Forgets all lines.
    pub fn clear(&mut self) {
        self.0.iter_mut().for_each(|front| front.lines = [NONE; LINES]);
    }
}
