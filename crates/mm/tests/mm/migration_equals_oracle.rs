//! Recoloring policies against the slow models of `oracle`: every wished move, every dropped translation and every cycle
//! after every event, on random streams of misses.

use crate::common::cases;
use pagewalk_mm::Accounts;
use pagewalk_mm::Superpage;
use pagewalk_mm::frames::Frame;
use pagewalk_mm::migration::{
    Active, ActiveSettings, Cml, CmlBuffer, CmlSettings, Periodic, PeriodicChoice, PeriodicSettings,
    Snapshot, SnapshotClock, SnapshotSettings, TargetRule,
};
use pagewalk_mm::placement::Colors;
use pagewalk_mm::promotion::{Actions, CacheMiss, Miss, Policy, PolicyEvent, TlbDrops};
use pagewalk_oracle::migration::{
    self as slow, CmlList, MigrationModel, SnapshotTimes, TargetChoice, Wishes,
};
use pagewalk_units::{Draws, mixed};
use proptest::prelude::*;

/// Pages of the program.
const PAGES: u64 = 14;
/// Entries of each of two TLBs.
const ENTRIES: usize = 5;

#[derive(Clone, Debug)]
enum Op {
    /// A reference through a TLB, some cycles after the one before, misses so many lines.
    Use { page: u64, tlb: usize, cycles: u64, lines: u64 },
    /// A cache miss in a frame that is not the program's.
    Foreign { frame: u64 },
    /// The kernel exchanges the frames of two pages, of which the policy does not hear.
    Exchange(u64, u64),
    /// Four pages get new frames: as a superpage, which then splits, or as they are unmapped and used again.
    Renew { block: u64, promotes: bool },
    /// The next reference is on a core that has waited less.
    OtherCore { behind: u64 },
}

fn op() -> impl Strategy<Value = Op> {
    // Some pages are used more often.
    let page = || prop_oneof![0..PAGES, 0..5_u64];
    let lines = prop_oneof![Just(0), 0..3_u64, 3..12_u64];
    prop_oneof![
        20 => (page(), 0..2_usize, 0..20_u64, lines)
            .prop_map(|(page, tlb, cycles, lines)| Op::Use { page, tlb, cycles, lines }),
        4 => (0..4_u64).prop_map(|frame| Op::Foreign { frame }),
        1 => (page(), page()).prop_map(|(a, b)| Op::Exchange(a, b)),
        1 => (0..PAGES / 4, any::<bool>()).prop_map(|(block, promotes)| Op::Renew { block, promotes }),
        1 => (0..300_u64).prop_map(|behind| Op::OtherCore { behind }),
    ]
}

type Twin = (Box<dyn Policy>, Box<dyn MigrationModel>);

fn cml() -> impl Strategy<Value = (CmlSettings, u64)> {
    let thresholds = prop::option::weighted(0.8, (0..6_u64, 1..8_u64));
    let target =
        prop_oneof![Just(TargetRule::Sequential), Just(TargetRule::Coldest), Just(TargetRule::Random)];
    let clears = prop_oneof![20..400_u64, Just(5_000_000)];
    (1..5_usize, 0..5_usize, thresholds, clears, target, 1..8_u64).prop_map(
        |(recent_entries, hot_entries, thresholds, clear_cycles, target, lines)| {
            let settings = CmlSettings {
                recent_entries,
                hot_entries,
                recolor_above: thresholds.map(|(above, _)| above),
                interrupt_at: thresholds.map(|(above, more)| above + more),
                clear_cycles,
                target,
                ..CmlSettings::default()
            };
            (settings, lines)
        },
    )
}

fn cml_twin(settings: CmlSettings, colors: u64, lines: u64) -> Twin {
    let target = match settings.target {
        TargetRule::Sequential => TargetChoice::Sequential,
        TargetRule::Coldest => TargetChoice::Coldest,
        TargetRule::Random => TargetChoice::Random,
    };
    let buffer = CmlList::new(settings.recent_entries, settings.hot_entries);
    let mut twin = slow::Cml::new(buffer, colors, lines, target);
    twin.clear_cycles = settings.clear_cycles;
    twin.recolor_above = settings.recolor_above.unwrap_or(twin.recolor_above);
    twin.interrupt_at = settings.interrupt_at.unwrap_or(twin.interrupt_at);
    (Box::new(Cml::new(settings)), Box::new(twin))
}

fn snapshot() -> impl Strategy<Value = SnapshotSettings> {
    let delay = prop::option::of(0..60_u64);
    (any::<bool>(), 1..200_u64, delay, 1..60_u64, 2..6_usize).prop_map(
        |(in_misses, period, delay, length, pages)| SnapshotSettings {
            clock: if in_misses { SnapshotClock::Misses } else { SnapshotClock::Cycles },
            period,
            delay,
            length,
            pages,
            ..SnapshotSettings::SNAPSHOT
        },
    )
}

