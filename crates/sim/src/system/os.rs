//! Reports to a simulated kernel, and the effects of its decisions on the hardware.

use super::kernel::OwnMemory;
use super::moves::{TlbMove, TlbMoves};
use super::page::Page;
use super::process::{Memory, Process};
use super::{Core, System};
use crate::ranges::{added, advised, whole_pages};
use pagewalk_mm::promotion::Miss;
use pagewalk_mm::{AddressSpace, Kernel, Remap, Superpage};
use pagewalk_trace::Event;
use pagewalk_translate::{Asid, TranslationSource};
use pagewalk_units::{Kind, VirtAddr};
use std::ops::Range;

/// The class and kind of the reference whose miss a kernel works after.
type MissContext = (usize, Kind);

impl System {
    /// The running process executes its first instruction.
    pub(super) fn start(&mut self) {
        let process = self.process();
        if std::mem::replace(&mut process.started, true) {
            return;
        }
        process.space.start_running();
        if let Memory::Own(own) = &mut process.memory {
            own.kernel.started(&process.space);
        }
    }

    /// Marks a process as a fork's child, before anything else.
    pub fn begin_as_child(&mut self, asid: Asid) {
        if let Some(kernel) = self.process_of(asid).kernel() {
            kernel.begin_as_child();
        }
    }

    /// Calls the running process's kernel and applies its decisions.
    fn ask(
        &mut self,
        after: Option<MissContext>,
        ask: impl FnOnce(&mut Kernel, &AddressSpace, &mut Vec<Remap>),
    ) {
        let now = self.clock.instructions;
        self.known.forget();
        let Process { space, memory: Memory::Own(own), .. } = self.process() else { return };
        let mut remaps = Vec::new();
        own.kernel.reached(now);
        ask(&mut own.kernel, space, &mut remaps);
        self.remap(remaps, after);
    }

    /// First touch of a base page, or a touch of swapped-out memory: the kernel backs it.
    pub(super) fn back(&mut self, vpn: u64, stores: bool, new_pages: u64) -> Option<()> {
        self.ask(None, |kernel, space, remaps| kernel.touched(vpn, stores, space, remaps));
        self.follow_frames(vpn..vpn + 1);
        self.live_on(new_pages)
    }

    /// Lets the kernel swap a page back in. Pages in the first level are backed.
    pub(super) fn bring_back(&mut self, kind: Kind, vpn: u64) -> Option<()> {
        if !self.process().own().is_some_and(|own| own.lacks(vpn)) {
            return Some(());
        }
        let (asid, page) = self.translation(vpn);
        if self.tlbs().holds(kind, asid, page) {
            return Some(());
        }
        self.back(vpn, matches!(kind, Kind::Store | Kind::Modify), 0)
    }

    /// A store; it faults if the page is protected.
    pub(super) fn stored(&mut self, vpn: u64) -> Option<()> {
        if self.process().own().is_some_and(|own| own.kernel.table().is_protected(vpn)) {
            self.ask(None, |kernel, space, remaps| kernel.stored(vpn, space, remaps));
            self.live_on(0)?;
        }
        Some(())
    }

    /// `None` if the process was killed: freezes counts at the state before the reference, which touched `new_pages`.
    fn live_on(&mut self, new_pages: u64) -> Option<()> {
        let is_killed = self.process().kernel().is_some_and(|kernel| kernel.killed().is_some());
        if is_killed && self.killed.is_none() {
            self.clock.pages_touched -= new_pages;
            self.count_repetitions();
            self.killed = Some(Box::new(self.count()));
        }
        if self.killed.is_some() { None } else { Some(()) }
    }

    /// Background work of the kernel, if due.
    pub(super) fn wake(&mut self) {
        let (now, instructions) = (self.clock.now, self.clock.instructions);
        let Memory::Own(own) = &mut self.process().memory else { return };
        own.kernel.reached(instructions);
        if own.kernel.wakes().is_none_or(|at| at > instructions) {
            return;
        }
        own.looks.note(now, own.kernel.time(instructions));
        if self.records_uses {
            self.known.forget();
        }
        let mut remaps = Vec::new();
        self.process().with_uses(|kernel, space, uses| kernel.wake(instructions, space, uses, &mut remaps));
        self.remap(remaps, None);
    }

