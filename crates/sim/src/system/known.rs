//! Translations that were looked up lately: what a reference needs that finds its page touched, backed and in place.
//!
//! A direct-mapped table over all classes. Whatever may map a page otherwise, take it away or switch who runs forgets
//! all of it at once.

use super::page::Page;
use pagewalk_translate::Asid;

const SLOTS: usize = 1024;

/// One translation of a base page.
#[derive(Clone, Copy)]
pub(super) struct Known {
    vpn: u64,
    epoch: u64,
    pub asid: Asid,
    pub page: Page,
    /// Whether stores need nothing more: it was stored to.
    pub stored: bool,
}

/// The table.
pub(super) struct Lately {
    slots: Vec<Option<Known>>,
    epoch: u64,
}

impl Lately {
    pub fn new() -> Lately {
        Lately { slots: vec![None; SLOTS], epoch: 0 }
    }

    pub fn get(&self, vpn: u64) -> Option<Known> {
        self.slots[vpn as usize % SLOTS].filter(|known| known.vpn == vpn && known.epoch == self.epoch)
    }

    pub fn note(&mut self, vpn: u64, asid: Asid, page: Page, stored: bool) {
        let stored = stored || self.get(vpn).is_some_and(|known| known.stored);
        self.slots[vpn as usize % SLOTS] = Some(Known { vpn, epoch: self.epoch, asid, page, stored });
    }

    pub fn forget(&mut self) {
        self.epoch += 1;
    }
}
