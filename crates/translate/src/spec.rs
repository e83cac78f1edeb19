//! The specification of a machine. `docs/reference/machine-files.md` explains every key of its file.

use crate::{Coalesce, DataSideSpec, RadixFormat, ReplacementSource, SoftwareSpec, WalkLevel};
use pagewalk_cache::CacheSpec;
use pagewalk_setassoc::{
    Geometry, Organisation, OrganisationError, RelevantHits, Replacement, SetArray, SetIndex, Shape, TlbArray,
};
use pagewalk_units::{Kind, PageSize, Paging};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;

/// A set of access kinds. Arrays that serve stores also serve modifies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct KindSet(u8);

impl KindSet {
    /// Whether references of `kind` belong to the set.
    pub fn has(self, kind: Kind) -> bool {
        let kind = if kind == Kind::Modify { Kind::Store } else { kind };
        self.0 >> kind as u8 & 1 == 1
    }

    /// The set with `kind` too.
    pub fn with(self, kind: Kind) -> KindSet {
        KindSet(self.0 | 1 << kind as u8)
    }
}

/// A machine: TLBs, walker, costs.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineSpec {
    /// Short name, such as `skylake_sp`.
    pub name: String,
    /// Full name for people.
    pub title: String,
    /// Its kernel's page sizes.
    pub paging: Paging,
    /// Number of address-space identifiers; 0: a switch between address spaces flushes the TLBs and walkers' caches.
    pub asids: u32,
    /// TLB arrays in file order.
    pub tlbs: Vec<TlbSpec>,
    /// The page walker.
    pub walker: WalkerSpec,
    /// Caches of memory for walks and the program's references; without them, walks have a flat price.
    pub caches: Vec<CacheSpec>,
    /// Cycles.
    pub cost: CostSpec,
    /// The host CPUs that this machine describes.
    pub matches: Option<Match>,
    /// The table that describes its kernel; the kernel's side interprets it.
    pub os: Option<toml::Table>,
    /// Its other parts, if it is a data side.
    pub data_side: Option<Box<DataSideSpec>>,
}

/// One TLB array.
// Many fields: one for each property in machine files.
#[derive(Clone, Debug, PartialEq)]
pub struct TlbSpec {
    /// Name, used in metric names: `tlb.NAME.misses`.
    pub name: String,
    /// 1 is probed first.
    pub level: u8,
    /// Kinds of references that look it up.
    pub serves: KindSet,
    /// Page sizes that it can hold.
    pub page_sizes: Vec<PageSize>,
    /// Sets and ways, without the reserved entries.
    pub geometry: Geometry,
    /// Entries of a fully associative array beyond its geometry that no miss fills: wired, or reserved for the kernel.
    pub reserved: u32,
    /// Adjacent pages that one entry maps together, a power of two.
    pub pages_per_entry: u32,
    /// The replacement policy.
    pub replacement: Replacement,
    /// The source of the replacement policy, if the file gives it. It affects no count.
    pub replacement_source: Option<ReplacementSource>,
    /// How a page's slots are found.
    pub index: Organisation,
    /// What fills it.
    pub fills: Fills,
    /// Whether all cores share it.
    pub shared: bool,
    /// The buffer of its next-page prefetcher, if it has one.
    pub prefetch: Option<WalkCacheSpec>,
    /// Which adjacent base pages share an entry if they lie together in memory.
    pub coalesce: Option<Coalesce>,
}

/// What fills a TLB array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fills {
    /// Walks, and hits of lower levels (inclusive fill, without back-invalidation).
    #[default]
    Walks,
    /// Victims of the level above; a hit moves the entry up (exclusive fill): see [`crate::LowerLevels`].
    ///
    /// Source: victim caches of Jouppi, "Improving Direct-Mapped Cache Performance by the Addition of a Small
    /// Fully-Associative Cache and Prefetch Buffers", ISCA 1990, section 3.2, applied to TLBs.
    Victims,
}

