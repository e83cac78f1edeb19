//! Linux transparent huge pages at fault time.
//!
//! The first touch in a block, an aligned range as large as a huge page, gets a huge page if the block lies wholly
//! inside one private anonymous area (heap, bss and stack included), none of it is mapped yet, and the mode and the
//! area's advice allow it. A huge page splits when part of it is unmapped, discarded, or gets other rights or advice
//! than the rest, since that splits its area (`vma_adjust_trans_huge`).
//!
//! A process may forbid huge pages, all or all except advised ones (`prctl(PR_SET_THP_DISABLE)`), from then on.
//!
//! Source: Linux `Documentation/admin-guide/mm/transhuge.rst`. Not modelled: khugepaged's later collapses, mTHP sizes,
//! huge pages for files and shared memory, failure to find a free block.

use super::{FirstTouch, PageSizePolicy};
use crate::{HugeAdvice, ProcessMapping, Vma};
use pagewalk_trace::ThpDisable;
use std::ops::Range;

/// The kernel's mode, as in `/sys/kernel/mm/transparent_hugepage/enabled`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThpMode {
    /// Everywhere but where advised against.
    Always,
    /// Only where advised.
    Madvise,
    /// Nowhere.
    Never,
}

impl ThpMode {
    /// The mode with this name; an unknown name is `None`.
    pub fn from_name(name: &str) -> Option<ThpMode> {
        match name {
            "always" => Some(ThpMode::Always),
            "madvise" => Some(ThpMode::Madvise),
            "never" => Some(ThpMode::Never),
            _ => None,
        }
    }

    /// The mode's name.
    pub fn name(self) -> &'static str {
        match self {
            ThpMode::Always => "always",
            ThpMode::Madvise => "madvise",
            ThpMode::Never => "never",
        }
    }
}

/// Transparent huge pages in one mode.
#[derive(Clone, Copy, Debug)]
pub struct Thp {
    /// The mode.
    pub mode: ThpMode,
}

impl Thp {
    /// Whether an area may have huge pages in a process with this ban.
    pub fn allows(&self, vma: &Vma, forbidden: ThpDisable) -> bool {
        let advised = vma.advice == HugeAdvice::HugePage;
        let is_forbidden = forbidden == ThpDisable::All || forbidden == ThpDisable::ExceptAdvised && !advised;
        let allowed = match (self.mode, vma.advice) {
            (ThpMode::Never, _) | (_, HugeAdvice::NoHugePage) => false,
            (ThpMode::Always, _) | (ThpMode::Madvise, HugeAdvice::HugePage) => true,
            (ThpMode::Madvise, HugeAdvice::None) => false,
        };
        allowed && !is_forbidden && vma.is_private_anonymous()
    }
}

impl PageSizePolicy for Thp {
    fn wants_huge(&self, fault: &FirstTouch<'_>) -> bool {
        let Some(vma) = fault.vma else { return false };
        let Range { start, end } = fault.bytes();
        let is_inside = vma.start <= start && end <= vma.end;
        self.allows(vma, fault.forbidden) && !fault.populated && is_inside
    }

    fn may_be_huge(&self) -> bool {
        self.mode != ThpMode::Never
    }

    fn splits(&self, _mapping: ProcessMapping) -> bool {
        true
    }
}

/// [`Thp`] that ignores the process's ban.
#[derive(Clone, Copy, Debug)]
pub struct UnrestrictedThp(pub Thp);

impl PageSizePolicy for UnrestrictedThp {
    fn wants_huge(&self, fault: &FirstTouch<'_>) -> bool {
        self.0.wants_huge(&FirstTouch { forbidden: ThpDisable::Off, ..*fault })
    }

    fn may_be_huge(&self) -> bool {
        self.0.may_be_huge()
    }

    fn splits(&self, mapping: ProcessMapping) -> bool {
        self.0.splits(mapping)
    }
}
