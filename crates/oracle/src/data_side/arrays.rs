//! The TLB arrays: a list of sets, each set a list of its entries in order of use.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Which neighbouring pages share an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Pages whose frames lie in one aligned group.
    Clustered,
    /// Adjacent pages with adjacent frames.
    Contiguous,
}

/// The anchors of an array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Anchors {
    /// Distance between anchors in pages.
    pub distance: u64,
    /// Number of lookups, hits, and changes of the distance.
    pub counts: [u64; 3],
}

/// An entry: a page, of a size given as doublings of the base page, or pages of a group, or an anchor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The page's number at its size, and the doublings.
    Page(u64, u32),
    /// A group, and the pages of it that the entry maps.
    Group(u64, BTreeSet<u64>),
    /// An anchor's page, and the number of pages mapped from there.
    Anchor(u64, u64),
}

/// A page TLB.
#[derive(Clone, Debug)]
pub struct PageTlb {
    /// Number of sets.
    pub sets: usize,
    /// Number of ways, and number of ways switched on.
    pub ways: (usize, usize),
    /// The page sizes that it holds, as doublings.
    pub shifts: Vec<u32>,
    /// How pages of a group share an entry, and the group's pages.
    pub group: Option<(Rule, u64)>,
    /// The anchors, if it has any.
    pub anchors: Option<Anchors>,
    /// The sets, the most recently used entry first.
    pub held: Vec<Vec<Entry>>,
    /// Hits counted for this array.
    pub hits: u64,
    /// Searches and writes, by the number of ways that were on.
    pub operations: BTreeMap<usize, (u64, u64)>,
    /// Hits since the last decision, by the number of ways needed for the hit.
    pub needed: Vec<u64>,
    /// Whether any entry was ever inserted.
    pub used: bool,
}

impl PageTlb {
    /// An empty array.
    pub fn new(sets: usize, ways: usize, shifts: Vec<u32>, group: Option<(Rule, u64)>) -> PageTlb {
        PageTlb {
            sets,
            ways: (ways, ways),
            shifts,
            group,
            anchors: None,
            held: vec![Vec::new(); sets],
            hits: 0,
            operations: BTreeMap::new(),
            needed: vec![0; ways],
            used: false,
        }
    }

    pub(super) fn search(&mut self) {
        if self.used {
            self.operations.entry(self.ways.1).or_default().0 += 1;
        }
    }

    /// Finds the first entry, in this order of sizes, that maps the page, and makes it the most recently used. Returns
    /// its doublings and its rank before.
    pub(super) fn find(&mut self, page: u64, order: &[u32]) -> Option<(u32, usize)> {
        if let Some((_, pages)) = self.group {
            let set = &mut self.held[(page / pages) as usize % self.sets];
            let holds = |entry: &Entry| match entry {
                Entry::Group(group, held) => *group == page / pages && held.contains(&page),
                _ => false,
            };
            let rank = set.iter().position(holds)?;
            let entry = set.remove(rank);
            set.insert(0, entry);
            return Some((0, rank));
        }
        for &shift in order {
            let set = &mut self.held[(page >> shift) as usize % self.sets];
            if let Some(rank) = set.iter().position(|entry| *entry == Entry::Page(page >> shift, shift)) {
                let entry = set.remove(rank);
                set.insert(0, entry);
                return Some((shift, rank));
            }
        }
        None
    }

    /// Finds an anchor entry that maps the page, and makes it the most recently used. Returns its doublings.
    pub(super) fn find_anchor(&mut self, page: u64) -> Option<u32> {
        let anchors = self.anchors.as_mut()?;
        anchors.counts[0] += 1;
        self.operations.entry(self.ways.1).or_default().0 += 1;
        let number = page / anchors.distance;
        let set = &mut self.held[number as usize % self.sets];
        let has = |entry: &Entry| {
            matches!(entry, Entry::Anchor(first, reach)
                if *first == number * anchors.distance && page < first + reach)
        };
        let rank = set.iter().position(has)?;
        anchors.counts[1] += 1;
        let entry = set.remove(rank);
        set.insert(0, entry);
        Some(0)
    }

    /// Chooses the distance at which runs of these lengths need the fewest entries.
    pub(super) fn choose_distance(&mut self, runs: &[u64], huge: bool) {
        let Some(anchors) = &mut self.anchors else { return };
        let entries = |distance: u64| -> u64 {
            let left =
                |run: &u64| if huge { run % distance / 512 + run % distance % 512 } else { run % distance };
            runs.iter().map(|run| run / distance + left(run)).sum()
        };
        let mut best = 2;
        for doublings in 2..=16 {
            if entries(1 << doublings) < entries(best) {
                best = 1 << doublings;
            }
        }
        if best != anchors.distance {
            anchors.distance = best;
            anchors.counts[2] += 1;
            self.held.iter_mut().for_each(|set| set.retain(|entry| !matches!(entry, Entry::Anchor(..))));
        }
    }

    pub(super) fn put(&mut self, number: u64, entry: Entry) {
        let set = &mut self.held[number as usize % self.sets];
        if let Entry::Group(new, _) = &entry {
            set.retain(|held| !matches!(held, Entry::Group(group, _) if group == new));
        }
        if let Entry::Anchor(new, _) = &entry {
            set.retain(|held| !matches!(held, Entry::Anchor(first, _) if first == new));
        }
        set.insert(0, entry);
        set.truncate(self.ways.1);
        self.used = true;
        self.operations.entry(self.ways.1).or_default().1 += 1;
    }
}

/// A range TLB.
#[derive(Clone, Debug, Default)]
pub struct RangeTlb {
    /// Number of entries.
    pub entries: usize,
    /// The ranges, most recently used first.
    pub held: Vec<Range<u64>>,
    /// Number of lookups, hits, hits of the most recent entry, and writes.
    pub counts: [u64; 4],
}

impl RangeTlb {
    pub(super) fn find(&mut self, page: u64) -> Option<Range<u64>> {
        self.counts[0] += 1;
        let at = self.held.iter().position(|range| range.contains(&page))?;
        self.counts[1] += 1;
        self.counts[2] += u64::from(at == 0);
        let range = self.held.remove(at);
        self.held.insert(0, range.clone());
        Some(range)
    }

    pub(super) fn put(&mut self, range: Range<u64>) {
        self.held.retain(|held| held.end <= range.start || range.end <= held.start);
        self.held.insert(0, range);
        self.held.truncate(self.entries);
        self.counts[3] += 1;
    }
}