impl Fills {
    /// The name in machine files.
    pub fn name(self) -> &'static str {
        match self {
            Fills::Walks => "walks",
            Fills::Victims => "victims",
        }
    }
}

impl TlbSpec {
    /// An empty array of this kind.
    pub fn array(&self) -> TlbArray {
        self.try_array().expect("MachineSpec checks the shape")
    }

    /// [`TlbSpec::array`] for a specification that is not checked.
    pub(crate) fn try_array(&self) -> Result<TlbArray, OrganisationError> {
        let shifts: Vec<u32> = self.page_sizes.iter().map(|size| self.entry_shift(size.shift())).collect();
        self.index.array(Shape { geometry: self.geometry, shifts: &shifts, replacement: self.replacement })
    }

    /// [`TlbSpec::array`] for arrays with sets, as in data sides.
    pub(crate) fn set_array(&self) -> SetArray {
        let index = self.index.sets().expect("MachineSpec checks the index");
        array(self.geometry, self.replacement).indexed_by(index)
    }

    /// log2 of the bytes that an entry for pages of 2^`shift` bytes maps.
    fn entry_shift(&self, shift: u32) -> u32 {
        shift + self.pages_per_entry.ilog2()
    }

    /// The hits that its replacement needs.
    pub fn relevant_hits(&self) -> RelevantHits {
        self.index.relevant_hits(self.replacement)
    }

    /// Whether it serves references of `kind` to pages of `size`.
    pub fn takes(&self, kind: Kind, size: PageSize) -> bool {
        self.serves.has(kind) && self.holds(size)
    }

    /// All entries, including reserved ones.
    pub fn entries(&self) -> u64 {
        self.geometry.entries() as u64 + u64::from(self.reserved)
    }

    /// Entries of a set; all entries if fully associative.
    pub fn ways(&self) -> u64 {
        self.geometry.ways() as u64 + u64::from(self.reserved)
    }

    /// Bytes that it maps when full of pages of `size`, without reserved entries.
    pub fn reach(&self, size: PageSize) -> u64 {
        let pages = self.geometry.entries() as u64 * u64::from(self.pages_per_entry);
        pages.saturating_mul(size.bytes())
    }

    /// Whether its own misses fill it, and nothing else.
    pub fn filled_by_misses(&self) -> bool {
        self.fills == Fills::Walks && self.prefetch.is_none()
    }

    /// Whether it can hold pages of `size`.
    pub fn holds(&self, size: PageSize) -> bool {
        self.page_sizes.contains(&size)
    }
}

/// What serves a miss of all TLBs.
#[derive(Clone, Debug, PartialEq)]
pub enum WalkerSpec {
    /// Hardware walks a radix page table.
    Radix(RadixSpec),
    /// Hardware walks a guest's radix table through its host's.
    Nested(NestedSpec),
    /// Hardware searches a hashed page table.
    Hashed(HashedSpec),
    /// The kernel's handler refills the TLB at a fixed price, that of one page-table entry
    /// ([`CostSpec::walk_reference`]). The handler's own misses are not modelled.
    Software,
    /// The kernel's handlers refill the TLB from mapped page tables, so that they may miss too: see
    /// [`crate::SoftwareMmu`].
    Mapped(Box<SoftwareSpec>),
}

impl WalkerSpec {
    /// The page-walk caches with their names, deepest level first; for a nested walker the guest's, the host's, then
    /// the others.
    pub fn caches(&self) -> Vec<(String, WalkCacheSpec)> {
        match self {
            WalkerSpec::Radix(radix) => {
                radix.caches().map(|(name, cache)| (name.to_owned(), cache)).collect()
            }
            WalkerSpec::Nested(nested) => nested.caches().collect(),
            WalkerSpec::Hashed(_) | WalkerSpec::Software | WalkerSpec::Mapped(_) => Vec::new(),
        }
    }

