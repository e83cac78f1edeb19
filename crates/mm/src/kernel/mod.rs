//! One process's memory under one policy: faults, promotions, demotions, and what they cost.
//!
//! The kernel handles rare events only: first touches, TLB misses, changes of mappings, and scans of its policy. It
//! asks its policy, does what is possible, charges every cycle to an account, and returns the remaps. It knows no TLB's
//! shape; a policy that watches TLBs learns what enters and leaves them.

mod accounts;
mod backing;
mod colors;
mod copies;
mod counts;
mod files;
mod hugetlb;
mod memory;
mod remap;
mod sharing;
mod table;
pub(crate) mod tree;
mod usage;

pub use accounts::{Account, Accounts, KernelCosts};
pub use counts::{KernelCounts, MemoryTotals};
pub use files::FileRules;
pub use memory::{FullMemoryAction, Loss, MemoryRules, OomKill};
pub use remap::Remap;
pub use sharing::ForkRules;
pub use table::PageTable;
pub use usage::{MemorySample, PagesInUse};

use colors::Placed;
use memory::Physical;
use sharing::Sharing;
use usage::Usage;

use crate::promotion::{
    ActivePolicy, Charges, ChosenSuperpages, LastUse, Miss, Policy, PolicyEvent, Request, View, instructions,
};
use crate::{AddressSpace, Superpage, TlbEntry, Vma};
use pagewalk_trace::ThpDisable;
use pagewalk_units::PageSize;
use std::any::Any;
use std::ops::Range;

/// Orders of superpages, including 0: up to 2^13 base pages, for Arm's huge page with a granule of 64K.
pub const ORDERS: usize = 14;

/// The kernel's side of one process.
// Many fields: the state of one process under one kernel.
#[derive(Clone)]
pub struct Kernel {
    base: PageSize,
    /// The process's number among those that share a memory.
    number: u32,
    policy: ActivePolicy,
    costs: KernelCosts,
    table: PageTable,
    accounts: Accounts,
    counts: KernelCounts,
    memory: Option<Physical>,
    /// Where pages lie, if it places them.
    placed: Option<Box<Placed>>,
    usage: Usage,
    /// What other processes use.
    others: PagesInUse,
    /// Last known number of executed instructions.
    now: u64,
    /// The process's sleep, in instructions.
    slept: u64,
    /// Order of the pages that map hugetlb memory; 0 for base pages.
    hugetlb: u8,
    killed: Option<OomKill>,
    /// Shared pages, if sharing is modelled.
    sharing: Option<Box<Sharing>>,
}

impl Kernel {
    /// A new process on base pages of size `base`; frames never run out.
    pub fn new(base: PageSize, policy: Box<dyn Policy>, costs: KernelCosts) -> Kernel {
        let (accounts, counts) = (Accounts::default(), KernelCounts::default());
        let table = PageTable::default();
        Kernel {
            base,
            number: 0,
            policy: ActivePolicy::new(policy),
            costs,
            table,
            accounts,
            counts,
            memory: None,
            placed: None,
            usage: Usage::default(),
            others: PagesInUse::default(),
            now: 0,
            slept: 0,
            hugetlb: hugetlb::usual_order(base),
            killed: None,
            sharing: None,
        }
    }

    /// The kill for lack of memory, if it happened: see [`MemoryRules::when_full`]. No other call may follow it.
    pub fn killed(&self) -> Option<OomKill> {
        self.killed
    }

    /// The page table.
    pub fn table(&self) -> &PageTable {
        &self.table
    }

    /// Cycles of the kernel's work.
    pub fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// Counts of the kernel's work.
    pub fn counts(&self) -> &KernelCounts {
        &self.counts
    }

    /// The policy's charges, if it is [`ChosenSuperpages`] and charges.
    pub fn charges(&self) -> Option<&Charges> {
        let policy: &dyn Any = self.policy.decides.as_ref();
        policy.downcast_ref().and_then(ChosenSuperpages::charges)
    }

    /// Orders of pages that the policy may map, one bit each.
    pub fn orders(&self) -> u32 {
        self.policy.rules.orders | 1
    }

    /// Whether the caller must call [`Kernel::missed`], [`Kernel::entered`] and [`Kernel::left`].
    pub fn watches_tlbs(&self) -> bool {
        self.policy.rules.watches_tlbs
    }

    /// Whether the policy's pages may be larger than TLB entries, which then hold pieces of them.
    pub fn goes_without(&self) -> bool {
        self.policy.rules.goes_without
    }

    /// Sets the numbers of entries of the watched TLBs.
    pub fn watch(&mut self, entries: &[u64]) {
        self.policy.tell(PolicyEvent::Tlbs(entries));
    }

