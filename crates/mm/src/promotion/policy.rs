//! The interface between a kernel and its policy: events, queries and requests.

use super::INSTRUCTIONS_PER_MILLISECOND;
use crate::frames::{Buddy, Frame};
use crate::kernel::{Accounts, PageTable};
use crate::placement::Colors;
use crate::{AddressSpace, Superpage, Vma};
use pagewalk_trace::ThpDisable;
use pagewalk_units::PageSize;
use std::any::Any;
use std::ops::Range;

/// A miss of a watched TLB.
#[derive(Clone, Copy, Debug)]
pub struct Miss {
    /// The TLB's number.
    pub tlb: usize,
    /// What maps the missing page.
    pub unit: Superpage,
    /// The block of the entry that the TLB needs: the unit, alone or with neighbours.
    pub entry: Superpage,
    /// The missing base page.
    pub page: u64,
    /// Its frame, if the kernel places pages.
    pub frame: Option<Frame>,
    /// Instructions executed so far.
    pub instructions: u64,
    /// Cycles so far on this core, if the kernel places pages: another core's may have been more.
    pub cycles: u64,
}

/// A miss of the cache whose colors count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheMiss {
    /// The base page of the program; none if the frame is not the program's, such as a page table's.
    pub page: Option<u64>,
    /// The frame of the missing line.
    pub frame: Frame,
    /// Cycles so far on this core: another core's may have been more.
    pub cycles: u64,
}

/// Times of last use, as a kernel learns them from accessed bits.
pub trait LastUse {
    /// The time of a base page's last use, in instructions plus sleep; `None` if never used.
    fn last_use(&self, page: u64) -> Option<u64>;
}

/// A policy's view of a process's memory.
pub struct View<'a> {
    /// Size of a base page.
    pub base: PageSize,
    /// The page table.
    pub table: &'a PageTable,
    /// The areas of memory.
    pub space: &'a AddressSpace,
    /// Accessed bits.
    pub uses: &'a dyn LastUse,
    /// Whether a child that shares protected pages lives.
    pub child_lives: bool,
}

impl View<'_> {
    /// Pages of a block of private anonymous memory that are shared with a parent or a child. After a child's end its
    /// pages stay protected until their next store.
    pub fn shared_in(&self, block: Superpage) -> u64 {
        if self.child_lives { self.table.protected_in(block) } else { self.table.foreign_in(block) }
    }

    /// The area that holds all of a block, if any.
    pub fn area_of(&self, block: Superpage) -> Option<&Vma> {
        let Range { start, end } = block.pages();
        let (start, end) = (start << self.base.shift(), end << self.base.shift());
        self.space.vma_within(start..start + 1).filter(|area| area.start <= start && end <= area.end)
    }

    /// The range of aligned blocks of an order wholly inside an area.
    pub fn blocks_of(&self, area: &Vma, order: u8) -> Range<u64> {
        let shift = self.base.shift() + u32::from(order);
        let first = area.start.div_ceil(1 << shift);
        first..(area.end >> shift).max(first)
    }
}

/// A policy's request for background work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Build a superpage.
    Promote(Superpage),
    /// Split a superpage and free its untouched base pages.
    Trim(Superpage),
}

/// A policy's rules for reservations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservationRules {
    /// log2 of the base pages of a reservation.
    pub order: u8,
    /// Whether freeing a page breaks the reservation.
    pub broken_by_gaps: bool,
}

/// The backing of memory at its mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapBacking {
    /// None: touches back it.
    OnDemand,
    /// None, because free memory is too fragmented.
    Fragmented,
    /// All of it, with the largest blocks.
    Whole,
}

/// The fixed properties of a policy.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Orders of pages that it may map, one bit each.
    pub orders: u32,
    /// Orders of the pages that superpages split into, one bit each.
    pub part_orders: u32,
    /// Whether superpages may cross the ends of areas: hypothetical, since no kernel could.
    pub ignores_areas: bool,
    /// Whether its pages may be larger than TLB entries, for example sizes that only save faults. Otherwise machines
    /// that do not hold them are refused.
    pub goes_without: bool,
    /// Whether it builds superpages only in place, without copying. In a kernel without a physical memory, frames
    /// always lie in place.
    pub in_place: bool,
    /// Rules for reserving frames for an aligned block at its first touch, if it does.
    pub reserves: Option<ReservationRules>,
    /// Whether it may back areas as a whole at their mapping, which needs a physical memory.
    pub backs_areas: bool,
    /// Whether it needs misses, and the entries and departures of translations.
    pub watches_tlbs: bool,
    /// Whether it needs misses of the cache whose colors count.
    pub watches_caches: bool,
    /// Whether it needs that cache's hits too, which takes time.
    pub watches_cache_hits: bool,
    /// Whether it reads times of use: see [`LastUse`].
    pub reads_uses: bool,
    /// Its clock rate.
    pub instructions_per_millisecond: u64,
}

