//! Reuses of pages: what a layout's misses depend on, kept so that any layout can be evaluated.
//!
//! In a W-way LRU set, a reference misses exactly if W or more other pages of the set were referenced since the last
//! reference to its page. So a reuse is kept as its page with the pages in between; which of those share its set
//! depends only on the layout. Reuses with fewer than W pages in between always hit and are left out. Those with more
//! than twice the array's entries in between almost never hit, and are only counted.
//!
//! An array of a lower level sees what misses the levels above in the recorded layout.
//!
//! Reuses of the same page with the same pages in between, in any order, are one reuse with a count. Memory is bounded:
//! when an array's reuses fill their room, every other occurrence is dropped, and later ones are thinned likewise. The
//! kept ones stand for all ([`ArrayReuses::scale`]).
//!
//! Consecutive references of a side (code, data) to its last page count as one, so in a shared array the order of pages
//! of different sides may differ slightly from the program's; plans are verified by simulation.

use super::Movables;
use crate::evictions::ArraySpec;
use crate::evictions::fetches::{FetchTable, Touch};
use crate::objects::{OwnerId, Owners};
use pagewalk_mm::{AddressSpace, Change};
use pagewalk_setassoc::{Entry, TlbArray};
use pagewalk_trace::{Analysis, Batch, Event, StreamHeader};
use pagewalk_translate::{MachineSpec, TlbSpec};
use pagewalk_units::{Kind, PAGE_SHIFT, PageSize, RefIndex, Vpn};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// The default numbers kept for each array.
pub const DEFAULT_ROOM: usize = 1 << 25;
/// Numbers of a reuse before its pages in between.
const HEAD: usize = 3;
/// No side has referenced a page.
const NONE: u64 = u64::MAX;

/// Reuses in one array.
#[derive(Clone, Debug)]
pub struct ArrayReuses {
    /// The array.
    pub array: ArraySpec,
    /// Every kept reuse: the number of pages in between, its count, its page, and those in between; finally grouped by
    /// object.
    words: Vec<u32>,
    /// By hash of the pages: where a reuse's words begin.
    known: FxHashMap<u64, u32>,
    /// Hash bits of an occurrence's number that must be 0 to keep it.
    mask: u64,
    /// Reuses so far, kept or not.
    count: u64,
    /// Most numbers to keep.
    room: usize,
    /// References that miss in any layout: first ones, and those with too many pages in between.
    pub beyond: u64,
}

impl ArrayReuses {
    fn new(array: ArraySpec, room: usize) -> ArrayReuses {
        let (words, known) = (Vec::new(), FxHashMap::default());
        ArrayReuses { array, words, known, mask: 0, count: 0, room, beyond: 0 }
    }

    /// The reuses of a sequence of pages, at most this many pages apart.
    #[cfg(test)]
    pub(crate) fn of_stream(array: ArraySpec, stream: &[u32], depth: usize) -> ArrayReuses {
        let reuses = ArrayReuses::new(array, DEFAULT_ROOM);
        let mut watched = LastLevelArray { reuses, above: Vec::new(), stack: Vec::new(), depth };
        stream.iter().for_each(|&page| watched.reuse(page));
        watched.reuses
    }

    /// How many reuses each kept one stands for.
    pub fn scale(&self) -> u64 {
        self.mask + 1
    }

    /// The position of each reuse, for [`ArrayReuses::at`].
    pub fn positions(&self) -> impl Iterator<Item = u32> {
        let mut next = 0;
        std::iter::from_fn(move || {
            let at = next;
            next += *self.words.get(at)? as usize + HEAD;
            Some(at as u32)
        })
    }

    /// The reuse at a position: its count, its page, and the pages in between.
    pub fn at(&self, position: u32) -> (u64, u32, &[u32]) {
        let from = position as usize;
        let [between, times, page] = self.words[from..][..HEAD] else {
            unreachable!("a head has three numbers")
        };
        (times.into(), page, &self.words[from + HEAD..][..between as usize])
    }

