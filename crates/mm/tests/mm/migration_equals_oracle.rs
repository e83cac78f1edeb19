//! Recoloring policies against the slow models of `oracle`: every wished move, dropped translation and cycle after
//! every event, on random streams of misses.

use pagewalk_mm::frames::Frame;
use pagewalk_mm::migration::{
    Active, ActiveSettings, Capped, Cml, CmlBuffer, CmlSettings, CopyCap, MissBuffer, Periodic,
    PeriodicChoice, PeriodicSettings, Sites, SitesSettings, Snapshot, SnapshotClock, SnapshotSettings,
    SpaceSaving, TargetRule,
};
use pagewalk_mm::placement::Colors;
use pagewalk_mm::promotion::{Actions, CacheMiss, Miss, Policy, PolicyEvent, TlbDrops};
use pagewalk_mm::{Accounts, Superpage};
use pagewalk_oracle::cases;
use pagewalk_oracle::migration::{
    self as slow, CmlList, MigrationModel, MissList, SnapshotTimes, SpaceSavingList, TargetChoice,
    Translation, Wishes,
};
use pagewalk_units::{Draws, mixed};
use proptest::prelude::*;

/// Pages of the program.
const PAGES: u64 = 16;
/// Entries of each of two TLBs.
const ENTRIES: usize = 5;

#[derive(Clone, Debug)]
enum Op {
    /// A reference through a TLB, some cycles after the one before, misses so many lines.
    Use { page: u64, tlb: usize, cycles: u64, lines: u64 },
    /// A cache miss in a frame that is not the program's.
    Foreign { frame: u64 },
    /// Cache hits in lines of a page.
    Hits { page: u64, times: u64 },
    /// The kernel exchanges the frames of two pages, of which the policy does not hear.
    Exchange(u64, u64),
    /// A superpage gets new frames.
    Promote(Superpage),
    /// The superpage around a page splits.
    Split(u64),
    /// Four pages are unmapped, and get new frames.
    Unmap(Superpage),
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
        2 => (page(), 1..5_u64).prop_map(|(page, times)| Op::Hits { page, times }),
        1 => (page(), page()).prop_map(|(a, b)| Op::Exchange(a, b)),
        1 => (0..PAGES, 1..3_u8).prop_map(|(page, order)| Op::Promote(Superpage::around(page, order))),
        1 => page().prop_map(Op::Split),
        1 => page().prop_map(|page| Op::Unmap(Superpage::around(page, 2))),
        1 => (0..300_u64).prop_map(|behind| Op::OtherCore { behind }),
    ]
}

type Twin = (Box<dyn Policy>, Box<dyn MigrationModel>);

fn target() -> impl Strategy<Value = TargetRule> {
    use TargetRule::{ColdestMiss, ColdestReference, Random, Sequential};
    prop::sample::select(vec![Sequential, ColdestMiss, ColdestReference, Random])
}

fn target_choice(rule: TargetRule) -> TargetChoice {
    match rule {
        TargetRule::Sequential => TargetChoice::Sequential,
        TargetRule::ColdestMiss => TargetChoice::ColdestMiss,
        TargetRule::ColdestReference => TargetChoice::ColdestReference,
        TargetRule::Random => TargetChoice::Random,
    }
}

/// Entries of a miss buffer: LRU and HOT segments, or those of Space-Saving.
#[derive(Clone, Copy, Debug)]
enum Buffer {
    Segments(usize, usize),
    SpaceSaving(usize),
}

