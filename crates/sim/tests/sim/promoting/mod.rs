//! The slow side of designs with a kernel: compares the contents of TLBs before and after every operation.

use crate::random::{ALL, Op, Program};
use crate::slow::Slow;
use pagewalk_oracle::miss_policies::{Block, Held, MissPolicyModel, around, holds};
use pagewalk_oracle::{Array, Machine, Paging};
use pagewalk_translate::{Fills, MachineSpec, TlbSpec};
use pagewalk_units::{Access, Kind, PageSize};
use std::collections::BTreeSet;
use std::ops::Range;

/// A slow machine under a slow kernel.
pub struct SlowKernel {
    pub machine: Machine,
    pub kernel: MissPolicyModel,
    base: u32,
    /// The arrays of each watched TLB.
    watched: Vec<BTreeSet<usize>>,
    pub instructions: u64,
    areas: u64,
    /// Data references made in full.
    pub data_references: u64,
    /// Instructions, and base pages backed and touched, after each change.
    pub history: Vec<[u64; 3]>,
}

/// The arrays of the TLBs that a kernel watches: of all references, or of data and of fetches. For each kind they are
/// those of the last level that walks fill and those below, with all whose victims these take.
pub fn watched(spec: &MachineSpec) -> Vec<BTreeSet<usize>> {
    let of_kind = |kind: Kind| {
        let serves = |tlb: &&TlbSpec| tlb.serves.has(kind);
        let walked = spec.tlbs.iter().filter(serves).filter(|tlb| tlb.fills == Fills::Walks);
        let last = walked.map(|tlb| tlb.level).max().unwrap();
        let mut found: BTreeSet<usize> = BTreeSet::new();
        for _ in &spec.tlbs {
            for (at, tlb) in spec.tlbs.iter().enumerate() {
                let takes_its_victims = |&to: &usize| takes_victims(spec, tlb, &spec.tlbs[to]);
                if serves(&tlb) && tlb.level >= last || found.iter().any(takes_its_victims) {
                    found.insert(at);
                }
            }
        }
        found
    };
    let data: BTreeSet<usize> = &of_kind(Kind::Load) | &of_kind(Kind::Store);
    let fetches = of_kind(Kind::Fetch);
    if data.is_disjoint(&fetches) { vec![data, fetches] } else { vec![&data | &fetches] }
}

/// Whether `to` takes victims of `from`: some page of theirs, for some kind, is in no array between.
fn takes_victims(spec: &MachineSpec, from: &TlbSpec, to: &TlbSpec) -> bool {
    let is_between = |tlb: &&TlbSpec| from.level < tlb.level && tlb.level < to.level;
    let nearest = |kind: Kind, size: PageSize| {
        let takes = |tlb: &TlbSpec| tlb.takes(kind, size);
        takes(from) && takes(to) && !spec.tlbs.iter().filter(is_between).any(takes)
    };
    let is_below = to.fills == Fills::Victims && from.level < to.level;
    is_below && to.page_sizes.iter().any(|&size| Kind::ALL.iter().any(|&kind| nearest(kind, size)))
}

impl SlowKernel {
    pub fn new(spec: &MachineSpec, mut kernel: MissPolicyModel) -> SlowKernel {
        let huge = spec.paging.huge().shift() - spec.paging.base().shift();
        kernel.hugetlb_order = if spec.has_huge_pages() { huge as u8 } else { 0 };
        let mut machine = Slow::new(spec, Paging::Small).machine;
        let base = spec.paging.base().shift();
        machine.leaves = Some([base, spec.paging.huge().shift()]);
        SlowKernel {
            machine,
            kernel,
            base,
            watched: watched(spec),
            instructions: 0,
            areas: 0,
            data_references: 0,
            history: Vec::new(),
        }
    }

    /// The TLB that serves a kind.
    fn tlb(&self, kind: Kind) -> usize {
        usize::from(self.watched.len() > 1 && kind == Kind::Fetch)
    }

    fn arrays(&self, tlb: usize) -> impl Iterator<Item = &Array> {
        self.watched[tlb].iter().map(|&index| &self.machine.arrays[index])
    }

    /// The contents of a TLB: all entries in its arrays.
    fn held(&self, tlb: usize) -> Vec<Held> {
        let entries = self.arrays(tlb).flat_map(|array| {
            array.held.keys().into_iter().map(|key| {
                let order = (key % 64) as u8 - self.base as u8;
                let whole = order + array.pages_per_entry.ilog2() as u8;
                (((key / 64) << whole, whole), order)
            })
        });
        let mut held: Vec<Held> = entries.collect();
        held.sort_unstable();
        held.dedup();
        held
    }

    /// log2 of the pages of this order that an entry of the kind's TLB maps.
    fn together(&self, kind: Kind, order: u8) -> u8 {
        let shift = self.base + u32::from(order);
        let takes = |array: &&Array| array.takes((kind as usize).min(Kind::Store as usize), shift);
        let lowest = self.arrays(self.tlb(kind)).filter(takes).max_by_key(|array| array.level);
        lowest.map_or(0, |array| array.pages_per_entry.ilog2() as u8)
    }