    /// All reuses.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u32, &[u32])> {
        self.positions().map(|position| self.at(position))
    }

    /// Sorts the pages in between by object.
    pub(crate) fn group(&mut self, pages: &[Page]) {
        let mut next = 0;
        while let Some(&between) = self.words.get(next) {
            let first = next + HEAD;
            next = first + between as usize;
            self.words[first..next].sort_unstable_by_key(|&page| (pages[page as usize].object, page));
        }
    }

    fn keep(&mut self, page: u32, between: &[u32]) {
        let number = self.count;
        self.count += 1;
        if mixed(number) & self.mask != 0 {
            return;
        }
        // Independent of the order of the pages in between; equal hashes count as equal reuses.
        let sum = |hash: u64, &other: &u32| hash.wrapping_add(mixed(other.into()));
        let hash = between.iter().fold(mixed(u64::from(page) | 1 << 32), sum);
        if let Some(&at) = self.known.get(&hash) {
            self.words[at as usize + 1] = self.words[at as usize + 1].saturating_add(1);
            return;
        }
        self.known.insert(hash, self.words.len() as u32);
        self.words.extend([between.len() as u32, 1, page]);
        self.words.extend(between);
        if self.words.len() > self.room {
            self.mask = self.mask << 1 | 1;
            self.thin();
        }
    }

    /// Drops every other occurrence; for an odd count the reuse's hash decides the last, anew each time.
    fn thin(&mut self) {
        let mut kept: Vec<(u32, u64)> = self.known.drain().map(|(hash, at)| (at, hash)).collect();
        kept.sort_unstable();
        let mut to = 0;
        for (at, hash) in kept {
            let from = at as usize;
            let words = self.words[from] as usize + HEAD;
            let times = self.words[from + 1];
            let half = times / 2 + (times & 1 & (mixed(hash ^ self.mask) >> 63) as u32);
            if half > 0 {
                self.words.copy_within(from..from + words, to);
                self.words[to + 1] = half;
                self.known.insert(hash, to as u32);
                to += words;
            }
        }
        self.words.truncate(to);
    }
}

/// SplitMix64 (Steele, Lea and Flood 2014).
fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// A page while it belongs to one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its number, as recorded.
    pub page: Vpn,
    /// The movable object that it belongs to.
    pub object: Option<usize>,
}

/// An array above the last level.
struct UpperArray {
    /// Whether it serves fetches, and data.
    serves: [bool; 2],
    array: TlbArray,
}

impl UpperArray {
    fn new(tlb: &TlbSpec) -> UpperArray {
        let data = tlb.serves.has(Kind::Load) || tlb.serves.has(Kind::Store);
        UpperArray { serves: [tlb.serves.has(Kind::Fetch), data], array: tlb.array() }
    }

    /// References a page; returns whether the array held it.
    fn touch(&mut self, vpn: u64) -> bool {
        let entry = Entry { shift: PAGE_SHIFT, number: vpn, key: vpn };
        let hit = self.array.touch(entry);
        if !hit {
            self.array.insert(entry);
        }
        hit
    }
}

/// A last-level array with the arrays above it.
struct LastLevelArray {
    reuses: ArrayReuses,
    /// The arrays above, first level first.
    above: Vec<UpperArray>,
    /// Pages by last use, latest first.
    stack: Vec<u32>,
    depth: usize,
}

impl LastLevelArray {
    fn new(machine: &MachineSpec, last: &TlbSpec, room: usize) -> LastLevelArray {
        let above = |tlb: &&TlbSpec| tlb.level < last.level && tlb.holds(PageSize::FOUR_KIB);
        let mut above: Vec<&TlbSpec> = machine.tlbs.iter().filter(above).collect();
        above.sort_by_key(|tlb| tlb.level);
        LastLevelArray {
            reuses: ArrayReuses::new(ArraySpec::of(last).expect("supported machines have sets"), room),
            above: above.into_iter().map(UpperArray::new).collect(),
            stack: Vec::new(),
            depth: 2 * last.geometry.entries(),
        }
    }

    fn serves(array: &ArraySpec, fetch: bool) -> bool {
        if fetch { array.fetches } else { array.data }
    }

