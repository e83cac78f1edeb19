//! Watched arrays against slow ones: lists in order of use, references one by one.

use crate::common;
use crate::common::{PAGE, Run, Step, Steps, anonymous, file, header, image, load, play, unmap};
use pagewalk_layout::evictions::{ArrayHistory, ArraySpec, DEFAULT_ROWS, Evictions, Misses, Side};
use pagewalk_setassoc::{Geometry, SetIndex};
use pagewalk_trace::{BlockEnd, Event};
use pagewalk_units::VirtAddr;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Pages, most recently used first, with the side that brought each.
type List = Vec<(u64, Side)>;

/// What is compared: pages by number, rows with causes.
#[derive(Debug, Default, PartialEq)]
struct Told {
    misses: Vec<u64>,
    by_set: Vec<u64>,
    references: BTreeMap<u64, [u64; 2]>,
    page_misses: BTreeMap<u64, [u64; 2]>,
    /// (victimiser, victim, sides) to evictions by cause.
    rows: BTreeMap<(u64, u64, Side, Side), BTreeMap<u64, u64>>,
}

struct Slow {
    spec: ArraySpec,
    sets: Vec<List>,
    twin: List,
    /// Pages referenced since their mapping last changed.
    known: BTreeSet<u64>,
    told: Told,
}

impl Slow {
    fn new(spec: &ArraySpec) -> Slow {
        let sets = spec.geometry.sets();
        let told = Told { misses: vec![0; 4], by_set: vec![0; sets], ..Told::default() };
        Slow {
            spec: spec.clone(),
            sets: vec![List::new(); sets],
            twin: List::new(),
            known: BTreeSet::new(),
            told,
        }
    }

    fn run(&mut self, run: &Run) {
        for n in 0..run.instructions {
            self.bytes(Side::Fetch, run.start + 4 * n, 4);
        }
        for &address in &run.loads {
            self.bytes(Side::Data, address, 8);
        }
    }

    fn bytes(&mut self, side: Side, address: u64, bytes: u64) {
        if side == Side::Fetch && !self.spec.fetches || side == Side::Data && !self.spec.data {
            return;
        }
        for page in address / PAGE..=(address + bytes - 1) / PAGE {
            self.refer(side, page, address.max(page * PAGE));
        }
    }

    fn refer(&mut self, side: Side, page: u64, address: u64) {
        self.told.references.entry(page).or_default()[side as usize] += 1;
        let twin_hits = take(&mut self.twin, page).is_some();
        self.twin.insert(0, (page, side));
        self.twin.truncate(self.spec.geometry.entries());
        let index = self.spec.set_of(pagewalk_units::Vpn(page));
        let set = &mut self.sets[index];
        if let Some(held) = take(set, page) {
            set.insert(0, (page, held));
            self.told.misses[3] += u64::from(!twin_hits);
            return;
        }
        let class = if self.known.insert(page) { 0 } else { 1 + usize::from(twin_hits) };
        self.told.misses[class] += 1;
        self.told.by_set[index] += 1;
        self.told.page_misses.entry(page).or_default()[side as usize] += 1;
        set.insert(0, (page, side));
        if set.len() > self.spec.geometry.ways() {
            let (victim, victim_side) = set.pop().unwrap();
            let causes = self.told.rows.entry((page, victim, side, victim_side)).or_default();
            *causes.entry(address).or_default() += 1;
        }
    }

    fn invalidate(&mut self, start: VirtAddr, bytes: u64) {
        for page in start.0 / PAGE..(start.0 + bytes) / PAGE {
            self.known.remove(&page);
            take(&mut self.twin, page);
            self.sets.iter_mut().for_each(|set| _ = take(set, page));
        }
    }
}

/// Removes a page from a list; returns the side that had brought it.
fn take(list: &mut List, page: u64) -> Option<Side> {
    let at = list.iter().position(|&(held, _)| held == page)?;
    Some(list.remove(at).1)
}

