//! The specification of a software-managed TLB.

use pagewalk_setassoc::{Geometry, Replacement};
use serde::Deserialize;
use std::fmt;

/// Why a handler runs.
///
/// Source: Uhlig et al. 1994, Table III.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MissClass {
    /// A miss of a program's page.
    L1u,
    /// A miss of a mapped kernel page.
    L1k,
    /// A miss of the table page with the PTE of a program's page.
    L2,
    /// A miss of the table page with the PTE of a kernel page or of a level-1 table page.
    L3,
    /// The first store to a page mapped clean.
    Modify,
    /// The first touch of a page.
    Invalid,
}

impl MissClass {
    /// Their number.
    pub const COUNT: usize = MissClass::ALL.len();

    /// All classes, in the order of the source's tables.
    pub const ALL: [MissClass; 6] =
        [MissClass::L1u, MissClass::L1k, MissClass::L2, MissClass::L3, MissClass::Modify, MissClass::Invalid];

    /// The name in machine files and metrics.
    pub fn name(self) -> &'static str {
        match self {
            MissClass::L1u => "l1u",
            MissClass::L1k => "l1k",
            MissClass::L2 => "l2",
            MissClass::L3 => "l3",
            MissClass::Modify => "modify",
            MissClass::Invalid => "invalid",
        }
    }
}

/// The entries that go below the partition; all others go above it.
///
/// Source: Uhlig et al. 1994, section 5.2.1, Table VIII.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// Level-1 table pages (class l2).
    #[default]
    A,
    /// Table pages of both levels (l2, l3).
    B,
    /// Table pages and kernel pages (l2, l3, l1k).
    C,
    /// No partition.
    D,
}

impl Placement {
    /// Whether entries of this class go below the partition.
    pub fn is_below(self, class: MissClass) -> bool {
        match self {
            Placement::A => class == MissClass::L2,
            Placement::B => matches!(class, MissClass::L2 | MissClass::L3),
            Placement::C => matches!(class, MissClass::L2 | MissClass::L3 | MissClass::L1k),
            Placement::D => false,
        }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Placement::A => "A",
            Placement::B => "B",
            Placement::C => "C",
            Placement::D => "D",
        })
    }
}

/// An operating system's tables and handlers.
#[derive(Clone, Debug, PartialEq)]
pub struct HandlerSystem {
    /// Name, such as `mach3`.
    pub name: String,
    /// The name of its operating system's structure.
    pub structure: String,
    /// Levels of page tables, 1 to 3; the last is not mapped.
    pub tables: u8,
    /// Cycles of a miss by class, without its nested misses; `None`: unknown.
    pub cycles: [Option<u64>; MissClass::COUNT],
    /// Whether a page's first store traps if the page was not first touched by a store.
    pub modify: bool,
}

/// The cost that the tuner compares between windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Objective {
    /// Miss cycles per instruction of the window.
    #[default]
    Instructions,
    /// Miss cycles in the window, as in the source. The window has a fixed number of misses, so this is the mean price
    /// of a miss, which falls with more cheap misses.
    Misses,
}

/// A partition that moves during the run: see `software::tuner`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TuningSpec {
    /// Misses of classes l1u, l1k, l2 and l3 between decisions.
    pub period: u64,
    /// Slots of a move.
    pub step: u32,
    /// The relative change of the objective that counts.
    pub threshold: f64,
    /// Fewest slots below the partition.
    pub lower_min: u32,
    /// Most slots below it.
    pub lower_max: u32,
    /// The objective.
    pub objective: Objective,
    /// Windows without a move before a probing move; 0: no probes.
    pub probe_after: u32,
}

