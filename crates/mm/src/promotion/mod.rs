//! Policies that build superpages while the program runs. One file each.

mod approx_online;
mod asap;
mod candidates;
mod capacity;
mod eager;
mod fixed;
mod freebsd;
mod given;
mod hawkeye;
mod ingens;
mod khugepaged;
mod linux;
mod mthp;
mod offline;
mod online;
mod setting;
mod throttle;
mod tlb_counts;

pub use approx_online::{ApproxOnline, Break, Deferral};
pub use asap::{Asap, AsapShare};
pub use candidates::{Candidates, CandidatesSettings};
pub use eager::{Eager, EagerSettings};
pub use fixed::Fixed;
pub use freebsd::FreeBsd;
pub use given::{Charge, Charges, Given};
pub use hawkeye::{HawkEye, HawkEyeSettings};
pub use ingens::{Ingens, IngensSettings};
pub use khugepaged::Khugepaged;
pub use linux::{Collapse, Linux, LinuxError, LinuxSettings, MADV_COLLAPSE, SizeMode};
pub use mthp::Mthp;
pub use offline::{Growth, OfflineSettings, Take};
pub use online::Online;
pub use setting::SettingError;
pub use throttle::{Limits, Throttle};

use crate::frames::Buddy;
use crate::kernel::{Accounts, PageTable};
use crate::{AddressSpace, HugeAdvice, Superpage, Vma};
use pagewalk_trace::ThpDisable;
use pagewalk_units::PageSize;
use std::ops::Range;

/// A miss of a TLB that is watched.
#[derive(Clone, Copy, Debug)]
pub struct Miss {
    /// Which TLB.
    pub tlb: usize,
    /// What maps the page that missed.
    pub unit: Superpage,
    /// Instructions executed so far.
    pub instructions: u64,
}

/// When pages were used last: what a kernel learns from accessed bits.
pub trait LastUse {
    /// The time when a base page was used last, in instructions executed and slept; `None` if it never was.
    fn last_use(&self, page: u64) -> Option<u64>;
}

/// What a policy sees when it looks over a process's memory.
pub struct View<'a> {
    /// Size of a base page.
    pub base: PageSize,
    /// What backs each page.
    pub table: &'a PageTable,
    /// The areas of memory.
    pub space: &'a AddressSpace,
    /// Accessed bits.
    pub uses: &'a dyn LastUse,
    /// Whether a child lives that has the pages that were protected for it.
    pub child_lives: bool,
}

impl View<'_> {
    /// Pages of a block of private anonymous memory that are a parent's or a child's too. A child's stay protected when
    /// it has ended, until the next store to them.
    pub fn shared_in(&self, block: Superpage) -> u64 {
        if self.child_lives { self.table.protected_in(block) } else { self.table.foreign_in(block) }
    }

    /// The area that holds all of a block, if one does.
    pub fn area_of(&self, block: Superpage) -> Option<&Vma> {
        let Range { start, end } = block.pages();
        let (start, end) = (start << self.base.shift(), end << self.base.shift());
        self.space.vma_within(start..start + 1).filter(|area| area.start <= start && end <= area.end)
    }

    /// The aligned blocks of an order that lie wholly inside an area: the first and the one past the last.
    pub fn blocks_of(&self, area: &Vma, order: u8) -> Range<u64> {
        let shift = self.base.shift() + u32::from(order);
        let first = area.start.div_ceil(1 << shift);
        first..(area.end >> shift).max(first)
    }
}

/// What a policy wants done in the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Build a superpage.
    Promote(Superpage),
    /// Take a superpage apart and give back those of its base pages that were never touched.
    Trim(Superpage),
}

/// How a policy sets frames aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserve {
    /// log2 of the base pages of a reservation.
    pub order: u8,
    /// Whether a page that is given back breaks it.
    pub broken_by_gaps: bool,
}

/// What becomes of memory when it is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtMap {
    /// It is backed when it is touched.
    OnDemand,
    /// The same, as free memory is too fragmented.
    Fragmented,
    /// All of it is backed at once, by the largest blocks.
    Whole,
}

/// Decides which superpages pay. Called on rare events only, never for references that hit.
pub trait Policy: Send + Sync {
    /// Orders of the pages that it may map: a bit each.
    fn orders(&self) -> u32;

    /// What it has charged blocks, if it only does that.
    fn charges(&self) -> Option<&Charges> {
        None
    }

    /// A copy, with all that it remembers.
    fn boxed(&self) -> Box<dyn Policy>;

    /// Whether superpages may lie in this area, which is not of hugetlb.
    fn takes(&self, _area: &Vma) -> bool {
        true
    }

    /// Whether superpages reach over the ends of areas: hypothetical, as no kernel could do it.
    fn ignores_areas(&self) -> bool {
        false
    }

    /// Whether its pages may be larger than what TLBs hold, as with sizes that only save faults. Else a machine that
    /// does not hold them is refused.
    fn goes_without(&self) -> bool {
        false
    }

    /// Orders to try for a page that nothing backs, in this area: a bit each, the largest that is possible is taken.
    fn fault_orders(&self, _page: u64, _area: Option<&Vma>) -> u32 {
        1
    }

    /// First touch of a page, before [`Policy::touched`], in this area.
    fn touches(&mut self, _page: u64, _base: PageSize, _area: Option<&Vma>) {}

    /// First touch of a backed page: adds the superpages that it wants built to `wishes`.
    fn touched(&mut self, _page: u64, _table: &PageTable, _wishes: &mut Vec<Superpage>) {}

