//! A data side in the system: its data references, and its pages under their kernel.
//!
//! Fetches touch pages, so that their kernel backs them, and translate nothing. Under the host's kernel, walks choose
//! page sizes, as in [`DataSides`](crate::DataSides). A simulated kernel chooses them at first touches, with frames
//! from its memory if it has one, and otherwise from the design's own. Global pages, and pages whose next store faults,
//! stand alone: no entry or range joins them with others.

use super::lookups::{ArrayPlace, CachedTranslation};
use super::moves::{TlbMove, TlbMoves};
use super::process::{Memory, Process};
use super::side_memory::SideMemory;
use super::tlbs::LAST_DATA;
use super::{Core, System};
use crate::caches::{MemoryCaches, WalkCost};
use crate::data_side::{SideOf, SpaceMemory, changes_areas};
use pagewalk_mm::{Change, Superpage};
use pagewalk_setassoc::Entry;
use pagewalk_trace::Event;
use pagewalk_translate::{self as translate, Asid, DataSide, EntryTag, RangeWalk, Walker};
use pagewalk_units::{Kind, PageSize, Paging, VirtAddr};
use std::ops::Range;

/// A process's memory, for the data side of a core.
struct SideQuery<'a> {
    process: &'a mut Process,
    asid: Asid,
    paging: Paging,
    /// Whether processes share pages.
    shares: bool,
    caches: Option<&'a mut MemoryCaches>,
    walk_price: u64,
    /// The cost of the last walk.
    cost: WalkCost,
}

impl SideQuery<'_> {
    /// The number of a page, if it belongs to this process and does not stand alone.
    fn number(&self, page: u64) -> Option<u64> {
        let (number, base) = (Asid::number_of(page), self.paging.base());
        let is_own = Asid::of_page(page) == self.asid
            && (!self.shares || self.process.translation(number, self.asid, base).0 == self.asid);
        is_own.then_some(number)
    }

    /// Calls `ask` with the design's memory.
    fn of_design<T>(&mut self, ask: impl FnOnce(&mut SpaceMemory<'_>) -> T) -> T {
        let Process { space, side, .. } = &mut *self.process;
        let SideMemory { design, segments } = side.as_deref_mut().expect("processes of a data side have one");
        ask(&mut design.of(space, segments))
    }
}

impl translate::SideMemoryView for SideQuery<'_> {
    fn size(&mut self, page: u64) -> PageSize {
        let number = Asid::number_of(page);
        match &self.process.memory {
            Memory::Own(own) => own.page(number).size,
            Memory::Host(_) if self.number(page).is_none() => self.paging.base(),
            Memory::Host(_) => self.of_design(|design| design.size(number)),
        }
    }

    fn frame(&self, page: u64) -> Option<(u64, [bool; 3])> {
        let number = self.number(page)?;
        if let Memory::Own(own) = &self.process.memory
            && own.kernel.table().is_protected(number)
        {
            return None;
        }
        let side = self.process.side.as_deref()?;
        side.design.frame(number, &self.process.space)
    }

    fn together(&mut self, page: u64, most: u64) -> u64 {
        let Some(number) = self.number(page) else { return 0 };
        let pages = self.of_design(|design| design.together(number, most));
        let mut touched = self.process.pages.range(number..number + if self.shares { pages } else { 0 });
        touched.find(|(_, touched)| touched.global).map_or(pages, |(&first, _)| first - number)
    }

    fn runs(&mut self) -> Vec<u64> {
        self.of_design(|design| design.runs())
    }

    fn range(&mut self, page: u64) -> Option<RangeWalk> {
        let number = self.number(page)?;
        let RangeWalk { range, nodes } = self.of_design(|design| design.range(number))?;
        let (base, limit) = (self.asid.page(range.base), self.asid.page(range.limit));
        Some(RangeWalk { range: translate::Range { base, limit, ..range }, nodes })
    }

    fn walked(&mut self, page: u64) -> PageSize {
        let (number, is_own) = (Asid::number_of(page), self.number(page).is_some());
        let (size, unit) = match &self.process.memory {
            Memory::Host(_) if is_own => return self.of_design(|design| design.walked(number)),
            Memory::Host(_) => (self.paging.base(), Superpage::around(number, 0)),
            Memory::Own(own) => {
                let unit = own.kernel.table().mapped(number);
                (own.page(number).size, unit.unwrap_or(Superpage::around(number, 0)))
            }
        };
        self.of_design(|design| design.walked_for(number, is_own.then_some(unit)));
        size
    }

    fn walk(&mut self, walker: &mut Walker, address: VirtAddr, leaf: PageSize) -> u32 {
        self.cost = match &mut self.caches {
            Some(caches) => caches.walk(walker, address, leaf),
            None => WalkCost { references: walker.walk(address, leaf), cycles: self.walk_price },
        };
        self.cost.references
    }
}