/// A software-managed TLB, its tables and its handlers.
#[derive(Clone, Debug, PartialEq)]
pub struct SoftwareSpec {
    /// All slots.
    pub slots: u32,
    /// Slots of a set; equal to `slots` if fully associative.
    pub ways: u32,
    /// Slots below the partition.
    pub lower: u32,
    /// Replacement below the partition.
    pub lower_replacement: Replacement,
    /// Replacement above the partition.
    pub upper_replacement: Replacement,
    /// The placement of entries.
    pub placement: Placement,
    /// log2 of the PTEs of a table page.
    pub entries_shift: u32,
    /// The kernel.
    pub system: HandlerSystem,
    /// How the partition moves, if it does.
    pub tuning: Option<TuningSpec>,
}

impl SoftwareSpec {
    /// Resizes the TLB; the part above the partition takes the difference.
    pub(crate) fn resize(&mut self, geometry: Geometry) {
        (self.slots, self.ways) = (geometry.entries() as u32, geometry.ways() as u32);
    }

    /// Checks the rules; the error names the broken rule and the choices.
    pub(crate) fn check(&self) -> Result<(), String> {
        let SoftwareSpec { slots, ways, lower, .. } = *self;
        if lower >= slots {
            return Err(format!(
                "walker.mapped.lower = {lower}: the TLB has {slots} entries: choose from 0 to {}",
                slots - 1
            ));
        }
        if self.placement != Placement::D && lower == 0 {
            let placement = self.placement.to_string().to_lowercase();
            return Err(format!(
                "walker.mapped.lower = 0: placement \"{placement}\" needs slots below the partition: choose from 1 to \
                 {}, or placement = \"d\"",
                slots - 1
            ));
        }
        for (part, count) in [("lower", lower), ("upper", slots - lower)] {
            let full = ways >= slots;
            if !full && !count.is_multiple_of(ways) {
                return Err(format!(
                    "walker.mapped.lower = {lower}: the {part} partition's {count} slots do not divide into sets of \
                     {ways} ways: choose a multiple of {ways}"
                ));
            }
        }
        for (key, replacement) in [
            ("walker.mapped.lower_replacement", self.lower_replacement),
            ("tlb.replacement", self.upper_replacement),
        ] {
            if !matches!(replacement, Replacement::Fifo | Replacement::Random { .. }) {
                return Err(format!(
                    "{key} = \"{}\": a handler in software sees only misses: choose fifo or random",
                    replacement.name()
                ));
            }
        }
        self.tuning.as_ref().map_or(Ok(()), |tuning| self.check_tuning(tuning))
    }

    fn check_tuning(&self, tuning: &TuningSpec) -> Result<(), String> {
        let most = self.slots - 1;
        let TuningSpec { period, step, threshold, lower_min, lower_max, .. } = *tuning;
        if self.ways < self.slots {
            let why = "walker.mapped.tuning: only a fully associative TLB can move its partition: leave out tlb.ways";
            return Err(why.into());
        }
        if period == 0 || step == 0 {
            return Err("walker.mapped.tuning: period and step must be at least 1".into());
        }
        if !(0.0..1e6).contains(&threshold) {
            return Err(format!("walker.mapped.tuning.threshold = {threshold}: a share such as 0.03"));
        }
        if lower_min == 0 || lower_min > self.lower || self.lower > lower_max || lower_max > most {
            return Err(format!(
                "walker.mapped.tuning: 1 <= lower_min ({lower_min}) <= walker.mapped.lower ({}) <= lower_max \
                 ({lower_max}) <= {most} must hold",
                self.lower
            ));
        }
        Ok(())
    }
}

impl fmt::Display for SoftwareSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HandlerSystem { name, tables, .. } = &self.system;
        write!(f, "software, {tables} levels of tables of {name}, placement {}", self.placement)?;
        if self.placement != Placement::D {
            let replaced = self.lower_replacement.name();
            write!(f, ", {} slots below the partition ({replaced})", self.lower)?;
        }
        if let Some(TuningSpec { lower_min, lower_max, .. }) = self.tuning {
            write!(f, ", which moves from {lower_min} to {lower_max}")?;
        }
        Ok(())
    }
}
