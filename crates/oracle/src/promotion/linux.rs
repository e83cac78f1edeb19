//! Linux's modes, `MADV_COLLAPSE` and khugepaged.

use super::{Attributes, Promoting, Rules};
use std::ops::Range;

/// The settings, and where khugepaged is.
#[derive(Clone, Debug)]
pub struct Linux {
    /// `always`, `madvise` or `never`.
    pub enabled: &'static str,
    /// The mode of each order: `always`, `madvise`, `inherit` or `never`.
    pub sizes: Vec<&'static str>,
    /// khugepaged.
    pub scanning: Option<Scanning>,
}

/// khugepaged.
#[derive(Clone, Debug)]
pub struct Scanning {
    /// Time between scans.
    pub period: u64,
    /// How far a scan goes.
    pub pages_to_scan: u64,
    /// Pages of a block that may be missing.
    pub max_none: u64,
    /// The next page; `None` at the beginning.
    pub position: Option<u64>,
}

impl Linux {
    /// Whether memory with these attributes may have pages of an order.
    pub fn allows(&self, order: u8, attributes: Attributes, forbidden: u8) -> bool {
        let mode = match self.sizes.get(order as usize) {
            Some(&"inherit") => self.enabled,
            Some(&mode) => mode,
            None => "never",
        };
        let is_forbidden = forbidden == 1 || forbidden == 2 && attributes.advice != 14;
        attributes.piece == 0
            && !is_forbidden
            && match mode {
                "always" => attributes.advice != 15,
                "madvise" => attributes.advice == 14,
                _ => false,
            }
    }
}

impl Promoting {
    /// The program calls `MADV_COLLAPSE`.
    pub fn collapse(&mut self, range: Range<u64>) {
        if !matches!(self.rules, Rules::Linux(_)) || self.forbidden == 1 {
            return;
        }
        for number in self.number(range.start)..=self.number(range.end) {
            let block = self.block(number);
            let is_whole = range.start <= block.start && block.end <= range.end;
            let fits = self.one_area(block).is_some_and(|attributes| self.takes(attributes));
            if is_whole && fits && self.tables.contains(&number) {
                self.promote(number);
            }
        }
    }

    pub(super) fn run_linux(&mut self, mut linux: Linux) {
        let Some(mut scan) = linux.scanning.clone() else { return };
        if !self.now.is_multiple_of(scan.period) {
            return;
        }
        let (mut progress, mut beginnings) = (0, 0);
        while progress < scan.pages_to_scan {
            beginnings += u32::from(scan.position.is_none());
            if beginnings == 2 {
                break;
            }
            progress += 1;
            scan.position = self.scan_on(&linux, &scan, &mut progress);
        }
        linux.scanning = Some(scan);
        self.rules = Rules::Linux(linux);
    }

    /// Goes on until something is collapsed, the scan has gone far enough, or the end.
    fn scan_on(&mut self, linux: &Linux, scan: &Scanning, progress: &mut u64) -> Option<u64> {
        let size = 1u64 << self.huge;
        let mut at = scan.position.unwrap_or(0);
        for (area, attributes) in self.areas() {
            if area.end <= at {
                continue;
            }
            let (first, end) = (area.start.next_multiple_of(size), area.end / size * size);
            if !linux.allows(self.huge, attributes, self.forbidden) || first >= end || at > end {
                *progress += 1;
                continue;
            }
            for number in first / size..end / size {
                if number * size < at {
                    continue;
                }
                at = (number + 1) * size;
                *progress += size;
                let missing = size - self.backed(self.block(number));
                if self.is_candidate(number) && missing <= scan.max_none {
                    self.promote(number);
                    return Some(at);
                }
                if *progress >= scan.pages_to_scan {
                    return Some(at);
                }
            }
        }
        None
    }
}
