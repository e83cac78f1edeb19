//! Global pages in the store: see `pass/global.rs`.

use super::PageStore;
use pagewalk_mm::{FilePage, MappingId};
use pagewalk_translate::Asid;
use rustc_hash::FxHashMap;

/// The global pages by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Globals(FxHashMap<u64, Global>);

#[derive(Clone, Debug)]
struct Global {
    page: u32,
    holds: FilePage,
    /// Address spaces that use it, one bit each.
    users: u64,
}

const _: () = assert!(Asid::COUNT == u64::BITS);

impl PageStore {
    /// Whether a page is global.
    pub fn is_global(&self, page: u32) -> bool {
        self.units[self.pages[page as usize].unit as usize].asid == Asid::GLOBAL
    }

    /// The content of the global page at `vpn`.
    pub fn global_at(&self, vpn: u64) -> Option<&FilePage> {
        self.globals.as_ref()?.0.get(&vpn).map(|global| &global.holds)
    }

    /// Makes a page no longer global; returns it and its users, one bit each.
    pub fn take_global(&mut self, vpn: u64) -> Option<(u32, u64)> {
        let global = self.globals.as_mut()?.0.remove(&vpn)?;
        Some((global.page, global.users))
    }

    /// Adds a global page without users.
    pub fn add_global(&mut self, vpn: u64, holds: FilePage, instructions: u64) {
        // Each space has its own mapping numbers.
        let page = self.add_page(Asid::GLOBAL, vpn, MappingId::UNKNOWN, instructions);
        if let Some(Globals(globals)) = &mut self.globals {
            globals.insert(vpn, Global { page, holds, users: 0 });
        }
    }

    /// Makes the running space a user of the global page, which is returned.
    pub fn use_global(&mut self, vpn: u64) -> Option<u32> {
        let global = self.globals.as_mut()?.0.get_mut(&vpn)?;
        global.users |= 1 << self.asid.index();
        let page = global.page;
        self.name(self.asid, vpn, page);
        Some(page)
    }

    /// Removes the running space from the users; true if none is left.
    pub fn leave_global(&mut self, vpn: u64) -> bool {
        self.unname(self.asid, vpn);
        let user = 1 << self.asid.index();
        let Some(Globals(globals)) = &mut self.globals else { return false };
        let Some(global) = globals.get_mut(&vpn) else { return false };
        global.users &= !user;
        let unused = global.users == 0;
        if unused {
            globals.remove(&vpn);
        }
        unused
    }
}
