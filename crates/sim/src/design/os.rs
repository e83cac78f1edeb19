//! A design's own kernel, which builds superpages of many sizes during the run.
//!
//! This module reports the design's misses to the kernel, and applies the kernel's decisions to the design's TLBs and
//! to the store. Background work runs at the first miss or first touch after it is due.

use crate::classes::{CLASSES, FETCH, KINDS};
use crate::design::Design;
use crate::fit::{KernelError, held_order};
use crate::store::PageStore;
use crate::store::entry::EntryId;
use crate::watched_tlbs::WatchedTlbs;
use pagewalk_mm::promotion::{LastUse, Miss};
use pagewalk_mm::{AddressSpace, Kernel, MemorySample, ORDERS, Remap, Superpage, TlbEntry};
use pagewalk_translate::{LowerEntry, MachineSpec, TranslationSource};
use pagewalk_units::Kind;
use std::collections::BTreeMap;
use std::ops::Range;

/// A superpage that the kernel maps and TLBs hold.
#[derive(Clone, Copy, Debug)]
struct MappedSuperpage {
    order: u8,
    /// References to it before this design mapped it, by class.
    before: [u64; CLASSES],
}

/// The kernel of one design.
#[derive(Clone)]
pub(crate) struct Os {
    pub kernel: Kernel,
    /// By order of the kernel's pages: the order of the pieces that TLBs hold.
    held_order: [u8; ORDERS],
    /// The TLB that serves a class, as the kernel's policy numbers them.
    tlbs: [usize; CLASSES],
    /// The only array of that TLB, as the machine numbers it; none if it has several.
    only: [Option<usize>; CLASSES],
    watches: bool,
    /// By first page.
    mapped: BTreeMap<u64, MappedSuperpage>,
    /// References, by order, to superpages that are no longer mapped.
    references: [[u64; ORDERS]; CLASSES],
    /// Second halves of references inside one superpage: they need no lookup.
    pub inside: [[u64; ORDERS]; CLASSES],
    /// Empty lists, kept for their room.
    remaps: Vec<Remap>,
    left: Vec<(EntryId, u64, usize)>,
}

/// Kernels that read times of use do not fit a pass.
struct NoUses;

impl LastUse for NoUses {
    fn last_use(&self, _page: u64) -> Option<u64> {
        unreachable!("the policy's rules say that it reads no times of use")
    }
}

impl Os {
    /// `kernel` on a machine.
    pub fn new(mut kernel: Kernel, machine: &MachineSpec) -> Result<Os, KernelError> {
        let held_order = held_order(&kernel, machine)?;
        kernel.map_hugetlb_by(if machine.has_huge_pages() { machine.paging.huge_order() as u8 } else { 0 });
        let (watched, entries) = WatchedTlbs::of_cores(machine, 1);
        let tlbs = std::array::from_fn(|class| watched[0].of(class).number);
        let only = std::array::from_fn(|class| match watched[0].of(class).arrays[..] {
            [only] => Some(only),
            _ => None,
        });
        let watches = kernel.watches_tlbs();
        if watches {
            kernel.watch(&entries);
        }
        Ok(Os {
            kernel,
            held_order,
            tlbs,
            only,
            watches,
            mapped: BTreeMap::new(),
            references: [[0; ORDERS]; CLASSES],
            inside: [[0; ORDERS]; CLASSES],
            remaps: Vec::new(),
            left: Vec::new(),
        })
    }

    /// Memory over time, until now.
    pub fn samples(&self, instructions: u64) -> Vec<MemorySample> {
        let mut kernel = self.kernel.clone();
        kernel.reached(instructions);
        kernel.samples().to_vec()
    }

    /// Orders of TLB entries, with or without hugetlb memory.
    pub fn held_orders(&self, hugetlb: bool) -> impl Iterator<Item = usize> + use<> {
        let orders = self.kernel.orders() | u32::from(hugetlb) << self.kernel.hugetlb_order();
        let held = self.held_order;
        let mut set = (0..ORDERS)
            .filter(|order| orders >> order & 1 == 1)
            .fold(0u32, |set, order| set | 1 << held[order]);
        set |= 1;
        (0..ORDERS).filter(move |order| set >> order & 1 == 1)
    }