    /// A page that had been touched is no longer backed.
    fn gone(&mut self, _page: u64) {}

    /// Orders of the pages into which a superpage falls when it is taken apart: a bit each.
    fn part_orders(&self) -> u32 {
        self.orders()
    }

    /// Whether it builds a superpage of a block only where its frames lie already as one page needs them, so that
    /// nothing is copied. In a kernel whose frames never run out, they do.
    fn in_place(&self, _block: Superpage) -> bool {
        false
    }

    /// Whether frames are set aside for all of an aligned block when the first page of it is touched.
    fn reserves(&self) -> Option<Reserve> {
        None
    }

    /// There were no frames for a superpage or a reservation that it wanted, or that was broken for want of some.
    fn refused(&mut self, _block: Superpage) {}

    /// A superpage that it wanted was not built, as a part of the block is swapped out.
    fn swapped(&mut self, _block: Superpage) {}

    /// Whether it may back areas as a whole when they are mapped, which takes a physical memory.
    fn backs_areas(&self) -> bool {
        false
    }

    /// So many base pages were added to this area.
    fn at_map(&self, _area: &Vma, _pages: u64) -> AtMap {
        AtMap::OnDemand
    }

    /// The physical memory, if the kernel has one: before [`Policy::touched`], [`Policy::woken`], [`Policy::at_map`].
    fn sees(&mut self, _memory: &Buddy) {}

    /// Instructions executed when it wants to look over the memory next.
    fn wakes(&self) -> Option<u64> {
        None
    }

    /// Its look over the memory, after `now` instructions: adds what it wants to `requests`, which are then done in
    /// order. Returns the cycles of looking. The next time that it wants to be woken is later.
    fn woken(&mut self, _now: u64, _view: &View<'_>, _requests: &mut Vec<Request>) -> u64 {
        0
    }

    /// The program has advised on a range of pages, with the kernel's number of the advice. Adds what it wants.
    fn advised(&mut self, _pages: Range<u64>, _advice: i32, _view: &View<'_>, _requests: &mut Vec<Request>) {}

    /// The process forbids transparent huge pages otherwise from now on.
    fn forbidden(&mut self, _mode: ThpDisable) {}

    /// No thread of the process ran for so long, in nanoseconds. Returns how many instructions would have taken that
    /// time,
    /// which [`Policy::wakes`] and all times that it is told count from now on.
    fn slept(&mut self, nanoseconds: u64) -> u64 {
        instructions(nanoseconds, INSTRUCTIONS_PER_MILLISECOND)
    }

    /// Nothing backs a range any more: it is unmapped, or discarded and still in `space`. Called after [`Policy::gone`]
    /// and [`Policy::demoted`].
    fn lost(&mut self, _pages: Range<u64>, _base: PageSize, _space: &AddressSpace) {}

    /// A walk to a page that `unit` maps.
    fn walked(&mut self, _unit: Superpage) {}

    /// Whether it is to be told of the TLBs: the calls that follow.
    fn watches_tlbs(&self) -> bool {
        false
    }

    /// How many entries each TLB has: before anything else.
    fn watch(&mut self, _entries: &[u64]) {}

    /// A miss, before anything is filled. Returns the cycles of its own work. `accounts`: what all of it has cost so
    /// far.
    fn missed(&mut self, _miss: Miss, _accounts: &Accounts) -> u64 {
        0
    }

    /// A translation has entered a TLB.
    fn entered(&mut self, _tlb: usize, _unit: Superpage) {}

    /// A translation has left a TLB. Not called for parts of what is promoted.
    fn left(&mut self, _tlb: usize, _unit: Superpage) {}

    /// A superpage that should be built now, after a miss: around `unit` and larger than it, the smallest if there are
    /// several; then one elsewhere. `unit` is what maps the page that missed, or the last one that was due.
    fn due(&mut self, _unit: Superpage) -> Option<Superpage> {
        None
    }

    /// A superpage was built. Translations of its parts have left all TLBs, and its own has not entered yet.
    fn promoted(&mut self, _block: Superpage) {}

    /// Translations of a range were dropped, as its protection changed or nothing backs it any more: no superpage
    /// reaches over its ends now.
    fn flushed(&mut self, _pages: Range<u64>) {}

    /// A superpage was taken apart, or is no longer backed. Its translation has left all TLBs.
    fn demoted(&mut self, _block: Superpage) {}
}

/// Instructions that the program executes in a millisecond, where nobody says: chosen.
pub(crate) const INSTRUCTIONS_PER_MILLISECOND: u64 = 1_000_000;

/// The instructions that take so many nanoseconds where a millisecond has so many.
pub(crate) fn instructions(nanoseconds: u64, per_millisecond: u64) -> u64 {
    let instructions = u128::from(nanoseconds) * u128::from(per_millisecond) / 1_000_000;
    u64::try_from(instructions).unwrap_or(u64::MAX)
}

impl Clone for Box<dyn Policy> {
    fn clone(&self) -> Self {
        self.boxed()
    }
}

/// Whether an area is private anonymous memory, and not of hugetlb.
pub(crate) fn is_anonymous(area: &Vma) -> bool {
    area.is_private_anonymous()
}

/// Whether Linux may give an area huge pages: private anonymous memory that no advice excludes.
pub(crate) fn may_be_huge(area: &Vma) -> bool {
    is_anonymous(area) && area.advice != HugeAdvice::NoHugePage
}

/// Orders 1 to `top`: a bit each.
pub(crate) fn up_to(top: u8) -> u32 {
    (2 << top) - 2
}
