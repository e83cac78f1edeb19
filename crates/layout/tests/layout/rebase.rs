//! Rebased streams against a rebase page by page; and refusals.

use crate::common;
use crate::common::{PAGE, Run, Step, Steps, anonymous, events, file, header, image, load, told, unmap};
use pagewalk_layout::rebase::{PlanBinding, RebaseError, RebasedSource, slide};
use pagewalk_plan::{DEFAULT_ARENA, Layout, Place, SLIDE_BYTES};
use pagewalk_trace::{Event, Mapping, MappingKind};
use pagewalk_units::VirtAddr;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Recorded objects start here; objects of [`LIBRARY_PAGES`] pages have gaps between them.
const RECORDED: u64 = 0x1000_0000;
const LIBRARY_PAGES: u64 = 7;
const LIBRARIES: u64 = 4;

/// The last one has no build-id.
fn path(library: u64) -> String {
    if library == LIBRARIES - 1 { "/lib/plugin".into() } else { format!("/lib/lib{library}.so") }
}

fn recorded(library: u64) -> u64 {
    RECORDED + library * 10 * PAGE
}

fn layout<File: ToString>(places: &[(File, u64, u64)]) -> Layout {
    let place = |(file, offset, pages): &(File, u64, u64)| Place {
        file: file.to_string(),
        build_id: None,
        offset: *offset,
        size: pages * PAGE,
    };
    let places = places.iter().map(place).collect();
    Layout { planner: "test".into(), machines: Vec::new(), arena: DEFAULT_ARENA, places }
}

fn bind(layout: &Layout, steps: &[Step]) -> Result<PlanBinding, RebaseError> {
    let events = events(steps);
    PlanBinding::new(layout, &header(), events.iter().map(|(running, event)| (*running, event)))
}

/// What a page of memory is.
#[derive(Clone, Debug, PartialEq)]
struct Page {
    kind: MappingKind,
    /// Path and offset of its file.
    file: Option<(String, u64)>,
    protection: String,
}

/// Memory page by page.
type Memory = BTreeMap<u64, Page>;

fn pages(start: VirtAddr, bytes: u64) -> impl Iterator<Item = u64> {
    (start.0 / PAGE..(start.0 + bytes) / PAGE).map(|page| page * PAGE)
}

fn apply(memory: &mut Memory, event: &Event) {
    match event {
        Event::Map(Mapping { start, bytes, protection, kind, file, .. }) => {
            for page in pages(*start, *bytes) {
                let file = file.as_ref().map(|file| (file.path.clone(), file.offset + page - start.0));
                let protection = format!("{protection:?}");
                memory.insert(page, Page { kind: *kind, file, protection });
            }
        }
        Event::Unmap { start, bytes } => pages(*start, *bytes).for_each(|page| _ = memory.remove(&page)),
        Event::Protect { start, bytes, protection } => {
            for page in pages(*start, *bytes) {
                memory.entry(page).and_modify(|page| page.protection = format!("{protection:?}"));
            }
        }
        Event::Remap { old_start, old_bytes, new_start, new_bytes } => {
            let old: Vec<Option<Page>> =
                pages(*old_start, *old_bytes).map(|page| memory.remove(&page)).collect();
            for (page, old) in pages(*new_start, *new_bytes).zip(old) {
                memory.remove(&page);
                memory.extend(old.map(|old| (page, old)));
            }
        }
        _ => {}
    }
}

/// The slow rebase: which pages are an object's.
#[derive(Default)]
struct Slow {
    /// The library of each page that is part of one.
    part: BTreeMap<u64, u64>,
    to: BTreeMap<u64, u64>,
}

impl Slow {
    fn delta(&self, address: u64) -> u64 {
        match self.part.get(&(address / PAGE * PAGE)) {
            Some(library) => self.to.get(library).map_or(0, |base| base.wrapping_sub(recorded(*library))),
            None => 0,
        }
    }