fn cml() -> impl Strategy<Value = (CmlSettings, Buffer, u64)> {
    let buffer = prop_oneof![
        (1..5_usize, 0..5_usize).prop_map(|(recent, hot)| Buffer::Segments(recent, hot)),
        (1..8_usize).prop_map(Buffer::SpaceSaving),
    ];
    let thresholds = prop::option::weighted(0.8, (0..6_u64, 1..8_u64));
    let clears = prop_oneof![20..400_u64, Just(5_000_000)];
    (buffer, thresholds, clears, target(), 1..8_u64).prop_map(
        |(buffer, thresholds, clear_cycles, target, lines)| {
            let settings = CmlSettings {
                recolor_above: thresholds.map(|(above, _)| above),
                interrupt_at: thresholds.map(|(above, more)| above + more),
                clear_cycles,
                target,
                ..CmlSettings::default()
            };
            (settings, buffer, lines)
        },
    )
}

fn cml_twin(settings: CmlSettings, buffer: Buffer, colors: u64, lines: u64) -> Twin {
    let (fast, list): (Box<dyn Policy>, Box<dyn MissList>) = match buffer {
        Buffer::Segments(recent, hot) => {
            (Box::new(Cml::new(settings, CmlBuffer::new(recent, hot))), Box::new(CmlList::new(recent, hot)))
        }
        Buffer::SpaceSaving(entries) => {
            (Box::new(Cml::new(settings, SpaceSaving::new(entries))), Box::new(SpaceSavingList::new(entries)))
        }
    };
    let mut twin = slow::Cml::new(list, colors, lines, target_choice(settings.target));
    twin.clear_cycles = settings.clear_cycles;
    twin.recolor_above = settings.recolor_above.unwrap_or(twin.recolor_above);
    twin.interrupt_at = settings.interrupt_at.unwrap_or(twin.interrupt_at);
    (fast, Box::new(twin))
}

fn sites() -> impl Strategy<Value = (SitesSettings, u64)> {
    let above = prop::option::of(0..6_u64);
    (1..12_u64, 2..30_u64, above, target(), any::<u64>(), 1..40_u64).prop_map(
        |(period, samples, recolor_above, target, seed, lines)| {
            let settings =
                SitesSettings { period, samples, recolor_above, target, seed, ..SitesSettings::default() };
            (settings, lines)
        },
    )
}