/// The same of a history. Causes only if all are known exactly.
fn told(history: &ArrayHistory, slow: &Told) -> Told {
    let Misses { compulsory, capacity, conflict, spared } = history.misses;
    let mut told = Told {
        misses: vec![compulsory, capacity, conflict, spared],
        by_set: history.misses_by_set.clone(),
        ..Told::default()
    };
    for page in &history.pages {
        let add = |to: &mut BTreeMap<u64, [u64; 2]>, counts: [u64; 2]| {
            if counts != [0; 2] {
                let all = to.entry(page.page.0).or_default();
                *all = [all[0] + counts[0], all[1] + counts[1]];
            }
        };
        add(&mut told.references, page.references);
        add(&mut told.page_misses, page.misses);
    }
    for row in &history.rows {
        let number = |page: usize| history.pages[page].page.0;
        assert_eq!(history.array.set_of(history.pages[row.victim].page), row.set);
        let key = (number(row.victimiser), number(row.victim), row.victimiser_side, row.victim_side);
        let causes = told.rows.entry(key).or_default();
        // Real counts; the reported cause is among the most frequent.
        let truth = &slow.rows[&key];
        assert_eq!(causes.len(), 0, "pages that change owners have rows of their own; none do here");
        if truth.len() <= 4 {
            assert_eq!(truth.get(&row.cause.0), Some(&row.cause_count));
            assert_eq!(truth.values().max(), Some(&row.cause_count));
        } else {
            assert!(truth[&row.cause.0] <= row.cause_count);
        }
        assert_eq!(truth.values().sum::<u64>(), row.count);
        causes.clone_from(truth);
    }
    told
}

fn spec(entries: u32, ways: u32, index: &str, fetches: bool, data: bool) -> ArraySpec {
    let geometry = Geometry::new(entries, Some(ways)).unwrap();
    let index = SetIndex::from_name(index).unwrap();
    ArraySpec { name: "l1".into(), geometry, index, fetches, data }
}

fn specs() -> Vec<ArraySpec> {
    vec![
        spec(8, 2, "modulo", true, true),
        spec(8, 4, "modulo", true, false),
        spec(4, 1, "modulo", false, true),
        spec(16, 4, "xor-2", true, true),
        spec(6, 6, "modulo", true, true),
        spec(1, 1, "modulo", true, true),
    ]
}

/// A page of code, one of data, a third that comes and goes, and libraries.
const CODE: u64 = 0x1000_0000;
const DATA: u64 = 0x2000_0000;

#[derive(Clone, Debug)]
enum Action {
    Run { at: u64, instructions: u64, loads: Vec<u64> },
    Unmap(u64, u64),
    Protect(u64, u64),
}

fn action() -> impl Strategy<Value = Action> {
    let load = (0..20u64, prop_oneof![4 => 0..500u64, 1 => Just(511u64)]).prop_map(|(page, word)| {
        // Some cross pages.
        DATA + page * PAGE + word * 8 + if word == 511 { 4 } else { 0 }
    });
    prop_oneof![
        30 => ((0..12u64, prop_oneof![0..900u64, 1000..1024u64]), 0..6u64, prop::collection::vec(load, 0..5))
            .prop_map(|((page, at), instructions, loads)| {
                Action::Run { at: CODE + page * PAGE + at * 4 + 2, instructions, loads }
            }),
        1 => (0..20u64, 1..4u64).prop_map(|(page, count)| Action::Unmap(page, count)),
        1 => (0..20u64, 1..4u64).prop_map(|(page, count)| Action::Protect(page, count)),
    ]
}

fn steps(actions: &[Action]) -> Vec<Step> {
    let mut steps: Vec<Step> = image().into_iter().map(Step::Event).collect();
    steps.push(Step::Event(file("/lib/lib0.so", CODE, 16, 0, "rx")));
    steps.push(Step::Event(anonymous(DATA, 24)));
    for action in actions {
        match action {
            Action::Run { at, instructions, loads } => {
                // Without instructions no reference has a site of its own; but importers create such blocks.
                steps.push(Step::Run(Run::new(*at, *instructions, loads)));
            }
            Action::Unmap(page, count) => {
                steps.push(Step::Event(unmap(DATA + page * PAGE, *count)));
                steps.push(Step::Event(anonymous(DATA + page * PAGE, *count)));
            }
            Action::Protect(page, count) => {
                let (start, bytes) = (VirtAddr(DATA + page * PAGE), count * PAGE);
                for protection in ["r", "rw"].map(common::rights) {
                    steps.push(Step::Event(Event::Protect { start, bytes, protection }));
                }
            }
        }
    }
    steps
}

