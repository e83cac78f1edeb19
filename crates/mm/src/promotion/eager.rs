//! Eager paging: backs an area as a whole at its mapping, with the largest blocks of frames (Karakostas 2016, section
//! 4.5.2, Algorithm 4.1, with its slips repaired: see [`crate::frames::Buddy::allocate_eager`]).
//!
//! If memory is fragmented or short, the area is backed on demand by base pages. The thesis gives neither the measure
//! of fragmentation nor its bound; chosen: the unusable index for the huge page, and one half.
//!
//! The thesis maps base pages and keeps ranges beside them. Here larger pages map memory that is aligned both virtually
//! and physically, up to a size that may be the base page.

use super::setting::{SettingError, Settings};
use super::{Actions, MapBacking, Policy, PolicyEvent, Rules, up_to};
use crate::Vma;
use pagewalk_trace::MappingKind;

/// Settings of eager paging.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EagerSettings {
    /// Orders of pages for aligned memory, one bit each: all up to the huge page. None for base pages only.
    pub orders: u32,
    /// Order of the huge page, for the measure of fragmentation.
    pub huge: u8,
    /// Base pages of the smallest request to back eagerly: 8, the thesis's contiguity threshold.
    pub least_pages: u64,
    /// Unusable index above which requests are backed on demand: 0.5, chosen.
    pub fragmentation_limit: f64,
}

impl EagerSettings {
    /// The defaults for huge pages of this order.
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
    /// A policy with these settings.
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

    fn on(&mut self, event: PolicyEvent<'_>, _actions: &mut Actions) {
        if let PolicyEvent::Memory(memory) = event {
            let index = memory.unusable_index(self.settings.huge.into());
            self.fragmented = index > self.settings.fragmentation_limit;
        }
    }

    /// Backs usable private anonymous memory, except stacks, which grow by touches: chosen.
    fn at_map(&self, area: &Vma, pages: u64) -> MapBacking {
        let usable = area.protection.read || area.protection.write;
        let takes = area.is_private_anonymous() && area.kind != MappingKind::Stack && usable;
        match takes && pages >= self.settings.least_pages {
            false => MapBacking::OnDemand,
            true if self.fragmented => MapBacking::Fragmented,
            true => MapBacking::Whole,
        }
    }
}
