//! TLB levels below the first.
//!
//! Level 2 is looked up after a level-1 miss, level 3 after a level-2 miss; all arrays of a level that serve the
//! reference's kind are looked up at once. A hit fills every level above it; a walk fills every level that can hold the
//! page (inclusive fill, without back-invalidation).
//!
//! An array with [`Fills::Victims`] instead receives the victims of the arrays above it: those of the nearest level
//! that holds such pages for one of its kinds. A hit moves the entry up and removes it here. Pages that no level above
//! holds for a kind are filled and kept as with [`Fills::Walks`]. Fills go from the first level down, and each level
//! passes its victim to its receivers at once; a received translation that is already held counts as used.

use crate::{Asid, Fills, KindSet, MachineSpec, TlbSpec};
use pagewalk_setassoc::{Entry, TlbArray};
use pagewalk_units::{Kind, PageSize, VirtAddr};

/// Lookups and hits of one array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArrayCounts {
    /// References that probed it.
    pub lookups: u64,
    /// References that hit it.
    pub hits: u64,
}

/// What served a first-level miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TranslationSource {
    /// This level (2 or more).
    Level(u8),
    /// No level: a walk is due.
    Walk,
}

/// The arrays of levels 2 and up.
#[derive(Clone, Debug)]
pub struct LowerLevels {
    /// Arrays by level, 2 first.
    arrays: Vec<Lower>,
    last_level: u8,
    /// The receivers of victims.
    receivers: Vec<Receiver>,
    /// Entries evicted from watched arrays.
    evicted: Vec<LowerEntry>,
    /// The kind and key of what was looked up last and found nowhere, until it is filled. It is still missing then, if
    /// no array receives victims.
    missing: Option<(Kind, u64)>,
}

/// An entry of a watched array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LowerEntry {
    /// Its array, as the machine numbers it.
    pub array: usize,
    /// The address space.
    pub asid: Asid,
    /// The number of its first page.
    pub number: u64,
    /// The size of its pages.
    pub size: PageSize,
    /// log2 of its pages.
    pub pages_shift: u32,
}

impl LowerEntry {
    fn of(lower: &Lower, key: u64) -> LowerEntry {
        let ((asid, number, size), pages_shift) = (Asid::page_of(key), lower.pages_shift);
        LowerEntry { array: lower.index, asid, number: number << pages_shift, size, pages_shift }
    }
}

#[derive(Clone, Debug)]
struct Lower {
    index: usize,
    level: u8,
    serves: KindSet,
    /// Bit n: holds pages of 2^n bytes.
    sizes: u64,
    /// log2 of the adjacent pages that one entry maps.
    pages_shift: u32,
    /// For arrays that take victims, by kind: the sizes that come as victims.
    from_above: [u64; Kind::ALL.len()],
    array: TlbArray,
    counts: ArrayCounts,
    shared: bool,
    /// Whether evictions are recorded.
    watched: bool,
}

/// Sends victims of these sizes from one array of the machine to one of [`LowerLevels::arrays`].
#[derive(Clone, Copy, Debug)]
struct Receiver {
    from: usize,
    sizes: u64,
    to: usize,
}

impl Lower {
    fn new(machine: &MachineSpec, index: usize) -> Lower {
        let spec = &machine.tlbs[index];
        let from_above = |kind: Kind| {
            let above = machine.tlbs.iter().filter(|tlb| tlb.level < spec.level && tlb.serves.has(kind));
            above.fold(0, |all, tlb| all | sizes(tlb)) * u64::from(spec.fills == Fills::Victims)
        };
        Lower {
            index,
            level: spec.level,
            serves: spec.serves,
            sizes: sizes(spec),
            pages_shift: spec.pages_per_entry.ilog2(),
            from_above: Kind::ALL.map(from_above),
            array: spec.array(),
            counts: ArrayCounts::default(),
            shared: spec.shared,
            watched: false,
        }
    }

    fn holds(&self, size: PageSize) -> bool {
        self.sizes >> size.shift() & 1 == 1
    }

    /// The entry for a page.
    fn entry(&self, asid: Asid, number: u64, size: PageSize) -> Entry {
        let number = number >> self.pages_shift;
        Entry { shift: size.shift() + self.pages_shift, number, key: asid.key(number, size) }
    }

    /// Whether pages of `size` for `kind` come to it only as victims.
    fn takes_victims(&self, kind: Kind, size: PageSize) -> bool {
        self.from_above[kind as usize] >> size.shift() & 1 == 1
    }
}

/// Bit n: the array holds pages of 2^n bytes.
fn sizes(tlb: &TlbSpec) -> u64 {
    tlb.page_sizes.iter().fold(0, |sizes, size| sizes | 1 << size.shift())
}

/// The sizes of `from`'s victims that array `to` receives.
fn received(machine: &MachineSpec, from: &TlbSpec, to: &TlbSpec) -> u64 {
    if to.fills != Fills::Victims || from.level >= to.level {
        return 0;
    }
    let direct = |kind: Kind, size: PageSize| {
        let mut between = machine.tlbs.iter().filter(|tlb| from.level < tlb.level && tlb.level < to.level);
        from.takes(kind, size) && to.takes(kind, size) && !between.any(|tlb| tlb.takes(kind, size))
    };
    let given = to.page_sizes.iter().filter(|&&size| Kind::ALL.into_iter().any(|kind| direct(kind, size)));
    given.fold(0, |sizes, size| sizes | 1 << size.shift())
}