fn watch(steps: &[Step], together: usize, specs: &[ArraySpec], rows: usize) -> Vec<ArrayHistory> {
    let mut evictions = Evictions::new(&header(), specs, rows);
    play(Steps::new(steps.to_vec(), together), &mut evictions);
    evictions.finish().0
}

fn slow(steps: &[Step], spec: &ArraySpec) -> Told {
    let mut slow = Slow::new(spec);
    for step in steps {
        match step {
            Step::Run(run) => slow.run(run),
            Step::Event(Event::Unmap { start, bytes } | Event::Protect { start, bytes, .. }) => {
                slow.invalidate(*start, *bytes);
            }
            Step::Event(_) => {}
        }
    }
    slow.told
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn watched_arrays_equal_slow_ones(
        actions in prop::collection::vec(action(), 0..250),
        together in 1..40usize,
    ) {
        let steps = steps(&actions);
        let specs = specs();
        for (history, spec) in watch(&steps, together, &specs, DEFAULT_ROWS).iter().zip(&specs) {
            let expected = slow(&steps, spec);
            prop_assert_eq!(&told(history, &expected), &expected, "{:?}", spec);
            prop_assert_eq!(history.dropped, 0);
            let total = history.misses.total();
            prop_assert_eq!(history.misses_by_set.iter().sum::<u64>(), total);
            prop_assert_eq!(history.misses_by_side.iter().sum::<u64>(), total);
            prop_assert_eq!(history.rows.iter().map(|row| row.count).sum::<u64>(), history.all_evictions());
            let involved: u64 = history.pages.iter().map(|page| page.involved()).sum();
            prop_assert_eq!(involved, 2 * history.all_evictions());
        }
    }

    #[test]
    fn a_fully_associative_array_is_its_own_twin(actions in prop::collection::vec(action(), 0..250)) {
        let history = watch(&steps(&actions), 8, &[spec(6, 6, "modulo", true, true)], DEFAULT_ROWS).remove(0);
        prop_assert_eq!((history.misses.conflict, history.misses.spared), (0, 0));
        prop_assert_eq!(history.misses.of_twin(), history.misses.total());
    }

    #[test]
    fn few_rows_keep_the_totals(actions in prop::collection::vec(action(), 0..250), rows in 1..9usize) {
        let steps = steps(&actions);
        let all = watch(&steps, 8, &specs(), DEFAULT_ROWS);
        for (few, all) in watch(&steps, 8, &specs(), rows).into_iter().zip(all) {
            prop_assert!(few.rows.len() <= rows);
            let kept: u64 = few.rows.iter().map(|row| row.count).sum();
            prop_assert_eq!(kept + few.dropped, all.all_evictions());
            let few = ArrayHistory { rows: Vec::new(), dropped: 0, ..few };
            prop_assert_eq!(few, ArrayHistory { rows: Vec::new(), ..all });
        }
    }
}

#[test]
fn pages_that_change_hands_are_told_apart() {
    let mut steps: Vec<Step> = image().into_iter().map(Step::Event).collect();
    let run = |at: u64, loads: &[u64]| Step::Run(Run { end: BlockEnd::Call, ..Run::new(at, 1, loads) });
    steps.push(run(0x40_0000, &[]));
    steps.extend(load("/lib/lib0.so", CODE, 1, 1, 1).into_iter().map(Step::Event));
    steps.push(run(CODE + PAGE, &[CODE + 3 * PAGE, CODE + 2 * PAGE]));
    steps.push(Step::Event(unmap(CODE, 4)));
    steps.push(Step::Event(anonymous(CODE, 4)));
    steps.push(run(0x40_0000, &[CODE + 3 * PAGE]));
    let mut evictions = Evictions::new(&header(), &[spec(8, 2, "modulo", true, true)], 1);
    play(Steps::new(steps, 4), &mut evictions);
    let (histories, owners) = evictions.finish();
    let pages = histories[0].pages.iter();
    let told: Vec<(u64, String)> =
        pages.map(|page| (page.page.0 * PAGE, owners.get(page.owner).name())).collect();
    let expected = [
        (0x40_0000, "/bin/program"),
        (CODE + PAGE, "/lib/lib0.so"),
        (CODE + 3 * PAGE, "/lib/lib0.so"),
        (CODE + 2 * PAGE, "/lib/lib0.so"),
        (CODE + 3 * PAGE, "[anonymous]"),
    ];
    assert_eq!(told, expected.map(|(page, name)| (page, name.to_owned())));
}
