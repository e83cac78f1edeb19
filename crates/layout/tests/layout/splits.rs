//! Lanes of one pass against each array alone over the stream rebased to its layout.

use crate::common;
use crate::common::{PAGE, Run, Step, Steps, anonymous, events, header, image, load, play, unmap};
use pagewalk_layout::evictions::{ArrayHistory, ArraySpec, Evictions};
use pagewalk_layout::rebase::{PlanBinding, RebasedSource};
use pagewalk_layout::splits::{Lane, Splits};
use pagewalk_plan::{DEFAULT_ARENA, Layout, Place};
use pagewalk_setassoc::{Geometry, SetIndex};
use pagewalk_trace::Event;
use pagewalk_units::VirtAddr;
use proptest::prelude::*;

const RECORDED: u64 = 0x1000_0000;
const HEAP: u64 = 0x2000_0000;
const LIBRARY_PAGES: u64 = 9;
const LIBRARIES: u64 = 4;

fn path(library: u64) -> String {
    format!("/lib/lib{library}.so")
}

fn recorded(library: u64) -> u64 {
    RECORDED + library * 13 * PAGE
}

fn loaded(library: u64) -> Vec<Event> {
    load(&path(library), recorded(library), 4, 2, LIBRARY_PAGES - 7)
}

#[derive(Clone, Debug)]
enum Action {
    Run { at: u64, instructions: u64, loads: Vec<u64> },
    Reload(u64),
    Discard(u64, u64),
    Protect(u64, u64),
}

/// An address in a library, or in immovable memory; the last words of a page cross into the next one.
fn address() -> impl Strategy<Value = u64> {
    let word = prop_oneof![4 => 0..500u64, 1 => Just(511u64)];
    (0..LIBRARIES + 2, 0..LIBRARY_PAGES - 1, word).prop_map(|(library, page, word)| {
        let base =
            if library < LIBRARIES { recorded(library) } else { HEAP + (library - LIBRARIES) * 16 * PAGE };
        base + page * PAGE + word * 8 + if word == 511 { 4 } else { 0 }
    })
}

fn action() -> impl Strategy<Value = Action> {
    let pages = || (0..LIBRARIES * 13, 1..4u64);
    prop_oneof![
        40 => (address(), 0..6u64, prop::collection::vec(address(), 0..5))
            .prop_map(|(at, instructions, loads)| Action::Run { at, instructions, loads }),
        1 => (0..LIBRARIES).prop_map(Action::Reload),
        1 => pages().prop_map(|(page, count)| Action::Discard(page, count)),
        1 => pages().prop_map(|(page, count)| Action::Protect(page, count)),
    ]
}

fn steps(actions: &[Action]) -> Vec<Step> {
    let mut steps: Vec<Step> = image().into_iter().map(Step::Event).collect();
    steps.push(Step::Run(Run::new(0x40_0000, 1, &[])));
    steps.push(Step::Event(anonymous(HEAP, 32)));
    steps.extend((0..LIBRARIES).flat_map(loaded).map(Step::Event));
    for action in actions {
        let events = match action {
            Action::Run { at, instructions, loads } => {
                steps.push(Step::Run(Run::new(*at, *instructions, loads)));
                continue;
            }
            Action::Reload(library) => {
                let mut events = vec![unmap(recorded(*library), LIBRARY_PAGES)];
                events.extend(loaded(*library));
                events
            }
            Action::Discard(page, count) => {
                let start = VirtAddr(RECORDED + page * PAGE);
                vec![Event::Advise { start, bytes: count * PAGE, advice: 4 }]
            }
            Action::Protect(page, count) => {
                let (start, bytes) = (VirtAddr(RECORDED + page * PAGE), count * PAGE);
                ["r", "rwx"]
                    .map(|text| Event::Protect { start, bytes, protection: common::rights(text) })
                    .into()
            }
        };
        steps.extend(events.into_iter().map(Step::Event));
    }
    steps
}

/// Objects with this many pages before each; those without stay where they were recorded.
fn bound(gaps: &[Option<u64>], steps: &[Step]) -> PlanBinding {
    let mut next = 0;
    let mut places = Vec::new();
    for (library, gap) in (0..).zip(gaps) {
        let Some(gap) = gap else { continue };
        let (offset, size) = ((next + gap) * PAGE, LIBRARY_PAGES * PAGE);
        next += gap + LIBRARY_PAGES + 1;
        places.push(Place { file: path(library), build_id: None, offset, size });
    }
    let layout = Layout { planner: "test".into(), machines: Vec::new(), arena: DEFAULT_ARENA, places };
    let events = events(steps);
    PlanBinding::new(&layout, &header(), events.iter().map(|(running, event)| (*running, event))).unwrap()
}

fn array(sets: u32, ways: u32, index: &str, fetches: bool, data: bool) -> ArraySpec {
    ArraySpec {
        name: format!("{sets}x{ways}"),
        geometry: Geometry::new(sets * ways, Some(ways)).unwrap(),
        index: SetIndex::from_name(index).unwrap(),
        fetches,
        data,
    }
}

fn arrays() -> Vec<ArraySpec> {
    vec![
        array(8, 2, "modulo", true, true),
        array(8, 4, "modulo", true, false),
        array(4, 1, "modulo", false, true),
        array(16, 4, "xor-2", true, true),
        array(1, 6, "modulo", true, true),
    ]
}

/// The counts of a single array over a stream rebased to the layout, or as recorded.
fn alone(steps: &[Step], together: usize, layout: Option<&PlanBinding>, array: &ArraySpec) -> ArrayHistory {
    let mut evictions = Evictions::new(&header(), std::slice::from_ref(array), 1 << 12);
    let source = Steps::new(steps.to_vec(), together);
    match layout {
        Some(bound) => play(RebasedSource::new(source, bound), &mut evictions),
        None => play(source, &mut evictions),
    }
    evictions.finish().0.remove(0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn lanes_of_one_pass_equal_arrays_alone(
        actions in prop::collection::vec(action(), 0..250),
        layouts in prop::collection::vec(prop::collection::vec(prop::option::weighted(0.8, 0..40u64), 4), 0..4),
        copies in 1..30usize,
        together in 1..40usize,
    ) {
        let steps = steps(&actions);
        let layouts: Vec<PlanBinding> = layouts.iter().map(|gaps| bound(gaps, &steps)).collect();
        let mut lanes = Vec::new();
        // More lanes than bits in a word: the same ones again.
        for _ in 0..copies {
            for array in arrays() {
                let all = std::iter::once(None).chain((0..layouts.len()).map(Some));
                lanes.extend(all.map(|layout| Lane { array: array.clone(), layout }));
            }
        }
        let mut splits = Splits::new(&header(), layouts.clone(), &lanes);
        play(Steps::new(steps.clone(), together), &mut splits);
        let found = splits.finish();
        let once = arrays().len() * (layouts.len() + 1);
        for (lane, split) in lanes.iter().zip(&found).take(once) {
            let layout = lane.layout.map(|layout| &layouts[layout]);
            let expected = alone(&steps, together, layout, &lane.array);
            prop_assert_eq!(split.misses, expected.misses, "{:?}", lane);
            prop_assert_eq!(&split.misses_by_set, &expected.misses_by_set);
            prop_assert_eq!(split.evictions, expected.evictions);
            let involved = expected.pages.iter().map(|page| page.involved()).max().unwrap_or(0);
            prop_assert_eq!(split.most_involved, involved);
            prop_assert_eq!(split.variation(), expected.variation());
        }
        for copy in found.chunks(once) {
            prop_assert_eq!(copy, &found[..once]);
        }
    }
}