impl MachineSpec {
    /// Whether an array receives victims of another.
    pub fn gives_victims(&self, from: usize, to: usize) -> bool {
        received(self, &self.tlbs[from], &self.tlbs[to]) != 0
    }
}

impl LowerLevels {
    /// Empty arrays.
    pub fn new(machine: &MachineSpec) -> LowerLevels {
        let below = (0..machine.tlbs.len()).filter(|&index| machine.tlbs[index].level > 1);
        let mut arrays: Vec<Lower> = below.map(|index| Lower::new(machine, index)).collect();
        arrays.sort_by_key(|lower| lower.level);
        let mut receivers = Vec::new();
        for (from, tlb) in machine.tlbs.iter().enumerate() {
            for (to, lower) in arrays.iter().enumerate() {
                let sizes = received(machine, tlb, &machine.tlbs[lower.index]);
                receivers.extend((sizes != 0).then_some(Receiver { from, sizes, to }));
            }
        }
        LowerLevels {
            arrays,
            last_level: machine.last_level(),
            receivers,
            evicted: Vec::new(),
            missing: None,
        }
    }

    /// From now on records evictions from these arrays of the machine, but for the first level's: see
    /// [`LowerLevels::take_evicted`].
    pub fn watch(&mut self, arrays: &[usize]) {
        self.arrays.iter_mut().for_each(|lower| lower.watched |= arrays.contains(&lower.index));
    }