    /// A miss, before the walk and any fill.
    pub(super) fn missed(&mut self, class: usize, kind: Kind, vpn: u64) {
        let (instructions, colors) = (self.clock.instructions, self.frames.by_color);
        let cycles = if colors { self.cycles() } else { 0 };
        let tlb = self.tlbs().watched_by(class);
        let Some(kernel) = self.process().kernel() else { return };
        kernel.walked(vpn);
        let Some(tlb) = tlb else { return };
        let unit = kernel.table().mapped(vpn).unwrap_or(Superpage::around(vpn, 0));
        let entry = self.wanted_entry(class, kind, vpn, unit);
        // The kernel's half of addresses has no frames.
        let is_kernels = VirtAddr(vpn << self.machine().paging.base().shift()).is_kernel();
        let Some(kernel) = self.process().kernel() else { return };
        let frame = if colors && !is_kernels { kernel.place(vpn) } else { None };
        kernel.missed(Miss { tlb, unit, entry, page: vpn, frame, instructions, cycles });
        if colors {
            self.drop_wanted();
            self.recolor();
        }
    }

    /// The block of the entry that the watched TLB needs for a page, which `unit` maps.
    fn wanted_entry(&mut self, class: usize, kind: Kind, vpn: u64, unit: Superpage) -> Superpage {
        if self.is_side() {
            let wanted = self.entries_of_side(vpn).first().copied();
            let block = wanted.map(|(_, shift)| Superpage::around(vpn, shift as u8));
            return block.filter(|block| block.order > unit.order).unwrap_or(unit);
        }
        let size = self.translation(vpn).1.size;
        Superpage::around(vpn, unit.order + self.tlbs().pages_together(class, kind, size))
    }

    /// Reports moves of watched TLBs to each process's kernel.
    pub(super) fn tell(&mut self, mut moves: TlbMoves) {
        self.drop_held_elsewhere(&mut moves);
        for TlbMove { asid, tlb, entry } in moves.left {
            if let Some(kernel) = self.kernel_of(asid, entry.block) {
                kernel.left(tlb, entry);
            }
        }
        for TlbMove { asid, tlb, entry } in moves.entered {
            if let Some(kernel) = self.kernel_of(asid, entry.block) {
                kernel.entered(tlb, entry);
            }
        }
    }

    /// The kernel that owns a page. Global pages have no owner and are never part of a superpage.
    fn kernel_of(&mut self, asid: Asid, block: Superpage) -> Option<&mut Kernel> {
        let is_kernels = VirtAddr(block.first << self.machine().paging.base().shift()).is_kernel();
        if asid == Asid::GLOBAL && !is_kernels { None } else { self.process_of(asid).kernel() }
    }

    /// Work that is due after a walk.
    pub(super) fn serve(&mut self, class: usize, kind: Kind, vpn: u64) {
        let instructions = self.clock.instructions;
        let watches = self.tlbs().watched_by(class).is_some();
        let Some(kernel) = self.process().kernel() else { return };
        kernel.reached(instructions);
        let mut unit = kernel.table().mapped(vpn).filter(|_| watches);
        while let Some(from) = unit {
            let Process { space, memory: Memory::Own(own), .. } = self.process() else { return };
            let mut remaps = Vec::new();
            let due = own.kernel.served(from, space, &mut remaps);
            // A superpage elsewhere enters the TLBs at its own miss.
            let holds_it = due.is_some_and(|block| block.pages().contains(&vpn));
            self.remap(remaps, holds_it.then_some((class, kind)));
            unit = due;
        }
    }

    /// Applies the kernel's decisions.
    pub(super) fn remap(&mut self, remaps: Vec<Remap>, after: Option<MissContext>) {
        if !remaps.is_empty() {
            self.known.forget();
        }
        if self.is_side() {
            remaps.iter().for_each(|remap| self.follow_frames(remap.block().pages()));
        }
        for remap in remaps {
            if let Some(dropped) = OwnMemory::dropped(remap) {
                self.drop_block(dropped.block, dropped.tell);
            }
            let Memory::Own(own) = &mut self.process().memory else { return };
            match remap {
                Remap::Mapped(block) => own.know(block),
                Remap::Demoted(block) | Remap::Evicted(block) => own.forget(block.pages()),
                Remap::Moved(_) => {}
                Remap::Promoted(block) => {
                    own.forget(block.pages());
                    own.know(block);
                    self.enter_promoted(block, after);
                }
            }
        }
        self.tell_losses();
    }