    /// First touch of a base page since its mapping, or since it was swapped out. `stores`: by a store, which matters
    /// only to kernels that [share](Kernel::shares) pages. A killed process touches nothing.
    pub fn touched(&mut self, page: u64, stores: bool, space: &AddressSpace, remaps: &mut Vec<Remap>) {
        if self.killed.is_some() {
            return;
        }
        if self.table.mapped(page).is_none()
            && !self.inherit(page, space, remaps)
            && !self.hugetlb_fault(page, space, remaps)
            && !self.file_fault(page, stores, space, remaps)
        {
            self.fault(page, space, remaps);
        }
        if stores && self.killed.is_none() {
            self.stored(page, space, remaps);
        }
        if self.killed.is_some() {
            return;
        }
        self.table.touch(page);
        if let Some(memory) = &self.memory {
            self.policy.tell(PolicyEvent::Memory(memory.buddy()));
        }
        let area = self.area(Superpage::around(page, 0), space);
        let touched = PolicyEvent::Touched { page, base: self.base, area, table: &self.table };
        self.policy.tell(touched);
        self.act(space, remaps);
        self.note_peaks();
    }

    fn fault(&mut self, page: u64, space: &AddressSpace, remaps: &mut Vec<Remap>) {
        let area = self.area(Superpage::around(page, 0), space);
        let orders = self.policy.decides.fault_orders(page, area) | 1;
        let is_possible = |block: &Superpage| {
            let inside =
                self.policy.rules.ignores_areas || area.is_some_and(|area| self.covers(area, *block));
            let is_free = || {
                self.table.backed_in(*block) == 0
                    && !self.is_partly_swapped(*block)
                    && self.is_not_inherited(*block)
            };
            block.order == 0 || inside && is_free()
        };
        let orders = (0..ORDERS as u8).rev().filter(|order| orders >> order & 1 == 1);
        let possible: Vec<Superpage> =
            orders.map(|order| Superpage::around(page, order)).filter(is_possible).collect();
        self.counts.faults += 1;
        let Some(block) = self.find_frames(&possible, space, remaps) else { return };
        self.table.map(block);
        remaps.extend((block.order > 0).then_some(Remap::Mapped(block)));
        self.accounts.charge(Account::Fault, self.costs.fault);
        if let Some(memory) = &mut self.memory
            && memory.swap_in(page)
        {
            self.counts.swap_ins += 1;
            self.accounts.charge(Account::Swap, memory.rules.swap_cycles);
        } else {
            self.accounts.charge(Account::Zero, self.cycles(self.costs.zero_per_kib, block.len()));
        }
    }

    /// A miss of a watched TLB, before any fill.
    pub fn missed(&mut self, miss: Miss) {
        self.policy.tell(PolicyEvent::Missed { miss, accounts: &self.accounts });
        self.accounts.charge(Account::Bookkeeping, std::mem::take(&mut self.policy.actions.cycles));
    }

    /// An entry enters TLB `tlb`.
    pub fn entered(&mut self, tlb: usize, entry: TlbEntry) {
        self.policy.tell(PolicyEvent::Entered { tlb, entry: entry.block });
    }

    /// An entry leaves TLB `tlb`. Not for parts of a promotion.
    pub fn left(&mut self, tlb: usize, entry: TlbEntry) {
        let is_mapped = |page: Superpage| self.table.mapped(page.first).is_some();
        let lost = entry.order > 0 && !entry.block.parts(entry.order).any(is_mapped);
        self.policy.tell(PolicyEvent::Left { tlb, entry: entry.block, lost });
    }

    /// After the miss of a page that `unit` maps has been served: builds the smallest due superpage around it, or one
    /// elsewhere. Returns what was due, built or not. Call it again with that until nothing is due.
    pub fn served(
        &mut self,
        unit: Superpage,
        space: &AddressSpace,
        remaps: &mut Vec<Remap>,
    ) -> Option<Superpage> {
        let due = self.policy.decides.due(unit)?;
        self.promote(due, space, remaps);
        self.note_peaks();
        Some(due)
    }

    /// All TLBs dropped the translations of a range because its protection changed. Splits superpages partly in the
    /// range.
    pub fn flushed(&mut self, pages: Range<u64>, remaps: &mut Vec<Remap>) {
        if !self.table.units_in(pages.clone()).is_empty() {
            self.accounts.charge(Account::Flush, self.costs.flush);
        }
        self.part(pages, remaps);
    }

    fn part(&mut self, pages: Range<u64>, remaps: &mut Vec<Remap>) {
        self.part_at(pages.start, &pages, remaps);
        self.part_at(pages.end.saturating_sub(1), &pages, remaps);
        self.policy.tell(PolicyEvent::Flushed(&pages));
    }