    /// Applies an operation to the machine, and tells the kernel which units left and entered the TLBs.
    fn watching(&mut self, does: impl FnOnce(&mut Machine)) {
        let tlbs = 0..self.kernel.entries.len();
        let before: Vec<Vec<Held>> = tlbs.clone().map(|tlb| self.held(tlb)).collect();
        does(&mut self.machine);
        for tlb in tlbs {
            let after = self.held(tlb);
            let left = before[tlb].iter().filter(|entry| !after.contains(entry));
            left.for_each(|&entry| self.kernel.left(tlb, entry));
            let entered = after.iter().filter(|entry| !before[tlb].contains(entry));
            entered.for_each(|&entry| self.kernel.entered(tlb, entry));
        }
    }

    fn drop_unit(machine: &mut Machine, base: u32, (first, order): Block) {
        machine.drop_page(base + u32::from(order), first >> order);
    }

    /// What was swapped out, or has moved, leaves the TLBs.
    fn drop_dropped(&mut self) {
        let base = self.base;
        for unit in std::mem::take(&mut self.kernel.dropped) {
            self.watching(|machine| Self::drop_unit(machine, base, unit));
        }
    }

    /// Superpages were built: their parts leave the TLBs. The kernel hears only of entries that also map other pages.
    fn built(&mut self, blocks: &[Block], fill: Option<Kind>) {
        for unit in std::mem::take(&mut self.kernel.replaced) {
            let tlbs = 0..self.kernel.entries.len();
            let before: Vec<Vec<Held>> = tlbs.clone().map(|tlb| self.held(tlb)).collect();
            Self::drop_unit(&mut self.machine, self.base, unit);
            for tlb in tlbs {
                let after = self.held(tlb);
                let left = before[tlb].iter().filter(|entry| !after.contains(entry));
                let wider = left.filter(|(entry, _)| !blocks.iter().any(|&block| holds(block, *entry)));
                wider.for_each(|&entry| self.kernel.left(tlb, entry));
            }
        }
        for &(first, order) in blocks {
            if let Some(kind) = fill {
                let base = self.base;
                self.watching(|machine| machine.fill(kind, first << base, base + u32::from(order)));
            }
        }
    }

    fn reference(&mut self, kind: Kind, address: u64, bytes: u64) {
        let mut seen = None;
        let base = self.base;
        for page in address >> base..=(address + bytes - 1) >> base {
            let built = self.kernel.touch(page);
            self.drop_dropped();
            if self.kernel.is_killed() {
                return;
            }
            self.built(&built, None);
            let unit = self.kernel.unit(page);
            // The second half of a reference is no lookup if it lies in one page with the first by now.
            if seen.is_none_or(|first| self.kernel.unit(first) != unit) {
                let (tlb, before) = (self.tlb(kind), self.machine.counts);
                let held = self.held(tlb);
                // Charging comes before anything is filled, and needs to know whether a walk is due.
                let mut ahead = self.machine.clone();
                let shift = base + u32::from(unit.1);
                let next = unit.0 + (1 << unit.1);
                let after = self.kernel.backed.contains_key(&next).then(|| self.kernel.unit(next));
                let after = after.map(|(_, order)| base + u32::from(order));
                ahead.translate(kind, page << base, shift, |_| None);
                let walked = ahead.counts.walks_data + ahead.counts.walks_fetch
                    > before.walks_data + before.walks_fetch;
                if walked {
                    self.kernel.walked(page);
                    let entry = around(page, unit.1 + self.together(kind, unit.1));
                    let held: Vec<Block> = held.into_iter().map(|(entry, _)| entry).collect();
                    self.kernel.charge(tlb, page, entry, &held, self.instructions);
                }
                self.watching(|machine| machine.translate(kind, page << base, shift, |_| after));
                if walked {
                    // One after the other, because a larger superpage flushes the smaller ones.
                    let mut from = unit;
                    while let Some((block, built)) = self.kernel.due(from) {
                        let holds_it = around(page, block.1) == block;
                        let built = if built { vec![block] } else { Vec::new() };
                        self.drop_dropped();
                        self.built(&built, holds_it.then_some(kind));
                        from = block;
                    }
                }
            }
            seen = Some(page);
        }
        self.data_references += u64::from(kind != Kind::Fetch);
        self.note();
    }

    fn note(&mut self) {
        let now = [self.instructions, self.kernel.backed.len() as u64, self.kernel.touched.len() as u64];
        self.history.push(now);
    }

    pub fn op(&mut self, program: &Program, op: &Op) {
        if self.kernel.is_killed() {
            return;
        }
        self.do_op(program, op);
        self.note();
    }

