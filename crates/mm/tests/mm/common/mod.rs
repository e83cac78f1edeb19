//! A process for tests of policies: areas, a kernel, and the events of a program.

// Each test uses only a part of this module.

use pagewalk_mm::frames::Buddy;
use pagewalk_mm::promotion::{Actions, CacheMiss, LastUse, PageMove, Policy, PolicyEvent, Rules};
use pagewalk_mm::{
    AddressSpace, Change, FullMemoryAction, Kernel, KernelCosts, MemoryRules, Remap, Superpage,
};
use pagewalk_trace::{Event, FileIdentity, Mapping, MappingKind, Protection, ThpDisable};
use pagewalk_units::{PageSize, VirtAddr};
use std::collections::BTreeMap;

/// Bytes of a base page.
pub const PAGE: u64 = 4096;

/// Times of last use, by page.
#[derive(Default)]
pub struct Uses(pub BTreeMap<u64, u64>);

impl LastUse for Uses {
    fn last_use(&self, page: u64) -> Option<u64> {
        self.0.get(&page).copied()
    }
}

/// A recoloring policy that moves the page of each cache miss to the color that the miss's frame has.
#[derive(Clone)]
pub struct AtMisses {
    pub colors: u64,
}

impl Policy for AtMisses {
    fn rules(&self) -> Rules {
        Rules { watches_caches: true, ..Rules::new(1) }
    }

    fn on(&mut self, event: PolicyEvent<'_>, actions: &mut Actions) {
        if let PolicyEvent::CacheMissed(CacheMiss { page: Some(page), frame, .. }) = event {
            actions.moves.push(PageMove { page, color: frame.0 % self.colors });
        }
    }
}

/// A process under one policy.
pub struct Process {
    pub space: AddressSpace,
    pub kernel: Kernel,
    pub uses: Uses,
    /// Instructions executed.
    pub now: u64,
    pub remaps: Vec<Remap>,
    changes: Vec<Change>,
}

impl Process {
    pub fn new(policy: Box<dyn Policy>) -> Process {
        Process::with_costs(policy, KernelCosts::TODAY)
    }

    pub fn with_costs(policy: Box<dyn Policy>, costs: KernelCosts) -> Process {
        Process {
            space: AddressSpace::default(),
            kernel: Kernel::new(PageSize::FOUR_KIB, policy, costs),
            uses: Uses::default(),
            now: 0,
            remaps: Vec::new(),
            changes: Vec::new(),
        }
    }

    /// Adds a physical memory. Swapping a page costs 11 cycles, moving one 7.
    pub fn with_memory(self, memory: Buddy, compact: bool) -> Process {
        self.when_full(memory, compact, FullMemoryAction::Swap)
    }

    /// Like [`Process::with_memory`], with the action when memory is full.
    pub fn when_full(mut self, memory: Buddy, compact: bool, when_full: FullMemoryAction) -> Process {
        let rules = MemoryRules { compact, migration_cycles: 7, swap_cycles: 11, when_full };
        self.kernel = self.kernel.with_memory(memory, rules);
        self
    }

    fn event(&mut self, event: &Event) {
        self.space.apply(event, &mut self.changes);
        for change in std::mem::take(&mut self.changes) {
            match change {
                Change::Gone { start, bytes } => {
                    let pages = start.0 / PAGE..(start.0 + bytes) / PAGE;
                    self.uses.0.retain(|page, _| !pages.contains(page));
                    self.kernel.flushed(pages.clone(), &mut self.remaps);
                    self.kernel.gone(pages, &self.space, &mut self.remaps);
                }
                Change::Flushed { start, bytes } => {
                    self.kernel.flushed(start.0 / PAGE..(start.0 + bytes) / PAGE, &mut self.remaps);
                }
            }
        }
        if let Event::Map(Mapping { start, bytes, .. }) = event {
            let pages = start.0 / PAGE..(start.0 + bytes) / PAGE;
            self.kernel.mapped(pages, &self.space, &mut self.remaps);
        }
        if let Event::Advise { start, bytes, advice } = event {
            let pages = start.0 / PAGE..(start.0 + bytes) / PAGE;
            self.kernel.advised(pages, *advice, &self.space, &self.uses, &mut self.remaps);
        }
    }

    /// Maps base pages.
    pub fn map(&mut self, first: u64, pages: u64, kind: MappingKind) {
        self.map_of(first, pages, kind, None);
    }

    /// Maps hugetlb memory with this number of base pages per page.
    pub fn map_hugetlb(&mut self, first: u64, pages: u64, page: u64) {
        let protection = Protection { read: true, write: true, execute: false };
        let (start, bytes, kind) = (VirtAddr(first * PAGE), pages * PAGE, MappingKind::Anonymous);
        let page_bytes = page * PAGE;
        self.event(&Event::Map(Mapping { start, bytes, protection, kind, file: None, page_bytes }));
    }

    /// Forbids transparent huge pages.
    pub fn forbid(&mut self, mode: ThpDisable) {
        self.event(&Event::ThpDisable { mode });
        self.kernel.forbidden(mode);
    }

    /// Sleeps.
    pub fn sleep(&mut self, nanoseconds: u64) {
        self.kernel.slept(nanoseconds);
        self.kernel.wake(self.now, &self.space, &self.uses, &mut self.remaps);
    }

    /// Maps base pages of a file.
    pub fn map_of(&mut self, first: u64, pages: u64, kind: MappingKind, file: Option<FileIdentity>) {
        let protection = Protection { read: true, write: true, execute: false };
        let (start, bytes) = (VirtAddr(first * PAGE), pages * PAGE);
        self.event(&Event::Map(Mapping { start, bytes, protection, kind, file, page_bytes: PAGE }));
    }

    pub fn unmap(&mut self, first: u64, pages: u64) {
        self.event(&Event::Unmap { start: VirtAddr(first * PAGE), bytes: pages * PAGE });
    }

    pub fn protect(&mut self, first: u64, pages: u64, write: bool) {
        let protection = Protection { read: true, write, execute: false };
        self.event(&Event::Protect { start: VirtAddr(first * PAGE), bytes: pages * PAGE, protection });
    }

    pub fn advise(&mut self, first: u64, pages: u64, advice: i32) {
        self.event(&Event::Advise { start: VirtAddr(first * PAGE), bytes: pages * PAGE, advice });
    }

    /// Stores to a page, for the first time or again.
    pub fn touch(&mut self, page: u64) {
        self.use_page(page, true);
    }

    /// Loads from a page, for the first time or again.
    pub fn load(&mut self, page: u64) {
        self.use_page(page, false);
    }

    /// Loads from a page, or stores to it.
    pub fn use_page(&mut self, page: u64, stores: bool) {
        self.uses.0.insert(page, self.kernel.time(self.now));
        if !self.kernel.table().is_touched(page) {
            self.kernel.touched(page, stores, &self.space, &mut self.remaps);
        } else if stores && self.kernel.table().is_protected(page) {
            self.kernel.stored(page, &self.space, &mut self.remaps);
        }
    }

    /// Executes instructions.
    pub fn wait(&mut self, instructions: u64) {
        self.now += instructions;
        self.kernel.wake(self.now, &self.space, &self.uses, &mut self.remaps);
    }

    /// The order of the page that maps a page.
    pub fn order(&self, page: u64) -> Option<u8> {
        self.kernel.table().mapped(page).map(|unit| unit.order)
    }

    /// The orders of the pages that map a range.
    pub fn units(&self, first: u64, pages: u64) -> Vec<Superpage> {
        self.kernel.table().units_in(first..first + pages)
    }
}
