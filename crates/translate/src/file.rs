//! Machine descriptions in TOML. `docs/reference/machine-files.md` explains every key.

mod cache;
mod data_side;
mod on_request;
mod software;
mod tlb;
mod walker;

use crate::{Asid, CollapseSpec, CostSpec, MachineError, MachineSpec, Match, TlbSpec, WalkerSpec};
use cache::FileCacheOfMemory;
use data_side::{
    FileAnchors, FileDataSide, FileLite, FilePredictor, FileRangeTlb, FileRanges, FileSegment, FileSide,
};
use on_request::FileCachesUsed;
pub use on_request::{requests_caches, with_caches};
use pagewalk_cache::CacheSpec;
use pagewalk_setassoc::{Geometry, Organisation, Replacement, SetIndex};
use pagewalk_units::{Kind, PageSize, Paging};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use tlb::FileTlb;
use walker::FileWalker;

// Many fields: one for each key of a machine file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    schema: u32,
    name: String,
    title: Option<String>,
    #[serde(default)]
    asids: u32,
    #[serde(default)]
    tlb: Vec<FileTlb>,
    paging: Option<FilePaging>,
    walker: FileWalker,
    #[serde(default)]
    cache: Vec<FileCacheOfMemory>,
    #[serde(default)]
    caches: FileCachesUsed,
    cost: FileCost,
    #[serde(rename = "match")]
    matches: Option<Match>,
    os: Option<toml::Table>,
    side: Option<FileSide>,
    #[serde(default)]
    range_tlb: Vec<FileRangeTlb>,
    ranges: Option<FileRanges>,
    collapse: Option<CollapseSpec>,
    anchors: Option<FileAnchors>,
    predictor: Option<FilePredictor>,
    lite: Option<FileLite>,
    segment: Option<FileSegment>,
    energy: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FilePaging {
    base: String,
    huge: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileCost {
    #[serde(default)]
    l2_hit: u64,
    walk_reference: Option<u64>,
    memory: Option<u64>,
    walk: Option<u64>,
    #[serde(default = "default_cycles_per_instruction")]
    cycles_per_instruction: f64,
}

fn default_cycles_per_instruction() -> f64 {
    1.0
}

/// One of [`Replacement::NAMES`]; for another name the parser reports line and choices.
#[derive(Clone, Copy)]
struct FileReplacement(&'static str);

impl Default for FileReplacement {
    fn default() -> FileReplacement {
        FileReplacement(Replacement::default().name())
    }
}

impl FileReplacement {
    /// The default for handlers in software.
    fn fifo() -> FileReplacement {
        FileReplacement(Replacement::Fifo.name())
    }
}

impl<'de> Deserialize<'de> for FileReplacement {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FileReplacement, D::Error> {
        let text = String::deserialize(deserializer)?;
        let known = Replacement::NAMES.into_iter().find(|name| *name == text);
        known.map(FileReplacement).ok_or_else(|| D::Error::unknown_variant(&text, &Replacement::NAMES))
    }
}

/// The replacement from the keys `replacement` and `seed`, for an array of this shape.
fn replacement(name: FileReplacement, seed: Option<u64>, geometry: Geometry) -> Result<Replacement, String> {
    let FileReplacement(name) = name;
    let replacement = Replacement::from_name(name, seed.unwrap_or(0)).expect("one of the names");
    if seed.is_some() && !replacement.draws() {
        let drawing = |name: &&str| Replacement::from_name(name, 0).is_some_and(Replacement::draws);
        let names: Vec<String> =
            Replacement::NAMES.into_iter().filter(drawing).map(|name| format!("\"{name}\"")).collect();
        let names = names.join(" or ");
        return Err(format!("seed is only for replacement = {names}, not for \"{name}\""));
    }
    replacement.serves(geometry.ways()).map_err(|why| format!("replacement: {why}"))?;
    Ok(replacement)
}

/// The organisation of a TLB array, from the key `index`.
fn organisation(name: Option<&str>) -> Result<Organisation, String> {
    let Some(name) = name else { return Ok(Organisation::default()) };
    Organisation::from_name(name).ok_or_else(|| {
        let names: Vec<&str> = Organisation::names().collect();
        format!("index = \"{name}\": choose from {}", names.join(", "))
    })
}

fn set_index(name: Option<&str>, default: SetIndex) -> Result<SetIndex, String> {
    let Some(name) = name else { return Ok(default) };
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
        if parsed.asids > Asid::COUNT {
            return Err(rule(format!("asids = {}: from 0 to {} are possible", parsed.asids, Asid::COUNT)));
        }
        let paging = parsed.paging.map(FilePaging::check).transpose().map_err(rule)?;
        let mut walker = parsed.walker;
        let mapped = walker.take_mapped().map_err(rule)?;
        let (mut walker, paging, refill_cycles) = walker.check(file, paging, mapped.is_some())?;
        let mut caches =
            parsed.cache.into_iter().map(|cache| cache.check(file)).collect::<Result<Vec<_>, _>>()?;
        if !caches.is_empty() {
            pagewalk_cache::check(&caches, !matches!(walker, WalkerSpec::Software))
                .map_err(|why| rule(why.to_string()))?;
        }
        let mut cost = parsed.cost;
        if parsed.caches == FileCachesUsed::OnRequest {
            cost.check_requested(&caches).map_err(rule)?;
            caches.clear();
            cost.memory = None;
        }
        let tlbs = parsed.tlb.into_iter().map(|tlb| tlb.check(file)).collect::<Result<Vec<_>, _>>()?;
        if let Some(mapped) = mapped {
            let tlb = only_tlb(&tlbs, paging).map_err(rule)?;
            walker = WalkerSpec::Mapped(mapped.check(tlb, paging.base()).map_err(rule)?.into());
        }
        let data_side = FileDataSide {
            side: parsed.side,
            range_tlb: parsed.range_tlb,
            ranges: parsed.ranges,
            collapse: parsed.collapse,
            anchors: parsed.anchors,
            predictor: parsed.predictor,
            lite: parsed.lite,
            segment: parsed.segment,
            energy: parsed.energy,
            walk: cost.walk,
        };
        let data_side = data_side.check(&tlbs, !caches.is_empty()).map_err(rule)?;
        let machine = MachineSpec {
            title: parsed.title.unwrap_or_else(|| parsed.name.clone()),
            name: parsed.name,
            paging,
            asids: parsed.asids,
            tlbs,
            walker,
            cost: cost.check(refill_cycles, !caches.is_empty()).map_err(rule)?,
            caches,
            matches: parsed.matches,
            os: parsed.os,
            data_side,
        };
        machine.check().map_err(rule)?;
        Ok(machine)
    }
}

/// The only TLB of a machine with mapped page tables.
fn only_tlb(tlbs: &[TlbSpec], paging: Paging) -> Result<&TlbSpec, String> {
    let all = [Kind::Fetch, Kind::Load, Kind::Store];
    match tlbs {
        [tlb]
            if tlb.holds(paging.base())
                && all.iter().all(|&kind| tlb.serves.has(kind))
                && tlb.reserved == 0
                && tlb.filled_by_misses() =>
        {
            Ok(tlb)
        }
        _ => Err(format!(
            "[walker.mapped] needs one [[tlb]] of level 1, for fetch, load and store, with \"{}\" in \
             `page_sizes`, without `reserved` (that is `walker.mapped.lower`) and without `prefetch`",
            paging.base()
        )),
    }
}

impl FilePaging {
    fn check(self) -> Result<Paging, String> {
        let size = |key: &str, text: &str| text.parse::<PageSize>().map_err(|e| format!("paging.{key}: {e}"));
        let base = size("base", &self.base)?;
        match self.huge {
            Some(huge) => {
                let huge = size("huge", &huge)?;
                Paging::new(base, huge).ok_or_else(|| {
                    format!("paging: huge = {huge} is not above base = {base}: choose a larger one")
                })
            }
            None => Paging::with_base(base).ok_or_else(|| {
                format!("paging: base = {base} has no usual huge page up to 512G: name one as `huge`")
            }),
        }
    }
}

impl FileCost {
    /// Checks prices of a machine whose caches are simulated on request: with and without them.
    fn check_requested(&self, caches: &[CacheSpec]) -> Result<(), String> {
        match (caches.is_empty(), self.memory) {
            (true, _) => Err("caches = \"on request\", but there is no [[cache]]".to_owned()),
            (_, None) => {
                Err("cost: missing key `memory`: cycles of an access that no [[cache]] serves".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Checks prices of walks, flat or by latencies of caches and memory. Software refills have theirs with the walker.
    fn check(self, refill_cycles: Option<u64>, cached: bool) -> Result<CostSpec, String> {
        let FileCost { l2_hit, cycles_per_instruction, walk_reference, memory, walk } = self;
        if walk.is_some() {
            return match (walk_reference, refill_cycles, memory) {
                // Entries have no price.
                (None, None, None) => {
                    Ok(CostSpec { l2_hit, walk_reference: 0, memory: 0, cycles_per_instruction })
                }
                _ => Err("cost.walk is the price of a whole walk: leave out `walk_reference` and `memory`"
                    .to_owned()),
            };
        }
        if cached {
            let why = match (walk_reference, refill_cycles, memory) {
                // A refill by software has a fixed price, which includes its own references.
                (None, refill_cycles, Some(memory)) => {
                    let walk_reference = refill_cycles.unwrap_or(memory);
                    return Ok(CostSpec { l2_hit, walk_reference, memory, cycles_per_instruction });
                }
                (Some(_), ..) => {
                    "cost.walk_reference: with [[cache]] the latencies are the price: leave it out, give `memory`"
                }
                (None, _, None) => "cost: missing key `memory`: cycles of an access that no [[cache]] serves",
            };
            return Err(why.to_owned());
        }
        if memory.is_some() {
            return Err(
                "cost.memory is the latency of memory behind [[cache]], but there is no [[cache]]".to_owned()
            );
        }
        let walk_reference = match (walk_reference, refill_cycles) {
            (None, Some(cycles)) | (Some(cycles), None) => cycles,
            (None, None) => {
                return Err("cost: missing key `walk_reference`: cycles of a page-table read".to_owned());
            }
            (Some(_), Some(_)) => {
                return Err(
                    "cost.walk_reference prices walks by hardware: with walker kind = \"software\" leave \
                            it out, its `refill_cycles` are the price"
                        .to_owned(),
                );
            }
        };
        Ok(CostSpec { l2_hit, walk_reference, memory: 0, cycles_per_instruction })
    }
}