    /// The TLB entry for a page.
    pub fn held(&self, store: &PageStore, page: u32) -> (EntryId, u64, usize) {
        let vpn = store.pages[page as usize].vpn;
        let order = self.kernel.table().mapped(vpn).map_or(0, |unit| self.held_order[unit.order as usize]);
        let block = Superpage::around(vpn, order);
        match if order > 0 { store.super_at(block) } else { None } {
            Some(held) => (held, block.number(), order.into()),
            None => (EntryId::Page(page), vpn, 0),
        }
    }

    /// The order of the TLB's piece of the superpage around a page.
    fn size_known(&self, vpn: u64) -> u8 {
        let before = self.mapped.range(..=vpn).next_back();
        before.map_or(0, |(&first, of)| if vpn >> of.order == first >> of.order { of.order } else { 0 })
    }

    /// Counts references that were counted at order `from` at order `to`.
    fn move_references(&mut self, class: usize, count: u64, from: u8, to: u8) {
        if from == to {
            return;
        }
        for (order, sign) in [(from, -1), (to, 1)].into_iter().filter(|&(order, _)| order > 0) {
            let references = &mut self.references[class][usize::from(order)];
            *references = references.wrapping_add_signed(sign * count as i64);
        }
    }

    /// Lookups of superpages so far, by class and order.
    pub fn lookups(&self, store: &PageStore) -> [[u64; ORDERS]; CLASSES] {
        let mut references = self.references;
        for (&first, of) in &self.mapped {
            self.add_references(store, first, of, &mut references);
        }
        for (all, inside) in references.iter_mut().flatten().zip(self.inside.as_flattened()) {
            *all -= inside;
        }
        references
    }

    fn add_references(
        &self,
        store: &PageStore,
        first: u64,
        of: &MappedSuperpage,
        sums: &mut [[u64; ORDERS]; CLASSES],
    ) {
        let id = store
            .supers
            .find(Superpage { first, order: of.order })
            .expect("the store knows every mapped superpage");
        let references = store.supers.get(id).references.iter().zip(of.before);
        for (sum, (now, before)) in sums.iter_mut().zip(references) {
            sum[of.order as usize] += now - before;
        }
    }
}

/// Events of a design with its own kernel.
impl Design {
    /// Reports the executed instructions, before the kernel's next work.
    pub fn os_reached(&mut self, instructions: u64) {
        if let Some(os) = &mut self.os {
            os.kernel.reached(instructions);
        }
    }

    /// First touch of a page; returns the remaps.
    pub fn os_touched(&mut self, space: &AddressSpace, vpn: u64, stores: bool) -> Vec<Remap> {
        let Some(os) = &mut self.os else { return Vec::new() };
        let mut remaps = std::mem::take(&mut os.remaps);
        os.kernel.touched(vpn, stores, space, &mut remaps);
        remaps
    }

    /// Whether the next store to a page is a fault.
    pub fn os_protects(&self, vpn: u64) -> bool {
        self.os.as_ref().is_some_and(|os| os.kernel.table().is_protected(vpn))
    }

    /// A store to such a page; returns the remaps.
    pub fn os_stored(&mut self, space: &AddressSpace, vpn: u64) -> Vec<Remap> {
        let Some(os) = &mut self.os else { return Vec::new() };
        let mut remaps = std::mem::take(&mut os.remaps);
        os.kernel.stored(vpn, space, &mut remaps);
        remaps
    }

    /// The process forks; returns the remaps.
    pub fn os_forked(&mut self, child: u32, space: &AddressSpace) -> Vec<Remap> {
        let Some(os) = &mut self.os else { return Vec::new() };
        let mut remaps = std::mem::take(&mut os.remaps);
        os.kernel.forked(child, space, &mut remaps);
        remaps
    }

    /// Whether the process was killed.
    pub fn os_killed(&self) -> bool {
        self.os.as_ref().is_some_and(|os| os.kernel.killed().is_some())
    }

