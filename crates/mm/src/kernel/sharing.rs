//! Shared pages: those of files, and those that parent and child share after `fork`.
//!
//! Sources: Linux 6.18, `mm/memory.c` (`do_read_fault`, `do_cow_fault`, `do_shared_fault`, `do_fault_around`,
//! `do_wp_page`, `copy_page_range`), `mm/filemap.c` (`do_sync_mmap_readahead`), `mm/huge_memory.c`
//! (`do_huge_pmd_wp_page`).
//!
//! Not modelled: ends of files; larger pages of files; writing back; growing read-ahead; other users of the cache;
//! `fork`'s work on page tables; that khugepaged counts what a child has not used yet.

use super::files::{Cache, FileRules, place_of};
use super::{Account, Kernel, ORDERS, Remap};
use crate::promotion::PolicyEvent;
use crate::{AddressSpace, Superpage, Vma};
use pagewalk_trace::MappingKind;
use std::collections::BTreeMap;
use std::ops::Range;

/// Rules of sharing after `fork`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForkRules {
    /// Whether a forked child has all its parent's private pages, copied at the first store; otherwise that memory is
    /// new.
    pub inherits: bool,
    /// Whether a fork protects private pages against stores.
    pub protects: bool,
    /// Instructions of the process until the child executes another program or ends without `wait`. Sleep counts as
    /// instructions.
    pub child_instructions: u64,
}

impl ForkRules {
    /// No sharing.
    pub const NONE: ForkRules = ForkRules { inherits: false, protects: false, child_instructions: 0 };
}

impl Default for ForkRules {
    /// All chosen: a child lives for a millisecond before it executes another program.
    fn default() -> ForkRules {
        ForkRules { inherits: true, protects: true, child_instructions: 1_000_000 }
    }
}

/// The state of shared pages.
#[derive(Clone, Debug)]
pub(super) struct Sharing {
    /// The rules of the page cache, if files have one.
    files: Option<FileRules>,
    fork: ForkRules,
    pub cache: Cache,
    /// Whether the process began with a fork.
    is_child: bool,
    started: bool,
    /// Ranges of the parent's pages not used yet, by start with their end.
    inherited: BTreeMap<u64, u64>,
    /// The last child and the end of its life.
    child: u32,
    child_until: u64,
    /// Pages that children own in the memory: child, end of its life, name.
    lent: Vec<(u32, u64, u64)>,
}

impl Sharing {
    fn is_cold(&self) -> bool {
        self.files.is_some_and(|rules| rules.cold)
    }

    /// Whether all of a range is inherited and not used yet.
    fn inherits_all(&self, pages: &Range<u64>) -> bool {
        self.inherited.range(..=pages.start).next_back().is_some_and(|(_, &end)| pages.end <= end)
    }

    /// Whether some of a range is inherited and not used yet.
    pub fn inherits_some(&self, pages: &Range<u64>) -> bool {
        self.inherited.range(..pages.end).next_back().is_some_and(|(_, &end)| pages.start < end)
    }

    /// Removes a range from the inherited ones.
    pub fn disinherit(&mut self, pages: &Range<u64>) {
        let before = self.inherited.range(..pages.end).filter(|&(_, &end)| pages.start < end);
        let met: Vec<Range<u64>> = before.map(|(&start, &end)| start..end).collect();
        for part in met {
            self.inherited.remove(&part.start);
            if part.start < pages.start {
                self.inherited.insert(part.start, pages.start);
            }
            if pages.end < part.end {
                self.inherited.insert(pages.end, part.end);
            }
        }
    }
}

fn is_file(area: &Vma) -> bool {
    matches!(area.kind, MappingKind::File | MappingKind::SharedFile)
}

/// Whether an area is private.
fn is_private(area: &Vma) -> bool {
    use MappingKind::{Anonymous, File, Heap, Inferred, Stack};
    matches!(area.kind, Anonymous | File | Heap | Inferred | Stack)
}

impl Kernel {
    /// Adds a page cache, if it has rules, and sharing after forks. Without this, all pages are the process's own.
    pub fn with_sharing(mut self, files: Option<FileRules>, fork: ForkRules) -> Kernel {
        self.sharing = Some(Box::new(Sharing {
            files,
            fork,
            cache: Cache::default(),
            is_child: false,
            started: false,
            inherited: BTreeMap::new(),
            child: 0,
            child_until: 0,
            lent: Vec::new(),
        }));
        self
    }

