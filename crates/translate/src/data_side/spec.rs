//! The specification of a data side. `docs/reference/machine-files.md` explains the keys.

use crate::TlbSpec;
use serde::Deserialize;

/// Doublings of the largest distance of anchors.
pub(super) const DISTANCE_SHIFT_MAX: u32 = 16;

/// Which adjacent base pages under the same rights share an entry, if they lie together in memory too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coalesce {
    /// Pages of an aligned group of this size whose frames lie in one aligned group of the same size: Pham et al., HPCA
    /// 2014.
    Clustered(u32),
    /// Adjacent pages in an aligned group with adjacent frames: CoLT-SA of Pham et al., MICRO 2012.
    Contiguous(u32),
    /// A whole aligned group with consecutive, aligned frames: AMD's 16 KB, Arm's contiguous hint.
    Aligned(u32),
    /// Pages from an anchor on, with anchors at this distance: Park et al., ISCA 2017.
    Anchor(u32),
}

impl Coalesce {
    /// Pages of a group, or between anchors.
    pub fn pages(self) -> u32 {
        match self {
            Coalesce::Clustered(pages)
            | Coalesce::Contiguous(pages)
            | Coalesce::Aligned(pages)
            | Coalesce::Anchor(pages) => pages,
        }
    }

    /// The largest value allowed.
    pub fn pages_max(self) -> u32 {
        if matches!(self, Coalesce::Anchor(_)) { 1 << DISTANCE_SHIFT_MAX } else { 64 }
    }

    /// The rule's name in machine files.
    pub fn name(self) -> &'static str {
        match self {
            Coalesce::Clustered(_) => "clustered",
            Coalesce::Contiguous(_) => "contiguous",
            Coalesce::Aligned(_) => "aligned",
            Coalesce::Anchor(_) => "anchor",
        }
    }
}

/// A fully associative, least-recently-used TLB of ranges.
#[derive(Clone, Debug, PartialEq)]
pub struct RangeTlbSpec {
    /// Name, used in metric names: `range_tlb.NAME.misses`.
    pub name: String,
    /// 1 or 2.
    pub level: u8,
    /// Number of ranges.
    pub entries: u32,
    /// Whether a lookup compares the last used range before it searches all.
    pub mru: bool,
}

/// What a hit in level 2's range TLB fills into level 1's page TLBs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RangeFill {
    /// A base page (Karakostas 2016, section 4.3).
    #[default]
    Base,
    /// A page of the size in the page table.
    Mapped,
}

/// The interval that Lite compares with, to detect a rise of misses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LiteHistory {
    /// The previous one: the thesis's prose.
    #[default]
    Previous,
    /// The best so far: its algorithm 5.1, which keeps all ways on for good once misses have risen.
    Minimum,
}

impl LiteHistory {
    /// The name in machine files.
    pub fn name(self) -> &'static str {
        match self {
            LiteHistory::Previous => "previous",
            LiteHistory::Minimum => "minimum",
        }
    }
}

/// Lite: switches off ways of first-level arrays that add few hits.
#[derive(Clone, Debug, PartialEq)]
pub struct LiteSpec {
    /// Its arrays, by index in the machine.
    pub tlbs: Vec<usize>,
    /// The added misses to accept: per thousand instructions, or as a share of the present ones.
    pub threshold: f64,
    /// Whether `threshold` is a share.
    pub relative: bool,
    /// The lower bound of a relative threshold, in misses per thousand instructions: a share of 0 would be 0.
    pub floor: f64,
    /// Instructions from one decision to the next.
    pub interval: u64,
    /// The probability, at each decision, that all ways switch on.
    pub reactivation: f64,
    /// Seed of that chance.
    pub seed: u64,
    /// The interval to compare with.
    pub history: LiteHistory,
}

/// The frames behind pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RangeBacking {
    /// Frame numbers equal page numbers for all usable memory: the thesis's perfect eager paging.
    #[default]
    Perfect,
    /// Frames of a memory, as soon as memory becomes usable.
    Eager,
    /// Frames of a memory, at a page's first walk.
    Demand,
}

/// Collapses in the background, as by khugepaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CollapseSpec {
    /// Instructions from one scan to the next.
    pub interval: u64,
    /// Blocks per scan, which continues where the last one ended.
    pub blocks: u64,
    /// Pages of a block that must have had walks.
    pub pages: u64,
}

impl Default for CollapseSpec {
    /// Linux: 8 blocks every 10 seconds, here every 100 million instructions; one page is enough.
    fn default() -> CollapseSpec {
        CollapseSpec { interval: 100_000_000, blocks: 8, pages: 1 }
    }
}

/// The parts of a data side other than page TLBs and the walker.
#[derive(Clone, Debug, PartialEq)]
pub struct DataSideSpec {
    /// Range TLBs, at most one per level.
    pub range_tlbs: Vec<RangeTlbSpec>,
    /// Fewest base pages of a range.
    pub range_threshold: u64,
    /// What hits of ranges fill into level 1.
    pub range_fill: RangeFill,
    /// The frames behind pages.
    pub backing: RangeBacking,
    /// The table that describes the memory of frames; the kernel's side interprets it.
    pub memory: Option<toml::Table>,
    /// Collapses in the background, if any.
    pub collapse: Option<CollapseSpec>,
    /// Instructions between choices of the distance of anchors; without it the distance is fixed.
    pub anchor_interval: Option<u64>,
    /// Entries of the predictor of page sizes; without it, sizes are known.
    pub predictor: Option<u32>,
    /// Lite, if ways can switch off.
    pub lite: Option<LiteSpec>,
    /// An ideal direct segment: areas of fixed size that live for more than this share of the run translate for free.
    pub segment: Option<f64>,
    /// Cycles of a walk, whatever it reads; none if walks go through caches of memory.
    pub walk_cycles: Option<u64>,
    /// The table that prices its operations, by name.
    pub energy: Option<String>,
}

