//! The last referenced page of each set. Referencing it again changes nothing in any array, whatever its replacement.
//!
//! So a design whose replacement needs hits (see [`crate::design::first_level`]) only needs hits of other pages.

use crate::classes::{CLASSES, FETCH, LOAD, STORE};

/// No page's number.
const NOBODY: u64 = u64::MAX;

/// Pages by class and by low bits of their number. Pages of one array's set also share a set here.
pub(crate) struct LastPages {
    mask: u64,
    pages: [Box<[u64]>; CLASSES],
}

impl LastPages {
    /// `sets`: a power of two.
    pub fn new(sets: usize) -> LastPages {
        let pages = std::array::from_fn(|_| vec![NOBODY; sets].into_boxed_slice());
        LastPages { mask: sets as u64 - 1, pages }
    }

    pub fn sets(&self) -> usize {
        self.pages[0].len()
    }

    /// Makes the page the last of its set for `class`; true if it was already. Loads and stores may share an array;
    /// `fetches_too`: fetches may share it with both.
    #[inline(always)]
    pub fn note(&mut self, class: usize, vpn: u64, fetches_too: bool) -> bool {
        for other in [FETCH, LOAD, STORE] {
            if other != class && (fetches_too || other != FETCH && class != FETCH) {
                let page = &mut self.pages[other][(vpn & self.mask) as usize];
                *page = if *page == vpn { vpn } else { NOBODY };
            }
        }
        self.note_alone(class, vpn)
    }

    /// [`LastPages::note`] for a class that shares no array.
    #[inline(always)]
    pub fn note_alone(&mut self, class: usize, vpn: u64) -> bool {
        let page = &mut self.pages[class][(vpn & self.mask) as usize];
        std::mem::replace(page, vpn) == vpn
    }
}
