//! Moves batches and events.

use super::bound::{PlanBinding, follow};
use super::table::Table;
use crate::objects::Owners;
use pagewalk_trace::StreamHeader;
use pagewalk_trace::{Batch, Block, Dictionary, Event, FileIdentity, Instruction, Mapping, Ref, Span};
use pagewalk_units::{BlockId, PAGE_BYTES, VirtAddr};
use std::collections::BTreeSet;
use std::ops::Range;

/// Moves one stream's batches and events, from its beginning.
pub struct Mover {
    bound: PlanBinding,
    owners: Owners,
    running: bool,
    table: Table,
    /// Blocks at their new addresses.
    blocks: Dictionary,
    /// By recorded block id: its new block.
    moved: Vec<Option<BlockId>>,
    /// Blocks that have been moved, with their recorded addresses.
    known: BTreeSet<(u64, BlockId)>,
    refs: Vec<Ref>,
    spans: Vec<Span>,
}

/// A range and its distance.
type Piece = (Range<u64>, u64);

impl Mover {
    /// For a stream with this header; `bound` was made for it.
    pub fn new(bound: &PlanBinding, header: &StreamHeader) -> Mover {
        Mover {
            bound: bound.clone(),
            owners: Owners::new(header),
            running: false,
            table: Table::new(),
            blocks: Dictionary::default(),
            moved: Vec::new(),
            known: BTreeSet::new(),
            refs: Vec::new(),
            spans: Vec::new(),
        }
    }

    /// The batch with moved references and blocks.
    pub fn batch(&mut self, batch: &Batch<'_>) -> Batch<'_> {
        self.running |= !batch.spans.is_empty();
        self.refs.clear();
        let table = &mut self.table;
        self.refs.extend(batch.refs.iter().map(|&record| {
            let delta = table.delta(record.address().0);
            let address = VirtAddr(record.address().0.wrapping_add(delta));
            Ref::from_parts(address.0, record.bits() as u8)
        }));
        self.spans.clear();
        if self.moved.len() < batch.blocks.len() {
            self.moved.resize(batch.blocks.len(), None);
        }
        for &Span { block, first } in batch.spans {
            let block = match self.moved[block.index()] {
                Some(moved) => moved,
                None => self.move_block(block, batch.blocks.get(block)),
            };
            self.spans.push(Span { block, first });
        }
        let &Batch { space, thread, first, first_instruction, wide, .. } = batch;
        let (refs, spans, blocks) = (&self.refs, &self.spans, &self.blocks);
        Batch { space, thread, first, first_instruction, refs, spans, wide, blocks }
    }

    #[cold]
    fn move_block(&mut self, id: BlockId, block: &Block) -> BlockId {
        let table = &mut self.table;
        let instructions = block.instructions.iter().map(|instruction| {
            let delta = table.delta(instruction.address.0);
            Instruction { address: VirtAddr(instruction.address.0.wrapping_add(delta)), ..*instruction }
        });
        let moved = Block { instructions: instructions.collect(), ..block.clone() };
        let new = self.blocks.intern(moved);
        self.moved[id.index()] = Some(new);
        self.known.insert((block.start().0, id));
        new
    }

    /// Passes on the moved event; several if its memory moves apart.
    pub fn event(&mut self, event: &Event, mut to: impl FnMut(Event)) {
        match event {
            Event::Map(mapping) => return self.map(event, mapping, to),
            Event::Unmap { start, bytes } => self.split(start.0, *bytes, |start, bytes| {
                to(Event::Unmap { start, bytes });
            }),
            Event::Protect { start, bytes, protection } => self.split(start.0, *bytes, |start, bytes| {
                to(Event::Protect { start, bytes, protection: *protection });
            }),
            Event::Advise { start, bytes, advice } => self.split(start.0, *bytes, |start, bytes| {
                to(Event::Advise { start, bytes, advice: *advice });
            }),
            Event::Remap { new_start, new_bytes, .. } => {
                // Moved memory is not remapped, but may be in the way of the old place.
                for (range, delta) in self.mapped_pieces(new_start.0, *new_bytes) {
                    if delta != 0 {
                        to(unmap(&range, delta));
                    }
                }
                to(event.clone());
            }
            _ => to(event.clone()),
        }
        self.apply(event);
    }

    /// A new mapping replaces memory that may lie elsewhere now.
    fn map(&mut self, event: &Event, mapping: &Mapping, mut to: impl FnMut(Event)) {
        let (start, bytes) = (mapping.start.0, mapping.bytes);
        let before = self.mapped_pieces(start, bytes);
        self.apply(event);
        let mut after = Vec::new();
        self.table.cut(start..start.saturating_add(bytes), &mut after);
        for (new, new_delta) in &after {
            for (old, old_delta) in before.iter().filter(|(_, delta)| delta != new_delta) {
                let both = old.start.max(new.start)..old.end.min(new.end);
                if both.start < both.end {
                    to(unmap(&both, *old_delta));
                }
            }
        }
        for (range, delta) in after {
            let into = range.start - start;
            let file = mapping.file.clone();
            let (first, bytes) = (range.start.wrapping_add(delta), range.end - range.start);
            // hugetlb pages need alignment.
            let is_whole =
                first.is_multiple_of(mapping.page_bytes) && bytes.is_multiple_of(mapping.page_bytes);
            to(Event::Map(Mapping {
                start: VirtAddr(first),
                bytes,
                page_bytes: if is_whole { mapping.page_bytes } else { PAGE_BYTES },
                file: file.map(|file| FileIdentity { offset: file.offset + into, ..file }),
                ..mapping.clone()
            }));
        }
    }

    /// Passes on a range in pieces that move together.
    fn split(&self, start: u64, bytes: u64, mut to: impl FnMut(VirtAddr, u64)) {
        if !self.table.concerns(&(start..start.saturating_add(bytes))) {
            return to(VirtAddr(start), bytes);
        }
        for (range, delta) in self.mapped_pieces(start, bytes) {
            to(VirtAddr(range.start.wrapping_add(delta)), range.end - range.start);
        }
    }

    /// The mapped parts of a range, in pieces that move together.
    fn mapped_pieces(&self, start: u64, bytes: u64) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for (range, _) in self.owners.within(start..start.saturating_add(bytes)) {
            self.table.cut(range, &mut pieces);
        }
        pieces
    }

    fn apply(&mut self, event: &Event) {
        follow(&mut self.owners, self.running, event);
        let (owners, bound) = (&self.owners, &self.bound);
        for changed in owners.changed() {
            let moving = owners.within(changed.clone()).filter_map(|(range, owner)| {
                let (delta, all) = bound.delta(owners.get(owner))?;
                let range = range.start.max(all.start)..range.end.min(all.end);
                (range.start < range.end).then_some((range, delta))
            });
            self.table.replace(changed.clone(), moving);
            // Blocks there may move by another distance now.
            let from = |address| (address, BlockId(0));
            let gone: Vec<(u64, BlockId)> =
                self.known.range(from(changed.start)..from(changed.end)).copied().collect();
            for block in gone {
                self.known.remove(&block);
                self.moved[block.1.index()] = None;
            }
        }
    }
}

fn unmap(range: &Range<u64>, delta: u64) -> Event {
    Event::Unmap { start: VirtAddr(range.start.wrapping_add(delta)), bytes: range.end - range.start }
}
