//! The placements in an endless memory against the slow model of `oracle`: the color of every page after every event
//! of several processes. No two pages ever have the same frame.

use crate::common::{AtMisses, Process};
use pagewalk_mm::frames::Frame;
use pagewalk_mm::migration::Beside;
use pagewalk_mm::placement::{BinHopping, Careful, Colors, PageColoring, Placement, RandomColors};
use pagewalk_mm::promotion::{Asap, CacheMiss, Fixed, Policy};
use pagewalk_mm::{KernelCosts, Remap, Superpage};
use pagewalk_oracle::{EndlessMemory, PlacementRule, cases};
use pagewalk_trace::MappingKind::Anonymous;
use pagewalk_units::Draws;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Processes, and pages of each.
const PROCESSES: usize = 3;
const PAGES: u64 = 32;

/// What a process does.
#[derive(Clone, Debug)]
enum Op {
    Use(u64),
    Unmap(u64, u64),
    Recolor(u64, u64),
}

fn op() -> impl Strategy<Value = Op> {
    let page = 0..PAGES;
    prop_oneof![
        10 => page.clone().prop_map(Op::Use),
        1 => (page.clone(), 1..10_u64).prop_map(|(first, pages)| Op::Unmap(first, pages.min(PAGES - first))),
        3 => (page, 0..20_u64).prop_map(|(page, color)| Op::Recolor(page, color)),
    ]
}

fn placement(number: usize, seed: u64) -> (Box<dyn Placement>, PlacementRule) {
    match number {
        0 => (Box::new(PageColoring), PlacementRule::PageColoring),
        1 => (Box::new(BinHopping::default()), PlacementRule::BinHopping),
        2 => (Box::new(RandomColors::new(seed)), PlacementRule::Random(Draws::new(seed))),
        _ => (Box::new(Careful::default()), PlacementRule::Careful),
    }
}

struct Twins {
    fast: Vec<Process>,
    slow: EndlessMemory,
    colors: u64,
    /// Copies so far: by which process, of which page, and whether by recoloring.
    copies: Vec<(usize, u64, bool)>,
}

impl Twins {
    fn new(number: usize, colors: u64, seed: u64, promotes: &dyn Policy) -> Twins {
        let recolors = AtMisses { colors };
        let process = |n: usize| {
            let policy = Beside { promotes: promotes.boxed(), recolors: Box::new(recolors.clone()) };
            let mut p = Process::with_costs(Box::new(policy), KernelCosts::TODAY);
            p.kernel = p.kernel.numbered(n as u32).with_placement(placement(number, seed).0, None);
            p.kernel.set_colors(Colors { count: colors, lines_per_page: 1 });
            p.map(0, PAGES, Anonymous);
            p
        };
        let rules = vec![placement(number, seed).1; PROCESSES];
        let (fast, slow) = ((0..PROCESSES).map(process).collect(), EndlessMemory::new(colors, rules));
        Twins { fast, slow, colors, copies: Vec::new() }
    }

    fn unit(&self, process: usize, page: u64) -> Option<Superpage> {
        self.fast[process].kernel.table().mapped(page)
    }

    fn run(&mut self, process: usize, op: &Op) {
        match *op {
            Op::Use(page) => {
                let p = &mut self.fast[process];
                p.touch(page);
                for remap in std::mem::take(&mut p.remaps) {
                    if let Remap::Promoted(block) = remap {
                        self.slow.free(process, block.first, block.len());
                        // These policies promote nothing with holes.
                        self.copies.extend(block.pages().map(|page| (process, page, false)));
                    }
                }
                let unit = self.unit(process, page).expect("it is touched");
                assert!(self.fast[process].kernel.place(page).is_some());
                self.slow.place(process, page, unit.first, unit.order.into());
            }
            Op::Unmap(first, pages) => {
                self.fast[process].unmap(first, pages);
                self.fast[process].map(first, pages, Anonymous);
                self.slow.free(process, first, pages);
            }
            Op::Recolor(page, color) => self.recolor(process, page, color % self.colors),
        }
    }