    fn do_op(&mut self, program: &Program, op: &Op) {
        match op {
            Op::Run { block, addresses } => {
                let block = program.blocks.get(*block);
                self.instructions += block.instructions.len() as u64;
                let mut sites = block.sites.iter().zip(addresses).peekable();
                for (i, instruction) in block.instructions.iter().enumerate() {
                    if self.kernel.is_killed() {
                        return;
                    }
                    self.reference(Kind::Fetch, instruction.address.0, instruction.length.into());
                    while let Some((site, &address)) = sites.next_if(|(s, _)| usize::from(s.instruction) == i)
                    {
                        let Access { kind, size } = site.access;
                        if self.kernel.is_killed() {
                            return;
                        }
                        self.reference(kind, address, size.bytes().into());
                    }
                }
            }
            Op::Map { start, pages, anonymous } => {
                self.unmap(*start..start + pages);
                self.areas += 2;
                let area = (if *anonymous { 0 } else { self.areas }, ALL);
                (*start..start + pages).for_each(|piece| _ = self.kernel.areas.insert(piece, area));
                if *anonymous {
                    self.kernel.map(*start..start + pages);
                }
            }
            Op::Unmap { start, pages } => self.unmap(*start..start + pages),
            Op::Discard { start, pages } => self.change(*start..start + pages, true),
            Op::Protect { start, pages, rights } => self.protect(*start..start + pages, *rights),
            Op::MapHuge { start, pages, page } => {
                let range = *start..start + pages;
                self.unmap(range.clone());
                self.areas += 2;
                let area = (self.areas, ALL);
                range.clone().for_each(|piece| _ = self.kernel.areas.insert(piece, area));
                self.kernel.hugetlb.extend(range.map(|piece| (piece, page.ilog2() as u8)));
            }
            Op::Forbid(_) => {}
            Op::MapFile { .. } => unreachable!("programs without libraries"),
            Op::Advise { .. } => unreachable!("programs without advice"),
        }
    }

    /// Areas whose rights change, in part or whole, become areas of their own; private memory with equal rights is one.
    fn protect(&mut self, range: Range<u64>, rights: u8) {
        let mut parts: Vec<(Range<u64>, (u64, u8))> = Vec::new();
        for (&piece, &area) in self.kernel.areas.range(range).filter(|(_, area)| area.1 != rights) {
            match parts.last_mut() {
                Some((part, of)) if part.end == piece && *of == area => part.end += 1,
                _ => parts.push((piece..piece + 1, area)),
            }
        }
        for (part, area) in &parts {
            self.areas += 2;
            let [new, rest] = if area.0 == 0 { [0, 0] } else { [self.areas, self.areas + 1] };
            part.clone().for_each(|piece| _ = self.kernel.areas.insert(piece, (new, rights)));
            let mut at = part.end;
            while self.kernel.areas.get(&at) == Some(area) {
                self.kernel.areas.insert(at, (rest, area.1));
                at += 1;
            }
        }
        // One call is one change wherever areas are neighbours.
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for (part, _) in parts {
            match ranges.last_mut() {
                Some(range) if range.end == part.start => range.end = part.end,
                _ => ranges.push(part),
            }
        }
        ranges.into_iter().for_each(|range| self.change(range, false));
    }

    /// Piece by piece, as far as something is mapped.
    fn unmap(&mut self, range: Range<u64>) {
        let mut pieces: Vec<Range<u64>> = Vec::new();
        for (&piece, _) in self.kernel.areas.range(range.clone()) {
            match pieces.last_mut() {
                Some(last) if last.end == piece => last.end += 1,
                _ => pieces.push(piece..piece + 1),
            }
        }
        self.kernel.areas.retain(|piece, _| !range.contains(piece));
        pieces.into_iter().for_each(|piece| self.change(piece, true));
        self.kernel.hugetlb.retain(|piece, _| !range.contains(piece));
    }

    /// A change of pieces of 4 KiB.
    fn change(&mut self, pieces: Range<u64>, gone: bool) {
        let per_page = 1 << (self.base - 12);
        let pages = pieces.start / per_page..pieces.end.div_ceil(per_page);
        let mut units: Vec<Block> = Vec::new();
        for page in pages.clone().filter(|page| self.kernel.backed.contains_key(page)) {
            units.push(self.kernel.unit(page));
        }
        units.dedup();
        let base = self.base;
        // In the order of their addresses, as the fast side tells of them.
        for unit in units {
            self.watching(|machine| Self::drop_unit(machine, base, unit));
        }
        self.machine.drop_tables(pieces.start << 12, pieces.end << 12);
        self.kernel.part(pages.clone());
        if gone {
            let areas = &self.kernel.areas;
            let is_gone = |page: &u64| {
                let of = page * per_page..(page + 1) * per_page;
                let whole = pieces.start <= of.start && of.end <= pieces.end;
                whole || areas.range(of).next().is_none()
            };
            let all: Vec<u64> = pages.filter(is_gone).collect();
            if let (Some(&first), Some(&last)) = (all.first(), all.last()) {
                self.kernel.part(first..last + 1);
                self.kernel.gone(first..last + 1);
            }
        }
    }
}
