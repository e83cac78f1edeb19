//! Two policies side by side.

use crate::promotion::{Actions, MapBacking, Policy, PolicyEvent, Rules};
use crate::{Superpage, Vma};

/// A promotion policy and a recoloring policy that know nothing of each other: both see every event (COMBINED of Romer
/// 1998, section 6.6.1).
#[derive(Clone)]
pub struct Beside {
    /// Decides on page sizes.
    pub promotes: Box<dyn Policy>,
    /// Decides on colors.
    pub recolors: Box<dyn Policy>,
}

impl Policy for Beside {
    fn rules(&self) -> Rules {
        let (promotes, recolors) = (self.promotes.rules(), self.recolors.rules());
        Rules {
            watches_tlbs: promotes.watches_tlbs || recolors.watches_tlbs,
            watches_caches: promotes.watches_caches || recolors.watches_caches,
            watches_cache_hits: promotes.watches_cache_hits || recolors.watches_cache_hits,
            // A page that moves alone splits its superpage down to it.
            part_orders: promotes.part_orders | 1,
            ..promotes
        }
    }

    fn on(&mut self, event: PolicyEvent<'_>, actions: &mut Actions) {
        self.promotes.on(event, actions);
        self.recolors.on(event, actions);
    }

    fn takes(&self, area: &Vma) -> bool {
        self.promotes.takes(area)
    }

    fn fault_orders(&self, page: u64, area: Option<&Vma>) -> u32 {
        self.promotes.fault_orders(page, area)
    }

    fn at_map(&self, area: &Vma, pages: u64) -> MapBacking {
        self.promotes.at_map(area, pages)
    }

    fn wakes(&self) -> Option<u64> {
        self.promotes.wakes()
    }

    fn due(&mut self, unit: Superpage) -> Option<Superpage> {
        self.promotes.due(unit)
    }
}
