//! Areas inferred from references, against a slow way that looks at one execution at a time.

use pagewalk_mm::{AreaMode, AreaRules, InferredAreas};
use pagewalk_oracle::cases;
use pagewalk_trace::{
    Batch, BatchBuffer, Block, BlockEnd, Dictionary, Event, Instruction, Item, Mapping, MappingKind, Origin,
    Protection, Ref, Site, Source, SourceError, Span, StreamHeader,
};
use pagewalk_units::{Access, Kind, RefIndex, Size, SpaceId, ThreadId, VirtAddr};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// An act of a program.
#[derive(Clone, Debug)]
enum Act {
    /// Code at an address, and the addresses of its stores of 8 bytes.
    Run(u64, Vec<u64>),
    Event(Event),
}

/// What a source yields, however it is divided into batches.
#[derive(Clone, Debug, PartialEq)]
enum Told {
    /// Instructions and references before it, its code, its addresses.
    Run(u64, u64, u64, Vec<u64>),
    Event(u64, Event),
}

const STORE: Access = Access { kind: Kind::Store, size: Size::from_code(3) };

/// Acts as a source, in batches of at most `cut` executions.
struct Acts<'a> {
    acts: &'a [Act],
    cut: usize,
    header: StreamHeader,
    blocks: Dictionary,
    buffer: BatchBuffer,
    refs: u64,
    instructions: u64,
}

impl Acts<'_> {
    fn new(acts: &[Act], cut: usize) -> Acts<'_> {
        let (header, buffer) = (StreamHeader::unknown(Origin::Import), BatchBuffer::default());
        Acts { acts, cut, header, blocks: Dictionary::default(), buffer, refs: 0, instructions: 0 }
    }
}

fn block(code: u64, sites: usize) -> Block {
    Block {
        instructions: [Instruction { address: VirtAddr(code), length: 4 }].into(),
        sites: vec![Site { instruction: 0, access: STORE }; sites].into(),
        code: Box::default(),
        end: BlockEnd::Jump,
    }
}

impl Source for Acts<'_> {
    fn header(&self) -> &StreamHeader {
        &self.header
    }

    fn next_item(&mut self) -> Result<Option<Item<'_>>, SourceError> {
        self.buffer.clear();
        let (first, first_instruction) = (RefIndex(self.refs), self.instructions);
        while let Some((Act::Run(code, addresses), rest)) = self.acts.split_first() {
            if self.buffer.spans.len() == self.cut {
                break;
            }
            let block = self.blocks.intern(block(*code, addresses.len()));
            self.buffer.spans.push(Span { block, first: self.buffer.refs.len() as u32 });
            self.buffer.refs.extend(addresses.iter().map(|&address| Ref::new(VirtAddr(address), STORE)));
            self.acts = rest;
        }
        if self.buffer.is_empty() {
            let Some((Act::Event(event), rest)) = self.acts.split_first() else { return Ok(None) };
            self.acts = rest;
            return Ok(Some(Item::Event { at: first, event: event.clone() }));
        }
        self.refs += self.buffer.refs.len() as u64;
        self.instructions += self.buffer.spans.len() as u64;
        Ok(Some(Item::Batch(Batch {
            space: SpaceId(0),
            thread: ThreadId(1),
            first,
            first_instruction,
            refs: &self.buffer.refs,
            spans: &self.buffer.spans,
            wide: false,
            blocks: &self.blocks,
        })))
    }
}

fn told(mut source: impl Source) -> Vec<Told> {
    let mut told = Vec::new();
    while let Some(item) = source.next_item().unwrap() {
        match item {
            Item::Event { at, event } => told.push(Told::Event(at.0, event)),
            Item::Batch(batch) => {
                for (index, span) in batch.spans.iter().enumerate() {
                    let refs = &batch.refs[span.first as usize..batch.span_end(index)];
                    let code = batch.blocks.get(span.block).start().0;
                    let at = (batch.first_instruction + index as u64, batch.first.0 + u64::from(span.first));
                    told.push(Told::Run(at.0, at.1, code, refs.iter().map(|r| r.address().0).collect()));
                }
            }
        }
    }
    told
}

fn with_areas(acts: &[Act], cut: usize, rules: AreaRules) -> Vec<Told> {
    told(InferredAreas::new(Acts::new(acts, cut), rules))
}

fn map(start: u64, bytes: u64, kind: MappingKind) -> Event {
    let protection = Protection { read: true, write: true, execute: kind == MappingKind::Inferred };
    Event::Map(Mapping { start: VirtAddr(start), bytes, protection, kind, file: None, page_bytes: 4096 })
}

/// The slow way: a set of mapped pages, and each byte of each execution looked up in it.
fn slow(acts: &[Act], gap: u64) -> Vec<Told> {
    let mut mapped: BTreeSet<u64> = BTreeSet::new();
    let (mut told, mut refs, mut runs) = (Vec::new(), 0, 0);
    for act in acts {
        match act {
            Act::Event(event) => {
                match event {
                    Event::Map(Mapping { start, bytes, .. }) => {
                        mapped.extend(start.0 / 4096..(start.0 + bytes) / 4096);
                    }
                    Event::Unmap { start, bytes } => {
                        mapped.retain(|page| !(start.0 / 4096..(start.0 + bytes) / 4096).contains(page));
                    }
                    _ => {}
                }
                told.push(Told::Event(refs, event.clone()));
            }
            Act::Run(code, addresses) => {
                let code_bytes = *code..*code + 4;
                let data = addresses.iter().flat_map(|&address| address..address + 8);
                for byte in code_bytes.chain(data) {
                    if byte < Ref::ADDRESS_END && !mapped.contains(&(byte / 4096)) {
                        map_piece(&mut mapped, byte / gap, gap, |event| told.push(Told::Event(refs, event)));
                    }
                }
                told.push(Told::Run(runs, refs, *code, addresses.clone()));
                (refs, runs) = (refs + addresses.len() as u64, runs + 1);
            }
        }
    }
    told
}