    fn event(&mut self, event: &Event) {
        match event {
            Event::Map(Mapping { start, bytes, kind, file, .. }) => {
                let all: Vec<u64> = pages(*start, *bytes).collect();
                let inside = self.part.get(&start.0).copied();
                let inside = inside.filter(|of| all.iter().all(|page| self.part.get(page) == Some(of)));
                let named = file.as_ref().and_then(|file| {
                    let library = (0..LIBRARIES).find(|&library| path(library) == file.path)?;
                    (file.offset == 0 || inside == Some(library)).then_some(library)
                });
                let library = match kind {
                    MappingKind::Anonymous => inside,
                    _ => named,
                };
                for page in all {
                    self.part.remove(&page);
                    self.part.extend(library.map(|library| (page, library)));
                }
            }
            Event::Unmap { start, bytes } => {
                pages(*start, *bytes).for_each(|page| _ = self.part.remove(&page));
            }
            Event::Remap { new_start, new_bytes, .. } => {
                pages(*new_start, *new_bytes).for_each(|page| _ = self.part.remove(&page));
            }
            _ => {}
        }
    }
}

/// What happens next in a random program.
#[derive(Clone, Debug)]
enum Action {
    Load(u64),
    Unload(u64),
    /// Of pages from [`RECORDED`] on.
    Anonymous(u64, u64),
    Data(u64, u64),
    Unmap(u64, u64),
    Protect(u64, u64),
    Advise(u64, u64),
    /// Anonymous pages, far from objects, go over what is there.
    MoveOver(u64, u64),
    /// Anonymous pages come, or go, where places are planned.
    Come(u64, u64),
    Go(u64, u64),
    Run(u64, Vec<u64>),
}

fn action() -> impl Strategy<Value = Action> {
    let page = || 0..LIBRARIES * 10;
    prop_oneof![
        4 => (0..LIBRARIES).prop_map(Action::Load),
        1 => (0..LIBRARIES).prop_map(Action::Unload),
        1 => (page(), 1..4u64).prop_map(|(page, count)| Action::Anonymous(page, count)),
        1 => (page(), 1..4u64).prop_map(|(page, count)| Action::Data(page, count)),
        1 => (page(), 1..12u64).prop_map(|(page, count)| Action::Unmap(page, count)),
        1 => (page(), 1..12u64).prop_map(|(page, count)| Action::Protect(page, count)),
        1 => (page(), 1..12u64).prop_map(|(page, count)| Action::Advise(page, count)),
        1 => (page(), 1..4u64).prop_map(|(page, count)| Action::MoveOver(page, count)),
        8 => (page(), prop::collection::vec(page(), 0..5)).prop_map(|(at, loads)| Action::Run(at, loads)),
    ]
}

/// The same, sometimes with an obstacle.
fn action_in_the_way() -> impl Strategy<Value = Action> {
    let page = || 0..LIBRARIES * LIBRARY_PAGES;
    prop_oneof![
        12 => action(),
        1 => (page(), 1..4u64).prop_map(|(page, count)| Action::Come(page, count)),
        2 => (page(), 1..12u64).prop_map(|(page, count)| Action::Go(page, count)),
    ]
}

