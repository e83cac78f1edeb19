//! Policies that build superpages while the program runs. One file each.

mod approx_online;
mod asap;
mod fixed;
mod online;
mod throttle;
mod tlb_counts;

pub use approx_online::{ApproxOnline, Break};
pub use asap::{Asap, AsapShare};
pub use fixed::Fixed;
pub use online::Online;
pub use throttle::{Limits, Throttle};

use crate::kernel::{Accounts, PageTable};
use crate::{Superpage, Vma};

/// A miss of a TLB that is watched.
#[derive(Clone, Copy, Debug)]
pub struct Miss {
    /// Which TLB.
    pub tlb: usize,
    /// What maps the page that missed.
    pub unit: Superpage,
    /// Instructions executed so far.
    pub instructions: u64,
}

/// Decides which superpages pay. Called on rare events only, never for references that hit.
pub trait Policy: Send + Sync {
    /// Orders of the pages that it may map: a bit each.
    fn orders(&self) -> u32;

    /// A copy, with all that it remembers.
    fn boxed(&self) -> Box<dyn Policy>;

    /// Whether superpages may lie in this area.
    fn takes(&self, _area: &Vma) -> bool {
        true
    }

    /// Whether superpages reach over the ends of areas: hypothetical, as no kernel could do it.
    fn ignores_areas(&self) -> bool {
        false
    }

    /// Orders to try for a page that nothing backs, in this area: a bit each, the largest that is possible is taken.
    fn fault_orders(&self, _area: Option<&Vma>) -> u32 {
        1
    }

    /// First touch of a backed page: adds the superpages that it wants built to `wishes`.
    fn touched(&mut self, _page: u64, _table: &PageTable, _wishes: &mut Vec<Superpage>) {}

    /// A page that had been touched is no longer backed.
    fn gone(&mut self, _page: u64) {}

    /// Whether it is to be told of the TLBs: the calls that follow.
    fn watches_tlbs(&self) -> bool {
        false
    }

    /// How many entries each TLB has: before anything else.
    fn watch(&mut self, _entries: &[u64]) {}

    /// A miss, before anything is filled. Returns the cycles of its own work. `accounts`: what all of it has cost so
    /// far.
    fn missed(&mut self, _miss: Miss, _accounts: &Accounts) -> u64 {
        0
    }

    /// A translation has entered a TLB.
    fn entered(&mut self, _tlb: usize, _unit: Superpage) {}

    /// A translation has left a TLB. Not called for parts of what is promoted.
    fn left(&mut self, _tlb: usize, _unit: Superpage) {}

    /// A superpage around `unit`, larger than it, that should be built now; the smallest if there are several.
    fn due(&mut self, _unit: Superpage) -> Option<Superpage> {
        None
    }

    /// A superpage was built. Translations of its parts have left all TLBs, and its own has not entered yet.
    fn promoted(&mut self, _block: Superpage) {}

    /// A superpage was taken apart, or is no longer backed. Its translation has left all TLBs.
    fn demoted(&mut self, _block: Superpage) {}
}

impl Clone for Box<dyn Policy> {
    fn clone(&self) -> Self {
        self.boxed()
    }
}

/// Orders 1 to `top`: a bit each.
pub(crate) fn up_to(top: u8) -> u32 {
    (2 << top) - 2
}
