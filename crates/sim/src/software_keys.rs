//! Keys of pages in software-managed TLBs.

use pagewalk_translate::{Asid, page_key};
use pagewalk_units::PageSize;

/// The bit of keys where the address space begins: below the keys of table pages.
const SOFTWARE_ASID: u32 = 55;

pub(crate) fn software_key(asid: Asid, number: u64, size: PageSize) -> u64 {
    (asid.index() as u64) << SOFTWARE_ASID | page_key(number, size)
}

/// The inverse of [`software_key`].
pub(crate) fn software_page(key: u64) -> (Asid, u64, PageSize) {
    let asid = match (key >> SOFTWARE_ASID) as u32 {
        number if number == Asid::GLOBAL.index() as u32 => Asid::GLOBAL,
        number => Asid::new(number).expect("keys hold identifiers"),
    };
    let (_, number, size) = Asid::page_of(key & ((1 << SOFTWARE_ASID) - 1));
    (asid, number, size)
}