fn steps(actions: &[Action]) -> Vec<Step> {
    let at = |page: &u64| RECORDED + page * PAGE;
    let far = VirtAddr(0x2000_0000);
    let mut steps: Vec<Step> = image().into_iter().map(Step::Event).collect();
    steps.push(Step::Run(Run::new(0x40_0000, 2, &[])));
    for action in actions {
        let events = match action {
            Action::Load(library) => {
                let bss = library % 3;
                load(&path(*library), recorded(*library), 3, LIBRARY_PAGES - 4 - bss, bss)
            }
            Action::Unload(library) => vec![unmap(recorded(*library), LIBRARY_PAGES)],
            Action::Anonymous(page, count) => vec![anonymous(at(page), *count)],
            Action::Data(page, count) => vec![file("/tmp/data", at(page), *count, 0, "r")],
            Action::Unmap(page, count) => vec![unmap(at(page), *count)],
            Action::Protect(page, count) => {
                let (start, bytes) = (VirtAddr(at(page)), count * PAGE);
                vec![Event::Protect { start, bytes, protection: common::rights("r") }]
            }
            Action::Advise(page, count) => {
                vec![Event::Advise { start: VirtAddr(at(page)), bytes: count * PAGE, advice: 4 }]
            }
            Action::MoveOver(page, count) => {
                let (new_start, bytes) = (VirtAddr(at(page)), count * PAGE);
                let remap = Event::Remap { old_start: far, old_bytes: bytes, new_start, new_bytes: bytes };
                vec![anonymous(far.0, *count), remap]
            }
            Action::Come(page, count) => vec![anonymous(DEFAULT_ARENA + page * PAGE, *count)],
            Action::Go(page, count) => vec![unmap(DEFAULT_ARENA + page * PAGE, *count)],
            Action::Run(start, loads) => {
                let loads: Vec<u64> = loads.iter().map(|page| at(page) + page % 9 * 8).collect();
                let run = Run::new(at(start) + start % 5 * 4, 1 + start % 3, &loads);
                steps.push(Step::Run(run));
                continue;
            }
        };
        steps.extend(events.into_iter().map(Step::Event));
    }
    steps
}

/// Places for the first `planned` libraries of an order, one after the other.
fn in_order(order: &[u64], planned: usize) -> Vec<(String, u64, u64)> {
    let places = order[..planned].iter().zip(0..);
    places.map(|(&library, place)| (path(library), place * LIBRARY_PAGES * PAGE, LIBRARY_PAGES)).collect()
}

/// Page by page: whether immovable memory lies in the place of a present library.
fn is_taken(slow: &Slow, memory: &Memory) -> bool {
    let place = |base: &u64| pages(VirtAddr(*base), LIBRARY_PAGES * PAGE);
    let bases = slow.part.values().filter_map(|library| slow.to.get(library));
    bases.flat_map(place).any(|page| memory.contains_key(&page) && slow.delta(page) == 0)
}