impl Rules {
    /// The rules of a policy that maps pages of these orders and needs nothing else.
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
            watches_caches: false,
            watches_cache_hits: false,
            reads_uses: false,
            instructions_per_millisecond: INSTRUCTIONS_PER_MILLISECOND,
        }
    }

    /// Makes superpages split into base pages.
    #[must_use]
    pub fn to_base_pages(self) -> Rules {
        Rules { part_orders: 1, ..self }
    }
}

/// An event, for a policy.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum PolicyEvent<'a> {
    /// The number of the process among those that run under such a kernel, before anything else; 0 if it is not told.
    Process(u32),
    /// The numbers of entries of the watched TLBs, before anything else.
    Tlbs(&'a [u64]),
    /// The physical memory, if the kernel has one: before [`PolicyEvent::Touched`], [`PolicyEvent::Wake`] and
    /// [`Policy::at_map`].
    Memory(&'a Buddy),
    /// First touch of a page, which is backed now.
    Touched {
        /// The page.
        page: u64,
        /// Size of a base page.
        base: PageSize,
        /// Its area.
        area: Option<&'a Vma>,
        /// The page table.
        table: &'a PageTable,
    },
    /// A touched page is no longer backed.
    Gone(u64),
    /// A requested superpage or reservation got no frames, or a reservation broke because frames ran out.
    Refused(Superpage),
    /// A requested superpage was not built because a part of the block is swapped out.
    Swapped(Superpage),
    /// The time of [`Policy::wakes`]. The policy must set a later one.
    Wake {
        /// Instructions plus sleep.
        now: u64,
        /// The process's memory.
        view: &'a View<'a>,
    },
    /// The program advises on a range of pages.
    Advised {
        /// The pages.
        pages: &'a Range<u64>,
        /// The kernel's number of the advice.
        advice: i32,
        /// The process's memory.
        view: &'a View<'a>,
    },
    /// The process changes which transparent huge pages it forbids.
    Forbids(ThpDisable),
    /// No thread ran for the time of this many instructions. [`Policy::wakes`] and all later times include them.
    Slept(u64),
    /// A range is no longer backed: unmapped, or discarded and still in `space`. Follows [`PolicyEvent::Gone`] and
    /// [`PolicyEvent::Demoted`].
    Lost {
        /// The range.
        pages: &'a Range<u64>,
        /// Size of a base page.
        base: PageSize,
        /// The areas of memory.
        space: &'a AddressSpace,
    },
    /// A walk to a page of this unit.
    Walked(Superpage),
    /// A miss, before any fill.
    Missed {
        /// The miss.
        miss: Miss,
        /// Cycles of the kernel's work so far.
        accounts: &'a Accounts,
    },
    /// An entry enters a TLB.
    Entered {
        /// Which TLB.
        tlb: usize,
        /// The smallest block that holds what it maps: a page, or several.
        entry: Superpage,
    },
    /// An entry leaves a TLB, but not for parts of a promotion.
    Left {
        /// Which TLB.
        tlb: usize,
        /// Its block.
        entry: Superpage,
        /// Whether the superpages that it maps were swapped out, so that it never comes back.
        lost: bool,
    },
    /// A superpage was built. Translations of its parts have left all TLBs; its own has not entered yet.
    Promoted(Superpage),
    /// Translations of a range were dropped because its protection changed or it is no longer backed. No superpage
    /// crosses its ends now.
    Flushed(&'a Range<u64>),
    /// A superpage split or lost its backing. Its translation has left all TLBs, unless it was swapped out.
    Demoted(Superpage),
    /// The colors of the cache, if the kernel places pages: before anything else.
    Colors(Colors),
    /// A miss of the cache whose colors count.
    CacheMissed(CacheMiss),
    /// A hit of that cache in a line of this frame.
    CacheHit(Frame),
    /// The pages of this unit have other frames now: the kernel copied them on a write, or compacted memory.
    Moved(Superpage),
    /// A base page has moved to a frame of another color.
    Recolored {
        /// The page.
        page: u64,
        /// Its frame now.
        frame: Frame,
    },
}

/// Requests and work of a policy.
#[derive(Clone, Debug, Default)]
pub struct Actions {
    /// Requests in order: they run after the present touch, wake or advice, or else after the next one.
    pub requests: Vec<Request>,
    /// Cycles of the policy's own work.
    pub cycles: u64,
    /// Pages to move to other colors now.
    pub moves: Vec<PageMove>,
    /// What to drop from the TLBs now.
    pub drops: TlbDrops,
    /// Cycles spent on finding such pages.
    pub recoloring_cycles: u64,
    /// What that touched of the policy's own code and data.
    pub touched: Footprint,
}

/// Bytes of a policy's code and data, or of what its work touches of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Bytes of code.
    pub code: u64,
    /// Bytes of data.
    pub data: u64,
}

impl Footprint {
    /// The most bytes of each.
    pub const MAX: u64 = 64 << 10;

    /// What work of so many cycles touches: in a cycle one instruction, and as much data, of 4 bytes each. What is
    /// smaller is touched all over, and repeatedly, which costs nothing more.
    pub(crate) fn touched_in(self, cycles: u64) -> Footprint {
        let most = cycles.saturating_mul(4);
        Footprint { code: self.code.min(most), data: self.data.min(most) }
    }

    /// The larger of each.
    pub(crate) fn or(self, other: Footprint) -> Footprint {
        Footprint { code: self.code.max(other.code), data: self.data.max(other.data) }
    }
}

/// Translations that a policy wants dropped from the TLBs, to see which pages are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlbDrops {
    /// None.
    #[default]
    Nothing,
    /// Those of the page or superpage that begins at this base page.
    Page(u64),
    /// All of the process.
    All,
}

