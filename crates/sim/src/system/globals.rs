//! Global pages: one translation for all processes that map a page of a file alike. `pass/global.rs` has the rules.

use super::System;
use super::page::Page;
use super::process::{Memory, Process, TouchedPage};
use crate::global_pages::FirstTouch;
use crate::ranges::page_bytes;
use pagewalk_translate::Asid;
use std::collections::BTreeSet;

impl System {
    /// First touch of a page. `None`: the process was killed.
    pub(super) fn first_touch(&mut self, vpn: u64, stores: bool) -> Option<()> {
        self.clock.pages_touched += 1;
        self.known.forget();
        self.account().pages_touched += 1;
        if self.share(vpn) { Some(()) } else { self.add_page(vpn, stores, 1) }
    }

    /// Adds the running process's own page.
    fn add_page(&mut self, vpn: u64, stores: bool, new_pages: u64) -> Option<()> {
        let (now, order) = (self.clock.instructions, self.machine().paging.huge_order());
        let Process { space, pages, memory, .. } = self.process();
        let region = vpn >> order << order..((vpn >> order) + 1) << order;
        let populated = pages.range(region).any(|(&other, page)| other != vpn && !page.global);
        pages.insert(vpn, TouchedPage::default());
        if let Memory::Host(host) = memory {
            host.touched(vpn, populated, space, now);
            return Some(());
        }
        self.back(vpn, stores, new_pages)
    }

    /// Makes the running process use the global page at `vpn`, creating it if needed. False: the process needs its own
    /// page, and nothing is global there.
    fn share(&mut self, vpn: u64) -> bool {
        if self.globals.is_none() {
            return false;
        }
        let (asid, base) = (self.asid, self.machine().paging.base());
        let file = self.process().space.file_page(page_bytes(vpn, base));
        let System { globals: Some(globals), processes, .. } = self else { return false };
        let others_own =
            || processes.iter().any(|(&of, process)| of != asid && process.pages.contains_key(&vpn));
        match globals.touch(asid, vpn, file, others_own) {
            FirstTouch::Global => {}
            FirstTouch::Own => return false,
            FirstTouch::Ends(users) => {
                self.end_global(vpn, users);
                return false;
            }
        }
        let Process { pages, memory, .. } = self.process();
        pages.insert(vpn, TouchedPage { global: true, ..TouchedPage::default() });
        if let Memory::Host(host) = memory {
            host.touched_by_all(vpn);
        }
        // Its kernel still holds it in memory.
        if self.process().own().is_some() {
            self.back(vpn, false, 0);
        }
        true
    }

    /// Gives each user of a global page its own page.
    fn end_global(&mut self, vpn: u64, users: BTreeSet<Asid>) {
        self.invalidate(Asid::GLOBAL, Page::base(vpn, self.machine().paging.base()));
        let runs = self.asid;
        for user in users {
            self.asid = user;
            self.process().pages.remove(&vpn);
            self.tell_use();
            self.add_page(vpn, false, 0);
        }
        self.asid = runs;
        self.tell_use();
    }

    /// The running process has changed its mapping of a global page; `gone`: it has none there any more.
    pub(super) fn change_global(&mut self, vpn: u64, gone: bool) {
        let (asid, base) = (self.asid, self.machine().paging.base());
        let maps = self.process().space.file_page(page_bytes(vpn, base)).filter(|_| !gone);
        if self.globals.as_mut().is_none_or(|globals| globals.remapped(asid, vpn, maps.as_ref())) {
            return;
        }
        self.process().pages.remove(&vpn);
        if !gone && !self.share(vpn) {
            self.add_page(vpn, false, 0);
        }
    }
}
