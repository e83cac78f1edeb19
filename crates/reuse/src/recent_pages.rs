//! The most recently used pages, in one list that serves every set count.
//!
//! Two pages are in the same of 2^b sets if the low b bits of their numbers agree. So the pages above a page in its set
//! are, for every b, the pages above it in the list of all pages that agree with it in b bits: one walk down
//! the list gives the depths for all set counts (Hill and Smith, "Evaluating associativity in CPU caches",
//! IEEE Transactions on Computers 38 (12), 1989: all-associativity simulation). Nearly all references end near the
//! list's top; only pages that leave the list need a stack for each set, see [`crate::older_pages`].
//!
//! A page that is invalidated leaves a *ghost*: for each set count, a hole in the page's set. The first hole above a
//! referenced page is filled by what sinks in that set, and the page leaves a hole in its own place instead, because
//! the arrays that contain both places still have an empty way. Which hole is the first differs between set counts, so
//! a ghost stores the set counts for which it is a hole. A ghost without any is *vacant*: whatever sinks onto it takes
//! its place. In a new list all entries are vacant.

/// Set counts are 2^0 to 2^12.
pub(crate) const SET_COUNTS: usize = 13;
/// Number of entries of the list. With more, walks to the end are longer and rarer; 128 was fastest for the programs
/// tried.
const ENTRIES: usize = 128;
const _: () = assert!(ENTRIES <= u8::MAX as usize, "depths are bytes");

/// A page or a ghost.
///
/// A page is stored as its number. A ghost has bit 63 set, from bit 16 on a bit for each set count in which it is a
/// hole, and in bits 0 to 11 the low bits of its page's number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry(u64);

/// A set of set counts: a bit for each.
pub(crate) type SetCounts = u16;
const ALL_SET_COUNTS: SetCounts = (1 << SET_COUNTS) - 1;

impl Entry {
    pub const VACANT: Entry = Entry(Entry::GHOST);
    const GHOST: u64 = 1 << 63;
    const STANDS_SHIFT: u32 = 16;
    const SET_MASK: u64 = (1 << (SET_COUNTS - 1)) - 1;

    fn ghost(page: u64, stands: SetCounts) -> Entry {
        if stands == 0 {
            return Entry::VACANT;
        }
        Entry(Entry::GHOST | u64::from(stands) << Entry::STANDS_SHIFT | page & Entry::SET_MASK)
    }

    #[inline(always)]
    pub fn is_ghost(self) -> bool {
        self.0 >= Entry::GHOST
    }

    /// The page's number; for a ghost, a number in the same sets.
    pub fn page(self) -> u64 {
        if self.is_ghost() { self.0 & Entry::SET_MASK } else { self.0 }
    }

    /// The set counts in which it occupies a place.
    pub fn stands(self) -> SetCounts {
        let stands = (self.0 >> Entry::STANDS_SHIFT) as SetCounts & ALL_SET_COUNTS;
        if self.is_ghost() { stands } else { ALL_SET_COUNTS }
    }
}

/// For each set count, the number of places above an entry: a byte each.
#[derive(Clone, Copy, Default)]
pub(crate) struct Depths([u64; 2]);

/// Depths with a one for each set count up to the index.
static SHARED: [Depths; 64] = {
    let mut table = [Depths([0; 2]); 64];
    let mut bits_alike = 0;
    while bits_alike < table.len() {
        let mut bits = 0;
        while bits < SET_COUNTS && bits <= bits_alike {
            table[bits_alike].0[bits / 8] |= 1 << (bits % 8 * 8);
            bits += 1;
        }
        bits_alike += 1;
    }
    table
};

impl Depths {
    /// Adds one for each set count in which pages whose numbers differ in these bits share a set.
    #[inline(always)]
    fn add(&mut self, difference: u64) {
        let one = SHARED[difference.trailing_zeros() as usize % 64];
        self.0[0] += one.0[0];
        self.0[1] += one.0[1];
    }

    fn add_to(&mut self, set_counts: SetCounts) {
        let chosen = (0..SET_COUNTS).filter(|bits| set_counts >> bits & 1 == 1);
        chosen.for_each(|bits| self.0[bits / 8] += 1 << (bits % 8 * 8));
    }

