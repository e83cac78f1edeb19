//! FreeBSD: reserves frames for a whole superpage at the first touch, and builds it once all pages are touched.
//!
//! Sources: Navarro, Iyer, Druschel and Cox 2002, "Practical, transparent operating system support for superpages",
//! sections 4 and 5; FreeBSD `sys/vm/vm_reserv.c`.
//!
//! The first touch in a region reserves a block of frames, and each page takes its own frame there. Once all
//! are touched, the kernel maps them as one page without copying. Modelled: one size, for anonymous memory, private or
//! shared; with a physical memory, reservations break when frames run out; files have none. A superpage that a change
//! of rights splits is not rebuilt.

use super::setting::{SettingError, Settings};
use super::{Actions, Policy, PolicyEvent, ReservationRules, Rules};
use crate::{Superpage, Vma};
use pagewalk_trace::MappingKind;
use rustc_hash::FxHashMap;

/// Reservations of one size.
#[derive(Clone, Debug)]
pub struct FreeBsd {
    order: u8,
    /// Whether freeing a page breaks its reservation: true, as in the paper for memory that others need. Otherwise the
    /// page keeps its place, as in `vm_reserv_depopulate`.
    pub broken_by_gaps: bool,
    /// Reservations by region number, while one of the pages is backed.
    reservations: FxHashMap<u64, ReservedBlock>,
}

#[derive(Clone, Copy, Debug, Default)]
struct ReservedBlock {
    populated: u64,
    broken: bool,
}

impl FreeBsd {
    /// Superpages of this order, 9 for 2 MiB of 4 KiB; freed pages break reservations.
    pub fn new(order: u8) -> Result<FreeBsd, SettingError> {
        Settings("freebsd").order(order)?;
        Ok(FreeBsd { order, broken_by_gaps: true, reservations: FxHashMap::default() })
    }
}

impl Policy for FreeBsd {
    fn rules(&self) -> Rules {
        let reserves = Some(ReservationRules { order: self.order, broken_by_gaps: self.broken_by_gaps });
        Rules { in_place: true, reserves, ..Rules::new(1 << self.order).to_base_pages() }
    }

    fn on(&mut self, event: PolicyEvent<'_>, actions: &mut Actions) {
        match event {
            PolicyEvent::Touched { page, .. } => {
                let block = Superpage::around(page, self.order);
                let reserved = self.reservations.entry(block.number()).or_default();
                reserved.populated += 1;
                if reserved.populated == block.len() && !reserved.broken {
                    actions.promote(block);
                }
            }
            PolicyEvent::Gone(page) => self.gone(page),
            PolicyEvent::Refused(block) => self.reservations.entry(block.number()).or_default().broken = true,
            _ => {}
        }
    }

    fn takes(&self, area: &Vma) -> bool {
        area.is_private_anonymous() || area.kind == MappingKind::SharedAnonymous && !area.is_hugetlb()
    }
}

impl FreeBsd {
    fn gone(&mut self, page: u64) {
        let number = Superpage::around(page, self.order).number();
        let Some(reserved) = self.reservations.get_mut(&number) else { return };
        reserved.populated -= 1;
        reserved.broken |= self.broken_by_gaps;
        if reserved.populated == 0 {
            self.reservations.remove(&number);
        }
    }
}
