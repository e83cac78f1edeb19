//! What the keys of a data side say. `docs/explanation/ranges-and-energy.md` explains them.

use crate::TlbSpec;
use serde::Deserialize;

/// Doublings of the largest distance of anchors.
pub(super) const DISTANCE_SHIFT_MAX: u32 = 16;

/// Neighbouring base pages under the same rights that share an entry, where they lie together in memory too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coalesce {
    /// Any of an aligned group of so many pages whose frames lie in one aligned group of as many: Pham et al., HPCA
    /// 2014.
    Clustered(u32),
    /// The neighbours in an aligned group that have neighbouring frames: CoLT-SA of Pham et al., MICRO 2012.
    Contiguous(u32),
    /// All of an aligned group, with neighbouring, aligned frames, or none: AMD's 16 KB, Arm's contiguous hint.
    Aligned(u32),
    /// Pages from an anchor on, one at every so many pages: Park et al., ISCA 2017.
    Anchor(u32),
}

impl Coalesce {
    /// Pages of a group; from one anchor to the next.
    pub fn pages(self) -> u32 {
        match self {
            Coalesce::Clustered(pages)
            | Coalesce::Contiguous(pages)
            | Coalesce::Aligned(pages)
            | Coalesce::Anchor(pages) => pages,
        }
    }

    /// The most pages that there may be.
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
    /// Whether the range used last is compared before all are searched.
    pub mru: bool,
}

/// What a hit in the range TLB of level 2 puts into the page TLBs of level 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RangeFill {
    /// A base page (Karakostas 2016, section 4.3).
    #[default]
    Base,
    /// A page of the size that the page table has.
    Mapped,
}

/// With which interval Lite compares one, to see that misses have grown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LiteHistory {
    /// The one before: the thesis's prose.
    #[default]
    Previous,
    /// The best so far: its algorithm 5.1, which keeps all ways on for good once a program's misses have grown.
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

/// Lite: ways of first-level arrays that hardly add hits are switched off.
#[derive(Clone, Debug, PartialEq)]
pub struct LiteSpec {
    /// Which arrays of the machine, by index.
    pub tlbs: Vec<usize>,
    /// How many more misses are borne: in 1000 instructions, or as a share of those there are.
    pub threshold: f64,
    /// Whether it is a share.
    pub relative: bool,
    /// Misses in 1000 instructions that a relative threshold never goes below: a share of none would be none.
    pub floor: f64,
    /// Instructions from one decision to the next.
    pub interval: u64,
    /// Chance, at each decision, that all ways are switched on.
    pub reactivation: f64,
    /// Seed of that chance.
    pub seed: u64,
    /// What an interval is compared with.
    pub history: LiteHistory,
}

/// What lies behind pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RangeBacking {
    /// All that may be used, in frames numbered as the pages are: the thesis's perfect eager paging.
    #[default]
    Perfect,
    /// Frames of a memory, for what may be used as soon as it may.
    Eager,
    /// Frames of a memory, for a page when it is walked for.
    Demand,
}

/// Huge pages that the kernel makes of small ones in the background, as khugepaged does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CollapseSpec {
    /// Instructions from one scan to the next.
    pub interval: u64,
    /// Blocks that a scan looks at, going on where the last one ended.
    pub blocks: u64,
    /// Fewest pages of a block that were walked for.
    pub pages: u64,
}

impl Default for CollapseSpec {
    /// Linux: 8 blocks every 10 seconds, of which one page is enough; here every 100 million instructions.
    fn default() -> CollapseSpec {
        CollapseSpec { interval: 100_000_000, blocks: 8, pages: 1 }
    }
}

/// What a data side has besides page TLBs and the walker.
#[derive(Clone, Debug, PartialEq)]
pub struct DataSideSpec {
    /// At most one for each level.
    pub range_tlbs: Vec<RangeTlbSpec>,
    /// Fewest base pages of a range.
    pub range_threshold: u64,
    /// What hits of ranges put into level 1.
    pub range_fill: RangeFill,
    /// What lies behind pages.
    pub backing: RangeBacking,
    /// The memory that frames are of, as its table describes it: what that means, the kernel's side knows.
    pub memory: Option<toml::Table>,
    /// Huge pages made in the background.
    pub collapse: Option<CollapseSpec>,
    /// Instructions from one choice of the distance of anchors to the next; never without.
    pub anchor_interval: Option<u64>,
    /// Entries of the table that predicts page sizes; without, whoever mixes sizes knows them.
    pub predictor: Option<u32>,
    /// Ways that are switched off.
    pub lite: Option<LiteSpec>,
    /// An ideal direct segment: areas of fixed size that live for more than this share of the run translate for
    /// nothing.
    pub segment: Option<f64>,
    /// Cycles of a walk, however many entries it reads; none where they go through caches of memory.
    pub walk_cycles: Option<u64>,
    /// The table that prices its operations, by name.
    pub energy: Option<String>,
}

impl DataSideSpec {
    /// What breaks a rule, with the choices.
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
                    "range_tlb `{name}`: there is another one of level {level}: one of a level must do"
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
            return Err("[segment] is an ideal that counts walks alone: leave out `energy`, [[range_tlb]] and [[cache]]"
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
            _ => Err("two arrays have coalesce.rule = \"anchor\": one must do".to_owned()),
        }
    }

    fn check_predictor(&self, tlbs: &[TlbSpec]) -> Result<(), String> {
        let Some(entries) = self.predictor else { return Ok(()) };
        if !entries.is_power_of_two() || entries > 1 << 20 {
            return Err(format!("predictor.entries = {entries}: choose a power of two up to 1048576"));
        }
        match tlbs.iter().find(|tlb| tlb.page_sizes.len() != 2 || tlb.coalesce.is_some()) {
            Some(TlbSpec { name, .. }) => Err(format!(
                "[predictor] tells two page sizes apart, and tlb `{name}` has not two: mix them in every array, \
                 without `coalesce`"
            )),
            None => Ok(()),
        }
    }
}

impl LiteSpec {
    /// The places of its arrays among those of level 1.
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
