//! A described memory under placement and recoloring: after every operation each frame is owned once or free, and pages
//! move to the colors that the policy wants.

use crate::common::{AtMisses, Process, cases};
use crate::physical_memory::{Op as ProgramOp, check, op as program_op, policy};
use pagewalk_mm::frames::{Buddy, Frame, FrameMove};
use pagewalk_mm::migration::{Beside, Cml, CmlBuffer, CmlSettings};
use pagewalk_mm::placement::{BinHopping, Careful, Colors, PageColoring, Placement, RandomColors};
use pagewalk_mm::promotion::{Actions, CacheMiss, PageMove, Policy, PolicyEvent, Rules};
use pagewalk_mm::{FileRules, ForkRules};
use pagewalk_trace::MappingKind::{Anonymous, File};
use proptest::prelude::*;
use std::sync::{Arc, Mutex};

const DONTNEED: i32 = 4;
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

    fn boxed(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
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
        _ => Box::new(Careful::default()),
    }
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
    fn program(&mut self, op: &ProgramOp) {
        let p = &mut self.p;
        match *op {
            ProgramOp::Map(first, pages, file) => p.map(first, pages, if file { File } else { Anonymous }),
            ProgramOp::Unmap(first, pages) => p.unmap(first, pages),
            ProgramOp::Protect(first, pages, write) => p.protect(first, pages, write),
            ProgramOp::Discard(first, pages) => p.advise(first, pages, DONTNEED),
            ProgramOp::Touch(page) => p.touch(page),
            ProgramOp::Load(page) => p.load(page),
            ProgramOp::Fork => p.kernel.forked(1, &p.space, &mut p.remaps),
            ProgramOp::Walk(page) => p.kernel.walked(page),
            ProgramOp::Wait(time) => {
                p.wait(time);
                p.kernel.reached(p.now);
            }
        }
    }

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

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(256), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_frame_is_lost_or_owned_twice_while_pages_move(
        (number, places, by_cml) in (0..10_u8, 0..4_u8, any::<bool>()),
        (frames, colors) in (4..80_u64, 1..9_u64),
        (compact, shares) in any::<(bool, bool)>(),
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
        p.kernel.set_colors(Colors { count: colors, lines_per_page: 1 });
        let mut memory = Colored { p, colors, wishes };
        for op in ops {
            match op {
                Op::Program(op) => memory.program(&op),
                Op::Misses { page, color, lines } => {
                    for _ in 0..lines {
                        let Some(frame) = memory.p.kernel.frame_of(page) else { break };
                        memory.miss(page, if by_cml { frame } else { Frame(color) })?;
                        check(&memory.p, &[], shares || matches!(number, 3 | 4));
                    }
                }
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
