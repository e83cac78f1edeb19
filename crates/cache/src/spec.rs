//! The specification of caches, and the check that they form a valid hierarchy.

use crate::stack::LruStack;
use crate::write_buffer::WriteBufferSpec;
use pagewalk_setassoc::{Geometry, Replacement};

/// Levels of caches at most.
pub const LEVELS: usize = 4;

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
    /// Write-through: every store goes on to the next level, behind a write buffer, and allocates nothing here.
    Through,
}

/// What fills a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheFills {
    /// The lines that miss it.
    #[default]
    Misses,
    /// The lines that the caches of the level above evict: a victim cache (Jouppi, "Improving Direct-Mapped Cache
    /// Performance by the Addition of a Small Fully-Associative Cache and Prefetch Buffers", ISCA 1990), or an
    /// exclusive level. A line that hits here moves back up, in exchange for the one that it evicts there. It stays if
    /// the level above has no cache for the requester.
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

/// How a cache's sets hold lines, and the cycles of hits that take longer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheOrganisation {
    /// As the replacement policy says; all hits take as long.
    #[default]
    Sets,
    /// Column-associative: direct-mapped, with a second place for each line (Agarwal and Pudar, ISCA 1993).
    Column {
        /// Cycles of a hit in the second place.
        slow_latency: u64,
    },
    /// Two ways under LRU, of which the last used is faster.
    Pseudo {
        /// Cycles of a hit in the other way.
        slow_latency: u64,
    },
}

/// Why a cache has no colors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoColors {
    /// Virtual addresses find its lines.
    #[error("virtual addresses find its lines")]
    Virtual,
    /// It holds victims.
    #[error("it holds what the level above evicts, not what misses")]
    Victims,
    /// Its slices are hashed.
    #[error("a hash that nobody has published picks the slice of each line")]
    Hashed,
}

/// The specification of one cache.
// Many fields: one for each key of the machine file.
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
    /// Sets and ways of a slice; each entry holds one line.
    pub geometry: Geometry,
    /// How many slices there are. Of several, a hash picks that of a line.
    pub slices: u32,
    /// Replacement policy.
    pub replacement: Replacement,
    /// How the sets hold lines.
    pub organisation: CacheOrganisation,
    /// Cycles of an access that hits here.
    pub latency: u64,
    /// Whether all cores share it; otherwise each has one.
    pub shared: bool,
    /// What it does with stores.
    pub stores: StoreRule,
    /// Where the stores wait that it passes on; without one they never wait.
    pub write_buffer: Option<WriteBufferSpec>,
    /// The address that finds lines in it.
    pub address: AddressUsed,
    /// What fills it.
    pub fills: CacheFills,
    /// Whether the caches above hold only lines that it holds: what it evicts leaves them too.
    pub inclusive: bool,
}

impl CacheSpec {
    /// A plain cache: with lines of 64 bytes, found by physical address, of which the least recently used is replaced;
    /// filled by misses, written back, not shared. Latency in cycles.
    pub fn plain(name: &str, level: u8, serves: &[Requester], geometry: Geometry, latency: u64) -> CacheSpec {
        CacheSpec {
            name: name.to_owned(),
            level,
            serves: serves.iter().copied().collect(),
            line_shift: 6,
            geometry,
            slices: 1,
            replacement: Replacement::Lru,
            organisation: CacheOrganisation::Sets,
            latency,
            shared: false,
            stores: StoreRule::Back,
            write_buffer: None,
            address: AddressUsed::Physical,
            fills: CacheFills::Misses,
            inclusive: false,
        }
    }

    /// Capacity in bytes.
    pub fn bytes(&self) -> u64 {
        (self.geometry.entries() as u64 * u64::from(self.slices)) << self.line_shift
    }

    /// The rules that differ from those of a plain cache, such as `found by virtual address`.
    pub fn rules(&self) -> Vec<String> {
        let mut rules = Vec::new();
        let mut rule = |holds: bool, text: &str| {
            if holds {
                rules.push(text.to_owned());
            }
        };
        rule(self.shared, "shared by all cores");
        rule(self.address == AddressUsed::Virtual, "found by virtual address");
        rule(self.stores == StoreRule::Through, "passes stores on");
        rule(self.fills == CacheFills::Victims, "filled by victims of the level above");
        rule(self.inclusive, "inclusive");
        if let Some(WriteBufferSpec { entries, drain }) = self.write_buffer {
            rules.push(format!("write buffer of {entries} stores that drain in {drain} cycles each"));
        }
        match self.organisation {
            CacheOrganisation::Sets => {}
            CacheOrganisation::Column { slow_latency } => {
                rules.push(format!("column-associative, slow hits {slow_latency} cycles"));
            }
            CacheOrganisation::Pseudo { slow_latency } => {
                rules.push(format!("pseudo-associative, slow hits {slow_latency} cycles"));
            }
        }
        if self.slices > 1 {
            rules.push(format!("{} slices by an unknown hash", self.slices));
        }
        rules
    }

    /// The colors of pages of this size: the page-sized slices of a way. Frames whose numbers agree modulo the colors
    /// compete for the same sets. 1: a page fills a whole way, so frames do not matter.
    ///
    /// # Errors
    /// If a frame's number does not tell the sets of its lines.
    pub fn colors(&self, page_bytes: u64) -> Result<u64, NoColors> {
        if self.address == AddressUsed::Virtual {
            return Err(NoColors::Virtual);
        }
        if self.fills == CacheFills::Victims {
            return Err(NoColors::Victims);
        }
        if self.slices > 1 {
            return Err(NoColors::Hashed);
        }
        Ok(((self.geometry.sets() as u64) << self.line_shift).div_ceil(page_bytes))
    }

    /// Cycles of a slow hit, if there are some.
    pub fn slow_latency(&self) -> Option<u64> {
        match self.organisation {
            CacheOrganisation::Sets => None,
            CacheOrganisation::Column { slow_latency } | CacheOrganisation::Pseudo { slow_latency } => {
                Some(slow_latency)
            }
        }
    }

    /// Whether the order of use of its lines is all that it needs to know.
    pub(crate) fn is_in_order(&self) -> bool {
        self.replacement == Replacement::Lru
            && self.organisation == CacheOrganisation::Sets
            && self.geometry.ways() <= LruStack::WAYS_MAX
            && self.address == AddressUsed::Physical
            && !(self.shared && self.inclusive)
    }

    /// Whether it looks a requester's access up without ever ending it.
    pub(crate) fn passes_on(&self, requester: Requester) -> bool {
        requester == Requester::Store && self.stores == StoreRule::Through
    }

    /// Whether misses of a requester fill it.
    pub(crate) fn takes_misses_of(&self, requester: Requester) -> bool {
        self.fills == CacheFills::Misses && self.serves.has(requester) && !self.passes_on(requester)
    }

    /// Whether stores end here, so that its lines may be dirty.
    pub(crate) fn may_be_dirty(&self) -> bool {
        self.serves.has(Requester::Store) && self.stores == StoreRule::Back
    }

    /// Whether this inclusive cache takes what it evicts from another too.
    pub(crate) fn drops_from(&self, other: &CacheSpec) -> bool {
        self.inclusive
            && other.level < self.level
            && other.serves.iter().any(|requester| self.serves.has(requester))
    }

    /// Whether this victim cache takes what another evicts.
    pub(crate) fn takes_victims_of(&self, other: &CacheSpec) -> bool {
        self.fills == CacheFills::Victims
            && other.level + 1 == self.level
            && other.serves.iter().any(|requester| self.serves.has(requester))
    }
}