impl DataSideSpec {
    /// Checks the rules; the error names the broken rule and the choices.
    pub(crate) fn check(&self, tlbs: &[TlbSpec], last_level: u8, cached: bool) -> Result<(), String> {
        for (at, ranges) in self.range_tlbs.iter().enumerate() {
            let RangeTlbSpec { name, level, entries, .. } = ranges;
            if !(1..=2).contains(level) || *level > last_level {
                return Err(format!(
                    "range_tlb `{name}`: level = {level}: choose 1, or 2 where there are TLBs of level 2"
                ));
            }
            if !(1..=1024).contains(entries) {
                return Err(format!("range_tlb `{name}`: entries = {entries}: choose from 1 to 1024"));
            }
            if self.range_tlbs[..at].iter().any(|other| other.level == *level) {
                return Err(format!(
                    "range_tlb `{name}`: there is another one of level {level}: only one per level is possible"
                ));
            }
        }
        if self.range_threshold == 0 {
            return Err("ranges.threshold = 0: a range has at least 1 page".to_owned());
        }
        match (self.backing, &self.memory) {
            (RangeBacking::Perfect, Some(_)) => {
                return Err(
                    "ranges.memory is for backing = \"eager\" and \"demand\": leave it out".to_owned()
                );
            }
            (RangeBacking::Eager | RangeBacking::Demand, None) => {
                return Err(
                    "ranges: missing key `memory`, such as { size = \"4G\" }: backing takes frames of it"
                        .to_owned(),
                );
            }
            _ => {}
        }
        self.check_anchors(tlbs)?;
        self.check_predictor(tlbs)?;
        if let Some(CollapseSpec { interval, blocks, pages }) = self.collapse
            && (interval == 0 || blocks == 0 || pages == 0)
        {
            return Err(format!(
                "collapse: interval = {interval}, blocks = {blocks}, pages = {pages}: each is at least 1"
            ));
        }
        if let Some(alive) = self.segment.filter(|alive| !(0.0..1.0).contains(alive)) {
            return Err(format!("segment.alive = {alive}: choose a share from 0 up to, but not, 1"));
        }
        if self.segment.is_some() && (self.energy.is_some() || !self.range_tlbs.is_empty() || cached) {
            return Err("[segment] is an ideal that counts only walks: leave out `energy`, [[range_tlb]] and [[cache]]"
                .to_owned());
        }
        self.lite.as_ref().map_or(Ok(()), |lite| lite.check(tlbs))
    }

    fn check_anchors(&self, tlbs: &[TlbSpec]) -> Result<(), String> {
        let anchored = |tlb: &&TlbSpec| matches!(tlb.coalesce, Some(Coalesce::Anchor(_)));
        match (tlbs.iter().filter(anchored).count(), self.anchor_interval) {
            (0, Some(_)) => Err("[anchors] is for an array with coalesce.rule = \"anchor\"".to_owned()),
            (_, Some(0)) => Err("anchors.interval = 0: choose at least 1 instruction".to_owned()),
            (0 | 1, _) => Ok(()),
            _ => Err("two arrays have coalesce.rule = \"anchor\": only one is possible".to_owned()),
        }
    }

    fn check_predictor(&self, tlbs: &[TlbSpec]) -> Result<(), String> {
        let Some(entries) = self.predictor else { return Ok(()) };
        if !entries.is_power_of_two() || entries > 1 << 20 {
            return Err(format!("predictor.entries = {entries}: choose a power of two up to 1048576"));
        }
        match tlbs.iter().find(|tlb| tlb.page_sizes.len() != 2 || tlb.coalesce.is_some()) {
            Some(TlbSpec { name, .. }) => Err(format!(
                "[predictor] predicts one of two page sizes, but tlb `{name}` does not hold two: \
                 mix them in every array, without `coalesce`"
            )),
            None => Ok(()),
        }
    }
}

impl LiteSpec {
    /// The indices of its arrays among level 1's.
    pub(super) fn places(&self, tlbs: &[TlbSpec]) -> Vec<usize> {
        let place = |&at: &usize| tlbs[..at].iter().filter(|tlb| tlb.level == 1).count();
        self.tlbs.iter().map(place).collect()
    }

    fn check(&self, tlbs: &[TlbSpec]) -> Result<(), String> {
        for &at in &self.tlbs {
            let TlbSpec { name, level, geometry, .. } = &tlbs[at];
            if *level != 1 || !geometry.ways().is_power_of_two() {
                return Err(format!(
                    "lite.tlbs: `{name}`: choose arrays of level 1 whose ways are a power of two"
                ));
            }
        }
        let LiteSpec { threshold, floor, interval, reactivation, .. } = *self;
        if !(threshold > 0.0 && threshold <= 1e6 && (0.0..=1e6).contains(&floor)) {
            return Err(format!(
                "lite: threshold = {threshold}, floor = {floor}: the first is above 0, the second not below"
            ));
        }
        if interval == 0 || !(0.0..=1.0).contains(&reactivation) {
            return Err(format!(
                "lite: interval = {interval}, reactivation = {reactivation}: the first is at least 1 instruction, \
                 the second a chance from 0 to 1"
            ));
        }
        Ok(())
    }
}
