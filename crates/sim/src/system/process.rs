//! One process: its address space, its touched pages, and its memory under its kernel.

use super::host::HostMemory;
use super::kernel::OwnMemory;
use super::page::Page;
use super::side_memory::SideMemory;
use crate::code_lines::CodeLines;
use crate::counts::SpaceCounts;
use crate::fetch::FetchTable;
use crate::looks::ScanTimes;
use crate::ranges::page_bytes;
use pagewalk_mm::promotion::LastUse;
use pagewalk_mm::{AddressSpace, Kernel, MappingId};
use pagewalk_translate::Asid;
use pagewalk_units::{PageSize, VirtAddr};
use std::collections::BTreeMap;

/// A touched base page.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TouchedPage {
    /// Whether it has had a store: handlers of software-managed TLBs trap the first one.
    pub written: bool,
    /// Whether it is the global page there.
    pub global: bool,
    /// The clock at a use since its kernel's last look, if there was one; else at an earlier use.
    pub used: u64,
}

/// The kernel that maps its memory.
pub(super) enum Memory {
    Host(HostMemory),
    Own(Box<OwnMemory>),
}

pub(super) struct Process {
    base: PageSize,
    pub space: AddressSpace,
    pub pages: BTreeMap<u64, TouchedPage>,
    pub memory: Memory,
    /// Its memory for a data side.
    pub side: Option<Box<SideMemory>>,
    pub counts: SpaceCounts,
    pub started: bool,
    /// Whether its program has exited.
    pub ended: bool,
    /// Runs of its executed blocks.
    pub fetches: FetchTable,
    /// What caches of memory see of its code, if there are some.
    pub lines: CodeLines,
}

/// Times of use, as far as a kernel can know them.
struct Uses<'a> {
    pages: &'a BTreeMap<u64, TouchedPage>,
    looks: &'a ScanTimes,
}

impl LastUse for Uses<'_> {
    fn last_use(&self, page: u64) -> Option<u64> {
        self.looks.last_use(self.pages.get(&page)?.used)
    }
}

impl Process {
    pub fn new(memory: Memory, side: Option<Box<SideMemory>>, base: PageSize) -> Process {
        Process {
            base,
            space: AddressSpace::default(),
            pages: BTreeMap::new(),
            memory,
            side,
            counts: SpaceCounts::default(),
            started: false,
            ended: false,
            fetches: FetchTable::new(base, false),
            lines: CodeLines::default(),
        }
    }

    /// Its simulated kernel, if it has one.
    pub fn kernel(&mut self) -> Option<&mut Kernel> {
        match &mut self.memory {
            Memory::Own(own) => Some(&mut own.kernel),
            Memory::Host(_) => None,
        }
    }

    /// Its memory under a simulated kernel, if it has one.
    pub fn own(&self) -> Option<&OwnMemory> {
        match &self.memory {
            Memory::Own(own) => Some(own),
            Memory::Host(_) => None,
        }
    }

    /// Whether a base page is an untouched one of this mapping.
    fn is_untouched_of(&self, vpn: u64, mapping: MappingId) -> bool {
        !self.pages.contains_key(&vpn) && self.space.mapping_of(page_bytes(vpn, self.base)) == mapping
    }

    /// What maps a base page.
    pub fn page(&self, vpn: u64) -> Page {
        match &self.memory {
            Memory::Host(host) => host.page(vpn, |mapping| self.is_untouched_of(vpn, mapping)),
            Memory::Own(own) => own.page(vpn),
        }
    }

    /// The TLB's page for a base page of process `asid`, with its address space.
    pub fn translation(&self, vpn: u64, asid: Asid, base: PageSize) -> (Asid, Page) {
        let page = self.page(vpn);
        let is_shared = self.pages.get(&vpn).is_some_and(|touched| touched.global);
        let is_kernels = VirtAddr(vpn << base.shift()).is_kernel();
        match &self.memory {
            Memory::Host(_) if is_shared => (Asid::GLOBAL, Page::base(vpn, base)),
            Memory::Own(_) if is_shared && page.size == base => (Asid::GLOBAL, page),
            _ => (if is_kernels { Asid::GLOBAL } else { asid }, page),
        }
    }

    /// Whether TLBs may hold a base page.
    pub fn maps(&self, vpn: u64) -> bool {
        match &self.memory {
            Memory::Host(host) => {
                let untouched_of = |mapping| self.is_untouched_of(vpn, mapping);
                self.pages.contains_key(&vpn) || host.maps_untouched(vpn, untouched_of)
            }
            Memory::Own(own) => own.maps(vpn),
        }
    }

    /// Whether two adjacent base pages share a TLB's page.
    pub fn shares(&self, a: u64, b: u64) -> bool {
        let (a, b) = (self.page(a), self.page(b));
        (a.number, a.size) == (b.number, b.size)
    }

    /// Calls the kernel, with the times of use.
    pub fn with_uses<T>(
        &mut self,
        ask: impl FnOnce(&mut Kernel, &AddressSpace, &dyn LastUse) -> T,
    ) -> Option<T> {
        let Memory::Own(own) = &mut self.memory else { return None };
        let uses = Uses { pages: &self.pages, looks: &own.looks };
        Some(ask(&mut own.kernel, &self.space, &uses))
    }
}
