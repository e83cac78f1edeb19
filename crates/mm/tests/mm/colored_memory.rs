//! A described memory under placement and recoloring: after every operation each frame is owned once or free, and pages
//! move to the colors that the policy wants.

use crate::common::{AtMisses, Process};
use crate::physical_memory::{Op as ProgramOp, act, check, op as program_op, policy};
use pagewalk_mm::frames::{Buddy, Frame, FrameMove};
use pagewalk_mm::migration::{Beside, Cml, CmlBuffer, CmlSettings};
use pagewalk_mm::placement::{BinHopping, Careful, Colors, Listed, PageColoring, Placement, RandomColors};
use pagewalk_mm::promotion::{Actions, CacheMiss, Fixed, PageMove, Policy, PolicyEvent, Rules};
use pagewalk_mm::{FileRules, ForkRules};
use pagewalk_oracle::cases;
use pagewalk_trace::MappingKind::Anonymous;
use proptest::prelude::*;
use std::sync::{Arc, Mutex};

const PAGES: u64 = 128;

/// A recoloring policy whose wishes the test sees.
#[derive(Clone)]
struct Overheard {
    inner: Box<dyn Policy>,
    wishes: Arc<Mutex<Vec<PageMove>>>,
}

impl Policy for Overheard {
    fn rules(&self) -> Rules {
        self.inner.rules()
    }

    fn on(&mut self, event: PolicyEvent<'_>, actions: &mut Actions) {
        let known = actions.moves.len();
        self.inner.on(event, actions);
        self.wishes.lock().unwrap().extend(&actions.moves[known..]);
    }
}

/// What happens: the program does something, or misses lines of a page, with a color that it may then move to.
#[derive(Clone, Debug)]
enum Op {
    Program(ProgramOp),
    Misses { page: u64, color: u64, lines: u64 },
}

fn op() -> impl Strategy<Value = Op> {
    let misses = (0..64_u64, any::<u64>(), 1..6_u64).prop_map(|(page, color, lines)| Op::Misses {
        page,
        color,
        lines,
    });
    prop_oneof![3 => program_op().prop_map(Op::Program), 1 => misses]
}

fn placement(number: u8) -> Box<dyn Placement> {
    match number {
        0 => Box::new(PageColoring),
        1 => Box::new(BinHopping::default()),
        2 => Box::new(RandomColors::new(5)),
        3 => Box::new(Careful::default()),
        // Superpages too, frames that the memory lacks for a while, and pages in no order.
        _ => listed("0x8000 0x10 8\n0x2000 0x3 3\n0x21000 0x2 1\n0x20000 0x0 1"),
    }
}

fn listed(lines: &str) -> Box<dyn Placement> {
    let list = format!("frames of 4K\n{lines}\n").parse().expect("a list");
    Box::new(Listed::new(list, Box::new(PageColoring)))
}

fn recoloring(by_cml: bool, colors: u64) -> Box<dyn Policy> {
    if !by_cml {
        return Box::new(AtMisses { colors });
    }
    let settings = CmlSettings { recolor_above: Some(1), interrupt_at: Some(4), ..CmlSettings::default() };
    Box::new(Cml::new(settings, CmlBuffer::new(4, 4)))
}

struct Colored {
    p: Process,
    colors: u64,
    wishes: Arc<Mutex<Vec<PageMove>>>,
}

impl Colored {
    fn miss(&mut self, page: u64, frame: Frame) -> Result<(), TestCaseError> {
        let before = self.p.units(0, PAGES);
        let frames: Vec<_> = (0..PAGES).map(|page| self.p.kernel.frame_of(page)).collect();
        self.p.kernel.cache_missed(CacheMiss { page: Some(page), frame, cycles: 0 });
        let moves = self.p.kernel.recolor(&self.p.space, &mut self.p.remaps);
        let wishes = std::mem::take(&mut *self.wishes.lock().unwrap());
        if moves.is_empty() {
            prop_assert_eq!(self.p.units(0, PAGES), before, "nothing moved, but a superpage split");
        }
        let mut wished = wishes.iter();
        for FrameMove { from, to } in moves {
            // Some wishes fail. A page moves at most once here.
            let wish = wished.find(|wish| frames[wish.page as usize] == Some(from));
            let PageMove { page, color } = *wish.expect("a move is a wish");
            prop_assert_eq!(to.0 % self.colors, color);
            prop_assert_eq!((self.p.kernel.frame_of(page), self.p.order(page)), (Some(to), Some(0)));
        }
        Ok(())
    }
}

/// A process of base pages in a memory of 8 frames and two colors.
fn two_colors(placement: Box<dyn Placement>) -> Process {
    let mut p = Process::new(Box::new(Fixed { order: 0 })).with_memory(Buddy::new(8, 3), false);
    p.kernel = p.kernel.with_placement(placement, None);
    p.map(0, PAGES, Anonymous);
    p
}

fn with_colors(mut p: Process) -> Process {
    p.kernel.set_colors(Colors { count: 2, lines_per_page: 1 });
    p
}

/// Romer 1998, section 2.2.2: strict page coloring is never relaxed, which costs more paging.
#[test]
fn a_strict_placement_pages_where_another_takes_a_frame_of_another_color() {
    let even_pages = |mut p: Process| {
        (0..5).for_each(|page| p.touch(2 * page));
        let frame = p.kernel.frame_of(8).expect("it is touched");
        (frame.0 % 2, p.kernel.counts().swap_outs, p.kernel.frame_of(0).is_some())
    };
    assert_eq!(even_pages(with_colors(two_colors(Box::new(PageColoring)))), (1, 0, true));
    let mut strict = two_colors(Box::new(PageColoring));
    strict.kernel = strict.kernel.with_strict_colors();
    assert_eq!(even_pages(with_colors(strict)), (0, 1, false));
}