/// Maps each run of unmapped pages of a piece.
fn map_piece(mapped: &mut BTreeSet<u64>, piece: u64, gap: u64, mut tell: impl FnMut(Event)) {
    let (mut page, end) = (piece * gap / 4096, (piece + 1) * gap / 4096);
    while page < end {
        let unmapped = (page..end).take_while(|page| !mapped.contains(page)).count() as u64;
        if unmapped > 0 {
            tell(map(page * 4096, unmapped * 4096, MappingKind::Inferred));
        }
        mapped.extend(page..page + unmapped);
        page += unmapped.max(1);
    }
}

/// Addresses in few pieces, at their edges, and at the end of what programs have.
fn address() -> impl Strategy<Value = u64> {
    let near = (0u64..6, prop::sample::select(vec![0u64, 8, 2044, 4092]), 0u64..16);
    let near = near.prop_map(|(piece, byte, page)| (piece << 16) + (page << 12) + byte);
    prop_oneof![8 => near, 1 => Just(Ref::ADDRESS_END - 8)]
}

fn act(events: bool) -> impl Strategy<Value = Act> {
    let run = (address(), prop::collection::vec(address(), 0..4)).prop_map(|(at, all)| Act::Run(at, all));
    let range = (0u64..96, 1u64..12);
    let mapped = range.clone().prop_map(|(page, pages)| map(page << 12, pages << 12, MappingKind::Anonymous));
    let unmapped =
        range.prop_map(|(page, pages)| Event::Unmap { start: VirtAddr(page << 12), bytes: pages << 12 });
    let moved = prop_oneof![mapped, unmapped].prop_map(Act::Event);
    let marked = (0u64..9).prop_map(|id| Act::Event(Event::Marker { id }));
    let share = if events { 2 } else { 0 };
    prop_oneof![8 => run, 1 => marked, share => moved]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(500), ..ProptestConfig::default() })]

    #[test]
    fn areas_of_streams_without_mappings_are_those_of_the_slow_way(
        acts in prop::collection::vec(act(false), 0..60), cut in 1usize..20, shift in 12u32..18,
    ) {
        let gap = 1 << shift;
        let found = with_areas(&acts, cut, AreaRules { mode: AreaMode::Auto, gap });
        prop_assert_eq!(&found, &slow(&acts, gap));
        prop_assert_eq!(found, with_areas(&acts, 1, AreaRules { mode: AreaMode::Inferred, gap }));
    }

    #[test]
    fn what_a_stream_maps_itself_is_left_alone_and_the_rest_is_inferred(
        acts in prop::collection::vec(act(true), 0..60), cut in 1usize..20, shift in 12u32..18,
    ) {
        let gap = 1 << shift;
        let found = with_areas(&acts, cut, AreaRules { mode: AreaMode::Inferred, gap });
        prop_assert_eq!(found, slow(&acts, gap));
    }

    #[test]
    fn streams_that_begin_with_a_mapping_are_unchanged(
        mut acts in prop::collection::vec(act(true), 0..60), cut in 1usize..20,
    ) {
        acts.insert(0, Act::Event(map(0x10000, 0x4000, MappingKind::Heap)));
        let whole = told(Acts::new(&acts, cut));
        prop_assert_eq!(with_areas(&acts, cut, AreaRules::default()), whole.clone());
        let none = AreaRules { mode: AreaMode::None, ..AreaRules::default() };
        prop_assert_eq!(with_areas(&acts[1..], cut, none), told(Acts::new(&acts[1..], cut)));
    }
}

#[test]
fn headers_say_whether_areas_are_inferred() {
    let run = [Act::Run(0x1000, vec![0x2000])];
    let mapped = [Act::Event(map(0, 4096, MappingKind::Stack)), run[0].clone()];
    let gap = |acts: &[Act], text: &str| {
        let rules = AreaRules::from_text(text).unwrap();
        InferredAreas::new(Acts::new(acts, 1), rules).header().inferred_gap
    };
    assert_eq!(gap(&run, "auto"), Some(2 << 20));
    assert_eq!(gap(&run, "gap=64K"), Some(64 << 10));
    assert_eq!(gap(&run, "none"), None);
    assert_eq!(gap(&mapped, "auto,gap=4096"), None);
    assert_eq!(gap(&mapped, "inferred,gap=4096"), Some(4096));
    assert_eq!(gap(&[], "auto"), None, "of nothing, nothing is inferred");
}

#[test]
fn wrong_rules_are_answered_with_the_choices() {
    for (text, part) in [
        ("guess", "`guess`: choose from auto, inferred, none, gap=BYTES"),
        ("", "``: choose from auto"),
        ("auto,gap=3M", "gap=3M: give a power of two from 4K to 1G"),
        ("gap=2K", "gap=2K: give a power of two from 4K to 1G"),
        ("gap=2G", "gap=2G: give"),
        ("gap=", "gap=: give"),
        ("gap=99999999999999999999", "give a power of two"),
    ] {
        let error = AreaRules::from_text(text).unwrap_err();
        assert!(error.contains(part), "{text}: {error}");
    }
}