    /// Takes back fetches from a page that were counted but do not happen.
    pub fn os_take_back_fetches(&mut self, vpn: u64, fetches: u64) {
        let Some(os) = &mut self.os else { return };
        self.counts.inside_huge[FETCH] += fetches;
        let size = usize::from(os.size_known(vpn));
        if size > 0 {
            os.inside[FETCH][size] += fetches;
        }
    }

    /// Whether background work is due.
    pub fn os_wakes(&self, instructions: u64) -> bool {
        self.os.as_ref().is_some_and(|os| os.kernel.wakes().is_some_and(|at| at <= instructions))
    }

    /// Background work, if due; returns the remaps.
    pub fn os_wake(&mut self, space: &AddressSpace, instructions: u64) -> Vec<Remap> {
        let is_due = self.os_wakes(instructions);
        let Some(os) = self.os.as_mut().filter(|_| is_due) else { return Vec::new() };
        let mut remaps = std::mem::take(&mut os.remaps);
        os.kernel.wake(instructions, space, &NoUses, &mut remaps);
        remaps
    }

    /// The order of the TLB's piece of the superpage around a page.
    pub fn os_size(&self, vpn: u64) -> u8 {
        self.os.as_ref().map_or(0, |os| os.size_known(vpn))
    }

    /// A reference of `class` to a page was counted at order `before`: from now on it counts at the present order.
    pub fn os_resized(&mut self, class: usize, before: u8, vpn: u64) {
        let Some(os) = &mut self.os else { return };
        os.move_references(class, 1, before, os.size_known(vpn));
    }

    /// Pages were added to the address space; returns what the kernel maps at once.
    pub fn os_mapped(&mut self, space: &AddressSpace, pages: Range<u64>) -> Vec<Remap> {
        let Some(os) = self.os.as_mut().filter(|os| os.kernel.backs_areas()) else { return Vec::new() };
        let mut remaps = std::mem::take(&mut os.remaps);
        os.kernel.mapped(pages, space, &mut remaps);
        remaps
    }

    /// The program advises on a range of pages; returns the remaps.
    pub fn os_advised(&mut self, space: &AddressSpace, pages: Range<u64>, advice: i32) -> Vec<Remap> {
        let Some(os) = &mut self.os else { return Vec::new() };
        let mut remaps = std::mem::take(&mut os.remaps);
        os.kernel.advised(pages, advice, space, &NoUses, &mut remaps);
        remaps
    }

    /// Whether a touched page has since been swapped out or dropped. It may be mapped again already, as a file's page
    /// near a faulting one.
    pub fn os_lacks(&self, vpn: u64) -> bool {
        self.os.as_ref().is_some_and(|os| os.kernel.swaps() && !os.kernel.table().is_touched(vpn))
    }

    /// A miss, before the walk and any fill.
    pub fn os_missed(&mut self, store: &PageStore, class: usize, page: u32, instructions: u64) {
        let vpn = store.pages[page as usize].vpn;
        if let Some(os) = &mut self.os {
            os.kernel.walked(vpn);
        }
        if let Some(os) = self.os.as_mut().filter(|os| os.watches) {
            let unit = os.kernel.table().mapped(vpn).unwrap_or(Superpage::around(vpn, 0));
            os.kernel.missed(Miss {
                tlb: os.tlbs[class],
                unit,
                entry: unit,
                page: vpn,
                frame: None,
                instructions,
                cycles: 0,
            });
        }
    }

    /// A miss has been served; returns what maps the page, if the kernel watches misses.
    pub fn os_served(&self, vpn: u64) -> Option<Superpage> {
        self.os.as_ref().filter(|os| os.watches)?.kernel.table().mapped(vpn)
    }

    /// The superpage due after a miss, and the remaps that build it.
    pub fn os_due(&mut self, unit: Superpage, space: &AddressSpace) -> Option<(Superpage, Vec<Remap>)> {
        let Os { kernel, remaps, .. } = self.os.as_mut()?;
        let due = kernel.served(unit, space, remaps)?;
        Some((due, std::mem::take(remaps)))
    }