/// The addresses of executions as in [`told`], moved slowly.
fn moved_runs(slow: &Slow, run: &Run) -> String {
    let moved = |address: u64| address.wrapping_add(slow.delta(address));
    let code: Vec<u64> = (0..run.instructions).map(|n| moved(run.start + 4 * n)).collect();
    let loads: Vec<u64> = run.loads.iter().map(|&load| moved(load)).collect();
    format!("{code:x?} {loads:x?} {:?}", run.end)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn everything_of_objects_moves_and_nothing_else(
        actions in prop::collection::vec(action(), 0..60),
        order in Just((0..LIBRARIES).collect::<Vec<u64>>()).prop_shuffle(),
        planned in 0..=LIBRARIES as usize,
        together in 1..6usize,
    ) {
        let steps = steps(&actions);
        let bound = match bind(&layout(&in_order(&order, planned)), &steps) {
            Ok(bound) => bound,
            // Half of an object may remain when it is loaded again.
            Err(RebaseError::Taken { file, other, .. }) => {
                prop_assert_eq!(file, other);
                return Ok(());
            }
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        };
        let to = order[..planned].iter().zip(0..).map(|(&l, place)| (l, DEFAULT_ARENA + place * LIBRARY_PAGES * PAGE));
        let mut slow = Slow { to: to.collect(), ..Slow::default() };
        let (mut recorded_memory, mut memory) = (Memory::new(), Memory::new());
        let mut source = RebasedSource::new(Steps::new(steps.clone(), together), &bound);
        let mut items = Vec::new();
        while let Some(item) = pagewalk_trace::Source::next_item(&mut source).unwrap() {
            match item {
                pagewalk_trace::Item::Event { event, .. } => items.push(Ok(event)),
                pagewalk_trace::Item::Batch(batch) => {
                    let mut runs = Vec::new();
                    common::executions(&batch, &mut runs);
                    items.extend(runs.into_iter().map(Err));
                }
            }
        }
        let mut items = items.into_iter().peekable();
        for step in &steps {
            match step {
                Step::Event(event) => {
                    slow.event(event);
                    apply(&mut recorded_memory, event);
                }
                Step::Run(run) => {
                    while let Some(Ok(event)) = items.next_if(Result::is_ok) {
                        apply(&mut memory, &event);
                    }
                    let expected: Memory = recorded_memory
                        .iter()
                        .map(|(&page, what)| (page.wrapping_add(slow.delta(page)), what.clone()))
                        .collect();
                    prop_assert_eq!(&memory, &expected);
                    prop_assert_eq!(items.next(), Some(Err(moved_runs(&slow, run))));
                }
            }
        }
    }

    #[test]
    fn what_is_in_the_way_is_found(
        actions in prop::collection::vec(action_in_the_way(), 0..60),
        order in Just((0..LIBRARIES).collect::<Vec<u64>>()).prop_shuffle(),
        planned in 0..=LIBRARIES as usize,
    ) {
        let steps = steps(&actions);
        let to = order[..planned].iter().zip(0..).map(|(&l, place)| (l, DEFAULT_ARENA + place * LIBRARY_PAGES * PAGE));
        let mut slow = Slow { to: to.collect(), ..Slow::default() };
        let mut memory = Memory::new();
        let taken = events(&steps).iter().any(|(_, event)| {
            slow.event(event);
            apply(&mut memory, event);
            is_taken(&slow, &memory)
        });
        let bound = bind(&layout(&in_order(&order, planned)), &steps);
        prop_assert_eq!(bound.is_err(), taken, "{:?}", bound.err());
    }

    #[test]
    fn a_plan_of_recorded_places_changes_nothing(
        actions in prop::collection::vec(action(), 0..60),
        together in 1..6usize,
    ) {
        let steps = steps(&actions);
        let mut plan = layout::<String>(&[]);
        // Below the range of plans; only a stream can show that.
        plan.arena = 0;
        plan.places = (0..LIBRARIES)
            .map(|library| Place {
                file: path(library),
                build_id: None,
                offset: recorded(library),
                size: LIBRARY_PAGES * PAGE,
            })
            .collect();
        let bound = bind(&plan, &steps).unwrap();
        let as_it_is = told(Steps::new(steps.clone(), together));
        prop_assert_eq!(told(RebasedSource::new(Steps::new(steps, together), &bound)), as_it_is);
    }
}

/// A program that loads one object of 7 pages and then does something.
fn one_object(after: Vec<Event>) -> Vec<Step> {
    let mut steps: Vec<Step> = image().into_iter().map(Step::Event).collect();
    steps.push(Step::Run(Run::new(0x40_0000, 1, &[])));
    steps.extend(load("/lib/lib0.so", RECORDED, 3, 2, 1).into_iter().chain(after).map(Step::Event));
    steps
}

#[test]
fn what_the_trace_has_not_is_told() {
    let plan = layout(&[("/lib/lib0.so", 0, 7), ("/lib/none.so", 0x7000, 1), ("/bin/program", 0x8000, 9)]);
    let bound = bind(&plan, &one_object(Vec::new())).unwrap();
    assert_eq!(bound.files(), 1);
    assert_eq!(bound.absent(), ["/lib/none.so", "/bin/program"]);
}

#[test]
fn another_build_is_refused() {
    let mut plan = layout(&[("/lib/lib0.so", 0, 7)]);
    plan.places[0].build_id = Some("0C".into());
    assert!(bind(&plan, &one_object(Vec::new())).is_ok(), "hexadecimal digits of either case");
    plan.places[0].build_id = Some("0d".into());
    let error = bind(&plan, &one_object(Vec::new())).unwrap_err();
    assert_eq!(error.to_string(), "/lib/lib0.so: the plan is for build-id 0d, the trace has 0c");
}