    /// The largest page that a TLB entry can map, if limited: TLBs hold a guest's page in pieces of smaller host pages.
    pub fn largest_entry(&self) -> Option<PageSize> {
        if let WalkerSpec::Nested(nested) = self { Some(nested.host_page) } else { None }
    }
}

impl fmt::Display for WalkerSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WalkerSpec::Radix(radix) => write!(f, "radix, {radix}"),
            WalkerSpec::Nested(NestedSpec { guest, host, host_page, .. }) => {
                write!(f, "nested; guest: {guest}; host: {host}, pages of {host_page}")
            }
            WalkerSpec::Hashed(HashedSpec { buckets, entries_per_bucket, index }) => {
                write!(f, "hashed, {} buckets of {entries_per_bucket} entries, index {index}", buckets.sets())
            }
            WalkerSpec::Software => f.write_str("software"),
            WalkerSpec::Mapped(software) => software.fmt(f),
        }
    }
}

/// A radix page table and its walker.
#[derive(Clone, Debug, PartialEq)]
pub struct RadixSpec {
    /// The shape of its tables.
    pub format: RadixFormat,
    /// Levels of the page table.
    pub levels: u8,
    /// Page-walk caches by the level of the entries they hold.
    pub caches: BTreeMap<WalkLevel, WalkCacheSpec>,
}

impl RadixSpec {
    /// The page-walk caches with their names, deepest level first.
    pub fn caches(&self) -> impl Iterator<Item = (&'static str, WalkCacheSpec)> {
        self.caches.iter().map(|(&level, &cache)| (self.format.level_name(level), cache))
    }
}

impl fmt::Display for RadixSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} levels", self.format, self.levels)
    }
}

/// The tables of a virtual machine and its host: see [`crate::NestedWalker`].
#[derive(Clone, Debug, PartialEq)]
pub struct NestedSpec {
    /// Guest-virtual to guest-physical.
    pub guest: RadixSpec,
    /// Guest-physical to system-physical.
    pub host: RadixSpec,
    /// The page size with which the host maps guest-physical memory.
    pub host_page: PageSize,
    /// Host translations by guest-physical page.
    pub nested_tlb: Option<NestedTlbSpec>,
    /// Single entries of both dimensions.
    pub entry_cache: Option<WalkCacheSpec>,
}

/// A nested TLB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NestedTlbSpec {
    /// Its shape.
    pub cache: WalkCacheSpec,
    /// Whether it also serves addresses of the program's pages, not only those of the guest's tables.
    pub serves_pages: bool,
}

impl NestedSpec {
    /// The nested TLB's name in metrics.
    pub const NESTED_TLB: &str = "nested_tlb";
    /// The entry cache's name in metrics.
    pub const ENTRY_CACHE: &str = "entry_cache";

    /// The name in metrics of the host's cache of this level.
    pub fn host_cache_name(level: &str) -> String {
        format!("host_{level}")
    }

    fn caches(&self) -> impl Iterator<Item = (String, WalkCacheSpec)> {
        let guest = self.guest.caches().map(|(name, cache)| (name.to_owned(), cache));
        let host = self.host.caches().map(|(name, cache)| (NestedSpec::host_cache_name(name), cache));
        let nested_tlb = self.nested_tlb.map(|tlb| (NestedSpec::NESTED_TLB.to_owned(), tlb.cache));
        let entry_cache = self.entry_cache.map(|cache| (NestedSpec::ENTRY_CACHE.to_owned(), cache));
        guest.chain(host).chain(nested_tlb).chain(entry_cache)
    }
}

/// A hashed page table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HashedSpec {
    /// One set for each bucket.
    pub buckets: Geometry,
    /// Page-table entries in a bucket.
    pub entries_per_bucket: u32,
    /// How the page number selects the bucket.
    pub index: SetIndex,
}

/// One page-walk cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WalkCacheSpec {
    /// Sets and ways.
    pub geometry: Geometry,
    /// The replacement policy.
    pub replacement: Replacement,
}

impl WalkCacheSpec {
    /// An empty cache of this kind.
    pub fn array(&self) -> SetArray {
        array(self.geometry, self.replacement)
    }
}