    fn refer(&mut self, fetch: bool, vpn: u64, page: u32) {
        if !LastLevelArray::serves(&self.reuses.array, fetch) {
            return;
        }
        let mut hit = false;
        for above in &mut self.above {
            if above.serves[usize::from(!fetch)] && !hit {
                hit = above.touch(vpn);
            }
        }
        if !hit {
            self.reuse(page);
        }
    }

    fn reuse(&mut self, page: u32) {
        match self.stack.iter().position(|&other| other == page) {
            Some(0) => {}
            Some(between) => {
                if between >= self.reuses.array.geometry.ways() {
                    self.reuses.keep(page, &self.stack[..between]);
                }
                self.stack[..=between].rotate_right(1);
            }
            None => {
                self.reuses.beyond += 1;
                self.stack.insert(0, page);
                self.stack.truncate(self.depth);
            }
        }
    }

    fn invalidate(&mut self, pages: &Range<u64>, all: &[(Vpn, OwnerId)]) {
        self.stack.retain(|&page| !pages.contains(&all[page as usize].0.0));
        self.above.iter_mut().for_each(|above| above.array.remove_where(|vpn| pages.contains(&vpn)));
    }
}

/// Collects the reuses of several machines' last levels over one stream.
pub struct Reuses {
    owners: Owners,
    space: AddressSpace,
    changes: Vec<Change>,
    fetches: FetchTable,
    watched: Vec<LastLevelArray>,
    pages: Vec<(Vpn, OwnerId)>,
    numbers: FxHashMap<(u64, OwnerId), u32>,
    /// By page number: the page, if no owner has changed since.
    present: FxHashMap<u64, u32>,
    generation: u64,
    /// The last page of each side.
    last: [u64; 2],
    references: Vec<u64>,
}

impl Reuses {
    /// For each machine's last-level arrays of 4K pages; keeps at most `room` numbers of four bytes for each array. A
    /// reuse takes three numbers plus its pages.
    pub fn new(header: &StreamHeader, machines: &[MachineSpec], room: usize) -> Reuses {
        let of_machine = |machine: &'_ MachineSpec| {
            let last = last_level(machine);
            last.iter().map(|tlb| LastLevelArray::new(machine, tlb, room)).collect::<Vec<_>>()
        };
        Reuses {
            owners: Owners::new(header),
            space: AddressSpace::default(),
            changes: Vec::new(),
            fetches: FetchTable::default(),
            watched: machines.iter().flat_map(of_machine).collect(),
            pages: Vec::new(),
            numbers: FxHashMap::default(),
            present: FxHashMap::default(),
            generation: 0,
            last: [NONE; 2],
            references: Vec::new(),
        }
    }

    /// The arrays by machine, all pages, the movable objects and owners; and how often each movable object's pages were
    /// entered from another page.
    pub fn finish(self) -> StreamReuses {
        let movables = Movables::new(&self.owners);
        let mut references = vec![0; movables.all().len()];
        let page = |(&(page, owner), &count): (&(Vpn, OwnerId), &u64)| {
            let object = movables.of(owner, page);
            if let Some(object) = object {
                references[object] += count;
            }
            Page { page, object }
        };
        let pages: Vec<Page> = self.pages.iter().zip(&self.references).map(page).collect();
        let mut arrays: Vec<ArrayReuses> = self.watched.into_iter().map(|watched| watched.reuses).collect();
        arrays.iter_mut().for_each(|array| array.group(&pages));
        StreamReuses { arrays, pages, references, movables, owners: self.owners }
    }

    fn refer(&mut self, fetch: bool, vpn: u64) {
        let side = usize::from(!fetch);
        if self.last[side] == vpn {
            return;
        }
        self.last[side] = vpn;
        let page = match self.present.get(&vpn) {
            Some(&page) => page,
            None => self.meet(vpn),
        };
        self.references[page as usize] += 1;
        for watched in &mut self.watched {
            watched.refer(fetch, vpn, page);
        }
    }

    /// A page not referenced since owners last changed.
    fn meet(&mut self, vpn: u64) -> u32 {
        let owner = self.owners.at(vpn << PAGE_SHIFT);
        let next = u32::try_from(self.pages.len()).expect("fewer than 2^32 pages");
        let page = *self.numbers.entry((vpn, owner)).or_insert(next);
        if page == next {
            self.pages.push((Vpn(vpn), owner));
            self.references.push(0);
        }
        self.present.insert(vpn, page);
        page
    }
}