fn sites_twin(settings: SitesSettings, colors: u64, lines: u64) -> Twin {
    let SitesSettings { period, samples, recolor_above, target, seed, .. } = settings;
    let above = recolor_above.unwrap_or(((lines + 4) / period).max(1));
    let draws = [Draws::new(seed), Draws::new(mixed(seed))];
    let twin = slow::Sites::new(colors, (period, samples as usize), above, (target_choice(target), draws));
    (Box::new(Sites::new(settings)), Box::new(twin))
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

fn active_twin(misses: u64, interval: u64, colors: u64) -> Twin {
    let fast = Active::new(ActiveSettings { misses, interval });
    (Box::new(fast), Box::new(slow::Active::new(misses, interval, colors)))
}

/// A program's pages in frames and TLBs, under a policy and its slow model.
struct Machine {
    fast: Box<dyn Policy>,
    slow: Box<dyn MigrationModel>,
    actions: Actions,
    colors: u64,
    /// By page.
    frames: Vec<u64>,
    /// Orders of what maps each page.
    orders: Vec<u8>,
    next_frame: u64,
    /// TLBs, what they hold, and the page whose miss filled it; the latest last.
    tlbs: Vec<(usize, Superpage, u64)>,
    cycles: u64,
}

impl Machine {
    fn new((fast, slow): Twin, colors: u64, lines: u64, seed: u64) -> Machine {
        let mut frames: Vec<u64> = (4..4 + PAGES).collect();
        Draws::new(seed).shuffle(&mut frames);
        let (actions, orders) = (Actions::default(), vec![0; PAGES as usize]);
        let next_frame = 4 + PAGES;
        let mut machine =
            Machine { fast, slow, actions, colors, frames, orders, next_frame, tlbs: Vec::new(), cycles: 0 };
        machine.tell(PolicyEvent::Colors(Colors { count: colors, lines_per_page: lines }));
        machine
    }

    fn tell(&mut self, event: PolicyEvent<'_>) {
        self.fast.on(event, &mut self.actions);
    }

    fn unit(&self, page: u64) -> Superpage {
        Superpage::around(page, self.orders[page as usize])
    }

    fn translation(&self, unit: Superpage, page: u64) -> Translation {
        Translation { first: unit.first, page, color: self.frames[page as usize] % self.colors }
    }

    fn give(&mut self, page: u64, frame: u64) {
        self.frames[page as usize] = frame;
        self.next_frame = self.next_frame.max(frame + 1);
    }

    /// Drops the translations of a unit, and tells so.
    fn drop_unit(&mut self, unit: Superpage) {
        while let Some(at) = self.tlbs.iter().position(|&(_, held, _)| held == unit) {
            let (tlb, unit, _) = self.tlbs.remove(at);
            self.tell(PolicyEvent::Left { tlb, entry: unit, lost: false });
        }
    }

    /// Compares what both want, drops translations, and returns the moves.
    fn compare(&mut self, slow: &Wishes) -> Result<Vec<(u64, u64)>, TestCaseError> {
        let actions = std::mem::take(&mut self.actions);
        let fast = Wishes {
            moves: actions.moves.iter().map(|wish| (wish.page, wish.color)).collect(),
            drops_all: actions.drops == TlbDrops::All,
            drops: if let TlbDrops::Page(page) = actions.drops { Some(page) } else { None },
            cycles: actions.recoloring_cycles,
        };
        prop_assert_eq!(&fast, slow);
        prop_assert!(actions.requests.is_empty() && actions.cycles == 0);
        let all = (0..PAGES).filter(|&page| fast.drops_all || fast.drops == Some(page));
        all.for_each(|page| self.drop_unit(self.unit(page)));
        Ok(fast.moves)
    }

    fn recolor(&mut self, moves: Vec<(u64, u64)>) {
        for (page, color) in moves {
            let unit = self.unit(page);
            self.split(unit);
            let frame =
                (self.next_frame..).find(|frame| frame % self.colors == color).expect("it is endless");
            self.give(page, frame);
            self.tell(PolicyEvent::Recolored { page, frame: Frame(frame) });
            self.drop_unit(unit);
        }
    }

    /// Makes base pages of a superpage; its translations are still to be dropped.
    fn split(&mut self, unit: Superpage) {
        if unit.order > 0 {
            unit.pages().for_each(|page| self.orders[page as usize] = 0);
            self.tell(PolicyEvent::Demoted(unit));
        }
    }

    /// Gives a block new frames, aligned as a superpage needs them.
    fn renew(&mut self, block: Superpage) {
        let frames = self.next_frame.next_multiple_of(block.len())..;
        for (page, frame) in block.pages().zip(frames) {
            self.give(page, frame);
            self.slow.left_frame(page);
        }
    }

    fn promote(&mut self, block: Superpage) {
        if self.unit(block.first).order < block.order {
            self.tlbs.retain(|&(_, unit, _)| !block.holds(unit));
            block.pages().for_each(|page| self.orders[page as usize] = block.order);
            self.renew(block);
            self.tell(PolicyEvent::Promoted(block));
        }
    }

    fn unmap(&mut self, block: Superpage) {
        block.pages().for_each(|page| self.drop_unit(self.unit(page)));
        self.tell(PolicyEvent::Flushed(&block.pages()));
        block.pages().for_each(|page| self.split(self.unit(page)));
        block.pages().for_each(|page| self.tell(PolicyEvent::Gone(page)));
        self.renew(block);
    }

    fn miss_tlb(&mut self, tlb: usize, page: u64) -> Result<(), TestCaseError> {
        let (unit, cycles) = (self.unit(page), self.cycles);
        let held: Vec<_> = self.tlbs.iter().map(|&(_, unit, page)| self.translation(unit, page)).collect();
        let frame = Some(Frame(self.frames[page as usize]));
        let miss = Miss { tlb, unit, entry: unit, page, frame, instructions: cycles / 2, cycles };
        self.tell(PolicyEvent::Missed { miss, accounts: &Accounts::default() });
        let slow = self.slow.missed(self.translation(unit, page), &held, cycles);
        let moves = self.compare(&slow)?;
        if self.tlbs.iter().filter(|held| held.0 == tlb).count() == ENTRIES {
            let oldest = self.tlbs.iter().position(|held| held.0 == tlb).expect("it is full");
            let (_, unit, _) = self.tlbs.remove(oldest);
            self.tell(PolicyEvent::Left { tlb, entry: unit, lost: false });
        }
        self.tlbs.push((tlb, unit, page));
        self.tell(PolicyEvent::Entered { tlb, entry: unit });
        self.recolor(moves);
        Ok(())
    }

    fn miss_cache(&mut self, frame: u64, page: Option<u64>) -> Result<(), TestCaseError> {
        let cycles = self.cycles;
        self.tell(PolicyEvent::CacheMissed(CacheMiss { page, frame: Frame(frame), cycles }));
        let slow = self.slow.cache_missed(frame, page, cycles);
        let moves = self.compare(&slow)?;
        self.recolor(moves);
        Ok(())
    }

    fn hit_cache(&mut self, frame: u64) {
        self.tell(PolicyEvent::CacheHit(Frame(frame)));
        self.slow.cache_hit(frame);
    }

    fn run(&mut self, op: &Op) -> Result<(), TestCaseError> {
        match *op {
            Op::Use { page, tlb, cycles, lines } => {
                self.cycles += cycles;
                // A superpage has one color here, that of the page that missed. Two TLBs could disagree.
                let tlb = if self.unit(page).order > 0 { 0 } else { tlb };
                if !self.tlbs.iter().any(|&(of, unit, _)| of == tlb && unit.pages().contains(&page)) {
                    self.miss_tlb(tlb, page)?;
                }
                for _ in 0..lines {
                    self.miss_cache(self.frames[page as usize], Some(page))?;
                }
            }
            Op::Foreign { frame } => self.miss_cache(frame, None)?,
            Op::Hits { page, times } => (0..times).for_each(|_| self.hit_cache(self.frames[page as usize])),
            Op::Exchange(a, b) if self.unit(a).order == 0 && self.unit(b).order == 0 => {
                self.frames.swap(a as usize, b as usize);
                [a, b].into_iter().for_each(|page| self.drop_unit(self.unit(page)));
            }
            Op::Exchange(..) => {}
            Op::Promote(block) => self.promote(block),
            Op::Split(page) => {
                let unit = self.unit(page);
                self.split(unit);
                self.drop_unit(unit);
            }
            Op::Unmap(block) => self.unmap(block),
            Op::OtherCore { behind } => self.cycles = self.cycles.saturating_sub(behind),
        }
        Ok(())
    }
}

fn check(twin: Twin, (colors, lines, seed): (u64, u64, u64), ops: &[Op]) -> Result<(), TestCaseError> {
    let mut machine = Machine::new(twin, colors, lines, seed);
    ops.iter().try_for_each(|op| machine.run(op))
}

/// Misses of frames, among which 0 stands for a clear, and 1 and 2 for a drop.
fn buffer_ops() -> impl Strategy<Value = Vec<(u64, u8)>> {
    prop::collection::vec((prop_oneof![0..30_u64, 0..6_u64], 0..40_u8), 1..300)
}

fn check_buffers(
    fast: &mut impl MissBuffer,
    list: &mut impl MissList,
    (frame, what): (u64, u8),
) -> Result<(), TestCaseError> {
    match what {
        0 => {
            fast.clear();
            list.clear();
        }
        1 | 2 => {
            fast.keep(|tuple| tuple.frame != Frame(frame));
            list.remove(frame);
        }
        _ => prop_assert_eq!(fast.count(Frame(frame), None), list.miss(frame, None)),
    }
    let counts: Vec<_> = fast.tuples().map(|tuple| (tuple.frame.0, tuple.count)).collect();
    prop_assert_eq!(counts, list.counts());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(300), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_cml_buffer_counts_as_the_oracle_does((recent, hot) in (1..6_usize, 0..6_usize), ops in buffer_ops()) {
        let (mut fast, mut list) = (CmlBuffer::new(recent, hot), CmlList::new(recent, hot));
        for op in ops {
            check_buffers(&mut fast, &mut list, op)?;
        }
    }

    #[test]
    fn space_saving_counts_as_the_oracle_does_and_as_its_source_promises(
        entries in 1..9_usize, ops in buffer_ops(),
    ) {
        let (mut fast, mut list) = (SpaceSaving::new(entries), SpaceSavingList::new(entries));
        let mut were_dropped = false;
        for op in ops {
            check_buffers(&mut fast, &mut list, op)?;
            were_dropped = (were_dropped || op.1 == 1 || op.1 == 2) && op.1 != 0;
            for (frame, most, least) in list.bounds().into_iter().filter(|_| !were_dropped) {
                prop_assert!((least..=most).contains(&list.truth(frame)));
            }
            for frame in (0..30).filter(|&frame| !were_dropped && list.truth(frame) * entries > list.misses()) {
                prop_assert!(fast.tuples().any(|tuple| tuple.frame.0 == frame), "{frame} is frequent");
            }
        }
    }

    #[test]
    fn cml_moves_what_the_oracle_moves(
        (settings, buffer, lines) in cml(), (colors, seed) in (1..9_u64, any::<u64>()),
        ops in prop::collection::vec(op(), 1..250),
    ) {
        check(cml_twin(settings, buffer, colors, lines), (colors, lines, seed), &ops)?;
    }

    #[test]
    fn sites_moves_what_the_oracle_moves(
        (settings, lines) in sites(), (colors, seed) in (1..9_u64, any::<u64>()),
        ops in prop::collection::vec(op(), 1..250),
    ) {
        check(sites_twin(settings, colors, lines), (colors, lines, seed), &ops)?;
    }

    #[test]
    fn snapshots_move_what_the_oracle_moves(
        settings in snapshot(), (colors, seed) in (1..9_u64, any::<u64>()),
        ops in prop::collection::vec(op(), 1..250),
    ) {
        check(snapshot_twin(settings, colors), (colors, 1, seed), &ops)?;
    }

    #[test]
    fn active_policies_move_what_the_oracle_moves(
        (misses, interval) in (1..5_u64, prop_oneof![Just(0), 1..200_u64]),
        (colors, seed) in (1..12_u64, any::<u64>()),
        ops in prop::collection::vec(op(), 1..250),
    ) {
        check(active_twin(misses, interval, colors), (colors, 1, seed), &ops)?;
    }

    #[test]
    fn capped_policies_move_what_the_oracle_moves(
        (settings, buffer, lines) in cml(), misses in prop::option::of(1..4_u64),
        (copies, of_page, cycles) in (1..6_u64, 1..4_u64, 1..400_u64),
        (colors, seed) in (1..9_u64, any::<u64>()),
        ops in prop::collection::vec(op(), 1..250),
    ) {
        let (fast, slow) = match misses {
            None => cml_twin(settings, buffer, colors, lines),
            Some(misses) => active_twin(misses, 0, colors),
        };
        let cap = CopyCap { copies, copies_of_page: of_page, cycles };
        let slow = slow::Capped::new(slow, (copies as usize, of_page as usize, cycles));
        let twin: Twin = (Box::new(Capped::new(fast, cap)), Box::new(slow));
        check(twin, (colors, lines, seed), &ops)?;
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
        check(twin, (colors, 1, seed), &ops)?;
    }
}