    /// A range is no longer backed; call [`Kernel::flushed`] for it before. `space` reflects already which areas are
    /// left.
    pub fn gone(&mut self, pages: Range<u64>, space: &AddressSpace, remaps: &mut Vec<Remap>) {
        self.part(pages.clone(), remaps);
        for unit in self.table.units_in(pages.clone()) {
            if unit.order > 0 {
                self.policy.tell(PolicyEvent::Demoted(unit));
            }
            for page in unit.pages() {
                if self.table.unmap(page) {
                    self.policy.tell(PolicyEvent::Gone(page));
                }
                if let Some(sharing) = &mut self.sharing {
                    sharing.cache.unmap(page);
                }
            }
            self.release(unit);
        }
        if let Some(sharing) = &mut self.sharing {
            sharing.disinherit(&pages);
        }
        if let Some(memory) = &mut self.memory {
            memory.forget_swapped(pages.clone());
        }
        self.policy.tell(PolicyEvent::Lost { pages: &pages, base: self.base, space });
    }

    /// Splits the superpage around `page` if it extends beyond `pages`, into the largest parts that do not, as in Romer
    /// 1998, section 3.7.
    fn part_at(&mut self, page: u64, pages: &Range<u64>, remaps: &mut Vec<Remap>) {
        let Some(unit) = self.table.mapped(page) else { return };
        if pages.start <= unit.first && unit.pages().end <= pages.end {
            return;
        }
        self.policy.tell(PolicyEvent::Demoted(unit));
        self.counts.demotions += 1;
        remaps.push(Remap::Demoted(unit));
        let mut of_it = Vec::new();
        let mut at = unit.first;
        while at < unit.pages().end {
            let one_side = |part: &Superpage| {
                let meets = part.first < pages.end && pages.start < part.pages().end;
                !meets || pages.start <= part.first && part.pages().end <= pages.end
            };
            let parts = (0..unit.order).rev().map(|order| Superpage::around(at, order));
            let keeps = self.policy.rules.part_orders | 1;
            let part = parts.filter(|part| keeps >> part.order & 1 == 1 && part.first == at).find(one_side);
            let part = part.expect("a base page lies on one side");
            self.table.resize(part);
            remaps.extend((part.order > 0).then_some(Remap::Mapped(part)));
            of_it.push(part);
            at = part.pages().end;
        }
        self.split(unit, &of_it);
    }

    /// Instructions at which [`Kernel::wake`] is due next.
    pub fn wakes(&self) -> Option<u64> {
        self.policy.decides.wakes().map(|at| at.saturating_sub(self.slept))
    }

    /// The policy's time: instructions plus sleep.
    pub fn time(&self, instructions: u64) -> u64 {
        instructions.saturating_add(self.slept)
    }

    /// No thread of the process runs for this many nanoseconds. [`Kernel::wake`] then does what is due.
    pub fn slept(&mut self, nanoseconds: u64) {
        let slept = instructions(nanoseconds, self.policy.rules.instructions_per_millisecond);
        self.slept = self.slept.saturating_add(slept);
        self.policy.tell(PolicyEvent::Slept(slept));
    }

    /// The process changes which transparent huge pages it forbids.
    pub fn forbidden(&mut self, mode: ThpDisable) {
        self.policy.tell(PolicyEvent::Forbids(mode));
    }

    /// Background work up to instruction `now`. `uses` gives [times](Kernel::time).
    pub fn wake(&mut self, now: u64, space: &AddressSpace, uses: &dyn LastUse, remaps: &mut Vec<Remap>) {
        let time = self.time(now);
        while let Some(at) = self.policy.decides.wakes().filter(|&at| at <= time) {
            if let Some(memory) = &self.memory {
                self.policy.tell(PolicyEvent::Memory(memory.buddy()));
            }
            let child_lives = self.child_lives(at);
            let view = View { base: self.base, table: &self.table, space, uses, child_lives };
            self.policy.tell(PolicyEvent::Wake { now: at, view: &view });
            debug_assert!(self.policy.decides.wakes().is_none_or(|next| next > at), "policies wake later");
            self.act(space, remaps);
        }
    }

    /// The program advises on a range, by the kernel's number of the advice; `space` reflects it already.
    pub fn advised(
        &mut self,
        pages: Range<u64>,
        advice: i32,
        space: &AddressSpace,
        uses: &dyn LastUse,
        remaps: &mut Vec<Remap>,
    ) {
        // Advice on a part of an area splits the area, and no page may cross the new boundaries.
        for page in [pages.start, pages.end.saturating_sub(1)] {
            let Some(unit) = self.table.mapped(page) else { continue };
            let area = self.area(unit, space);
            if !self.policy.rules.ignores_areas && !area.is_some_and(|area| self.covers(area, unit)) {
                self.part_at(page, &pages, remaps);
                self.accounts.charge(Account::Flush, self.costs.flush);
            }
        }
        let child_lives = self.child_lives(self.time(self.now));
        let view = View { base: self.base, table: &self.table, space, uses, child_lives };
        self.policy.tell(PolicyEvent::Advised { pages: &pages, advice, view: &view });
        self.act(space, remaps);
    }