/// A page of another color would be evicted for nothing.
#[test]
fn a_strict_placement_evicts_only_pages_of_the_color() {
    let mut p = two_colors(Box::new(PageColoring));
    p.kernel = p.kernel.with_strict_colors();
    let mut p = with_colors(p);
    [1, 3, 5, 0, 2, 4, 6, 8].into_iter().for_each(|page| p.touch(page));
    assert_eq!(p.kernel.counts().swap_outs, 1);
    let left: Vec<u64> = (0..9).filter(|&page| p.kernel.frame_of(page).is_some()).collect();
    assert_eq!(left, [1, 2, 3, 4, 5, 6, 8]);
}

#[test]
fn pages_get_the_frames_of_the_list_and_others_are_counted() {
    let mut p = with_colors(two_colors(listed("0x3000 0x6 2\n0x9000 0x5 1")));
    // Page 5 takes the frame that page 9 should have.
    [4, 5, 3, 9].into_iter().for_each(|page| p.touch(page));
    let frames: Vec<u64> = [3, 4, 5].map(|page| p.kernel.frame_of(page).unwrap().0).into();
    assert_eq!(frames, [6, 7, 5]);
    assert!(p.kernel.frame_of(9).is_some_and(|frame| frame != Frame(5)));
    assert_eq!(p.kernel.counts().pages_unlisted, 2);
}

/// In an endless memory nothing else takes a listed frame, and a superpage takes a listed block that is aligned.
#[test]
fn listed_frames_wait_in_an_endless_memory() {
    let lines = "0x4000 0x8 4\n0x8000 0x11 4\n0xc000 0x20 1";
    let listed_at = |order: u8, number: u32| {
        let mut p = Process::new(Box::new(Fixed { order }));
        p.kernel = p.kernel.numbered(number).with_placement(listed(lines), None);
        p.kernel.set_colors(Colors { count: 4, lines_per_page: 1 });
        p.map(0, PAGES, Anonymous);
        (0..PAGES).for_each(|page| p.touch(page));
        let frames: Vec<u64> = (0..PAGES).map(|page| p.kernel.place(page).unwrap().0).collect();
        let different: std::collections::BTreeSet<u64> = frames.iter().copied().collect();
        assert_eq!(different.len() as u64, PAGES, "a frame is owned twice");
        (frames, p.kernel.counts().pages_unlisted)
    };
    let (frames, unlisted) = listed_at(0, 0);
    assert_eq!((&frames[4..13], unlisted), (&[8, 9, 10, 11, 0x11, 0x12, 0x13, 0x14, 0x20][..], PAGES - 9));
    let others = (0..PAGES as usize).filter(|page| !(4..13).contains(page));
    assert!(others.clone().all(|page| frames[page] > 0x20 && frames[page] % 4 == page as u64 % 4));
    let (frames, unlisted) = listed_at(2, 0);
    assert_eq!((&frames[4..8], unlisted), (&[8, 9, 10, 11][..], PAGES - 4));
    assert!(frames[8] > 0x20 && frames[8].is_multiple_of(4), "the listed block is not aligned");
    // The list is of one process.
    let (frames, unlisted) = listed_at(0, 1);
    assert!(unlisted == PAGES && frames.iter().all(|&frame| frame > 0x20));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(256), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_frame_is_lost_or_owned_twice_while_pages_move(
        (number, places, by_cml) in (0..10_u8, 0..5_u8, any::<bool>()),
        (frames, colors) in (4..80_u64, 1..9_u64),
        (compact, shares, is_strict) in any::<(bool, bool, bool)>(),
        ops in prop::collection::vec(op(), 1..200),
    ) {
        let wishes = Arc::default();
        let recolors = Overheard { inner: recoloring(by_cml, colors), wishes: Arc::clone(&wishes) };
        let policy = Beside { promotes: policy(number), recolors: Box::new(recolors) };
        let mut p = Process::new(Box::new(policy)).with_memory(Buddy::new(frames, 4), compact);
        if shares {
            let files = FileRules { cold: false, around: 4, read_ahead: 8, read_cycles: 5 };
            let fork = ForkRules { child_instructions: 5, ..ForkRules::default() };
            p.kernel = p.kernel.with_sharing(Some(files), fork);
        }
        p.kernel = p.kernel.with_placement(placement(places), None);
        if is_strict && frames >= colors {
            p.kernel = p.kernel.with_strict_colors();
        }
        p.kernel.set_colors(Colors { count: colors, lines_per_page: 1 });
        let mut memory = Colored { p, colors, wishes };
        for op in ops {
            match op {
                Op::Program(op) => act(&mut memory.p, &op, 0),
                Op::Misses { page, color, lines } => {
                    for _ in 0..lines {
                        if memory.p.kernel.frame_of(page).is_some() {
                            memory.p.load(page);
                        }
                        let Some(frame) = memory.p.kernel.frame_of(page) else { break };
                        memory.miss(page, if by_cml { frame } else { Frame(color) })?;
                        check(&memory.p, &[], shares || matches!(number, 3 | 4));
                    }
                }
            }
            // The kernel does so where a child has all frames of a strictly wanted color. The program goes no further.
            if memory.p.kernel.killed().is_some() {
                prop_assert!(shares && is_strict);
                break;
            }
            check(&memory.p, &[], shares || matches!(number, 3 | 4));
        }
        let Process { kernel, space, remaps, .. } = &mut memory.p;
        kernel.gone(0..PAGES, space, remaps);
        // Children have ended.
        kernel.reached(1 << 40);
        prop_assert_eq!(kernel.memory().map(Buddy::used_frames), Some(0), "all is given back");
    }
}
