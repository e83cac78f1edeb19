//! The buddy allocator, compaction, eager allocation and reservations against the slow models of `oracle`: every answer
//! and the whole state after every operation, on random memories and operations.

use pagewalk_mm::frames::{BlockState, Buddy, Frame, Initial, MemorySpec, Reservations};
use pagewalk_oracle::{Frames, ReservationList, cases};
use pagewalk_units::PageSize;
use proptest::prelude::*;

/// Numbers stand for whatever they select, modulo how many there are.
#[derive(Clone, Copy, Debug)]
enum Op {
    Allocate(u32),
    AllocateAt(u64, u32),
    AllocateColor(u64, u64),
    Eager(u64),
    Free(usize),
    Split(usize, u32),
    Join(u64, u32),
    Pin(usize, bool),
    Compact(u32),
    Reserve(u64, u32),
    Populate(u64, u64),
    Depopulate(u64, u64),
    BreakLeastRecent,
    BreakUp(u64),
    Take(u64),
}

/// Regions that may have a reservation.
const REGIONS: u64 = 6;

struct Twins {
    fast: Buddy,
    slow: Frames,
    reservations: Reservations<u64>,
    list: ReservationList,
}

impl Twins {
    fn new(frames: u64, max_order: u32) -> Twins {
        Twins {
            fast: Buddy::new(frames, max_order),
            slow: Frames::new(frames, max_order),
            reservations: Reservations::default(),
            list: ReservationList::default(),
        }
    }

    /// A memory in frames of 4 KiB, as it is described.
    fn described(spec: &MemorySpec) -> Option<Twins> {
        let fast = spec.build(PageSize::FOUR_KIB, |_| Err::<String, _>("nothing to read")).ok()?;
        let mut twins = Twins::new(fast.frames(), fast.max_order());
        for (block, state) in fast.blocks().filter(|(_, state)| *state != BlockState::Free) {
            twins.slow.set((block.first.0, block.order), state == BlockState::Unmovable);
        }
        Some(Twins { fast, ..twins })
    }

    /// One of the blocks given out that no reservation holds.
    fn select(&self, number: usize) -> Option<(u64, u32)> {
        let reserved = |block| self.list.list.iter().any(|reserved| reserved.block == block);
        let given_out = self.slow.blocks().into_iter().filter(|(_, state)| state.is_some());
        let blocks: Vec<(u64, u32)> = given_out.map(|(block, _)| block).filter(|&b| !reserved(b)).collect();
        (!blocks.is_empty()).then(|| blocks[number % blocks.len()])
    }

    fn first_of(&self, number: u64, order: u32) -> u64 {
        // Two blocks past the end, too.
        (number % ((self.fast.frames() >> order) + 2)) << order
    }

    fn run(&mut self, op: Op) -> Result<(), TestCaseError> {
        match op {
            Op::Allocate(order) => {
                let fast = self.fast.allocate(order).map(|frame| frame.0);
                prop_assert_eq!(fast, self.slow.allocate(order), "{:?}", op);
            }
            Op::AllocateAt(number, order) => {
                let first = self.first_of(number, order);
                let fast = self.fast.allocate_at(Frame(first), order);
                prop_assert_eq!(fast, self.slow.allocate_at(first, order), "{:?}", op);
            }
            Op::AllocateColor(number, colors) => {
                let fast = self.fast.allocate_color(number % colors, colors).map(|frame| frame.0);
                prop_assert_eq!(fast, self.slow.allocate_color(number % colors, colors), "{:?}", op);
            }
            Op::Eager(number) => {
                let frames = number % (self.fast.frames() + 2);
                let fast = self.fast.allocate_eager(frames);
                let fast: Option<Vec<_>> =
                    fast.map(|blocks| blocks.iter().map(|block| (block.first.0, block.order)).collect());
                prop_assert_eq!(fast, self.slow.allocate_eager(frames), "{:?}", op);
            }
            Op::Free(number) => {
                if let Some((first, order)) = self.select(number) {
                    self.fast.free(Frame(first), order);
                    self.slow.free((first, order));
                }
            }
            Op::Split(number, to) => {
                if let Some((first, order)) = self.select(number) {
                    let to = to % (order + 1);
                    self.fast.split(Frame(first), order, to);
                    self.slow.split((first, order), to);
                }
            }
            Op::Join(number, order) => {
                let first = self.first_of(number, order);
                let range = first..first + (1 << order);
                if !self.list.list.iter().any(|reserved| range.contains(&reserved.block.0)) {
                    let fast = self.fast.join(Frame(first), order);
                    prop_assert_eq!(fast, self.slow.join((first, order)), "{:?}", op);
                }
            }
            Op::Pin(number, unmovable) => {
                if let Some((first, order)) = self.select(number) {
                    if unmovable {
                        self.fast.pin(Frame(first), order);
                    } else {
                        self.fast.unpin(Frame(first), order);
                    }
                    self.slow.pin((first, order), unmovable);
                }
            }
            Op::Compact(order) => self.compact(order)?,
            _ => self.run_on_reservations(op)?,
        }
        self.compare()
    }

