//! Eager paging: an area of memory is backed as a whole when it is mapped, by the largest blocks of frames (Karakostas
//! 2016, section 4.5.2, Algorithm 4.1, with its slips repaired: see [`crate::frames::Buddy::allocate_eager`]).
//!
//! When memory is fragmented, or has not enough free, the area is backed on demand, by base pages. The thesis gives
//! neither the measure of fragmentation nor its bound; chosen is the unusable index for the huge page, and one half.
//!
//! The thesis maps base pages and keeps ranges beside them. Here larger pages map what lies aligned in both virtual and
//! physical memory, up to a size that may be the base page's.

use super::setting::{SettingError, Settings};
use super::{Actions, Event, MapBacking, Policy, Rules, is_anonymous, up_to};
use crate::Vma;
use pagewalk_trace::MappingKind;

/// Which areas are backed when they are mapped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EagerSettings {
    /// Orders of the pages that map what lies aligned, a bit each: all up to the huge page. None for base pages alone.
    pub orders: u32,
    /// Order of the blocks whose share of free memory tells how fragmented it is: that of the huge page.
    pub huge: u8,
    /// Base pages of the smallest request that is backed at once: 8, the thesis's contiguity threshold.
    pub least_pages: u64,
    /// Unusable index above which requests are backed on demand: 0.5, chosen.
    pub fragmentation_limit: f64,
}

impl EagerSettings {
    /// Defaults for huge pages of this order.
    pub fn new(huge: u8) -> EagerSettings {
        EagerSettings { orders: up_to(huge), huge, least_pages: 8, fragmentation_limit: 0.5 }
    }
}

/// Eager paging.
#[derive(Clone, Debug)]
pub struct Eager {
    settings: EagerSettings,
    fragmented: bool,
}

impl Eager {
    /// With these settings, where they are possible.
    pub fn new(settings: EagerSettings) -> Result<Eager, SettingError> {
        let of = Settings("eager");
        of.order(settings.huge)?;
        of.within("orders", settings.orders, 0..=up_to(settings.huge))?;
        of.within("fragmentation_limit", settings.fragmentation_limit, 0.0..=1.0)?;
        Ok(Eager { settings, fragmented: false })
    }
}

impl Policy for Eager {
    fn rules(&self) -> Rules {
        Rules { in_place: true, backs_areas: true, ..Rules::new(self.settings.orders) }
    }

    fn boxed(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }

    fn on(&mut self, event: Event<'_>, _actions: &mut Actions) {
        if let Event::Memory(memory) = event {
            let index = memory.unusable_index(self.settings.huge.into());
            self.fragmented = index > self.settings.fragmentation_limit;
        }
    }

    /// Private anonymous memory that may be used, but for stacks, which grow as they are touched: chosen.
    fn at_map(&self, area: &Vma, pages: u64) -> MapBacking {
        let usable = area.protection.read || area.protection.write;
        let takes = is_anonymous(area) && area.kind != MappingKind::Stack && usable;
        match takes && pages >= self.settings.least_pages {
            false => MapBacking::OnDemand,
            true if self.fragmented => MapBacking::Fragmented,
            true => MapBacking::Whole,
        }
    }
}
