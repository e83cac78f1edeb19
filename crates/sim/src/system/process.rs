//! One process: its address space, the pages that it touched, and what its kernel made of them.

use super::host::HostMemory;
use super::own::OwnMemory;
use super::page::Page;
use crate::spaces::SpaceCounts;
use pagewalk_mm::promotion::LastUse;
use pagewalk_mm::{AddressSpace, Kernel};
use pagewalk_translate::Asid;
use pagewalk_units::{PageSize, Paging, VirtAddr};
use std::collections::BTreeMap;
use std::ops::Range;

/// A base page that the process touched.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Touched {
    /// Whether something was stored to it: handlers of software-managed TLBs trap the first store.
    pub written: bool,
    /// Whether it is the page that all processes share there.
    pub global: bool,
    /// The clock at its last use.
    pub used: u64,
}

/// Who maps its memory.
pub(super) enum Memory {
    Host(HostMemory),
    Own(Box<OwnMemory>),
}

pub(super) struct Process {
    pub space: AddressSpace,
    pub pages: BTreeMap<u64, Touched>,
    pub memory: Memory,
    pub counts: SpaceCounts,
    pub started: bool,
}

/// When pages were used, as a kernel can know it: at which of its looks accessed bits were last found clear.
struct Uses<'a> {
    pages: &'a BTreeMap<u64, Touched>,
    looks: &'a [(u64, u64)],
}

impl LastUse for Uses<'_> {
    /// The time at the last look before the use: no later use is told than there was.
    fn last_use(&self, page: u64) -> Option<u64> {
        let used = self.pages.get(&page)?.used;
        let looks_before = self.looks.partition_point(|&(clock, _)| clock <= used);
        (used > 0).then(|| looks_before.checked_sub(1).map_or(0, |look| self.looks[look].1))
    }
}

impl Process {
    pub fn new(memory: Memory) -> Process {
        Process {
            space: AddressSpace::default(),
            pages: BTreeMap::new(),
            memory,
            counts: SpaceCounts::default(),
            started: false,
        }
    }

    /// Its kernel, if it is not the host's.
    pub fn kernel(&mut self) -> Option<&mut Kernel> {
        match &mut self.memory {
            Memory::Own(own) => Some(&mut own.kernel),
            Memory::Host(_) => None,
        }
    }

    /// The same, to look at.
    pub fn own(&self) -> Option<&OwnMemory> {
        match &self.memory {
            Memory::Own(own) => Some(own),
            Memory::Host(_) => None,
        }
    }

    /// What maps a base page.
    pub fn page(&self, vpn: u64) -> Page {
        match &self.memory {
            Memory::Host(host) => host.page(vpn),
            Memory::Own(own) => own.page(vpn),
        }
    }

    /// What TLBs hold for a base page of the process `asid`, and for whom.
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
            Memory::Host(host) => host.maps_untouched(vpn) || self.pages.contains_key(&vpn),
            Memory::Own(own) => own.maps(vpn),
        }
    }

    /// Whether two neighbouring base pages are in one page of a TLB.
    pub fn shares(&self, a: u64, b: u64) -> bool {
        let (a, b) = (self.page(a), self.page(b));
        (a.number, a.size) == (b.number, b.size)
    }

    /// The base pages of a change that are gone with the bytes of `range`: all but those at the ends, perhaps.
    pub fn gone_of(&self, mut pages: Range<u64>, range: &Range<u64>, paging: Paging) -> Range<u64> {
        let is_gone = |vpn: u64| {
            let base = paging.base().shift();
            let bytes = vpn << base..(vpn + 1) << base;
            let covered = range.start <= bytes.start && bytes.end <= range.end;
            covered || self.space.vma_within(bytes).is_none()
        };
        pages.start += u64::from(!is_gone(pages.start));
        pages.end -= u64::from(!pages.is_empty() && !is_gone(pages.end - 1));
        pages
    }

    /// Asks the kernel, with when pages were used.
    pub fn with_uses<T>(
        &mut self,
        ask: impl FnOnce(&mut Kernel, &AddressSpace, &dyn LastUse) -> T,
    ) -> Option<T> {
        let Memory::Own(own) = &mut self.memory else { return None };
        let uses = Uses { pages: &self.pages, looks: &own.looks };
        Some(ask(&mut own.kernel, &self.space, &uses))
    }
}