/// The last-level arrays of 4K pages.
pub fn last_level(machine: &MachineSpec) -> Vec<&TlbSpec> {
    let base = PageSize::FOUR_KIB;
    let last = machine.tlbs.iter().filter(|tlb| tlb.holds(base)).map(|tlb| tlb.level).max();
    machine.tlbs.iter().filter(|tlb| Some(tlb.level) == last && tlb.holds(base)).collect()
}

/// A stream's reuses.
pub struct StreamReuses {
    /// By machine, then by array of its last level.
    pub arrays: Vec<ArrayReuses>,
    /// All pages.
    pub pages: Vec<Page>,
    /// By movable object: how often one of its pages was entered from another page.
    pub references: Vec<u64>,
    /// The movable objects.
    pub movables: Movables,
    /// The owners of memory.
    pub owners: Owners,
}

impl Analysis for Reuses {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        self.owners.start_running();
        self.space.start_running();
        if self.generation != self.owners.generation() {
            self.generation = self.owners.generation();
            self.present.clear();
        }
        let mut fetches = std::mem::take(&mut self.fetches);
        fetches.each(batch, |touch| match touch {
            Touch::Data(range) => self.data(batch, range),
            Touch::Fetch(vpn) => self.refer(true, vpn),
        });
        self.fetches = fetches;
    }

    fn on_event(&mut self, _at: RefIndex, event: &Event) {
        self.owners.apply(event);
        self.space.apply(event, &mut self.changes);
        for change in self.changes.drain(..) {
            let pages = change.pages(PageSize::FOUR_KIB);
            self.watched.iter_mut().for_each(|watched| watched.invalidate(&pages, &self.pages));
            self.last = [NONE; 2];
        }
    }
}

impl Reuses {
    fn data(&mut self, batch: &Batch<'_>, range: Range<usize>) {
        for record in &batch.refs[range] {
            for vpn in record.address().vpn().0..=record.last_vpn().0 {
                self.refer(false, vpn);
            }
        }
    }
}

/// Whether loads and stores share the machine's arrays of 4K pages, as reuses require.
pub fn is_supported(machine: &MachineSpec) -> Result<(), String> {
    let arrays = machine.tlbs.iter().filter(|tlb| tlb.holds(PageSize::FOUR_KIB));
    for tlb in arrays {
        let name = &tlb.name;
        if tlb.serves.has(Kind::Load) != tlb.serves.has(Kind::Store) {
            return Err(format!("array `{name}` serves loads or stores alone"));
        }
        if tlb.pages_per_entry > 1 || tlb.coalesce.is_some() {
            return Err(format!("array `{name}` has entries for several pages"));
        }
    }
    match last_level(machine).iter().find(|tlb| tlb.index != pagewalk_setassoc::SetIndex::Modulo) {
        Some(tlb) => Err(format!(
            "array `{}` chooses sets by a hash: moving an object by pages does not rotate them",
            tlb.name
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewalk_setassoc::{Geometry, SetIndex};

    /// Reuses that had been thinned once were never thinned again, while what each stood for doubled.
    #[test]
    fn kept_reuses_stand_for_all() {
        let array = ArraySpec {
            name: "l2".to_owned(),
            geometry: Geometry::new(4, Some(4)).expect("one set"),
            index: SetIndex::Modulo,
            fetches: true,
            data: true,
        };
        let mut reuses = ArrayReuses::new(array, 4000);
        let all = 50_000;
        for number in 0..all {
            // Two of three occur once, the others 100 times.
            let page = if number % 3 == 0 { number % 500 } else { number };
            reuses.keep(page, &[all + page, all + page + 1, all + page + 2, all + page + 3, all + page + 4]);
        }
        assert!(reuses.words.len() <= reuses.room, "{} numbers", reuses.words.len());
        let told = reuses.scale() * reuses.iter().map(|(times, ..)| times).sum::<u64>();
        let share = told as f64 / f64::from(all);
        assert!((0.85..1.15).contains(&share), "they stand for {share} of all");
    }
}