    /// Whether the caller must call [`Kernel::stored`], [`Kernel::forked`] and [`Kernel::started`].
    pub fn shares(&self) -> bool {
        self.sharing.is_some()
    }

    /// Marks the process as a fork's child, before anything else: what is mapped at its start is its parent's.
    pub fn begin_as_child(&mut self) {
        if let Some(sharing) = &mut self.sharing {
            sharing.is_child = sharing.fork.inherits;
        }
    }

    /// Whether areas mapped now are the parent's.
    pub(super) fn is_inheriting(&self) -> bool {
        self.sharing.as_ref().is_some_and(|sharing| sharing.is_child && !sharing.started)
    }

    /// The program executes its first instruction.
    pub fn started(&mut self, space: &AddressSpace) {
        let Some(sharing) = self.sharing.as_mut().filter(|sharing| !sharing.started) else { return };
        sharing.started = true;
        if !sharing.is_child {
            return;
        }
        // A fork copies page tables of areas that may have private pages: not of files that the parent cannot write.
        let has_pages = |area: &&Vma| {
            let rights = area.protection;
            is_private(area) && if is_file(area) { rights.write } else { rights.read || rights.write }
        };
        for area in space.areas().filter(has_pages) {
            let (start, end) = (area.start >> self.base.shift(), area.end.div_ceil(self.base.bytes()));
            let start = match sharing.inherited.last_key_value() {
                Some((_, &before)) => start.max(before),
                None => start,
            };
            if start < end {
                sharing.inherited.insert(start, end);
            }
        }
    }

    /// Whether no page of a block is inherited and unused.
    pub(super) fn is_not_inherited(&self, block: Superpage) -> bool {
        self.sharing.as_ref().is_none_or(|sharing| !sharing.inherits_some(&block.pages()))
    }

    /// Maps an inherited page with the largest page that the policy could have used at a fault; false if it is none.
    pub(super) fn inherit(&mut self, page: u64, space: &AddressSpace, remaps: &mut Vec<Remap>) -> bool {
        let Some(sharing) = &self.sharing else { return false };
        if !sharing.inherits_some(&(page..page + 1)) {
            return false;
        }
        let area = self.area(Superpage::around(page, 0), space);
        let orders = self.policy.decides.fault_orders(page, area) | 1;
        let of_policy = |area: &Vma| !is_file(area) && !area.is_hugetlb();
        let inside =
            |block: &Superpage| area.is_some_and(|area| of_policy(area) && self.covers(area, *block));
        let orders = (1..ORDERS as u8).rev().filter(|order| orders >> order & 1 == 1);
        let blocks = orders.map(|order| Superpage::around(page, order)).filter(inside);
        let mut blocks = self.hugetlb_page(page, space).into_iter().chain(blocks);
        let block = blocks.find(|block| sharing.inherits_all(&block.pages()));
        let block = block.unwrap_or(Superpage::around(page, 0));
        self.take_over(block);
        remaps.extend((block.order > 0).then_some(Remap::Mapped(block)));
        true
    }

    fn take_over(&mut self, block: Superpage) {
        if let Some(sharing) = &mut self.sharing {
            sharing.disinherit(&block.pages());
            self.table.map_foreign(block, true);
        }
    }

    /// Maps all inherited pages of a block.
    pub(super) fn take_over_all(&mut self, block: Superpage) {
        for page in block.pages() {
            let unused = |sharing: &Sharing| sharing.inherits_some(&(page..page + 1));
            if self.sharing.as_deref().is_some_and(unused) {
                self.take_over(Superpage::around(page, 0));
            }
        }
    }

    /// First touch of a file page; false if it is none.
    pub(super) fn file_fault(
        &mut self,
        page: u64,
        stores: bool,
        space: &AddressSpace,
        remaps: &mut Vec<Remap>,
    ) -> bool {
        let is_swapped = self.is_partly_swapped(Superpage::around(page, 0));
        let area = self.area(Superpage::around(page, 0), space).filter(|area| is_file(area) && !is_swapped);
        let (Some(sharing), Some(area)) = (&self.sharing, area) else { return false };
        let Some(rules) = sharing.files else { return false };
        self.counts.faults += 1;
        self.counts.file_faults += 1;
        self.accounts.charge(Account::Fault, self.costs.fault);
        if rules.cold && !self.read(rules, page, area, space, remaps) {
            return true;
        }
        if stores && is_private(area) {
            // One fault reads and copies.
            self.copy(page, space, remaps);
        } else if stores {
            self.map_file(page, area, false);
        } else {
            for near in self.around(page, area, rules.around) {
                if near == page || self.table.mapped(near).is_none() && self.may_map_ahead(near, area) {
                    self.map_file(near, area, true);
                }
            }
        }
        true
    }

