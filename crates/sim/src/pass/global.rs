//! Global pages: one translation for all address spaces that map a page of a file alike.
//!
//! A page is *shared* where one piece of a file backs all of it, under the same rights, and its mapping never had the
//! right to write: what could be written may be a copy of its own. The rule:
//!
//! - The first address space that touches a shared page makes the page global. Others use that one where they map
//!   the same piece of the same file there with the same rights.
//! - An entry that matches in every space must not stand where one has something else. So with the first touch of
//!   something else there the page is global no more, and each space has one of its own; and no page becomes
//!   global where another space has its own. What is mapped and never touched does not matter: loaders map whole
//!   libraries before they map their parts.
//! - The page stands under [`Asid::GLOBAL`] in all arrays, so no flush of an address space drops it. Walks go
//!   through the tables, and page-walk caches, of the space that runs: only leaves are global.
//! - A change of the mapping in one space drops the translation for all, as an invalidation of one page does on x86
//!   (`INVLPG`) and Arm (`TLBI VAE1`). A space that has something else there then ends it, as above; one that has
//!   nothing there stops using it. The page is gone with the last space that uses it.
//!
//! Global pages are base pages: see [`Pass::with_global_files`].
//!
//! Sources: Dong, Dwarkadas, Cox, "Shared Address Translation Revisited", EuroSys 2016, where an Android kernel sets
//! Arm's global bit for the code of libraries that its processes inherit (and Arm's domains keep other processes from
//! it). Skarlatos et al., "BabelFish", ISCA 2020: entries that the processes of a container group share.

use crate::attribution::{NoObserver, WalkObserver};
use crate::bits::bits;
use crate::error::PassError;
use crate::pass::Pass;
use crate::store::Globals;
use pagewalk_translate::Asid;

impl Pass<NoObserver> {
    /// Makes pages of files global that are mapped without the right to write. To be asked before the pass runs. A
    /// design that maps everything by huge pages has no base pages that could be: that is an error.
    pub fn with_global_files(mut self) -> Result<Pass, PassError> {
        if let Some(design) = bits(self.store.block_designs).next() {
            return Err(PassError::HugeGlobals(self.designs[design].name.clone()));
        }
        self.store.globals = Some(Globals::default());
        Ok(self)
    }
}

impl<O: WalkObserver> Pass<O> {
    /// Has the space that runs use the global page at `vpn`, a new one if need be. `None`: it is to have one of its
    /// own, and nothing is global there.
    pub(crate) fn share(&mut self, vpn: u64) -> Option<u32> {
        self.store.globals.as_ref()?;
        let file = self.process.space.file_page(self.store.bytes_of(vpn));
        match (file, self.store.global_at(vpn)) {
            (Some(file), Some(holds)) if file == *holds => {}
            (_, Some(_)) => {
                self.end_global(vpn);
                return None;
            }
            (Some(file), None) if !self.spaces.parked.keys().any(|&asid| self.store.has(asid, vpn)) => {
                self.store.add_global(vpn, file, self.executed.instructions);
            }
            (_, None) => return None,
        }
        self.store.use_global(vpn)
    }

    /// Gives each space that uses a global page one of its own.
    fn end_global(&mut self, vpn: u64) {
        let Some((page, users)) = self.store.take_global(vpn) else { return };
        for design in &mut self.designs {
            design.invalidate(&mut self.store, &[page]);
        }
        let runs = self.store.asid;
        for user in bits(users) {
            self.enter(Asid::new(user as u32).expect("a bit each"));
            self.add_page(vpn, false, &[]);
        }
        self.enter(runs);
        self.retire(page);
    }

    /// The space that runs has changed its mapping of a global page; `gone`: it has none there any more.
    pub(crate) fn change_global(&mut self, page: u32, gone: bool) {
        let vpn = self.store.pages[page as usize].vpn;
        let maps = self.process.space.file_page(self.store.bytes_of(vpn)).filter(|_| !gone);
        if maps.as_ref() == self.store.global_at(vpn) {
            return;
        }
        if self.store.leave_global(vpn) {
            self.retire(page);
        }
        if !gone && self.share(vpn).is_none() {
            self.add_page(vpn, false, &[]);
        }
    }
}