    /// The depth for 2^`bits` sets.
    pub fn of(self, bits: usize) -> usize {
        (self.0[bits / 8] >> (bits % 8 * 8) & 255) as usize
    }

    /// Visits log2 of set counts, below 16, with their depths, up to the last that is not 0. Visits four at a time
    /// without a branch, so some zeros are visited too: a mispredicted branch would cost more.
    #[inline(always)]
    pub fn each(self, mut visit: impl FnMut(usize, u8)) {
        for (half, mut depths) in self.0.into_iter().enumerate() {
            let mut bits = 8 * half;
            while depths != 0 {
                for at in 0..4 {
                    visit(bits + at, (depths >> (8 * at)) as u8);
                }
                depths >>= 32;
                bits += 4;
            }
        }
    }
}

/// The set counts in which two pages share a set.
fn shared(page: u64, other: u64) -> SetCounts {
    let difference = page ^ other;
    (difference ^ difference.wrapping_sub(1)) as SetCounts & ALL_SET_COUNTS
}

/// The result of a walk down the list.
pub(crate) struct Walk {
    /// Whether the page was in the list.
    pub found: bool,
    /// Places above the page, or in the whole list if it was not there.
    pub depths: Depths,
    /// The set counts in which a hole of the list was filled by what sank.
    pub swallowed: SetCounts,
    /// The entry that left the list.
    pub sunk: Entry,
}

/// The list, most recently used first.
pub(crate) struct RecentPages([Entry; ENTRIES]);

impl RecentPages {
    pub fn new() -> RecentPages {
        RecentPages([Entry::VACANT; ENTRIES])
    }

    /// Whether this is the most recently used page.
    #[inline(always)]
    pub fn is_first(&self, page: u64) -> bool {
        self.0[0].0 == page
    }

    /// If this is the second most recently used page: swaps it with the most recent one, and returns the latter.
    #[inline(always)]
    pub fn exchange(&mut self, page: u64) -> Option<u64> {
        let [first, second, ..] = self.0;
        if second.0 != page || first.is_ghost() {
            return None;
        }
        (self.0[0], self.0[1]) = (second, first);
        Some(first.0)
    }

    /// Puts a page on top.
    #[inline(always)]
    pub fn refer(&mut self, page: u64) -> Walk {
        let mut depths = Depths::default();
        let mut sinking = Entry(page);
        for (at, place) in self.0.iter_mut().enumerate() {
            let entry = *place;
            if entry.is_ghost() {
                return self.refer_past_ghosts(page, at, sinking, depths);
            }
            *place = sinking;
            if entry.0 == page {
                return Walk { found: true, depths, swallowed: 0, sunk: Entry::VACANT };
            }
            depths.add(entry.0 ^ page);
            sinking = entry;
        }
        Walk { found: false, depths, swallowed: 0, sunk: sinking }
    }

    /// The rest of [`RecentPages::refer`], from entry `at`, which is a ghost.
    #[inline(never)]
    fn refer_past_ghosts(&mut self, page: u64, at: usize, mut sinking: Entry, mut depths: Depths) -> Walk {
        let mut found = false;
        let mut swallowed = 0;
        for place in &mut self.0[at..] {
            let mut entry = *place;
            if entry.0 == page {
                found = true;
                entry = Entry::ghost(page, swallowed);
            } else if !found && entry.is_ghost() {
                let above = entry.stands() & shared(page, entry.page());
                depths.add_to(above);
                entry = Entry::ghost(entry.page(), entry.stands() & !(above & !swallowed));
                swallowed |= above;
            } else if !found {
                depths.add(entry.0 ^ page);
            }
            if sinking == Entry::VACANT {
                *place = entry;
            } else {
                *place = std::mem::replace(&mut sinking, entry);
            }
            if found && sinking == Entry::VACANT {
                break;
            }
        }
        Walk { found, depths, swallowed, sunk: sinking }
    }

    /// Invalidates a page; returns whether it was in the list.
    pub fn remove(&mut self, page: u64) -> bool {
        let place = self.0.iter_mut().find(|entry| entry.0 == page);
        place.map(|entry| *entry = Entry::ghost(page, ALL_SET_COUNTS)).is_some()
    }
}
