//! The keys of a machine that is a data side: `side`, `[[range_tlb]]`, `[ranges]`, `[collapse]`, `[anchors]`,
//! `[predictor]`, `[lite]`, `[segment]`, `energy`.

use crate::{
    Coalesce, CollapseSpec, DataSideSpec, LiteHistory, LiteSpec, RangeBacking, RangeFill, RangeTlbSpec,
    TlbSpec,
};
use serde::Deserialize;

/// The value of `side`.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum FileSide {
    Data,
}

/// The keys at the top of the file.
#[derive(Default)]
pub(super) struct FileDataSide {
    pub side: Option<FileSide>,
    pub range_tlb: Vec<FileRangeTlb>,
    pub ranges: Option<FileRanges>,
    pub collapse: Option<CollapseSpec>,
    pub anchors: Option<FileAnchors>,
    pub predictor: Option<FilePredictor>,
    pub lite: Option<FileLite>,
    pub segment: Option<FileSegment>,
    pub energy: Option<String>,
    /// `walk` of `[cost]`.
    pub walk: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileRangeTlb {
    name: String,
    level: u8,
    entries: u32,
    #[serde(default)]
    mru: bool,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileRanges {
    threshold: Option<u64>,
    #[serde(default)]
    fill: RangeFill,
    #[serde(default)]
    backing: RangeBacking,
    memory: Option<toml::Table>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileLite {
    tlbs: Vec<String>,
    threshold: f64,
    relative: bool,
    floor: Option<f64>,
    interval: Option<u64>,
    reactivation: Option<f64>,
    seed: Option<u64>,
    #[serde(default)]
    history: LiteHistory,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileAnchors {
    interval: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FilePredictor {
    entries: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileSegment {
    alive: Option<f64>,
}

/// `coalesce` of a `[[tlb]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileCoalesce {
    rule: FileRule,
    pages: u32,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FileRule {
    Clustered,
    Contiguous,
    Aligned,
    Anchor,
}

impl FileCoalesce {
    pub(super) fn rule(self) -> Coalesce {
        match self.rule {
            FileRule::Clustered => Coalesce::Clustered(self.pages),
            FileRule::Contiguous => Coalesce::Contiguous(self.pages),
            FileRule::Aligned => Coalesce::Aligned(self.pages),
            FileRule::Anchor => Coalesce::Anchor(self.pages),
        }
    }
}

impl FileDataSide {
    /// The specification, for a machine with these arrays; `cached`: it has caches of memory.
    pub(super) fn check(self, tlbs: &[TlbSpec], cached: bool) -> Result<Option<Box<DataSideSpec>>, String> {
        let FileDataSide {
            side,
            range_tlb,
            ranges,
            collapse,
            anchors,
            predictor,
            lite,
            segment,
            energy,
            walk,
        } = self;
        if side.is_none() {
            let keys = [
                ("[[range_tlb]]", !range_tlb.is_empty()),
                ("[ranges]", ranges.is_some()),
                ("[collapse]", collapse.is_some()),
                ("[anchors]", anchors.is_some()),
                ("[predictor]", predictor.is_some()),
                ("[lite]", lite.is_some()),
                ("[segment]", segment.is_some()),
                ("energy", energy.is_some()),
                ("cost.walk", walk.is_some()),
            ];
            return match keys.iter().find(|(_, given)| *given) {
                Some((key, _)) => Err(format!("{key} is for machines with side = \"data\"")),
                None => Ok(None),
            };
        }
        let walk_cycles = match (walk, cached) {
            (Some(cycles), false) => Some(cycles),
            (None, true) => None,
            (None, false) => {
                return Err("cost: missing key `walk`: cycles of a walk, with side = \"data\"".to_owned());
            }
            (Some(_), true) => {
                return Err(
                    "cost.walk: with [[cache]] the latencies are the price of a walk: leave it out, give \
                            `memory`"
                        .to_owned(),
                );
            }
        };
        let range_tlbs = range_tlb.into_iter().map(FileRangeTlb::spec).collect();
        let FileRanges { threshold, fill, backing, memory } = ranges.unwrap_or_default();
        Ok(Some(Box::new(DataSideSpec {
            range_tlbs,
            range_threshold: threshold.unwrap_or(8),
            range_fill: fill,
            backing,
            memory,
            collapse,
            anchor_interval: anchors.map(|anchors| anchors.interval),
            predictor: predictor.map(|predictor| predictor.entries),
            lite: lite.map(|lite| lite.spec(tlbs)).transpose()?,
            segment: segment.map(|segment| segment.alive.unwrap_or(0.8)),
            walk_cycles,
            energy,
        })))
    }
}

impl FileRangeTlb {
    fn spec(self) -> RangeTlbSpec {
        let FileRangeTlb { name, level, entries, mru } = self;
        RangeTlbSpec { name, level, entries, mru }
    }
}

impl FileLite {
    /// The specification, with defaults for what the source leaves open: `docs/explanation/ranges-and-energy.md`.
    fn spec(self, tlbs: &[TlbSpec]) -> Result<LiteSpec, String> {
        let index = |name: &String| {
            tlbs.iter().position(|tlb| tlb.name == *name).ok_or_else(|| {
                let names: Vec<&str> = tlbs.iter().map(|tlb| tlb.name.as_str()).collect();
                format!("lite.tlbs: no array is named `{name}`: choose from {}", names.join(", "))
            })
        };
        let twice = |&at: &usize| self.tlbs[..at].contains(&self.tlbs[at]);
        if let Some(at) = (1..self.tlbs.len()).find(twice) {
            return Err(format!("lite.tlbs: names array `{}` twice: choose each once", self.tlbs[at]));
        }
        Ok(LiteSpec {
            tlbs: self.tlbs.iter().map(index).collect::<Result<_, _>>()?,
            threshold: self.threshold,
            relative: self.relative,
            floor: self.floor.unwrap_or(0.01),
            interval: self.interval.unwrap_or(1_000_000),
            reactivation: self.reactivation.unwrap_or(1.0 / 128.0),
            seed: self.seed.unwrap_or(0),
            history: self.history,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lite_names_each_array_once() {
        let text = "tlbs = [\"a\", \"b\", \"a\"]\nthreshold = 0.1\nrelative = true\n";
        let lite: FileLite = toml::from_str(text).unwrap();
        let why = lite.spec(&[]).unwrap_err();
        assert_eq!(why, "lite.tlbs: names array `a` twice: choose each once");
    }
}