#[test]
fn an_object_under_another_name_is_known_by_its_build() {
    let mut plan = layout(&[("/usr/lib/lib0.so.1", 0, 7)]);
    plan.places[0].build_id = Some("0c".into());
    assert_eq!(bind(&plan, &one_object(Vec::new())).unwrap().files(), 1);
}

#[test]
fn an_object_without_a_build_is_no_other_object() {
    let mut plan = layout(&[("/lib/lib0.so", 0, 7)]);
    plan.places[0].build_id = Some("0c".into());
    let steps = one_object(load("/lib/plugin", RECORDED + 20 * PAGE, 3, 4, 2));
    assert_eq!(bind(&plan, &steps).map(|bound| bound.files()), Ok(1));
}

#[test]
fn a_place_that_is_too_small_is_refused() {
    let error = bind(&layout(&[("/lib/lib0.so", 0, 6)]), &one_object(Vec::new())).unwrap_err();
    assert_eq!(
        error.to_string(),
        "/lib/lib0.so: 0x7000 bytes in the trace do not fit into a place of 0x6000"
    );
}

#[test]
fn a_place_that_is_taken_is_refused() {
    let plan = layout(&[("/lib/lib0.so", 0, 7)]);
    let there = one_object(vec![anonymous(DEFAULT_ARENA + 6 * PAGE, 2)]);
    let error = bind(&plan, &there).unwrap_err();
    assert_eq!(
        error.to_string(),
        "/lib/lib0.so: its place 0x800000000-0x800007000 has [anonymous] at 0x800006000-0x800008000"
    );
    // Before the object too, if it still exists.
    let mut before = there.clone();
    let map = before.pop().unwrap();
    before.insert(0, map);
    assert!(bind(&plan, &before).is_err());
    before.insert(1, Step::Event(unmap(DEFAULT_ARENA + 6 * PAGE, 2)));
    assert_eq!(bind(&plan, &before).map(|bound| bound.files()), Ok(1));
    // And after it is gone.
    let mut after = one_object(vec![unmap(RECORDED, 7)]);
    after.push(Step::Event(anonymous(DEFAULT_ARENA, 1)));
    assert!(bind(&plan, &after).is_ok());
}

#[test]
fn an_arena_slides_to_where_there_is_room() {
    let recorded = layout(&[("/lib/lib0.so", 3 * PAGE, 7)]);
    let slid = |steps: &[Step]| {
        let (events, mut plan) = (events(steps), recorded.clone());
        let bound = slide(&mut plan, &header(), events.iter().map(|(running, event)| (*running, event)));
        bound.map(|bound| (bound, (plan.arena - DEFAULT_ARENA) / SLIDE_BYTES))
    };
    let there = |times: std::ops::Range<u64>| {
        let at = |times| anonymous(DEFAULT_ARENA + times * SLIDE_BYTES + 9 * PAGE, 1);
        one_object(times.map(at).collect())
    };
    for times in [0, 1, 5, 31] {
        let steps = there(0..times);
        let (bound, by) = slid(&steps).unwrap();
        assert_eq!(by, times);
        let moved = Layout { arena: DEFAULT_ARENA + times * SLIDE_BYTES, ..recorded.clone() };
        assert_eq!(Ok(bound), bind(&moved, &steps));
    }
    let error = slid(&there(0..32)).unwrap_err();
    assert_eq!(Err(error), bind(&recorded, &there(0..32)));
}

#[test]
fn an_object_that_the_program_moves_is_refused() {
    let (old_start, new_start) = (VirtAddr(RECORDED), VirtAddr(RECORDED + 0x10_0000));
    let remap = Event::Remap { old_start, old_bytes: PAGE, new_start, new_bytes: PAGE };
    let error = bind(&layout(&[("/lib/lib0.so", 0, 7)]), &one_object(vec![remap])).unwrap_err();
    assert!(matches!(error, RebaseError::Remapped { .. }), "{error}");
}
