//! A cap on copying, against pages that move to and fro: Romer's suggestion for COMBINED (1998, section 6.6.3).

use crate::promotion::{Actions, PageMove, Policy, PolicyEvent, Rules};
use std::collections::BTreeMap;

/// How much a policy may copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyCap {
    /// Moves in each stretch of cycles.
    pub copies: u64,
    /// Moves of each page in each stretch of cycles.
    pub copies_of_page: u64,
    /// Cycles of a stretch, at least 1.
    pub cycles: u64,
}

/// A recoloring policy whose moves beyond the cap are dropped. It is not told: what it counted begins anew.
///
/// Stretches are multiples of the cap's cycles. Another core's earlier time belongs to the latest stretch.
#[derive(Clone)]
pub struct Capped {
    recolors: Box<dyn Policy>,
    cap: CopyCap,
    /// The present stretch, its moves, and those of each page.
    stretch: u64,
    copies: u64,
    of_pages: BTreeMap<u64, u64>,
}

impl Capped {
    /// `recolors` under a cap.
    pub fn new(recolors: Box<dyn Policy>, cap: CopyCap) -> Capped {
        Capped { recolors, cap, stretch: 0, copies: 0, of_pages: BTreeMap::new() }
    }

    fn reached(&mut self, cycles: u64) {
        let stretch = cycles / self.cap.cycles;
        if stretch > self.stretch {
            (self.stretch, self.copies) = (stretch, 0);
            self.of_pages.clear();
        }
    }

    /// Counts a move, if it is below the cap.
    fn allows(&mut self, page: u64) -> bool {
        let of_page = self.of_pages.entry(page).or_default();
        let allows = self.copies < self.cap.copies && *of_page < self.cap.copies_of_page;
        self.copies += u64::from(allows);
        *of_page += u64::from(allows);
        allows
    }
}

impl Policy for Capped {
    fn rules(&self) -> Rules {
        self.recolors.rules()
    }

    fn on(&mut self, event: PolicyEvent<'_>, actions: &mut Actions) {
        match event {
            PolicyEvent::CacheMissed(miss) => self.reached(miss.cycles),
            PolicyEvent::Missed { miss, .. } => self.reached(miss.cycles),
            _ => {}
        }
        let before = actions.moves.len();
        self.recolors.on(event, actions);
        let wanted = actions.moves.split_off(before);
        actions.moves.extend(wanted.into_iter().filter(|&PageMove { page, .. }| self.allows(page)));
    }
}