fn snapshot_twin(settings: SnapshotSettings, colors: u64) -> Twin {
    let SnapshotSettings { clock, period, delay, length, pages, record_cycles, analyse_cycles } = settings;
    let times = SnapshotTimes { in_misses: clock == SnapshotClock::Misses, period, delay, length };
    let twin = slow::Snapshot::new(times, pages, (record_cycles, analyse_cycles), colors);
    (Box::new(Snapshot::new(settings)), Box::new(twin))
}

/// A program's pages in frames and TLBs, under a policy and its slow model.
struct Machine {
    fast: Box<dyn Policy>,
    slow: Box<dyn MigrationModel>,
    actions: Actions,
    colors: u64,
    /// By page.
    frames: Vec<u64>,
    next_frame: u64,
    /// Pages, the latest last.
    tlbs: [Vec<u64>; 2],
    cycles: u64,
    /// Whether moves run before a missing page enters.
    moves_first: bool,
}

impl Machine {
    fn new((fast, slow): Twin, colors: u64, lines: u64, seed: u64, moves_first: bool) -> Machine {
        let mut frames: Vec<u64> = (4..4 + PAGES).collect();
        Draws::new(seed).shuffle(&mut frames);
        let (actions, tlbs) = (Actions::default(), [Vec::new(), Vec::new()]);
        let next_frame = 4 + PAGES;
        let mut machine =
            Machine { fast, slow, actions, colors, frames, next_frame, tlbs, cycles: 0, moves_first };
        machine.tell(PolicyEvent::Colors(Colors { count: colors, lines_per_page: lines }));
        machine
    }

    fn tell(&mut self, event: PolicyEvent<'_>) {
        self.fast.on(event, &mut self.actions);
    }

    fn color(&self, page: u64) -> u64 {
        self.frames[page as usize] % self.colors
    }

    /// The different pages that TLBs hold, with their colors.
    fn held(&self) -> Vec<(u64, u64)> {
        let is_held = |page: &u64| self.tlbs.iter().flatten().any(|held| held == page);
        (0..PAGES).filter(is_held).map(|page| (page, self.color(page))).collect()
    }

    fn drop_page(&mut self, page: u64) {
        for tlb in 0..2 {
            if self.tlbs[tlb].contains(&page) {
                self.tlbs[tlb].retain(|held| *held != page);
                self.tell(PolicyEvent::Left { tlb, unit: Superpage::around(page, 0) });
            }
        }
    }

    /// Compares what both want, and drops translations.
    fn compare(&mut self, slow: &Wishes, moves: &mut Vec<(u64, u64)>) -> Result<(), TestCaseError> {
        let actions = std::mem::take(&mut self.actions);
        let fast = Wishes {
            moves: actions.moves.iter().map(|wish| (wish.page, wish.color)).collect(),
            drops_all: actions.drops == TlbDrops::All,
            drops: if let TlbDrops::Page(page) = actions.drops { Some(page) } else { None },
            cycles: actions.recoloring_cycles,
        };
        prop_assert_eq!(&fast, slow);
        prop_assert!(actions.requests.is_empty() && actions.cycles == 0);
        moves.extend(&fast.moves);
        let all = (0..PAGES).filter(|&page| fast.drops_all || fast.drops == Some(page));
        all.for_each(|page| self.drop_page(page));
        Ok(())
    }

    fn recolor(&mut self, moves: &mut Vec<(u64, u64)>) {
        for (page, color) in moves.drain(..) {
            let frame =
                (self.next_frame..).find(|frame| frame % self.colors == color).expect("it is endless");
            self.next_frame = frame + 1;
            self.frames[page as usize] = frame;
            self.tell(PolicyEvent::Recolored { page, frame: Frame(frame) });
            self.drop_page(page);
        }
    }

    fn miss_tlb(&mut self, tlb: usize, page: u64) -> Result<(), TestCaseError> {
        let (unit, held, mut moves) = (Superpage::around(page, 0), self.held(), Vec::new());
        let (frame, cycles) = (Some(Frame(self.frames[page as usize])), self.cycles);
        let miss = Miss { tlb, unit, page, frame, instructions: cycles / 2, cycles };
        self.tell(PolicyEvent::Missed { miss, accounts: &Accounts::default() });
        let slow = self.slow.missed((page, self.color(page)), &held, cycles);
        self.compare(&slow, &mut moves)?;
        if self.moves_first {
            self.recolor(&mut moves);
        }
        if self.tlbs[tlb].len() == ENTRIES {
            let unit = Superpage::around(self.tlbs[tlb].remove(0), 0);
            self.tell(PolicyEvent::Left { tlb, unit });
        }
        self.tlbs[tlb].push(page);
        self.tell(PolicyEvent::Entered { tlb, unit });
        self.recolor(&mut moves);
        Ok(())
    }

    fn miss_cache(&mut self, frame: u64, page: Option<u64>) -> Result<(), TestCaseError> {
        let (cycles, mut moves) = (self.cycles, Vec::new());
        self.tell(PolicyEvent::CacheMissed(CacheMiss { page, frame: Frame(frame), cycles }));
        let slow = self.slow.cache_missed(frame, page, cycles);
        self.compare(&slow, &mut moves)?;
        self.recolor(&mut moves);
        Ok(())
    }

