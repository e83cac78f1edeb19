//! What a machine is. `docs/adding-a-machine.md` explains every key of its file.

use crate::walker::WalkLevel;
use pagewalk_setassoc::{Geometry, Replacement, SetArray, SetIndex};
use pagewalk_units::{Kind, PageSize};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A set of access kinds. A modify is served by the arrays that serve stores.
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
    /// TLB arrays in file order.
    pub tlbs: Vec<TlbSpec>,
    /// The page walker.
    pub walker: WalkerSpec,
    /// Cycles.
    pub cost: CostSpec,
    /// The host CPUs that this machine stands for.
    pub matches: Option<Match>,
}

/// One TLB array.
#[derive(Clone, Debug, PartialEq)]
pub struct TlbSpec {
    /// Name, used in metric names: `tlb.NAME.misses`.
    pub name: String,
    /// 1 is probed first.
    pub level: u8,
    /// Kinds of references that probe it.
    pub serves: KindSet,
    /// Page sizes that it can hold.
    pub page_sizes: Vec<PageSize>,
    /// Sets and ways.
    pub geometry: Geometry,
    /// What leaves a full set.
    pub replacement: Replacement,
    /// How the page number chooses the set.
    pub index: SetIndex,
    /// What is put into it.
    pub fills: Fills,
}

/// What puts translations into a TLB array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fills {
    /// Walks, and hits of the levels below (inclusive fill, without back-invalidation).
    #[default]
    Walks,
    /// What the level above replaces; a hit moves the entry up (exclusive fill): see [`crate::LowerLevels`].
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
    pub fn array(&self) -> SetArray {
        array(self.geometry, self.replacement).indexed_by(self.index)
    }

    /// Whether references of `kind` to pages of `size` use it.
    pub fn takes(&self, kind: Kind, size: PageSize) -> bool {
        self.serves.has(kind) && self.holds(size)
    }

    /// Whether it can hold pages of `size`.
    pub fn holds(&self, size: PageSize) -> bool {
        self.page_sizes.contains(&size)
    }
}

/// An x86-64 radix walker.
#[derive(Clone, Debug, PartialEq)]
pub struct WalkerSpec {
    /// Levels of the page table: 4 or 5.
    pub levels: u8,
    /// Page-walk caches by the level of the entries they hold.
    pub caches: BTreeMap<WalkLevel, WalkCacheSpec>,
}

/// One page-walk cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WalkCacheSpec {
    /// Sets and ways.
    pub geometry: Geometry,
    /// What leaves a full set.
    pub replacement: Replacement,
}

impl WalkCacheSpec {
    /// An empty cache of this kind.
    pub fn array(&self) -> SetArray {
        array(self.geometry, self.replacement)
    }
}

fn array(geometry: Geometry, replacement: Replacement) -> SetArray {
    SetArray::new(geometry, replacement).expect("the shape was checked when the machine was read")
}

/// Cycles. All are modelled.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostSpec {
    /// Cycles that a first-level miss costs which hits a lower level.
    #[serde(default)]
    pub l2_hit: u64,
    /// Cycles per page-table entry read by a walk.
    pub walk_reference: u64,
    /// Cycles per instruction apart from translation: turns walk cycles into a share of all cycles.
    #[serde(default = "default_cycles_per_instruction")]
    pub cycles_per_instruction: f64,
}

fn default_cycles_per_instruction() -> f64 {
    1.0
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
        machine
    }

    /// The number of the last TLB level.
    pub fn last_level(&self) -> u8 {
        self.tlbs.iter().map(|tlb| tlb.level).max().unwrap_or(1)
    }

    /// The arrays of `level`, with their indices.
    pub fn level(&self, level: u8) -> impl Iterator<Item = (usize, &TlbSpec)> {
        self.tlbs.iter().enumerate().filter(move |(_, tlb)| tlb.level == level)
    }
}
