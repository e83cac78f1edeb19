//! What a policy is told, is asked, and wants done.

use super::INSTRUCTIONS_PER_MILLISECOND;
use crate::frames::Buddy;
use crate::kernel::{Accounts, PageTable};
use crate::{AddressSpace, Superpage, Vma};
use pagewalk_trace::ThpDisable;
use pagewalk_units::PageSize;
use std::any::Any;
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
pub struct ReservationRules {
    /// log2 of the base pages of a reservation.
    pub order: u8,
    /// Whether a page that is given back breaks it.
    pub broken_by_gaps: bool,
}

/// What becomes of memory when it is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapBacking {
    /// It is backed when it is touched.
    OnDemand,
    /// The same, as free memory is too fragmented.
    Fragmented,
    /// All of it is backed at once, by the largest blocks.
    Whole,
}

/// What a policy is. It does not change while the program runs.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Orders of the pages that it may map: a bit each.
    pub orders: u32,
    /// Orders of the pages into which a superpage falls when it is taken apart: a bit each.
    pub part_orders: u32,
    /// Whether superpages reach over the ends of areas: hypothetical, as no kernel could do it.
    pub ignores_areas: bool,
    /// Whether its pages may be larger than what TLBs hold, as with sizes that only save faults. Else a machine that
    /// does not hold them is refused.
    pub goes_without: bool,
    /// Whether it builds a superpage only where its frames lie already as one page needs them, so that nothing is
    /// copied. In a kernel whose frames never run out, they do.
    pub in_place: bool,
    /// Whether frames are set aside for all of an aligned block when the first page of it is touched.
    pub reserves: Option<ReservationRules>,
    /// Whether it may back areas as a whole when they are mapped, which takes a physical memory.
    pub backs_areas: bool,
    /// Whether it is told of misses, and of what enters and leaves TLBs.
    pub watches_tlbs: bool,
    /// Its clock.
    pub instructions_per_millisecond: u64,
}

impl Rules {
    /// Those of a policy that maps pages of these orders and has no other wishes.
    pub fn new(orders: u32) -> Rules {
        Rules {
            orders,
            part_orders: orders,
            ignores_areas: false,
            goes_without: false,
            in_place: false,
            reserves: None,
            backs_areas: false,
            watches_tlbs: false,
            instructions_per_millisecond: INSTRUCTIONS_PER_MILLISECOND,
        }
    }

    /// The same, of a kernel whose superpages fall into base pages.
    #[must_use]
    pub fn to_base_pages(self) -> Rules {
        Rules { part_orders: 1, ..self }
    }
}