    /// Takes the entries evicted from watched arrays since the last call.
    pub fn take_evicted(&mut self) -> impl Iterator<Item = LowerEntry> + '_ {
        self.evicted.drain(..)
    }

    /// An address space's entries in watched arrays.
    pub fn entries_of(&self, asid: Asid) -> impl Iterator<Item = LowerEntry> + '_ {
        let watched = self.arrays.iter().filter(|lower| lower.watched);
        let entries =
            watched.flat_map(|lower| lower.array.keys().into_iter().map(|key| LowerEntry::of(lower, key)));
        entries.filter(move |entry| entry.asid == asid)
    }

    /// Exchanges shared arrays with another core of the same machine.
    pub fn swap_shared(&mut self, other: &mut LowerLevels) {
        for (own, other) in self.arrays.iter_mut().zip(&mut other.arrays).filter(|(own, _)| own.shared) {
            std::mem::swap(own, other);
        }
    }

    /// Drops an address space.
    pub fn flush(&mut self, asid: Asid) {
        for lower in &mut self.arrays {
            lower.array.remove_where(|key| Asid::split(key).0 == asid);
        }
    }

    /// Looks up a page that missed the first level, level by level. [`LowerLevels::fill`] must follow.
    pub fn look_up(
        &mut self,
        kind: Kind,
        asid: Asid,
        address: VirtAddr,
        size: PageSize,
    ) -> TranslationSource {
        let mut found = None;
        for lower in &mut self.arrays {
            if found.is_some_and(|level| lower.level > level) {
                break;
            }
            if !lower.serves.has(kind) {
                continue;
            }
            lower.counts.lookups += 1;
            let entry = lower.entry(asid, size.number(address), size);
            let hit = lower.holds(size)
                && if lower.takes_victims(kind, size) {
                    lower.array.remove(entry)
                } else {
                    lower.array.touch(entry)
                };
            if hit {
                lower.counts.hits += 1;
                found = Some(lower.level);
            }
        }
        let is_missing = found.is_none() && self.receivers.is_empty();
        self.missing = is_missing.then(|| (kind, asid.key(size.number(address), size)));
        found.map_or(TranslationSource::Walk, TranslationSource::Level)
    }

    /// Fills the levels above a hit, or all after a walk. A first-level victim comes before: see
    /// [`LowerLevels::receive`].
    #[inline]
    pub fn fill(
        &mut self,
        kind: Kind,
        asid: Asid,
        address: VirtAddr,
        size: PageSize,
        served: TranslationSource,
    ) {
        match served {
            TranslationSource::Level(2) => (),
            TranslationSource::Level(level) => self.fill_above(kind, asid, address, size, level),
            TranslationSource::Walk => self.fill_above(kind, asid, address, size, self.last_level + 1),
        }
    }

    /// Fills the levels above `below`.
    fn fill_above(&mut self, kind: Kind, asid: Asid, address: VirtAddr, size: PageSize, below: u8) {
        let is_missing = self.missing.take() == Some((kind, asid.key(size.number(address), size)));
        for at in 0..self.arrays.len() {
            let lower = &mut self.arrays[at];
            if lower.level < below
                && lower.holds(size)
                && lower.serves.has(kind)
                && !lower.takes_victims(kind, size)
            {
                let entry = lower.entry(asid, size.number(address), size);
                let victim = if is_missing { lower.array.insert(entry) } else { lower.array.fill(entry) };
                self.pass_on(at, victim);
            }
        }
    }

    /// Whether the machine's array `index` holds the page of `asid` with this number at `size`.
    pub fn holds(&self, index: usize, asid: Asid, number: u64, size: PageSize) -> bool {
        let mut arrays = self.arrays.iter().filter(|lower| lower.index == index);
        arrays.any(|lower| {
            let entry = lower.entry(asid, number, size);
            lower.holds(size) && lower.array.contains(entry)
        })
    }

    /// Whether some array receives victims of the machine's array `from`.
    pub fn receives(&self, from: usize) -> bool {
        self.receivers.iter().any(|receiver| receiver.from == from)
    }

    /// Receives a victim of the machine's array `from`.
    pub fn receive(&mut self, from: usize, asid: Asid, number: u64, size: PageSize) {
        for at in 0..self.receivers.len() {
            let Receiver { from: giver, sizes, to } = self.receivers[at];
            if giver == from && sizes >> size.shift() & 1 == 1 {
                let lower = &mut self.arrays[to];
                let entry = lower.entry(asid, number, size);
                let victim = lower.array.fill(entry);
                self.pass_on(to, victim);
            }
        }
    }

    /// Records a victim of one of these arrays, and passes it on.
    fn pass_on(&mut self, at: usize, victim: Option<u64>) {
        let Some(key) = victim else { return };
        let lower = &self.arrays[at];
        if lower.watched {
            self.evicted.push(LowerEntry::of(lower, key));
        }
        if !self.receivers.is_empty() {
            let (asid, number, size) = Asid::page_of(key);
            self.receive(self.arrays[at].index, asid, number, size);
        }
    }

    /// Drops the page of `asid` with this number at `size` from every array.
    pub fn invalidate(&mut self, asid: Asid, number: u64, size: PageSize) {
        for lower in &mut self.arrays {
            if lower.holds(size) {
                let entry = lower.entry(asid, number, size);
                lower.array.remove(entry);
            }
        }
    }

    /// Index in the machine file and counts of each array.
    pub fn counts(&self) -> impl Iterator<Item = (usize, ArrayCounts)> + '_ {
        self.arrays.iter().map(|lower| (lower.index, lower.counts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: PageSize = PageSize::FOUR_KIB;

    fn machine(arrays: &str) -> MachineSpec {
        let rest = "[walker]\nkind = \"radix\"\nlevels = 4\n[cost]\nwalk_reference = 20\n";
        let text = format!("schema = 1\nname = \"m\"\n{arrays}{rest}");
        MachineSpec::from_toml("m.toml", &text).unwrap_or_else(|error| panic!("{error}"))
    }

    fn array(name: &str, level: u8, entries: u32, fills: &str) -> String {
        format!(
            "[[tlb]]\nname = \"{name}\"\nlevel = {level}\nserves = [\"fetch\", \"load\", \"store\"]\n\
             page_sizes = [\"4K\"]\nentries = {entries}\nfills = \"{fills}\"\n"
        )
    }

    fn page(number: u64) -> VirtAddr {
        VirtAddr(number << 12)
    }

    /// Jouppi 1990, section 3.2: pages that conflict in the first level swap places with the victims.
    #[test]
    fn a_hit_among_victims_swaps_with_what_it_displaces() {
        let mut lower =
            LowerLevels::new(&machine(&(array("l1", 1, 1, "walks") + &array("l2", 2, 1, "victims"))));
        assert!(lower.receives(0) && !lower.receives(1));
        // A walk for page 1 fills only the first level; page 2 then evicts it.
        lower.fill(Kind::Load, Asid::default(), page(1), SIZE, TranslationSource::Walk);
        assert_eq!(lower.look_up(Kind::Load, Asid::default(), page(1), SIZE), TranslationSource::Walk);
        lower.receive(0, Asid::default(), 1, SIZE);
        for turn in 0..4 {
            let (wanted, displaced) = if turn % 2 == 0 { (1, 2) } else { (2, 1) };
            assert_eq!(
                lower.look_up(Kind::Load, Asid::default(), page(wanted), SIZE),
                TranslationSource::Level(2)
            );
            lower.receive(0, Asid::default(), displaced, SIZE);
        }
    }

    #[test]
    fn victims_go_down_level_by_level() {
        let arrays =
            array("l1", 1, 1, "walks") + &array("l2", 2, 1, "victims") + &array("l3", 3, 1, "victims");
        let mut lower = LowerLevels::new(&machine(&arrays));
        lower.receive(0, Asid::default(), 1, SIZE);
        lower.receive(0, Asid::default(), 2, SIZE);
        assert_eq!(lower.look_up(Kind::Fetch, Asid::default(), page(1), SIZE), TranslationSource::Level(3));
        assert_eq!(
            lower.look_up(Kind::Fetch, Asid::default(), page(1), SIZE),
            TranslationSource::Walk,
            "it moved up"
        );
        assert_eq!(lower.look_up(Kind::Fetch, Asid::default(), page(2), SIZE), TranslationSource::Level(2));
    }
}