    fn renew(&mut self, block: Superpage, promotes: bool) {
        if promotes {
            self.tlbs.iter_mut().for_each(|tlb| tlb.retain(|page| !block.pages().contains(page)));
            self.tell(PolicyEvent::Promoted(block));
            self.tell(PolicyEvent::Demoted(block));
        } else {
            block.pages().for_each(|page| self.drop_page(page));
            self.tell(PolicyEvent::Flushed(&block.pages()));
            block.pages().for_each(|page| self.tell(PolicyEvent::Gone(page)));
        }
        for page in block.pages() {
            self.frames[page as usize] = self.next_frame;
            self.next_frame += 1;
            self.slow.left_frame(page);
        }
    }

    fn run(&mut self, op: &Op) -> Result<(), TestCaseError> {
        match *op {
            Op::Use { page, tlb, cycles, lines } => {
                self.cycles += cycles;
                if !self.tlbs[tlb].contains(&page) {
                    self.miss_tlb(tlb, page)?;
                }
                for _ in 0..lines {
                    self.miss_cache(self.frames[page as usize], Some(page))?;
                }
            }
            Op::Foreign { frame } => self.miss_cache(frame, None)?,
            Op::Exchange(a, b) => {
                self.frames.swap(a as usize, b as usize);
                [a, b].into_iter().for_each(|page| self.drop_page(page));
            }
            Op::Renew { block, promotes } => self.renew(Superpage { first: 4 * block, order: 2 }, promotes),
            Op::OtherCore { behind } => self.cycles = self.cycles.saturating_sub(behind),
        }
        Ok(())
    }
}

fn check(twin: Twin, of: (u64, u64, u64, bool), ops: &[Op]) -> Result<(), TestCaseError> {
    let (colors, lines, seed, moves_first) = of;
    let mut machine = Machine::new(twin, colors, lines, seed, moves_first);
    ops.iter().try_for_each(|op| machine.run(op))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(300), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_cml_buffer_counts_as_the_oracle_does(
        (recent, hot) in (1..6_usize, 0..6_usize),
        misses in prop::collection::vec((prop_oneof![0..30_u64, 0..6_u64], 0..40_u8), 1..300),
    ) {
        let (mut fast, mut list) = (CmlBuffer::new(recent, hot), CmlList::new(recent, hot));
        for (frame, what) in misses {
            match what {
                0 => {
                    fast.clear();
                    list.clear();
                }
                1 | 2 => {
                    fast.forget(Frame(frame));
                    list.remove(frame);
                }
                _ => prop_assert_eq!(fast.count(Frame(frame), None), list.miss(frame, None)),
            }
            let counts: Vec<_> = fast.tuples().map(|tuple| (tuple.frame.0, tuple.count)).collect();
            prop_assert_eq!(counts, list.counts());
        }
    }

    #[test]
    fn cml_moves_what_the_oracle_moves(
        (settings, lines) in cml(), (colors, seed) in (1..9_u64, any::<u64>()),
        ops in prop::collection::vec(op(), 1..250),
    ) {
        check(cml_twin(settings, colors, lines), (colors, lines, seed, false), &ops)?;
    }

    #[test]
    fn snapshots_move_what_the_oracle_moves(
        settings in snapshot(), (colors, seed, moves_first) in (1..9_u64, any::<u64>(), any::<bool>()),
        ops in prop::collection::vec(op(), 1..250),
    ) {
        check(snapshot_twin(settings, colors), (colors, 1, seed, moves_first), &ops)?;
    }

    #[test]
    fn active_policies_move_what_the_oracle_moves(
        (misses, interval) in (1..5_u64, prop_oneof![Just(0), 1..200_u64]),
        (colors, seed, moves_first) in (1..12_u64, any::<u64>(), any::<bool>()),
        ops in prop::collection::vec(op(), 1..250),
    ) {
        let fast = Active::new(ActiveSettings { misses, interval });
        let twin: Twin = (Box::new(fast), Box::new(slow::Active::new(misses, interval, colors)));
        check(twin, (colors, 1, seed, moves_first), &ops)?;
    }

    #[test]
    fn periodic_policies_move_what_the_oracle_moves(
        (competing, period) in (any::<bool>(), 1..100_u64),
        (colors, seed) in (1..12_u64, any::<u64>()),
        ops in prop::collection::vec(op(), 1..250),
    ) {
        let choice = if competing { PeriodicChoice::Competing } else { PeriodicChoice::Random };
        let fast = Periodic::new(PeriodicSettings { choice, period, seed });
        let draws = [Draws::new(seed), Draws::new(mixed(seed))];
        let twin: Twin = (Box::new(fast), Box::new(slow::Periodic::new(competing, period, colors, draws)));
        // Its moves run after the fill, as it does not watch caches.
        check(twin, (colors, 1, seed, false), &ops)?;
    }
}
