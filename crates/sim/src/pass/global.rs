//! Global pages: one translation for all address spaces that map a page of a file alike.
//!
//! A page is *shared* if one piece of a file backs all of it under the same rights, and its mapping never had the right
//! to write: a writable page may be a private copy. The rules:
//!
//! - The first address space that touches a shared page makes it global. Other spaces use it if they map the same piece
//!   of the same file there with the same rights.
//! - A global entry matches in every space, so it must not exist if one space has something else there. At the first
//!   touch of something else the page stops being global, and each space gets its own; and no page becomes global
//!   where another space has its own. Mapped but untouched pages do not matter: loaders map whole libraries before they
//!   map their parts.
//! - The page is under [`Asid::GLOBAL`] in all arrays, so no flush of an address space drops it. Walks use the tables
//!   and page-walk caches of the running space: only leaves are global.
//! - A change of the mapping in one space drops the translation for all, like an invalidation of one page on x86
//!   (`INVLPG`) and Arm (`TLBI VAE1`). If that space then has something else there, the page stops being global, as
//!   above; if it has nothing there, it stops using the page. The page goes with its last user.
//!
//! Global pages are base pages: see [`Pass::with_global_files`].
//!
//! Sources: Dong, Dwarkadas, Cox, "Shared Address Translation Revisited", EuroSys 2016, where an Android kernel sets
//! Arm's global bit for inherited library code (and Arm's domains exclude other processes). Skarlatos et al.,
//! "BabelFish", ISCA 2020: entries that the processes of a container group share.

use crate::attribution::Observer;
use crate::bits::bits;
use crate::error::PassError;
use crate::pass::Pass;
use crate::store::Globals;
use pagewalk_translate::Asid;

impl<O: Observer> Pass<O> {
    /// Makes file pages mapped without the right to write global. Call it before the pass runs. A design that maps
    /// everything by huge pages has no base pages to share, which is an error.
    pub fn with_global_files(mut self) -> Result<Pass<O>, PassError> {
        if let Some(design) = bits(self.store.block_designs).next() {
            return Err(PassError::HugeGlobals(self.designs[design].name.clone()));
        }
        self.store.globals = Some(Globals::default());
        Ok(self)
    }
}

impl<O: Observer> Pass<O> {
    /// Makes the running space use the global page at `vpn`, creating it if needed. `None`: the space needs its own
    /// page, and nothing is global there.
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
        // A large base page that a split left may be all of a file by now: changes of its parts do not free it.
        self.untouched.touch(&self.store, self.store.asid, vpn, self.executed.instructions);
        self.store.use_global(vpn)
    }

    /// Gives each user of a global page its own page.
    fn end_global(&mut self, vpn: u64) {
        let Some((page, users)) = self.store.take_global(vpn) else { return };
        for design in &mut self.designs {
            design.invalidate(&mut self.store, &[page]);
        }
        let runs = self.store.asid;
        for user in bits(users) {
            self.enter(Asid::new(user as u32).expect("users are bits"));
            self.add_page(vpn, false, &[]);
        }
        self.enter(runs);
        self.retire(page);
    }

    /// The running space has changed its mapping of a global page; `gone`: it has none there any more.
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
