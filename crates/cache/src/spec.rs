//! The specification of caches, and the check that they form a valid hierarchy.

use pagewalk_setassoc::{Geometry, Replacement, SetArray};
use std::collections::BTreeSet;

/// Who reads or writes memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Requester {
    /// The program's instruction fetches.
    Fetch = 0,
    /// The program's loads.
    Load = 1,
    /// The program's stores.
    Store = 2,
    /// Page walks.
    Walk = 3,
}

impl Requester {
    /// All requesters, in the order of their codes.
    pub const ALL: [Requester; 4] = [Requester::Fetch, Requester::Load, Requester::Store, Requester::Walk];

    /// The name in machine files and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Requester::Fetch => "fetch",
            Requester::Load => "load",
            Requester::Store => "store",
            Requester::Walk => "walk",
        }
    }
}

/// A set of requesters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RequesterSet(u8);

impl RequesterSet {
    /// Whether the set contains `requester`.
    pub fn has(self, requester: Requester) -> bool {
        self.0 >> requester as u8 & 1 == 1
    }

    /// The requesters in the set.
    pub fn iter(self) -> impl Iterator<Item = Requester> {
        Requester::ALL.into_iter().filter(move |&requester| self.has(requester))
    }
}

impl FromIterator<Requester> for RequesterSet {
    fn from_iter<T: IntoIterator<Item = Requester>>(members: T) -> RequesterSet {
        RequesterSet(members.into_iter().fold(0, |set, member| set | 1 << member as u8))
    }
}

/// What a cache does with stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreRule {
    /// Write-back: a store is served here, and allocates its line.
    #[default]
    Back,
    /// Write-through: every store goes on to the next level, behind a write buffer that never stalls, and allocates
    /// nothing here.
    Through,
}

/// What fills a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheFills {
    /// The lines that miss it.
    #[default]
    Misses,
    /// The lines that the cache of the level above evicts: a victim cache (Jouppi, "Improving Direct-Mapped Cache
    /// Performance by the Addition of a Small Fully-Associative Cache and Prefetch Buffers", ISCA 1990). A line that
    /// hits here moves back up, in exchange for the one that it evicts there.
    Victims,
}

/// The address that finds a line in a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddressUsed {
    /// The physical address: where a page's frame lies matters.
    #[default]
    Physical,
    /// The virtual address with its address space, in index and tag.
    Virtual,
}

/// The specification of one cache.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheSpec {
    /// Name, used in metric names: `cache.NAME.walk_hits`.
    pub name: String,
    /// Level; level 1 is looked up first.
    pub level: u8,
    /// The requesters that it serves.
    pub serves: RequesterSet,
    /// log2 of the bytes of a line.
    pub line_shift: u32,
    /// Sets and ways; each entry holds one line.
    pub geometry: Geometry,
    /// Replacement policy.
    pub replacement: Replacement,
    /// Cycles of an access that hits here.
    pub latency: u64,
    /// Whether all cores share it; otherwise each has one.
    pub shared: bool,
    /// What it does with stores.
    pub stores: StoreRule,
    /// The address that finds lines in it.
    pub address: AddressUsed,
    /// What fills it.
    pub fills: CacheFills,
}

impl CacheSpec {
    /// An empty array of this shape.
    ///
    /// # Panics
    /// If the replacement policy does not support the geometry, which [`check`] reports.
    pub(crate) fn array(&self) -> SetArray {
        SetArray::new(self.geometry, self.replacement).expect("checked")
    }

    /// Capacity in bytes.
    pub fn bytes(&self) -> u64 {
        (self.geometry.entries() as u64) << self.line_shift
    }

    /// The colors of pages of this size: the page-sized slices of a way. Frames whose numbers agree modulo the colors
    /// compete for the same sets. 1: a page fills a whole way, so frames do not matter.
    pub fn colors(&self, page_bytes: u64) -> u64 {
        ((self.geometry.sets() as u64) << self.line_shift).div_ceil(page_bytes)
    }

    /// Whether a victim cache may hold what it evicts.
    fn evicts_to(&self, victims: &CacheSpec) -> bool {
        self.serves == victims.serves
            && self.shared == victims.shared
            && self.address == victims.address
            && self.fills == CacheFills::Misses
            && self.stores == StoreRule::Back
    }

    /// Whether it looks a requester's access up without ever ending it.
    pub(crate) fn passes_on(&self, requester: Requester) -> bool {
        requester == Requester::Store && self.stores == StoreRule::Through
    }
}

/// Why caches do not form a valid hierarchy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CacheError {
    /// Two caches have the same name.
    #[error("two caches are named `{0}`: names must differ")]
    Name(String),
    /// The replacement policy does not support the geometry.
    #[error("cache `{0}`: replacement: {1}")]
    Replacement(String, String),
    /// Line sizes differ.
    #[error("cache `{0}` has lines of {1} bytes, `{2}` of {3}: all caches need lines of one size")]
    Lines(String, u64, String, u64),
    /// Two caches of a level serve the same requester.
    #[error("caches `{0}` and `{1}` of level {2} both serve `{3}`: only one cache per level may serve it")]
    Overlap(String, String, u8, &'static str),
    /// A victim cache that does not match one cache of the level above.
    #[error(
        "cache `{0}` of level {1} has fills = \"victims\": the level above needs one cache that serves the same \
         requesters by the same address, is as shared, writes back, and is filled by misses"
    )]
    Victims(String, u8),
    /// No cache serves page walks.
    #[error("no cache serves `walk`: add it to the `serves` of those that page walks look up")]
    NoWalks,
}

/// Checks that caches form a valid hierarchy. `walks`: for page walks too.
pub fn check(caches: &[CacheSpec], walks: bool) -> Result<(), CacheError> {
    let mut names = BTreeSet::new();
    if let Some(twice) = caches.iter().find(|cache| !names.insert(&cache.name)) {
        return Err(CacheError::Name(twice.name.clone()));
    }
    for (i, a) in caches.iter().enumerate() {
        if let Err(why) = SetArray::new(a.geometry, a.replacement) {
            return Err(CacheError::Replacement(a.name.clone(), why.to_string()));
        }
        for b in &caches[i + 1..] {
            if a.line_shift != b.line_shift {
                let [a_bytes, b_bytes] = [1 << a.line_shift, 1 << b.line_shift];
                return Err(CacheError::Lines(a.name.clone(), a_bytes, b.name.clone(), b_bytes));
            }
            let both = a.serves.iter().find(|&requester| b.serves.has(requester));
            if let (true, Some(both)) = (a.level == b.level, both) {
                return Err(CacheError::Overlap(a.name.clone(), b.name.clone(), a.level, both.name()));
            }
        }
    }
    for victims in caches.iter().filter(|cache| cache.fills == CacheFills::Victims) {
        let above = caches.iter().find(|cache| cache.level + 1 == victims.level && cache.evicts_to(victims));
        if above.is_none() || victims.stores == StoreRule::Through {
            return Err(CacheError::Victims(victims.name.clone(), victims.level));
        }
    }
    if walks && !caches.iter().any(|cache| cache.serves.has(Requester::Walk)) {
        return Err(CacheError::NoWalks);
    }
    Ok(())
}