/// What happens. A policy heeds what it needs.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum Event<'a> {
    /// TLBs are watched from now on: the entries of each. Before anything else.
    Tlbs(&'a [u64]),
    /// The physical memory, if the kernel has one: before [`Event::Touched`], [`Event::Wake`] and [`Policy::at_map`].
    Memory(&'a Buddy),
    /// First touch of a page that is backed now.
    Touched {
        /// The page.
        page: u64,
        /// Size of a base page.
        base: PageSize,
        /// Its area.
        area: Option<&'a Vma>,
        /// What backs each page.
        table: &'a PageTable,
    },
    /// A page that had been touched is no longer backed.
    Gone(u64),
    /// A superpage or a reservation that it wanted got no frames, or one was broken because frames ran out.
    Refused(Superpage),
    /// A superpage that it wanted was not built, as a part of the block is swapped out.
    Swapped(Superpage),
    /// The time of [`Policy::wakes`] has come. The policy must set a later one.
    Wake {
        /// Instructions executed and slept.
        now: u64,
        /// The process's memory.
        view: &'a View<'a>,
    },
    /// The program has advised on a range of pages.
    Advised {
        /// The pages.
        pages: &'a Range<u64>,
        /// The kernel's number of the advice.
        advice: i32,
        /// The process's memory.
        view: &'a View<'a>,
    },
    /// The process forbids transparent huge pages otherwise from now on.
    Forbids(ThpDisable),
    /// No thread ran for as long as so many instructions take. [`Policy::wakes`] and all later times include them.
    Slept(u64),
    /// Nothing backs a range any more: it is unmapped, or discarded and still in `space`. After [`Event::Gone`] and
    /// [`Event::Demoted`].
    Lost {
        /// The range.
        pages: &'a Range<u64>,
        /// Size of a base page.
        base: PageSize,
        /// The areas of memory.
        space: &'a AddressSpace,
    },
    /// A walk to a page that this maps.
    Walked(Superpage),
    /// A miss, before anything is filled.
    Missed {
        /// The miss.
        miss: Miss,
        /// What all of the kernel's work has cost so far.
        accounts: &'a Accounts,
    },
    /// A translation has entered a TLB.
    Entered {
        /// Which TLB.
        tlb: usize,
        /// What it maps.
        unit: Superpage,
    },
    /// A translation has left a TLB. Not told of parts of what is promoted.
    Left {
        /// Which TLB.
        tlb: usize,
        /// What it maps.
        unit: Superpage,
    },
    /// A superpage was built. Translations of its parts have left all TLBs, and its own has not entered yet.
    Promoted(Superpage),
    /// Translations of a range were dropped, as its protection changed or nothing backs it any more: no superpage
    /// reaches over its ends now.
    Flushed(&'a Range<u64>),
    /// A superpage was taken apart, or is no longer backed. Its translation has left all TLBs, but for one that was
    /// swapped out.
    Demoted(Superpage),
    /// The translation of one that was swapped out has left a TLB: to those that watch TLBs.
    Vanished(Superpage),
}

/// What a policy wants.
#[derive(Clone, Debug, Default)]
pub struct Actions {
    /// What is to be done, in order: after the touch, the look or the advice that is being served, or else after the
    /// next one.
    pub requests: Vec<Request>,
    /// Cycles of the policy's own work.
    pub cycles: u64,
}

impl Actions {
    /// A superpage is to be built.
    pub fn promote(&mut self, block: Superpage) {
        self.requests.push(Request::Promote(block));
    }
}

/// Decides which superpages pay. Called on rare events only, never for references that hit.
pub trait Policy: Any + Send + Sync {
    /// What it is.
    fn rules(&self) -> Rules;

    /// A copy, with all that it remembers.
    fn boxed(&self) -> Box<dyn Policy>;

    /// Something has happened.
    fn on(&mut self, _event: Event<'_>, _actions: &mut Actions) {}

    /// Whether superpages may lie in this area, which is not of hugetlb.
    fn takes(&self, _area: &Vma) -> bool {
        true
    }

    /// Orders to try for a page that nothing backs, in this area: a bit each, the largest that is possible is taken.
    fn fault_orders(&self, _page: u64, _area: Option<&Vma>) -> u32 {
        1
    }

    /// So many base pages were added to this area.
    fn at_map(&self, _area: &Vma, _pages: u64) -> MapBacking {
        MapBacking::OnDemand
    }

    /// Instructions executed when it wants to look over the memory next.
    fn wakes(&self) -> Option<u64> {
        None
    }

    /// A superpage that should be built now, after a miss: around `unit` and larger than it, the smallest if there are
    /// several; then one elsewhere. `unit` is what maps the page that missed, or the last one that was due.
    fn due(&mut self, _unit: Superpage) -> Option<Superpage> {
        None
    }
}

impl Clone for Box<dyn Policy> {
    fn clone(&self) -> Self {
        self.boxed()
    }
}

/// A kernel's policy, and what it wants.
#[derive(Clone)]
pub(crate) struct ActivePolicy {
    /// It is asked what to do, and told of events by [`ActivePolicy::tell`].
    pub decides: Box<dyn Policy>,
    /// What it is.
    pub rules: Rules,
    /// What it wants and has not got yet.
    pub actions: Actions,
}

impl ActivePolicy {
    /// It wants nothing yet.
    pub fn new(policy: Box<dyn Policy>) -> ActivePolicy {
        ActivePolicy { rules: policy.rules(), decides: policy, actions: Actions::default() }
    }

    /// Something has happened.
    pub fn tell(&mut self, event: Event<'_>) {
        self.decides.on(event, &mut self.actions);
    }
}