    /// Whether a watched TLB holds a page.
    fn is_watched_in(&self, store: &PageStore, tlb: usize, held: EntryId, number: u64, size: usize) -> bool {
        let Some(os) = &self.os else { return false };
        let mut classes = (0..CLASSES).filter(|&class| os.tlbs[class] == tlb);
        if self.last_level == 1 {
            let resident =
                |class: usize| crate::design::first_level::resident(store, held, class) & self.mask() != 0;
            return classes.any(resident);
        }
        let kinds: Vec<Kind> = classes.map(|class| KINDS[class]).collect();
        let mut arrays = self.machine.level(self.last_level);
        arrays.any(|(index, tlb)| {
            kinds.iter().any(|&kind| tlb.serves.has(kind))
                && self.lower.holds(index, store.asid_of(held), number, self.sizes[size])
        })
    }

    /// Fills all arrays with a page's entry, which those that serve the reference lack, and reports entering and
    /// leaving translations to the kernel.
    pub(crate) fn os_fill(
        &mut self,
        store: &mut PageStore,
        (class, kind): (usize, Kind),
        (held, number, size): (EntryId, u64, usize),
    ) {
        let Some(Os { watches, tlbs, only, .. }) = &self.os else { return };
        let (watches, tlb, only) = (*watches, tlbs[class], only[class]);
        let was_there = watches && only.is_none() && self.is_watched_in(store, tlb, held, number, size);
        let victim =
            self.array[class][size].and_then(|array| self.first[array].fill(store, self.bit, held, number));
        if let (Some(victim), true, Some(array)) = (victim, self.gives_victims, self.array[class][size]) {
            let (number, size) = store.numbered(victim);
            let asid = store.asid_of(victim);
            self.lower.receive(self.first[array].index, asid, number, self.sizes[size]);
        }
        let address = store.address(number << size);
        self.lower.fill(kind, store.asid_of(held), address, self.sizes[size], TranslationSource::Walk);
        if !watches {
            return;
        }
        let mut left = self.os.as_mut().map_or_else(Vec::new, |os| std::mem::take(&mut os.left));
        if self.last_level == 1 {
            left.extend(victim.map(|victim| {
                let (number, size) = store.numbered(victim);
                (victim, number, size)
            }));
        } else {
            let base = store.paging.base().shift();
            // Lower arrays are looked up by number, not by the store's id.
            let of = |entry: LowerEntry| (held, entry.number, (entry.size.shift() - base) as usize);
            left.extend(self.lower.take_evicted().map(of));
        }
        let is_there = match only {
            Some(array) => self.machine.tlbs[array].takes(kind, self.sizes[size]),
            None => {
                // Another array of the same TLB may still hold it.
                left.retain(|&(held, number, size)| !self.is_watched_in(store, tlb, held, number, size));
                self.is_watched_in(store, tlb, held, number, size)
            }
        };
        let Some(os) = &mut self.os else { return };
        for (_, number, size) in left.drain(..) {
            os.kernel.left(tlb, entry(number, size));
        }
        os.left = left;
        if is_there && !was_there {
            os.kernel.entered(tlb, entry(number, size));
        }
    }

    /// Pages were unmapped or their protection changed.
    pub fn os_change(
        &mut self,
        store: &mut PageStore,
        space: &AddressSpace,
        pages: Range<u64>,
        gone: Range<u64>,
    ) {
        let Some(os) = &self.os else { return };
        for unit in os.kernel.table().units_in(pages.clone()) {
            self.drop_translations(store, unit, true);
        }
        let Some(os) = &mut self.os else { return };
        let mut remaps = std::mem::take(&mut os.remaps);
        os.kernel.flushed(pages, &mut remaps);
        if !gone.is_empty() {
            os.kernel.gone(gone.clone(), space, &mut remaps);
        }
        self.remap(store, remaps, None);
        let Some(os) = &self.os else { return };
        let left: Vec<u64> = os.mapped.range(gone).map(|(&first, _)| first).collect();
        for first in left {
            self.forget(store, first);
        }
    }