    /// Charges the policy's work, and carries out its requests.
    fn act(&mut self, space: &AddressSpace, remaps: &mut Vec<Remap>) {
        self.accounts.charge(Account::Scan, std::mem::take(&mut self.policy.actions.cycles));
        let mut requests = std::mem::take(&mut self.policy.actions.requests);
        for request in requests.drain(..) {
            match request {
                Request::Promote(block) => self.promote(block, space, remaps),
                Request::Trim(unit) if self.is_hugetlb(unit, space) => {}
                Request::Trim(unit) => self.trim(unit, remaps),
            }
            self.note_peaks();
        }
        // New requests that this work causes come next time.
        requests.append(&mut self.policy.actions.requests);
        self.policy.actions.requests = requests;
    }

    /// Splits a superpage and frees its untouched pages.
    fn trim(&mut self, unit: Superpage, remaps: &mut Vec<Remap>) {
        let is_one = unit.order > 0 && self.table.mapped(unit.first) == Some(unit);
        if !is_one || self.table.is_foreign(unit.first) {
            return;
        }
        self.policy.tell(PolicyEvent::Demoted(unit));
        self.counts.demotions += 1;
        remaps.push(Remap::Demoted(unit));
        self.accounts.charge(Account::Flush, self.costs.flush);
        let pages: Vec<Superpage> = unit.pages().map(|page| Superpage::around(page, 0)).collect();
        self.split(unit, &pages);
        for page in unit.pages() {
            if self.table.is_touched(page) {
                self.table.resize(Superpage::around(page, 0));
            } else {
                self.table.unmap(page);
                self.release(Superpage::around(page, 0));
                self.counts.trimmed_bytes += self.base.bytes();
            }
        }
    }

    fn promote(&mut self, block: Superpage, space: &AddressSpace, remaps: &mut Vec<Remap>) {
        if self.table.mapped(block.first).is_some_and(|unit| unit.holds(block)) {
            return;
        }
        let area = self.area(block, space);
        let fits = area.is_some_and(|area| self.covers(area, block) && self.policy.decides.takes(area));
        let is_hugetlb = area.is_some_and(Vma::is_hugetlb);
        if is_hugetlb || !fits && !self.policy.rules.ignores_areas {
            self.counts.refused_area += 1;
            return;
        }
        self.take_over_all(block);
        let in_place = self.policy.rules.in_place;
        // Foreign pages cannot join it in place, nor pages that a child shares.
        if in_place && (self.table.foreign_in(block) > 0 || self.table.protected_in(block) > 0) {
            self.counts.refused_memory += 1;
            self.policy.tell(PolicyEvent::Refused(block));
            return;
        }
        if !self.find_block(block, in_place, remaps) {
            return;
        }
        self.note_copied(block, in_place);
        let new = self.table.map(block);
        // In place, the pages keep their frames, as nothing is copied.
        if !in_place {
            self.displace(block);
        }
        if let Some(sharing) = &mut self.sharing {
            block.pages().for_each(|page| sharing.cache.unmap(page));
        }
        if in_place {
            self.counts.promotions_in_place += 1;
            self.accounts.charge(Account::Map, self.costs.map);
        } else {
            let copied = self.cycles(self.costs.copy_backed_per_kib, block.len() - new);
            self.accounts.charge(Account::Copy, copied);
            self.accounts.charge(Account::Copy, self.cycles(self.costs.copy_per_kib, block.len()));
        }
        self.accounts.charge(Account::Zero, self.cycles(self.costs.zero_per_kib, new));
        self.accounts.charge(Account::Flush, self.costs.flush);
        self.counts.promotions[block.order as usize] += 1;
        self.counts.promoted_bytes += block.len() << self.base.shift();
        self.policy.tell(PolicyEvent::Promoted(block));
        remaps.push(Remap::Promoted(block));
    }

    /// The area of a block's first byte.
    fn area<'a>(&self, block: Superpage, space: &'a AddressSpace) -> Option<&'a Vma> {
        let start = block.first << self.base.shift();
        space.vma_within(start..start + self.base.bytes())
    }

    fn covers(&self, area: &Vma, block: Superpage) -> bool {
        let Range { start, end } = block.pages();
        area.start <= start << self.base.shift() && end << self.base.shift() <= area.end
    }

    fn cycles(&self, per_kib: u64, pages: u64) -> u64 {
        per_kib.saturating_mul(pages << self.base.shift() >> 10)
    }
}