fn array(geometry: Geometry, replacement: Replacement) -> SetArray {
    SetArray::new(geometry, replacement).expect("MachineSpec checks the shape")
}

/// Cycles. All are modelled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostSpec {
    /// Cycles of a first-level miss that hits a lower level.
    pub l2_hit: u64,
    /// Cycles per page-table entry read by a walk, or per software refill; with caches, entries have their latencies.
    pub walk_reference: u64,
    /// Cycles of an access that no cache of memory serves; 0 without caches.
    pub memory: u64,
    /// Cycles per instruction without translation, to express walk cycles as a share of all cycles.
    pub cycles_per_instruction: f64,
}

/// Host CPUs by CPUID vendor, family and model, as `/proc/cpuinfo` prints them.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Match {
    /// `GenuineIntel`, `AuthenticAMD` …
    pub vendor: String,
    /// CPU family.
    pub family: u32,
    /// CPU models.
    pub models: Vec<u32>,
}

impl MachineSpec {
    /// The same machine with every TLB array twice as large.
    pub fn doubled(&self) -> MachineSpec {
        let mut machine = self.clone();
        machine.name += "_double";
        for tlb in &mut machine.tlbs {
            tlb.geometry = tlb.geometry.scaled(1);
        }
        if let WalkerSpec::Mapped(software) = &mut machine.walker {
            software.resize(machine.tlbs[0].geometry);
        }
        machine
    }

    /// The same machine with twice the ways in each set of the caches of a level; none if there are no such caches.
    pub fn widened(&self, level: u8) -> Option<MachineSpec> {
        let mut machine = self.clone();
        machine.name += &format!("_wide_{level}");
        let mut wide = machine.caches.iter_mut().filter(|cache| cache.level == level).peekable();
        wide.peek()?;
        for cache in wide {
            cache.geometry = cache.geometry.widened()?;
        }
        // Whom they serve has been checked.
        pagewalk_cache::check(&machine.caches, false).is_ok().then_some(machine)
    }

    /// Its software-managed TLB, if its page tables are mapped.
    pub fn software(&self) -> Option<&SoftwareSpec> {
        if let WalkerSpec::Mapped(software) = &self.walker { Some(software) } else { None }
    }

    /// Cycles of a walk, for a data side with flat prices.
    pub fn side_walk_cycles(&self) -> Option<u64> {
        self.data_side.as_deref()?.walk_cycles
    }

    /// Whether its TLBs hold huge pages for every kind of reference, so that its kernel can use them.
    pub fn has_huge_pages(&self) -> bool {
        let held = |kind| self.tlbs.iter().any(|tlb| tlb.serves.has(kind) && tlb.holds(self.paging.huge()));
        self.kinds().iter().all(|&kind| held(kind))
    }

    /// The kinds of references that it translates.
    pub fn kinds(&self) -> &'static [Kind] {
        if self.data_side.is_some() {
            &[Kind::Load, Kind::Store]
        } else {
            &[Kind::Fetch, Kind::Load, Kind::Store]
        }
    }

    /// Whether it has a direct segment. Which walks that saves is known only at the end of a run.
    pub fn has_segment(&self) -> bool {
        self.data_side.as_ref().is_some_and(|side| side.segment.is_some())
    }

    /// The number of the last TLB level.
    pub fn last_level(&self) -> u8 {
        self.tlbs.iter().map(|tlb| tlb.level).max().unwrap_or(1)
    }

    /// Whether an entry may map several pages, wherever they lie in memory.
    pub fn shares_entries(&self) -> bool {
        self.tlbs.iter().any(|tlb| tlb.pages_per_entry > 1)
    }

    /// The arrays of `level`, with their indices.
    pub fn level(&self, level: u8) -> impl Iterator<Item = (usize, &TlbSpec)> {
        self.tlbs.iter().enumerate().filter(move |(_, tlb)| tlb.level == level)
    }
}
