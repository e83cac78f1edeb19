//! Machine descriptions in TOML. `docs/adding-a-machine.md` explains every key.

use crate::MachineError;
use crate::walker::WalkLevel;
use pagewalk_setassoc::{Geometry, Replacement, SetArray, SetIndex};
use pagewalk_units::{Kind, PageSize};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

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
}

impl TlbSpec {
    /// An empty array of this kind.
    pub fn array(&self) -> SetArray {
        array(self.geometry, self.replacement).indexed_by(self.index)
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    schema: u32,
    name: String,
    title: Option<String>,
    #[serde(default)]
    tlb: Vec<FileTlb>,
    walker: FileWalker,
    cost: CostSpec,
    #[serde(rename = "match")]
    matches: Option<Match>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileTlb {
    name: String,
    level: u8,
    serves: Vec<FileKind>,
    page_sizes: Vec<String>,
    entries: u32,
    ways: Option<u32>,
    #[serde(default)]
    replacement: FileReplacement,
    seed: Option<u64>,
    index: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FileKind {
    Fetch,
    Load,
    Store,
}

/// [`Replacement`] without its seed; the parser names line and choices where it is none.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum FileReplacement {
    #[default]
    Lru,
    TreePlru,
    BitPlru,
    Fifo,
    Random,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileWalker {
    #[expect(dead_code, reason = "radix is the only walker yet; parsing it rejects any other name")]
    kind: FileWalkerKind,
    levels: u8,
    #[serde(default)]
    caches: BTreeMap<WalkLevel, FileCache>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum FileWalkerKind {
    Radix,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileCache {
    entries: u32,
    ways: Option<u32>,
    #[serde(default)]
    replacement: FileReplacement,
    seed: Option<u64>,
}

/// The replacement that the keys `replacement` and `seed` name, for an array of this shape.
fn replacement(name: FileReplacement, seed: Option<u64>, geometry: Geometry) -> Result<Replacement, String> {
    let replacement = match name {
        FileReplacement::Lru => Replacement::Lru,
        FileReplacement::TreePlru => Replacement::TreePlru,
        FileReplacement::BitPlru => Replacement::BitPlru,
        FileReplacement::Fifo => Replacement::Fifo,
        FileReplacement::Random => Replacement::Random { seed: seed.unwrap_or(0) },
    };
    if seed.is_some() && !matches!(replacement, Replacement::Random { .. }) {
        let name = replacement.name();
        return Err(format!("seed is for replacement = \"random\" alone, not for \"{name}\""));
    }
    SetArray::new(geometry, replacement).map_err(|why| format!("replacement: {why}"))?;
    Ok(replacement)
}

fn set_index(name: Option<&str>) -> Result<SetIndex, String> {
    let name = name.unwrap_or("modulo");
    SetIndex::from_name(name)
        .ok_or_else(|| format!("index = \"{name}\": choose from {}", SetIndex::NAMES.join(", ")))
}

impl MachineSpec {
    /// Reads a machine from TOML text; `file` is its name for messages.
    pub fn from_toml(file: &str, text: &str) -> Result<MachineSpec, MachineError> {
        let parsed: File = toml::from_str(text).map_err(|error| MachineError::Syntax {
            file: file.to_owned(),
            message: error.to_string().trim_end().to_owned(),
        })?;
        let rule = |why: String| MachineError::Rule { file: file.to_owned(), why };
        if parsed.schema != 1 {
            return Err(rule(format!("schema = {}: this version reads schema = 1", parsed.schema)));
        }
        let tlbs = parsed.tlb.into_iter().map(|tlb| tlb.check(file)).collect::<Result<Vec<_>, _>>()?;
        let machine = MachineSpec {
            title: parsed.title.unwrap_or_else(|| parsed.name.clone()),
            name: parsed.name,
            tlbs,
            walker: parsed.walker.check(file)?,
            cost: parsed.cost,
            matches: parsed.matches,
        };
        machine.check().map_err(rule)?;
        Ok(machine)
    }

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

    fn check(&self) -> Result<(), String> {
        let name_ok = |name: &str| {
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
        };
        if !name_ok(&self.name) {
            return Err(format!("name = \"{}\": use letters, digits, `_` and `-`", self.name));
        }
        if self.tlbs.is_empty() {
            return Err("no [[tlb]]: a machine needs at least one array of level 1".to_owned());
        }
        let mut names = BTreeSet::new();
        for tlb in &self.tlbs {
            if !name_ok(&tlb.name) {
                return Err(format!("tlb name \"{}\": use letters, digits, `_` and `-`", tlb.name));
            }
            if !names.insert(&tlb.name) {
                return Err(format!("two arrays are named `{}`: names must differ", tlb.name));
            }
        }
        let cpi = self.cost.cycles_per_instruction;
        if !(cpi.is_finite() && cpi > 0.0) {
            return Err(format!("cost.cycles_per_instruction = {cpi}: must be a number above 0"));
        }
        self.check_levels()?;
        self.check_overlaps()
    }

    fn check_levels(&self) -> Result<(), String> {
        let last = self.last_level();
        for level in 1..=last {
            if self.level(level).next().is_none() {
                return Err(format!(
                    "no array has level {level}, but some have level {last}: leave none out"
                ));
            }
        }
        for kind in [Kind::Fetch, Kind::Load, Kind::Store] {
            if !self.tlbs.iter().any(|tlb| tlb.serves.has(kind) && tlb.holds(PageSize::FOUR_KIB)) {
                let kind = format!("{kind:?}").to_lowercase();
                return Err(format!("no array serves `{kind}` for 4K pages: add it to some `serves`"));
            }
        }
        Ok(())
    }

    fn check_overlaps(&self) -> Result<(), String> {
        for (i, a) in self.tlbs.iter().enumerate() {
            for b in &self.tlbs[i + 1..] {
                let kind = Kind::ALL.into_iter().find(|&k| a.serves.has(k) && b.serves.has(k));
                let size = a.page_sizes.iter().find(|&&size| b.holds(size));
                if let (true, Some(kind), Some(size)) = (a.level == b.level, kind, size) {
                    let kind = format!("{kind:?}").to_lowercase();
                    return Err(format!(
                        "`{}` and `{}` of level {} both hold {size} pages for `{kind}`: one of a level must",
                        a.name, b.name, a.level
                    ));
                }
            }
        }
        Ok(())
    }
}

impl FileTlb {
    fn check(self, file: &str) -> Result<TlbSpec, MachineError> {
        let rule = |why: String| MachineError::Rule { file: file.to_owned(), why };
        let name = self.name;
        if !(1..=3).contains(&self.level) {
            return Err(rule(format!("tlb `{name}`: level = {}: choose 1, 2 or 3", self.level)));
        }
        let serves = self.serves.iter().fold(KindSet::default(), |set, kind| {
            set.with(match kind {
                FileKind::Fetch => Kind::Fetch,
                FileKind::Load => Kind::Load,
                FileKind::Store => Kind::Store,
            })
        });
        if self.serves.is_empty() {
            return Err(rule(format!("tlb `{name}`: serves = []: choose from fetch, load, store")));
        }
        let mut page_sizes = Vec::new();
        for text in &self.page_sizes {
            let size: PageSize = text.parse().map_err(|e| rule(format!("tlb `{name}`: page_sizes: {e}")))?;
            let known = [PageSize::FOUR_KIB, PageSize::TWO_MIB, PageSize::ONE_GIB];
            if !known.contains(&size) {
                return Err(rule(format!("tlb `{name}`: page_sizes: {size}: choose from 4K, 2M, 1G")));
            }
            if page_sizes.contains(&size) {
                return Err(rule(format!("tlb `{name}`: page_sizes: {size} is named twice")));
            }
            page_sizes.push(size);
        }
        if page_sizes.is_empty() {
            return Err(rule(format!("tlb `{name}`: page_sizes = []: choose from 4K, 2M, 1G")));
        }
        let geometry = Geometry::new(self.entries, self.ways).map_err(|why| MachineError::TlbGeometry {
            file: file.to_owned(),
            tlb: name.clone(),
            why,
        })?;
        let replacement = replacement(self.replacement, self.seed, geometry);
        let replacement = replacement.map_err(|why| rule(format!("tlb `{name}`: {why}")))?;
        let index = set_index(self.index.as_deref()).map_err(|why| rule(format!("tlb `{name}`: {why}")))?;
        Ok(TlbSpec { name, level: self.level, serves, page_sizes, geometry, replacement, index })
    }
}

impl FileWalker {
    fn check(self, file: &str) -> Result<WalkerSpec, MachineError> {
        let rule = |why: String| MachineError::Rule { file: file.to_owned(), why };
        if !(4..=5).contains(&self.levels) {
            return Err(rule(format!("walker: levels = {}: choose 4 or 5", self.levels)));
        }
        let mut caches = BTreeMap::new();
        for (level, cache) in self.caches {
            if level == WalkLevel::Pml5 && self.levels == 4 {
                return Err(rule("walker cache `pml5` needs levels = 5".to_owned()));
            }
            let geometry = Geometry::new(cache.entries, cache.ways).map_err(|why| {
                MachineError::CacheGeometry { file: file.to_owned(), cache: level.key().to_owned(), why }
            })?;
            let replacement = replacement(cache.replacement, cache.seed, geometry);
            let replacement =
                replacement.map_err(|why| rule(format!("walker cache `{}`: {why}", level.key())))?;
            caches.insert(level, WalkCacheSpec { geometry, replacement });
        }
        Ok(WalkerSpec { levels: self.levels, caches })
    }
}