    /// Applies the kernel's decisions. `fill`: the reference whose miss led to them; its page enters the TLBs.
    pub fn remap(&mut self, store: &mut PageStore, mut remaps: Vec<Remap>, fill: Option<(usize, Kind)>) {
        if remaps.is_empty() {
            return;
        }
        let running = store.running;
        let before = self.os.as_ref().map_or(0, |os| os.size_known(running.vpn));
        for remap in remaps.drain(..) {
            match remap {
                Remap::Mapped(block) => self.know(store, block),
                Remap::Demoted(block) | Remap::Evicted(block) => {
                    self.drop_translations(store, block, true);
                    self.forget_inside(store, block);
                }
                Remap::Moved(block) => self.drop_translations(store, block, true),
                Remap::Promoted(block) => {
                    self.drop_translations(store, block, false);
                    self.forget_inside(store, block);
                    self.know(store, block);
                    let touched = fill.and_then(|fill| Some((fill, *store.pages_in(block.pages()).first()?)));
                    if let Some((fill, page)) = touched {
                        let entry = self.mapped(store, page);
                        self.os_fill(store, fill, entry);
                    }
                }
            }
        }
        if let Some(os) = &mut self.os {
            os.remaps = remaps;
            // Fetches counted ahead happen at the new size.
            let after = os.size_known(running.vpn);
            os.move_references(FETCH, running.fetches, before, after);
        }
    }

    /// Drops all translations of a block and its parts from the TLBs. `tell`: report them to the kernel.
    fn drop_translations(&mut self, store: &mut PageStore, block: Superpage, tell: bool) {
        let Some(os) = &self.os else { return };
        let mut held: Vec<(EntryId, u64, usize)> = Vec::new();
        for (&first, of) in os.mapped.range(block.pages()) {
            let part = Superpage { first, order: of.order };
            held.extend(store.super_at(part).map(|held| (held, part.number(), usize::from(of.order))));
        }
        let covered = |page: u32| store.supers.users(page) & self.mask() != 0;
        for page in store.pages_in(block.pages()).into_iter().filter(|&page| !covered(page)) {
            held.push((EntryId::Page(page), store.pages[page as usize].vpn, 0));
        }
        let tlbs: Vec<usize> = match (os.watches && tell, os.tlbs[FETCH]) {
            (false, _) => Vec::new(),
            (true, last) => (0..=last).collect(),
        };
        for (held, number, size) in held {
            let in_tlb = |&tlb: &usize| self.is_watched_in(store, tlb, held, number, size);
            let leaves: Vec<usize> = tlbs.iter().copied().filter(in_tlb).collect();
            self.drop_entry(store, held, number, size);
            let Some(os) = &mut self.os else { return };
            for tlb in leaves {
                os.kernel.left(tlb, entry(number, size));
            }
        }
    }

    /// Records a mapped superpage, in the pieces that TLBs hold.
    fn know(&mut self, store: &mut PageStore, block: Superpage) {
        let Some(os) = &mut self.os else { return };
        let order = os.held_order[block.order as usize];
        if order == 0 {
            return;
        }
        for first in block.pages().step_by(1 << order) {
            let id = store.add_super(Superpage { first, order }, self.bit);
            os.mapped.insert(first, MappedSuperpage { order, before: store.supers.get(id).references });
        }
    }

    fn forget_inside(&mut self, store: &mut PageStore, block: Superpage) {
        let Some(os) = &self.os else { return };
        let inside: Vec<u64> = os.mapped.range(block.pages()).map(|(&first, _)| first).collect();
        for first in inside {
            self.forget(store, first);
        }
    }

    fn forget(&mut self, store: &mut PageStore, first: u64) {
        let Some(os) = &mut self.os else { return };
        let Some(of) = os.mapped.remove(&first) else { return };
        let mut references = os.references;
        os.add_references(store, first, &of, &mut references);
        os.references = references;
        store.drop_super(Superpage { first, order: of.order }, self.bit);
    }
}

/// The entry of a page, by its number and its doublings of a base page.
fn entry(number: u64, size: usize) -> TlbEntry {
    TlbEntry::of(Superpage { first: number << size, order: size as u8 })
}