    /// Fills the TLBs with a superpage built after a miss in it.
    fn enter_promoted(&mut self, block: Superpage, after: Option<MissContext>) {
        let Some((class, kind)) = after else { return };
        let Some((&vpn, _)) = self.process().pages.range(block.pages()).next() else { return };
        if self.is_side() {
            return self.fill_side(vpn);
        }
        let (asid, page) = self.translation(vpn);
        let moves = match self.tlbs().put(class, asid, page, vpn) {
            Some(moves) => moves,
            None => self.tlbs().fill(kind, asid, page, TranslationSource::Walk),
        };
        self.tell(moves);
    }

    /// Drops all translations of a block and its parts. `tell`: report them to the kernel.
    pub(super) fn drop_block(&mut self, block: Superpage, tell: bool) {
        // Prefetchers and neighbours fill entries of untouched pages.
        let is_exact = self.tlbs().prefetchers().is_empty() && !self.machine().shares_entries();
        let process = self.process();
        let Memory::Own(own) = &process.memory else { return };
        let held: Vec<u64> = match is_exact {
            true => process.pages.range(block.pages()).map(|(&vpn, _)| vpn).collect(),
            false => block.pages().collect(),
        };
        let of_part = |part: Superpage| {
            let size = own.size(part.order);
            (part, Page { number: part.number(), size, leaf: size })
        };
        let parts: Vec<_> = own.parts(block, held.into_iter()).into_iter().map(of_part).collect();
        for (part, page) in parts {
            let asid = self.asid_of(part);
            let is_side = self.is_side();
            // A data side drops all the process's pages at once.
            if asid == self.asid && is_side {
                continue;
            }
            let mut left = Vec::new();
            for Core { tlbs, .. } in self.cores.iter().filter(|_| !is_side) {
                left.extend(tlbs.watched_tlbs().iter().flat_map(|tlb| tlbs.held_in(tlb, asid, page)));
            }
            self.invalidate(asid, page);
            left.retain(|left| tell || !block.holds(left.entry.block));
            self.tell(TlbMoves::left(left));
        }
        if self.is_side() {
            self.drop_from_sides(&block.pages(), (!tell).then_some(block));
        }
    }

    /// The address space of a page's translations.
    fn asid_of(&self, part: Superpage) -> Asid {
        if part.order == 0 { self.translation(part.first).0 } else { self.asid }
    }

    /// Drops a page from the TLBs of all cores.
    pub(super) fn invalidate(&mut self, asid: Asid, page: Page) {
        self.cores.iter_mut().for_each(|core| core.tlbs.invalidate(asid, page));
    }

    /// Reports an event to the kernel.
    pub(super) fn tell_of(&mut self, event: &Event) {
        match *event {
            Event::Fork { child } => {
                self.ask(None, |kernel, space, remaps| kernel.forked(child, space, remaps));
            }
            Event::Advise { start, bytes, advice } => self.advise(start, bytes, advice),
            Event::ThpDisable { mode } => {
                if let Some(kernel) = self.process().kernel() {
                    kernel.forbidden(mode);
                }
            }
            Event::Exit { .. } | Event::Replaced => self.end(),
            Event::Idle { nanoseconds } => {
                self.ask(None, |kernel, _, _| kernel.slept(nanoseconds));
                self.wake();
            }
            _ => {}
        }
        if let Some(child) = event.reaped() {
            self.ask(None, |kernel, _, _| kernel.child_ended(child));
        }
        if let Some(bytes) = added(event) {
            self.map(bytes);
        }
    }

    /// The program advises on a range of bytes.
    fn advise(&mut self, start: VirtAddr, bytes: u64, advice: i32) {
        let pages = advised(start, bytes, self.machine().paging.base());
        self.ask(None, |_, _, _| {});
        let mut remaps = Vec::new();
        self.process()
            .with_uses(|kernel, space, uses| kernel.advised(pages, advice, space, uses, &mut remaps));
        self.remap(remaps, None);
    }

    /// Bytes were added to the address space.
    fn map(&mut self, bytes: Range<u64>) {
        let pages = whole_pages(bytes, self.machine().paging.base());
        self.ask(None, |kernel, space, remaps| {
            if kernel.backs_areas() {
                kernel.mapped(pages.clone(), space, remaps);
            }
        });
        self.follow_frames(pages);
    }
}
