//! Areas of streams without mappings, inferred from what the stream touches.
//!
//! Other tools' traces say where references go and not what is mapped there. A kernel makes superpages only inside
//! areas, so it would never make any. [`InferredAreas`] adds the missing events: memory is divided into aligned pieces
//! of [`AreaRules::gap`] bytes, and a piece becomes mapped right before the first execution that touches it. Adjacent
//! pieces are one area, as adjacent anonymous mappings are. So
//!
//! - pages no further apart than the gap are in one area in the end, and pages at least two gaps apart are not, unless
//!   something between them is touched;
//! - the areas are those pieces, whatever the order of references;
//! - one pass is enough, also from standard input: areas grow as the stream goes. A program maps memory before it
//!   touches it, so an area is there from the first touch on and as large as a huge page, if the gap is.
//!
//! Where events are placed depends on the stream alone, not on its division into batches.

use crate::AddressSpace;
use pagewalk_trace::{
    Backlog, Batch, BatchParts, BatchRoom, Event, Item, Mapping, MappingKind, Protection, Ref, Source,
    SourceError, StreamHeader,
};
use pagewalk_units::quantities::bytes;
use pagewalk_units::{PAGE_BYTES, PAGE_SHIFT, RefIndex, VirtAddr};
use rustc_hash::FxHashSet;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Slots for pieces that were looked up last.
const RECENT: usize = 64;
/// Most events before the first reference, after which a stream without mappings is taken to have none.
const FIRST_EVENTS: usize = 4096;

/// Whether areas are inferred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AreaMode {
    /// If the stream maps nothing before its first reference.
    #[default]
    Auto,
    /// Always: also what a stream with mappings touches outside them.
    Inferred,
    /// Never.
    None,
}

/// How areas are inferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AreaRules {
    /// Whether they are.
    pub mode: AreaMode,
    /// Bytes of a piece, a power of two of at least a page.
    pub gap: u64,
}

impl Default for AreaRules {
    fn default() -> AreaRules {
        AreaRules { mode: AreaMode::Auto, gap: AreaRules::GAP }
    }
}

impl AreaRules {
    /// The usual gap: x86-64's huge page. A first touch can then have a huge page, as in a program's heap.
    pub const GAP: u64 = 2 << 20;
    /// The largest gap.
    pub const GAP_MAX: u64 = 1 << 30;

    /// Parses `auto`, `inferred` or `none`, `gap=BYTES`, or both with a comma between. BYTES may end in K, M or G.
    ///
    /// # Errors
    /// What is wrong, with the choices.
    pub fn from_text(text: &str) -> Result<AreaRules, String> {
        let mut rules = AreaRules::default();
        for part in text.split(',') {
            match part.strip_prefix("gap=") {
                Some(bytes) => rules.gap = gap(bytes)?,
                None => rules.mode = mode(part)?,
            }
        }
        Ok(rules)
    }
}

fn mode(text: &str) -> Result<AreaMode, String> {
    match text {
        "auto" => Ok(AreaMode::Auto),
        "inferred" => Ok(AreaMode::Inferred),
        "none" => Ok(AreaMode::None),
        other => Err(format!("`{other}`: choose from auto, inferred, none, gap=BYTES")),
    }
}

fn gap(text: &str) -> Result<u64, String> {
    let fits = |bytes: &u64| bytes.is_power_of_two() && (PAGE_BYTES..=AreaRules::GAP_MAX).contains(bytes);
    bytes(text)
        .filter(fits)
        .ok_or_else(|| format!("gap={text}: give a power of two from 4K to 1G, such as gap=2M"))
}

/// A source whose references all lie in areas, as the rules have it.
pub struct InferredAreas<S> {
    inner: S,
    header: StreamHeader,
    inference: Option<Inference>,
    held: Held,
    /// What ended the inner source while its beginning was examined, after everything before.
    error: Option<SourceError>,
    /// Whether the last item was the inner source's.
    is_inner: bool,
}