    fn compact(&mut self, order: u32) -> Result<(), TestCaseError> {
        let (fast, slow) = (self.fast.compact(order), self.slow.compact(order));
        prop_assert_eq!(fast.is_some(), slow.is_some());
        let (Some(fast), Some((first, moves))) = (fast, slow) else { return Ok(()) };
        prop_assert_eq!((fast.block.first.0, fast.block.order), (first, order));
        let fast_moves: Vec<_> =
            fast.moves.iter().map(|moved| (moved.from.0, moved.to.0, moved.order)).collect();
        prop_assert_eq!(&fast_moves, &moves);
        prop_assert_eq!(fast.frames_moved(), moves.iter().map(|&(_, _, of)| 1 << of).sum::<u64>());
        for (from, to, _) in moves {
            let moved = self.list.list.iter_mut().find(|reserved| reserved.block.0 == from);
            let key = moved.map(|reserved| {
                reserved.block.0 = to;
                reserved.key
            });
            prop_assert_eq!(self.reservations.moved(Frame(from), Frame(to)), key);
        }
        Ok(())
    }

    fn run_on_reservations(&mut self, op: Op) -> Result<(), TestCaseError> {
        let broken = |broken: pagewalk_mm::frames::BrokenReservation<u64>| {
            (broken.key, (broken.block.first.0, broken.block.order), broken.freed)
        };
        let (memory, slow) = (&mut self.fast, &mut self.slow);
        match op {
            Op::Reserve(key, order) if self.list.position(key).is_none() => {
                let fast = self.reservations.reserve(memory, key, order);
                let fast = fast.map(|block| (block.first.0, block.order));
                prop_assert_eq!(fast, self.list.reserve(slow, key, order), "{:?}", op);
            }
            Op::Populate(key, number) => {
                let offset = self.offset(key, number);
                let fast = self.reservations.populate(key, offset).map(|frame| frame.0);
                prop_assert_eq!(fast, self.list.populate(key, offset), "{:?}", op);
            }
            Op::Depopulate(key, number) => {
                let offset = self.offset(key, number);
                let fast = self.reservations.depopulate(&mut self.fast, key, offset);
                prop_assert_eq!(fast, self.list.depopulate(&mut self.slow, key, offset), "{:?}", op);
            }
            Op::BreakLeastRecent => {
                let fast = self.reservations.break_least_recent(memory).map(broken);
                prop_assert_eq!(fast, self.list.break_least_recent(slow), "{:?}", op);
            }
            Op::BreakUp(key) => {
                let fast = self.reservations.break_up(memory, key).map(broken);
                prop_assert_eq!(fast, self.list.break_up(slow, key), "{:?}", op);
            }
            Op::Take(key) => {
                let fast = self.reservations.take(key).map(|block| (block.first.0, block.order));
                let slow = self.list.position(key).map(|at| self.list.list.remove(at).block);
                prop_assert_eq!(fast, slow, "{:?}", op);
            }
            _ => {}
        }
        Ok(())
    }

    fn offset(&self, key: u64, number: u64) -> u64 {
        self.list.position(key).map_or(number, |at| number % self.list.list[at].handed_out.len() as u64)
    }

    /// The whole state: each frame in exactly one block, free blocks as large as they can be, and all sums.
    fn compare(&self) -> Result<(), TestCaseError> {
        let blocks = self.slow.blocks();
        let fast: Vec<_> = self
            .fast
            .blocks()
            .map(|(block, state)| {
                let unmovable = match state {
                    BlockState::Free => None,
                    BlockState::Movable => Some(false),
                    BlockState::Unmovable => Some(true),
                };
                ((block.first.0, block.order), unmovable)
            })
            .collect();
        prop_assert_eq!(&fast, &blocks);
        let frames = |free: bool| -> u64 {
            blocks.iter().filter(|(_, state)| state.is_none() == free).map(|((_, order), _)| 1 << order).sum()
        };
        prop_assert_eq!((self.fast.free_frames(), self.fast.used_frames()), (frames(true), frames(false)));
        prop_assert_eq!(self.fast.free_frames() + self.fast.used_frames(), self.fast.frames());
        let free = self.slow.free_blocks();
        for order in 0..=self.fast.max_order() + 1 {
            let blocks = free.iter().filter(|(_, of)| *of == order).count();
            prop_assert_eq!(self.fast.free_blocks(order), blocks as u64);
            prop_assert_eq!(self.fast.unusable_index(order), self.slow.unusable_index(order));
        }
        prop_assert_eq!(self.fast.largest_free_order(), free.iter().map(|&(_, order)| order).max());
        prop_assert_eq!(self.reservations.len(), self.list.list.len());
        for reserved in &self.list.list {
            let populated = reserved.handed_out.iter().filter(|&&handed_out| handed_out).count();
            let fast = self.reservations.get(reserved.key).expect("both have it");
            prop_assert_eq!((fast.block().first.0, fast.block().order), reserved.block);
            prop_assert_eq!(fast.populated(), populated as u64);
            prop_assert_eq!(fast.is_full(), !reserved.handed_out.contains(&false));
            prop_assert!((0..).zip(&reserved.handed_out).all(|(at, &was)| fast.is_populated(at) == was));
        }
        Ok(())
    }
}