/// A policy's request to move a base page to a frame of another color.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageMove {
    /// The page.
    pub page: u64,
    /// The color.
    pub color: u64,
}

impl Actions {
    /// Requests a promotion.
    pub fn promote(&mut self, block: Superpage) {
        self.requests.push(Request::Promote(block));
    }
}

/// A promotion policy. It runs at rare events only, never for references that hit.
pub trait Policy: PolicyCopy + Any + Send + Sync {
    /// Its rules.
    fn rules(&self) -> Rules;

    /// Handles an event.
    fn on(&mut self, _event: PolicyEvent<'_>, _actions: &mut Actions) {}

    /// Whether superpages may lie in this area, which is not hugetlb memory.
    fn takes(&self, _area: &Vma) -> bool {
        true
    }

    /// Orders to try at a fault in this area, one bit each; the largest possible is used.
    fn fault_orders(&self, _page: u64, _area: Option<&Vma>) -> u32 {
        1
    }

    /// The backing of base pages added to this area.
    fn at_map(&self, _area: &Vma, _pages: u64) -> MapBacking {
        MapBacking::OnDemand
    }

    /// The time of its next scan.
    fn wakes(&self) -> Option<u64> {
        None
    }

    /// The superpage to build now, after a miss: the smallest due one around `unit` and larger than it, then one
    /// elsewhere. `unit` maps the missing page, or is the last due superpage.
    fn due(&mut self, _unit: Superpage) -> Option<Superpage> {
        None
    }
}

/// Copies of a policy of unknown type.
pub trait PolicyCopy {
    /// A copy with its state.
    fn boxed(&self) -> Box<dyn Policy>;
}

impl<P: Policy + Clone> PolicyCopy for P {
    fn boxed(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn Policy> {
    fn clone(&self) -> Self {
        self.boxed()
    }
}

/// A kernel's policy, with its requests.
#[derive(Clone)]
pub(crate) struct ActivePolicy {
    /// The policy; it gets events through [`ActivePolicy::tell`].
    pub decides: Box<dyn Policy>,
    /// Its rules.
    pub rules: Rules,
    /// Its open requests and work.
    pub actions: Actions,
}

impl ActivePolicy {
    /// A policy without requests.
    pub fn new(policy: Box<dyn Policy>) -> ActivePolicy {
        ActivePolicy { rules: policy.rules(), decides: policy, actions: Actions::default() }
    }

    /// Reports an event.
    pub fn tell(&mut self, event: PolicyEvent<'_>) {
        self.decides.on(event, &mut self.actions);
    }
}