impl<S: Source> InferredAreas<S> {
    /// Adds areas to `inner`, from its beginning. With [`AreaMode::Auto`], reads it up to its first mapping or
    /// reference.
    pub fn new(inner: S, rules: AreaRules) -> InferredAreas<S> {
        let header = inner.header().clone();
        let mut source = InferredAreas {
            inner,
            header,
            inference: None,
            held: Held::default(),
            error: None,
            is_inner: false,
        };
        let infers = match rules.mode {
            AreaMode::Auto => source.begins_without_mapping(),
            AreaMode::Inferred => true,
            AreaMode::None => false,
        };
        if infers {
            let mut inference = Inference::new(rules.gap);
            source.held.pending.iter().for_each(|(_, event)| inference.heed(event));
            source.inference = Some(inference);
            source.header.inferred_gap = Some(rules.gap);
        }
        source
    }

    /// Whether the source refers to memory before it maps any. Holds what it read for that.
    fn begins_without_mapping(&mut self) -> bool {
        while self.held.pending.len() < FIRST_EVENTS {
            match self.inner.next_item() {
                Ok(Some(Item::Event { at, event })) => {
                    let is_mapping = matches!(event, Event::Map(_));
                    self.held.pending.push_back((at, event));
                    if is_mapping {
                        return false;
                    }
                }
                Ok(Some(Item::Batch(batch))) => {
                    self.held.parts.copy(&batch);
                    return true;
                }
                Ok(None) => return false,
                Err(error) => {
                    self.error = Some(error);
                    return false;
                }
            }
        }
        true
    }
}

/// What was read and not yielded.
#[derive(Default)]
struct Held {
    /// Events to yield before the rest of `parts`.
    pending: VecDeque<(RefIndex, Event)>,
    parts: BatchParts,
}

impl Held {
    fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.parts.is_used_up()
    }

    /// The next item: an event, or the part of the batch up to where a new piece is touched.
    fn next(&mut self, inference: Option<&mut Inference>) -> Option<Item<'_>> {
        if self.pending.is_empty() && !self.parts.is_used_up() {
            let rest = self.parts.rest();
            let known = match inference {
                Some(inference) => inference.map_next(&rest, &mut self.pending),
                None => rest.spans.len(),
            };
            if known > 0 {
                return Some(Item::Batch(self.parts.part(known)));
            }
        }
        self.pending.pop_front().map(|(at, event)| Item::Event { at, event })
    }
}

impl<S: Source> Source for InferredAreas<S> {
    fn header(&self) -> &StreamHeader {
        &self.header
    }

    fn next_item(&mut self) -> Result<Option<Item<'_>>, SourceError> {
        let InferredAreas { inner, inference, held, error, is_inner, .. } = self;
        *is_inner = false;
        if !held.is_empty() {
            return Ok(held.next(inference.as_mut()));
        }
        if let Some(error) = error.take() {
            return Err(error);
        }
        let Some(inference) = inference else {
            *is_inner = true;
            return inner.next_item();
        };
        match inner.next_item()? {
            Some(Item::Batch(batch)) if inference.knows(&batch) => Ok(Some(Item::Batch(batch))),
            Some(Item::Batch(batch)) => {
                held.parts.copy(&batch);
                Ok(held.next(Some(inference)))
            }
            Some(Item::Event { at, event }) => {
                inference.heed(&event);
                Ok(Some(Item::Event { at, event }))
            }
            None => Ok(None),
        }
    }

    fn leave_batches_out(&mut self) {
        self.inner.leave_batches_out();
    }

    fn gives_rooms(&self) -> bool {
        self.inference.is_none() && self.inner.gives_rooms()
    }

    fn give_room(&mut self, for_another: &mut BatchRoom) {
        if self.is_inner {
            self.inner.give_room(for_another);
        }
    }

    fn is_ready(&self) -> bool {
        !self.held.is_empty() || self.error.is_some() || self.inner.is_ready()
    }

    fn backlog(&self) -> Option<Arc<dyn Backlog>> {
        self.inner.backlog()
    }
}

/// The pieces that are mapped so far.
struct Inference {
    shift: u32,
    /// What is mapped, by the stream and by inference.
    space: AddressSpace,
    /// Pieces that are wholly mapped.
    mapped: FxHashSet<u64>,
    /// Some of them, each in the slot of its low bits.
    recent: [u64; RECENT],
    /// By block: whether its code lies in mapped pieces.
    known_blocks: Vec<bool>,
}

impl Inference {
    fn new(gap: u64) -> Inference {
        Inference {
            shift: gap.trailing_zeros(),
            space: AddressSpace::default(),
            mapped: FxHashSet::default(),
            recent: [u64::MAX; RECENT],
            known_blocks: Vec::new(),
        }
    }

