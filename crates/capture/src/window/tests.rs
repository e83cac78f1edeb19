//! Regions of random streams against a plain loop, and what passes outside.

use super::*;
use pagewalk_trace::{Block, BlockEnd, Dictionary, Instruction, Origin, Ref, Site};
use pagewalk_units::{Access, BlockId, Kind, Size, SpaceId, ThreadId, VirtAddr};
use proptest::prelude::*;
use std::collections::VecDeque;

/// A stream from a list: executions (instructions, references) and markers; a batch ends at a marker or a cut.
#[derive(Clone, Debug)]
enum Act {
    Run { instructions: usize, refs: usize },
    Marker(u64),
    Cut,
}

struct List {
    header: StreamHeader,
    acts: VecDeque<Act>,
    dictionary: Dictionary,
    refs: Vec<Ref>,
    spans: Vec<Span>,
    /// References and instructions before the batch, and with it.
    before: (u64, u64),
    after: (u64, u64),
    leaves_batches_out: bool,
}

const ACCESS: Access = Access { kind: Kind::Load, size: Size::from_code(3) };

impl List {
    fn new(acts: &[Act]) -> List {
        let header = StreamHeader::unknown(Origin::Import);
        let acts = acts.iter().cloned().collect();
        let (before, after) = ((0, 0), (0, 0));
        List {
            header,
            acts,
            dictionary: Dictionary::default(),
            refs: vec![],
            spans: vec![],
            before,
            after,
            leaves_batches_out: false,
        }
    }

    fn run(&mut self, instructions: usize, refs: usize) {
        let instruction = Instruction { address: VirtAddr(4096), length: 1 };
        let site = Site { instruction: 0, access: ACCESS };
        let block = self.dictionary.intern(Block {
            instructions: vec![instruction; instructions].into(),
            sites: vec![site; refs].into(),
            code: Box::default(),
            end: BlockEnd::Jump,
        });
        self.spans.push(Span { block, first: self.refs.len() as u32 });
        // Each reference is at the address that is its number in the whole stream.
        self.refs.extend((0..refs as u64).map(|i| Ref::new(VirtAddr(self.after.0 + i), ACCESS)));
        self.after = (self.after.0 + refs as u64, self.after.1 + instructions as u64);
    }
}

impl Source for List {
    fn header(&self) -> &StreamHeader {
        &self.header
    }

    fn leave_batches_out(&mut self) {
        self.leaves_batches_out = true;
    }

    fn next_item(&mut self) -> Result<Option<Item<'_>>, SourceError> {
        self.refs.clear();
        self.spans.clear();
        self.before = self.after;
        while let Some(&Act::Run { instructions, refs }) = self.acts.front() {
            self.acts.pop_front();
            self.run(instructions, refs);
        }
        if self.leaves_batches_out {
            self.spans.clear();
        }
        if self.spans.is_empty() {
            let at = RefIndex(self.after.0);
            return match self.acts.pop_front() {
                Some(Act::Marker(id)) => Ok(Some(Item::Event { at, event: Event::Marker { id } })),
                Some(Act::Cut) => self.next_item(),
                Some(Act::Run { .. }) | None => Ok(None),
            };
        }
        Ok(Some(Item::Batch(Batch {
            space: SpaceId(1),
            thread: ThreadId(1),
            first: RefIndex(self.before.0),
            first_instruction: self.before.1,
            refs: &self.refs,
            spans: &self.spans,
            wide: false,
            blocks: &self.dictionary,
        })))
    }
}

#[derive(Debug, PartialEq)]
enum Told {
    /// Instructions and references before it, its block, the addresses.
    Run(u64, u64, BlockId, Vec<u64>),
    /// References before it, number.
    Marker(u64, u64),
}

fn tell(source: &mut impl Source) -> Vec<Told> {
    let mut told = vec![];
    while let Some(item) = source.next_item().unwrap() {
        match item {
            Item::Batch(batch) => {
                let mut at = batch.first_instruction;
                for (index, span) in batch.spans.iter().enumerate() {
                    let refs = &batch.refs[span.first as usize..batch.span_end(index)];
                    let block = batch.blocks.get(span.block);
                    assert_eq!(refs.len(), block.sites.len());
                    let addresses = refs.iter().map(|r| r.address().0).collect();
                    let first = batch.first.0 + u64::from(span.first);
                    told.push(Told::Run(at, first, span.block, addresses));
                    at += block.instructions.len() as u64;
                }
            }
            Item::Event { at, event: Event::Marker { id } } => told.push(Told::Marker(at.0, id)),
            Item::Event { event, .. } => panic!("{event:?}"),
        }
    }
    told
}