fn op() -> impl Strategy<Value = Op> {
    let order = || (0..9_u32, 0..9_u32).prop_map(|(a, b)| a.min(b));
    let key = 0..REGIONS;
    prop_oneof![
        12 => order().prop_map(Op::Allocate),
        4 => (any::<u64>(), order()).prop_map(|(number, order)| Op::AllocateAt(number, order)),
        4 => (any::<u64>(), 1..9_u64).prop_map(|(number, colors)| Op::AllocateColor(number, colors)),
        1 => any::<u64>().prop_map(Op::Eager),
        1 => (0..40_u64).prop_map(Op::Eager),
        14 => any::<usize>().prop_map(Op::Free),
        3 => (any::<usize>(), any::<u32>()).prop_map(|(number, to)| Op::Split(number, to)),
        3 => (any::<u64>(), order()).prop_map(|(number, order)| Op::Join(number, order)),
        2 => (any::<usize>(), prop::bool::weighted(0.3)).prop_map(|(number, pin)| Op::Pin(number, pin)),
        4 => order().prop_map(Op::Compact),
        3 => (key.clone(), order()).prop_map(|(key, order)| Op::Reserve(key, order)),
        9 => (key.clone(), any::<u64>()).prop_map(|(key, number)| Op::Populate(key, number)),
        2 => (key.clone(), any::<u64>()).prop_map(|(key, number)| Op::Depopulate(key, number)),
        1 => Just(Op::BreakLeastRecent),
        1 => key.clone().prop_map(Op::BreakUp),
        1 => key.prop_map(Op::Take),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(200), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_answer_and_the_whole_state(
        frames in 0..300_u64, max_order in 0..9_u32, ops in prop::collection::vec(op(), 0..150),
    ) {
        let mut twins = Twins::new(frames, max_order);
        twins.compare()?;
        for op in ops {
            twins.run(op)?;
        }
    }

    /// Memory that is nearly full of single frames and small blocks, so that compaction has to work.
    #[test]
    fn compaction_of_crowded_memory(
        frames in 16..200_u64, max_order in 2..7_u32, holes in prop::collection::vec(any::<usize>(), 8..250),
        pinned in prop::collection::vec(any::<usize>(), 0..4),
        orders in prop::collection::vec((0..7_u32, any::<usize>()), 1..12),
    ) {
        let mut twins = Twins::new(frames, max_order);
        for order in [0, 1, 0, 2, 0, 0, 3].into_iter().cycle().take(frames as usize) {
            twins.run(Op::Allocate(order))?;
        }
        for number in pinned {
            twins.run(Op::Pin(number, true))?;
        }
        for number in holes {
            twins.run(Op::Free(number))?;
        }
        for (order, number) in orders {
            twins.run(Op::Compact(order))?;
            twins.run(Op::Allocate(order))?;
            twins.run(Op::Free(number))?;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(200).div_ceil(8), failure_persistence: None, ..ProptestConfig::default()
    })]

    /// Memories of several times 512 frames, which searches for a block to clear pass over as wholes.
    #[test]
    fn compaction_of_large_memory(
        frames in 1_000..4_000_u64, free in 0.05..0.7_f64, large in 0.0..1.0_f64, seed in any::<u64>(),
        unmovable in 0.0..0.02_f64, scattered in any::<bool>(),
        ops in prop::collection::vec((3..11_u32, 0..4_u32, any::<usize>()), 1..8),
    ) {
        let initial = Initial::Fragmented { fragmentation: vec![1.0, large, large / 2.0, large / 8.0], free };
        let unmovable_order = if scattered { 0 } else { 6 };
        let spec = MemorySpec {
            initial, unmovable, unmovable_order, seed, max_order: Some(11), ..MemorySpec::empty(frames << 12)
        };
        let Some(mut twins) = Twins::described(&spec) else { return Ok(()) };
        for (order, small, number) in ops {
            twins.run(Op::Compact(order))?;
            twins.run(Op::Allocate(order))?;
            twins.run(Op::Allocate(small))?;
            twins.run(Op::Free(number))?;
        }
    }
}
