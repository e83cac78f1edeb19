//! Which pages were copied, and why (Romer 1998, tables 6-3 to 6-5).

use super::KernelCounts;
use std::collections::BTreeMap;

/// Recolorings from which on a page counts as one that moves again and again (table 6-4).
const REPEATED: u64 = 5;

/// Copies of one page.
#[derive(Clone, Copy, Debug, Default)]
struct Copies {
    is_promoted: bool,
    recolorings: u64,
}

/// Pages of the program that promotions or recolorings copied, also those that are unmapped now.
#[derive(Clone, Debug, Default)]
pub(super) struct CopiedPages(BTreeMap<u64, Copies>);

impl CopiedPages {
    /// A promotion copies a page.
    pub fn promoted(&mut self, page: u64, counts: &mut KernelCounts) {
        let copies = self.0.entry(page).or_default();
        if !copies.is_promoted {
            counts.pages_copied += u64::from(copies.recolorings == 0);
            counts.pages_copied_by_both += u64::from(copies.recolorings > 0);
        }
        copies.is_promoted = true;
    }

    /// A recoloring copies a page.
    pub fn recolored(&mut self, page: u64, counts: &mut KernelCounts) {
        let copies = self.0.entry(page).or_default();
        if copies.recolorings == 0 {
            counts.pages_recolored += 1;
            counts.pages_copied += u64::from(!copies.is_promoted);
            counts.pages_copied_by_both += u64::from(copies.is_promoted);
        }
        copies.recolorings += 1;
        counts.recolorings += 1;
        counts.recolorings_repeated += match copies.recolorings {
            ..REPEATED => 0,
            REPEATED => REPEATED,
            _ => 1,
        };
    }
}