    /// Follows an event of the stream.
    fn heed(&mut self, event: &Event) {
        if event.moves_memory() {
            self.space.apply(event, &mut Vec::new());
            self.mapped.clear();
            self.recent = [u64::MAX; RECENT];
            self.known_blocks.clear();
        }
    }

    /// Whether all that a batch touches is mapped. Hot.
    fn knows(&mut self, batch: &Batch<'_>) -> bool {
        let shift = self.shift - PAGE_SHIFT;
        let refs = batch.refs.iter();
        // Only wide references can reach beyond two pages.
        let knows_refs = match batch.wide {
            true => refs
                .copied()
                .all(|r| (r.vpn().0 >> shift..=r.last_vpn().0 >> shift).all(|piece| self.is_mapped(piece))),
            false => refs
                .copied()
                .all(|r| self.is_mapped(r.vpn().0 >> shift) && self.is_mapped(r.last_vpn().0 >> shift)),
        };
        knows_refs && batch.spans.iter().all(|span| self.known_blocks.get(span.block.index()) == Some(&true))
    }

    #[inline]
    fn is_mapped(&mut self, piece: u64) -> bool {
        let slot = &mut self.recent[piece as usize % RECENT];
        if *slot == piece {
            return true;
        }
        let is_mapped = self.mapped.contains(&piece);
        if is_mapped {
            *slot = piece;
        }
        is_mapped
    }

    /// Finds the first execution that touches unmapped memory, and maps the pieces that it touches; returns how many
    /// executions come before it.
    fn map_next(&mut self, batch: &Batch<'_>, events: &mut VecDeque<(RefIndex, Event)>) -> usize {
        for (index, span) in batch.spans.iter().enumerate() {
            let at = RefIndex(batch.first.0 + u64::from(span.first));
            if self.known_blocks.get(span.block.index()) != Some(&true) {
                let code = &batch.blocks.get(span.block).instructions;
                for instruction in code {
                    let (first, length) = (instruction.address.0, u64::from(instruction.length.max(1)));
                    self.map_touched(first, at, events);
                    self.map_touched(first.saturating_add(length - 1), at, events);
                }
                self.note_block(span.block.index());
            }
            for r in &batch.refs[span.first as usize..batch.span_end(index)] {
                for page in r.vpn().0..=r.last_vpn().0 {
                    self.map_touched(page << PAGE_SHIFT, at, events);
                }
            }
            if !events.is_empty() {
                return index;
            }
        }
        batch.spans.len()
    }

    fn note_block(&mut self, block: usize) {
        if self.known_blocks.len() <= block {
            self.known_blocks.resize(block + 1, false);
        }
        self.known_blocks[block] = true;
    }

    /// Maps what is unmapped of the piece around `address`, if the page there is.
    fn map_touched(&mut self, address: u64, at: RefIndex, events: &mut VecDeque<(RefIndex, Event)>) {
        let piece = address >> self.shift;
        // Above are the kernel's addresses.
        if address >= Ref::ADDRESS_END || self.is_mapped(piece) {
            return;
        }
        let whole = piece << self.shift..(piece + 1) << self.shift;
        let gaps = self.gaps(whole);
        if gaps.iter().any(|gap| gap.contains(&address)) {
            for gap in gaps {
                let event = Event::Map(inferred(gap));
                self.space.apply(&event, &mut Vec::new());
                events.push_back((at, event));
            }
            self.mapped.insert(piece);
        } else if gaps.is_empty() {
            self.mapped.insert(piece);
        }
    }

    /// The unmapped parts of a range.
    fn gaps(&self, whole: Range<u64>) -> Vec<Range<u64>> {
        let (mut gaps, mut reached) = (Vec::new(), whole.start);
        for area in self.space.areas_from(whole.start).take_while(|area| area.start < whole.end) {
            if area.start > reached {
                gaps.push(reached..area.start);
            }
            reached = reached.max(area.end);
        }
        if reached < whole.end {
            gaps.push(reached..whole.end);
        }
        gaps
    }
}

/// Nothing is known of its rights, so it has all.
fn inferred(range: Range<u64>) -> Mapping {
    Mapping {
        protection: Protection { read: true, write: true, execute: true },
        kind: MappingKind::Inferred,
        ..Mapping::anonymous(VirtAddr(range.start), range.end - range.start)
    }
}