    fn recolor(&mut self, process: usize, page: u64, color: u64) {
        let unit = self.unit(process, page);
        let Process { kernel, space, remaps, .. } = &mut self.fast[process];
        kernel.cache_missed(CacheMiss { page: Some(page), frame: Frame(color), cycles: 0 });
        let moves = kernel.recolor(space, remaps);
        let Some(unit) = unit else { return assert!(moves.is_empty(), "nothing is there") };
        assert_eq!(moves.len(), 1);
        assert_eq!(moves[0].to.0 % self.colors, color);
        assert_eq!(self.unit(process, page), Some(Superpage::around(page, 0)), "it leaves its superpage");
        self.slow.recolor(process, page, (unit.first, unit.order.into()), color);
        self.copies.push((process, page, true));
    }

    /// Compares what was copied, and how often.
    fn check_copies(&self, process: usize) -> Result<(), TestCaseError> {
        let times = |page: u64, recolors: bool| {
            self.copies.iter().filter(|&&copy| copy == (process, page, recolors)).count() as u64
        };
        let pages = |is_such: &dyn Fn(u64, u64) -> bool| {
            (0..PAGES).filter(|&page| is_such(times(page, false), times(page, true))).count() as u64
        };
        let all = (0..PAGES).map(|page| times(page, true));
        let counts = self.fast[process].kernel.counts();
        prop_assert_eq!(counts.recolorings, all.clone().sum::<u64>());
        prop_assert_eq!(counts.recolorings_repeated, all.filter(|&times| times >= 5).sum::<u64>());
        prop_assert_eq!(counts.pages_recolored, pages(&|_, recolored| recolored > 0));
        prop_assert_eq!(counts.pages_copied, pages(&|promoted, recolored| promoted + recolored > 0));
        let both = pages(&|promoted, recolored| promoted > 0 && recolored > 0);
        prop_assert_eq!(counts.pages_copied_by_both, both);
        Ok(())
    }

    fn check(&mut self) -> Result<(), TestCaseError> {
        (0..PROCESSES).try_for_each(|process| self.check_copies(process))?;
        let mut owned = BTreeSet::new();
        for process in 0..PROCESSES {
            for page in 0..PAGES {
                let Some(color) = self.slow.color(process, page) else { continue };
                let frame = self.fast[process].kernel.place(page).expect("it has a frame");
                prop_assert_eq!(frame.0 % self.colors, color, "page {} of process {}", page, process);
                prop_assert!(owned.insert(frame), "{} is owned twice", frame);
                let unit = self.unit(process, page).expect("it is mapped");
                let first = frame.0 - (page - unit.first);
                prop_assert!(first.is_multiple_of(unit.len()), "{:?} is not aligned", unit);
            }
        }
        Ok(())
    }
}

/// Otherwise the pages of processes that do the same would compete.
#[test]
fn random_colors_of_processes_differ() {
    let colors = Colors { count: 16, lines_per_page: 1 };
    let chosen = |process: u32| {
        let mut random = RandomColors::new(3);
        (0..1000).map(move |page| random.color(page, process, colors))
    };
    let same = chosen(0).zip(chosen(1)).filter(|(a, b)| a == b).count();
    assert!((30..100).contains(&same), "{same} of 1000, with 62 expected");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(100), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_page_has_the_color_that_the_oracle_says(
        (number, log2_colors, seed) in (0..4_usize, 0..6_u32, any::<u64>()),
        (top, at_fault) in (0..4_u8, any::<bool>()),
        ops in prop::collection::vec((0..PROCESSES, op()), 1..120),
    ) {
        let promotes: Box<dyn Policy> =
            if at_fault { Box::new(Fixed { order: top }) } else { Box::new(Asap::new(top)) };
        let mut twins = Twins::new(number, 1 << log2_colors, seed, promotes.as_ref());
        for (process, op) in ops {
            twins.run(process, &op);
            twins.check()?;
        }
    }

    /// Caches may have a number of colors that is no power of two. The model knows no aligned blocks there.
    #[test]
    fn every_base_page_has_one_of_any_number_of_colors(
        number in 0..4_usize, colors in 1..20_u64, seed in any::<u64>(),
        ops in prop::collection::vec((0..PROCESSES, op()), 1..120),
    ) {
        let mut twins = Twins::new(number, colors, seed, &Fixed { order: 0 });
        for (process, op) in ops {
            twins.run(process, &op);
            twins.check()?;
        }
    }
}