    /// Whether a page near a faulting one can be mapped with it: in memory, and not in this process's swap.
    fn may_map_ahead(&self, page: u64, area: &Vma) -> bool {
        let Some(sharing) = &self.sharing else { return false };
        let is_there =
            !sharing.is_cold() || sharing.cache.get(place_of(area, page << self.base.shift())).is_some();
        let block = Superpage::around(page, 0);
        is_there && !self.is_partly_swapped(block) && self.is_not_inherited(block)
    }

    fn map_file(&mut self, page: u64, area: &Vma, protected: bool) {
        self.table.map_foreign(Superpage::around(page, 0), protected);
        if let Some(sharing) = self.sharing.as_mut().filter(|sharing| sharing.is_cold()) {
            let name =
                sharing.cache.get(place_of(area, page << self.base.shift())).expect("the page was read");
            sharing.cache.map(page, name);
        }
    }

    /// `do_fault_around`: an aligned group of `pages` around the page, cut to the area and the lowest page table.
    fn around(&self, page: u64, area: &Vma, pages: u64) -> Range<u64> {
        let shift = self.base.shift();
        // 8-byte entries: a table is a base page.
        let table = self.base.bytes() / 8;
        // A page shared by two areas belongs to the lower one.
        let first = area.start.div_ceil(1 << shift).min(page);
        let start = (page - page % pages).max(page - page % table).max(first);
        let end = (start + pages).min(page - page % table + table).min(area.end.div_ceil(1 << shift));
        start..end.max(page + 1)
    }

    /// Reads a page into memory, and those near it while frames are free. True if the page is in memory.
    fn read(
        &mut self,
        rules: FileRules,
        page: u64,
        area: &Vma,
        space: &AddressSpace,
        remaps: &mut Vec<Remap>,
    ) -> bool {
        let shift = self.base.shift();
        let Some(sharing) = &mut self.sharing else { return false };
        if sharing.cache.get(place_of(area, page << shift)).is_some() {
            return true;
        }
        let name = sharing.cache.new_name();
        self.counts.file_reads += 1;
        self.accounts.charge(Account::File, rules.read_cycles);
        self.find_frame(name, space, remaps);
        if self.killed.is_some() {
            return false;
        }
        let first =
            (page.saturating_sub(rules.read_ahead / 2)).max(area.start.div_ceil(1 << shift)).min(page);
        let end = (first + rules.read_ahead).min(area.end.div_ceil(1 << shift)).max(page + 1);
        let Some(sharing) = &mut self.sharing else { return false };
        sharing.cache.insert(name, place_of(area, page << shift));
        for near in (first..end).filter(|&near| near != page) {
            let place = place_of(area, near << shift);
            if sharing.cache.get(place).is_some() {
                continue;
            }
            let name = sharing.cache.new_name();
            let has_frame = self.memory.as_mut().is_none_or(|memory| memory.take(Superpage::around(name, 0)));
            if has_frame {
                sharing.cache.insert(name, place);
            }
        }
        true
    }

    /// Copies a page into the process's own frame, and gives up the old one. If none is free, the process is killed and
    /// loses the page.
    fn copy(&mut self, page: u64, space: &AddressSpace, remaps: &mut Vec<Remap>) {
        let block = Superpage::around(page, 0);
        // The source stays mapped until the copy, even if its frame is the victim.
        if let Some(sharing) = &mut self.sharing {
            sharing.cache.unmap(page);
        }
        self.find_frame(page, space, remaps);
        if self.killed.is_some() {
            if self.table.unmap(page) {
                self.policy.tell(PolicyEvent::Gone(page));
            }
            return;
        }
        self.displace(block);
        self.table.map(block);
        self.policy.tell(PolicyEvent::Moved(block));
        self.counts.copies_on_write += 1;
        self.accounts.charge(Account::Copy, self.cycles(self.costs.copy_backed_per_kib, 1));
    }