impl System {
    /// Calls `ask` with the running core's data side and the current process's memory. Also returns the cost of the
    /// last walk.
    fn with_side<T>(&mut self, ask: impl FnOnce(&mut DataSide, &mut SideQuery<'_>) -> T) -> (T, WalkCost) {
        self.process();
        let System { cores, core, processes, asid, spec, globals, .. } = self;
        let (side, caches) = cores[*core].tlbs.side_and_caches();
        let price = spec.machine.side_walk_cycles();
        let mut asked = SideQuery {
            process: processes.get_mut(asid).expect("it is there"),
            asid: *asid,
            paging: spec.machine.paging,
            shares: globals.is_some(),
            caches,
            walk_price: price.unwrap_or(0),
            cost: WalkCost { references: 0, cycles: 0 },
        };
        let answer = ask(side, &mut asked);
        (answer, asked.cost)
    }

    /// A page's number in the data side.
    fn side_page(&self, vpn: u64) -> u64 {
        self.translation(vpn).0.page(vpn)
    }

    /// A touched and backed page, as the data side holds it.
    pub(super) fn side_translation(&self, vpn: u64, stored: bool) -> CachedTranslation {
        let page = self.side_page(vpn);
        let entry = Entry { shift: self.machine().paging.base().shift(), number: page, key: page };
        CachedTranslation { vpn, entry, place: ArrayPlace::EVERY, stored }
    }

    pub(super) fn miss_side(&mut self, class: usize, kind: Kind, vpn: u64) {
        self.wake();
        let page = self.side_page(vpn);
        if self.with_side(|side, memory| side.serves_below(page, memory)).0 {
            // A range fills level 1, which may be the last.
            let moves = self.tlbs().side_moves();
            return self.tell(moves);
        }
        self.missed(class, kind, vpn);
        let (_, cost) = self.with_side(|side, memory| side.walk(page, memory));
        self.tlbs().counts.charge(class, cost);
        self.charge(class, vpn, cost);
        let moves = self.tlbs().side_moves();
        self.tell(moves);
        self.serve(class, kind, vpn);
    }

    /// The entries that a walk to a page makes in the last level of the data side, if it is watched.
    pub(super) fn entries_of_side(&mut self, vpn: u64) -> Vec<EntryTag> {
        if self.tlbs().watched_by(LAST_DATA).is_none() {
            return Vec::new();
        }
        let (asid, mapped) = self.translation(vpn);
        self.with_side(|side, memory| side.entries_of(asid.page(vpn), mapped.size, memory)).0
    }

    /// Fills the data side with a superpage built around a base page.
    pub(super) fn fill_side(&mut self, vpn: u64) {
        let (asid, mapped) = self.translation(vpn);
        self.with_side(|side, memory| side.fill(asid.page(vpn), mapped.size, memory));
        let moves = self.tlbs().side_moves();
        self.tell(moves);
    }

    /// Drops base pages of the current process from the data sides of all cores, and reports it to the kernel, but not
    /// for parts of a superpage that was `built`.
    pub(super) fn drop_from_sides(&mut self, pages: &Range<u64>, built: Option<Superpage>) {
        let asid = self.asid;
        let mut left: Vec<TlbMove> = Vec::new();
        for Core { tlbs, .. } in &mut self.cores {
            left.extend(tlbs.side_drops(asid, pages));
            tlbs.invalidate_pages(asid, pages);
        }
        left.retain(|left| !built.is_some_and(|built| built.holds(left.entry.block)));
        self.tell(TlbMoves::left(left));
    }

    /// Makes periodic decisions of the kernel and the hardware that are due, before a block.
    pub(super) fn decide(&mut self) {
        if self.visitors.contains(&self.runs) {
            return;
        }
        let (now, executed) = (self.clock.instructions, self.cores[self.core].executed);
        let Process { space, side: Some(side), .. } = self.process() else { return };
        if side.design.due().is_some_and(|due| due <= now) {
            for pages in side.design.scan(space, now) {
                self.drop_from_sides(&pages, None);
            }
        }
        if self.tlbs().side_and_caches().0.due().is_some_and(|due| due <= executed) {
            self.with_side(|side, memory| side.decide(executed, memory));
            let moves = self.tlbs().side_moves();
            self.tell(moves);
        }
    }

    /// Applies a change of the address space to the data side.
    pub(super) fn change_side(&mut self, change: Change) {
        let pages = change.pages(self.machine().paging.base());
        self.drop_from_sides(&pages, None);
        if let Some(side) = &mut self.process().side {
            side.design.changed(&pages, matches!(change, Change::Gone { .. }));
        }
        self.follow_frames(pages);
    }

    /// Follows up an event's changes. `opened`: bytes that became usable.
    pub(super) fn note_side(&mut self, event: &Event, opened: &[Range<u64>]) {
        let Process { space, side: Some(side), counts, .. } = self.process() else { return };
        let mut parted = Vec::new();
        if let Event::Advise { start, bytes, .. } = *event {
            parted = side.design.part(start, bytes, space);
        }
        side.segments.note(event, counts.instructions);
        if changes_areas(event) {
            side.design.remapped(opened);
        }
        parted.iter().for_each(|pages| self.drop_from_sides(pages, None));
    }

    /// Updates frames of these pages from the current process's kernel.
    pub(super) fn follow_frames(&mut self, pages: Range<u64>) {
        if let Process { memory: Memory::Own(own), side: Some(side), .. } = self.process() {
            side.follow(&own.kernel, pages);
        }
    }

    /// The memory of each program's process.
    pub(super) fn sides(&self) -> Vec<SideOf<'_>> {
        let mut processes: Vec<_> = self.processes.iter().collect();
        processes.sort_unstable_by_key(|&(&asid, _)| asid);
        let sides = processes.into_iter().filter_map(|(asid, process)| {
            let side = process.side.as_deref()?;
            // If processes share a memory, one kernel has it.
            let mut own =
                process.own().filter(|_| self.holder.is_none_or(|holder| holder == *asid)).into_iter();
            debug_assert!(own.all(|own| side.knows_frames_of(&own.kernel)), "frames are followed");
            Some((&side.design, &process.space, &side.segments, process.counts.instructions))
        });
        sides.collect()
    }
}