/// The slow way: one execution at a time, from the plain meaning of the four options.
fn expected(acts: &[Act], spec: &WindowSpec) -> Vec<Told> {
    let whole = tell(&mut List::new(acts));
    let lengths = acts.iter().filter_map(|act| match act {
        Act::Run { instructions, .. } => Some(*instructions as u64),
        _ => None,
    });
    let mut lengths = lengths.collect::<Vec<_>>().into_iter();
    let (mut marked, mut closed) = (spec.from_marker.is_none(), false);
    let (mut since_mark, mut refs, mut instructions) = (0, 0, 0);
    let mut told = vec![];
    for one in whole {
        match one {
            Told::Marker(_, id) => {
                told.push(Told::Marker(refs, id));
                if !marked {
                    marked = spec.from_marker == Some(id);
                } else if spec.to_marker == Some(id) {
                    closed = true;
                }
            }
            Told::Run(_, _, block, addresses) => {
                let length = lengths.next().unwrap();
                let full = spec.max_instructions.is_some_and(|most| instructions >= most);
                if marked && !closed && !full && since_mark >= spec.skip {
                    let passed = addresses.len() as u64;
                    told.push(Told::Run(instructions, refs, block, addresses));
                    (refs, instructions) = (refs + passed, instructions + length);
                }
                since_mark += if marked { length } else { 0 };
            }
        }
    }
    told
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let run = (0usize..4, 0usize..3).prop_map(|(instructions, refs)| Act::Run { instructions, refs });
    prop::collection::vec(
        prop_oneof![6 => run, 1 => (1u64..4).prop_map(Act::Marker), 1 => Just(Act::Cut)],
        0..40,
    )
}

fn spec() -> impl Strategy<Value = WindowSpec> {
    let marker = || prop::option::of(1u64..4);
    let skip = prop_oneof![Just(0u64), 0u64..30];
    (marker(), marker(), skip, prop::option::of(0u64..30)).prop_map(
        |(from_marker, to_marker, skip, max_instructions)| WindowSpec {
            from_marker,
            to_marker,
            skip,
            max_instructions,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn passes_what_the_options_say(acts in acts(), spec in spec()) {
        let mut window = Window::new(List::new(&acts), spec);
        let told = tell(&mut window);
        let expected = expected(&acts, &spec);
        let begun = expected.iter().any(|one| matches!(one, Told::Run(..)));
        prop_assert_eq!(told, expected);
        prop_assert_eq!(window.has_begun(), begun);
        if !begun {
            let run = |act: &Act| if let Act::Run { instructions, .. } = act { *instructions as u64 } else { 0 };
            let all = acts.iter().map(run).sum::<u64>();
            prop_assert_eq!(window.passed_over().instructions, all, "nothing is left out");
        }
    }
}

#[test]
fn the_first_markers_are_named_once() {
    let mut seen = MarkersSeen::default();
    (1..=8).chain(1..=8).for_each(|id| seen.add(id));
    assert_eq!((seen.ids(), seen.has_more()), (&[1, 2, 3, 4, 5, 6, 7, 8][..], false));
    seen.add(9);
    assert_eq!((seen.ids().len(), seen.has_more()), (8, true));
    let mut other = PassedOver::default();
    other.markers.add(3);
    other.markers.add(10);
    let both = other.and(PassedOver { markers: seen, ..PassedOver::default() }).markers;
    assert_eq!((both.ids(), both.has_more()), (&[3, 10, 1, 2, 4, 5, 6, 7][..], true));
}

#[test]
fn of_time_outside_nothing_is_left() {
    for state in [State::BeforeMarker, State::Skipping(1), State::Closed] {
        assert_eq!(state.as_passed(Event::Idle { nanoseconds: 5 }), Event::NOTHING);
        assert_eq!(state.as_passed(Event::Spin { instructions: 5 }), Event::NOTHING);
        assert_eq!(state.as_passed(Event::Marker { id: 5 }), Event::Marker { id: 5 });
        let [read, reaped] = [(0, 5), (61, 5)].map(|(number, result)| Event::Syscall { number, result });
        assert_eq!(state.as_passed(read.clone()), Event::NOTHING);
        assert_eq!(State::Open.as_passed(read.clone()), read);
        assert_eq!(state.as_passed(reaped.clone()), Event::Reaped { child: 5 });
        assert_eq!(State::Open.as_passed(reaped.clone()), reaped);
    }
}

#[test]
fn areas_inferred_behind_the_region_do_not_pass() {
    let area = |kind| {
        Event::Map(Mapping {
            protection: pagewalk_trace::Protection::default(),
            kind,
            ..Mapping::anonymous(VirtAddr(4096), 4096)
        })
    };
    let inferred = area(MappingKind::Inferred);
    for state in [State::BeforeMarker, State::Skipping(1), State::Open] {
        assert_eq!(state.as_passed(inferred.clone()), inferred);
    }
    assert_eq!(State::Closed.as_passed(inferred), Event::NOTHING);
    let known = area(MappingKind::Anonymous);
    assert_eq!(State::Closed.as_passed(known.clone()), known);
}

#[test]
fn without_options_everything_passes() {
    let acts = [Act::Run { instructions: 2, refs: 3 }, Act::Marker(1), Act::Run { instructions: 1, refs: 1 }];
    let told = tell(&mut Window::new(List::new(&acts), WindowSpec::default()));
    assert_eq!(told, tell(&mut List::new(&acts)));
    assert_eq!(told.len(), 3);
}