    /// A store to a protected page: see [`PageTable::is_protected`](super::PageTable::is_protected).
    pub fn stored(&mut self, page: u64, space: &AddressSpace, remaps: &mut Vec<Remap>) {
        let Some(unit) = self.table.mapped(page).filter(|_| self.table.is_protected(page)) else { return };
        let child_lives = self.child_lives(self.time(self.now));
        let is_own = !self.table.is_foreign(page);
        let notified = self.area(Superpage::around(page, 0), space).is_some_and(|area| !is_private(area));
        self.counts.faults += 1;
        self.accounts.charge(Account::Fault, self.costs.fault);
        if notified || is_own && !child_lives {
            self.counts.write_notices += u64::from(notified);
            self.counts.reused += u64::from(!notified);
            self.table.protect(unit, false);
            remaps.push(Remap::Moved(unit));
            return;
        }
        if unit.order > 0 && self.is_hugetlb(unit, space) {
            return self.copy_hugetlb(unit, remaps);
        }
        if unit.order > 0 {
            self.take_apart(unit, remaps);
        }
        if is_own {
            self.lend(page);
        }
        self.copy(page, space, remaps);
        let block = Superpage::around(page, 0);
        remaps.push(if self.killed.is_some() { Remap::Evicted(block) } else { Remap::Moved(block) });
        self.note_peaks();
    }

    /// Splits a shared superpage into shared base pages.
    fn take_apart(&mut self, unit: Superpage, remaps: &mut Vec<Remap>) {
        self.policy.tell(PolicyEvent::Demoted(unit));
        self.counts.demotions += 1;
        remaps.push(Remap::Demoted(unit));
        let pages: Vec<Superpage> = unit.pages().map(|page| Superpage::around(page, 0)).collect();
        pages.iter().for_each(|&page| self.table.resize(page));
        self.split(unit, &pages);
    }

    /// Gives the page's frame to the child until it ends. Breaks the page's reservation.
    fn lend(&mut self, page: u64) {
        let order = self.policy.rules.reserves.map(|rule| rule.order);
        let Some(memory) = &mut self.memory else { return };
        let region = order.map(|order| Superpage::around(page, order));
        let broken = region.filter(|&region| memory.is_reserved(region));
        if let (Some(name), Some(sharing)) = (memory.lend(page, order), &mut self.sharing) {
            sharing.lent.push((sharing.child, sharing.child_until, name));
        }
        broken.into_iter().for_each(|region| self.policy.tell(PolicyEvent::Refused(region)));
    }

    /// The process forks: its child shares its private pages.
    pub fn forked(&mut self, child: u32, space: &AddressSpace, remaps: &mut Vec<Remap>) {
        let now = self.time(self.now);
        let Some(sharing) = self.sharing.as_mut().filter(|sharing| sharing.fork.protects) else { return };
        sharing.child = child;
        sharing.child_until = now.saturating_add(sharing.fork.child_instructions);
        for unit in self.table.units() {
            let is_shared = self.area(unit, space).is_some_and(|area| !is_private(area));
            if !is_shared && !self.table.is_protected(unit.first) {
                self.table.protect(unit, true);
                remaps.push(Remap::Moved(unit));
            }
        }
        self.accounts.charge(Account::Flush, self.costs.flush);
    }

    /// Whether the last child, which shares its parent's pages, lives at a [time](Kernel::time).
    pub(super) fn child_lives(&self, now: u64) -> bool {
        self.sharing.as_ref().is_some_and(|sharing| now < sharing.child_until)
    }

    /// A child ends, perhaps early.
    pub fn child_ended(&mut self, child: u32) {
        let now = self.time(self.now);
        let Some(sharing) = &mut self.sharing else { return };
        if sharing.child == child {
            sharing.child_until = sharing.child_until.min(now);
        }
        for (of, until, _) in &mut sharing.lent {
            if *of == child {
                *until = now.min(*until);
            }
        }
        self.children_end();
    }

    /// Frees frames of children that have ended.
    pub(super) fn children_end(&mut self) {
        let now = self.time(self.now);
        let Some(sharing) = self.sharing.as_mut().filter(|sharing| !sharing.lent.is_empty()) else { return };
        let ended: Vec<u64> =
            sharing.lent.iter().filter(|&&(_, until, _)| until <= now).map(|&(.., name)| name).collect();
        sharing.lent.retain(|&(_, until, _)| until > now);
        ended.into_iter().for_each(|name| self.release(Superpage::around(name, 0)));
    }
}
