//! Initial states have exactly the requested free blocks, and impossible ones are refused.

use pagewalk_mm::frames::{BlockState, Buddy, BuddyInfo, Initial, MemoryError, MemorySpec};
use pagewalk_oracle::cases;
use pagewalk_units::PageSize;
use proptest::prelude::*;

fn build(spec: &MemorySpec) -> Result<Buddy, MemoryError> {
    spec.build(PageSize::FOUR_KIB, |path| Err::<String, _>(format!("{path} is not there")))
}

/// A memory of some frames, as a host with these free blocks.
fn like_host(frames: u64, free: &[u64], seed: u64) -> MemorySpec {
    let counts: Vec<String> = free.iter().map(u64::to_string).collect();
    let text = format!("Node 0, zone Normal {}", counts.join(" "));
    MemorySpec { initial: Initial::BuddyInfo(text), seed, ..MemorySpec::empty(frames << 12) }
}

fn free_blocks(buddy: &Buddy) -> Vec<u64> {
    (0..=buddy.max_order()).map(|order| buddy.free_blocks(order)).collect()
}

/// Blocks lie side by side from frame 0 to the last, no two free ones are buddies, and the sums agree.
fn is_sound(buddy: &Buddy) -> Result<(), TestCaseError> {
    let (mut next, mut free) = (0, 0);
    for (block, state) in buddy.blocks() {
        prop_assert_eq!(block.first.0, next);
        next += block.frames();
        if state == BlockState::Free {
            free += block.frames();
            let other = block.first.0 ^ block.frames();
            let other = buddy.block_of(pagewalk_mm::frames::Frame(other));
            let merged = block.order == buddy.max_order()
                || other.is_none_or(|(of, state)| of.order != block.order || state != BlockState::Free);
            prop_assert!(merged, "{:?} and its buddy are both free", block);
        } else {
            prop_assert_eq!(block.order, 0);
        }
    }
    prop_assert_eq!((next, free), (buddy.frames(), buddy.free_frames()));
    Ok(())
}

/// Whether so many free blocks can be placed so that no two are buddies, found by trying all ways to split a memory of
/// `frames` frames from the largest order down: at each order only the number of blocks that are not wholly free or
/// used matters.
fn is_possible(frames: u64, free: &[u64]) -> bool {
    fn place(frames: u64, free: &[u64], order: usize, parents: u64) -> bool {
        let top = order + 1 == free.len();
        let roots = if top { frames >> order } else { frames >> order & 1 };
        let holders = parents + roots;
        if free[order] > holders {
            return false;
        }
        let rest = 2 * parents + roots - free[order];
        order == 0 || (0..=rest).rev().any(|mixed| place(frames, free, order - 1, mixed))
    }
    place(frames, free, free.len() - 1, 0)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(300), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn exactly_the_free_blocks_of_a_host(
        frames in 1..5_000_u64, free in prop::collection::vec(0..40_u64, 1..8), seed in any::<u64>(),
    ) {
        let spec = like_host(frames, &free, seed);
        match build(&spec) {
            Ok(buddy) => {
                prop_assert_eq!(free_blocks(&buddy), free);
                is_sound(&buddy)?;
                prop_assert_eq!(&build(&spec).unwrap(), &buddy, "the same seed");
            }
            Err(error) => prop_assert!(matches!(error, MemoryError::NoRoom { .. }), "{}", error),
        }
    }

    #[test]
    fn refuses_exactly_what_is_impossible(
        frames in 1..40_u64, free in prop::collection::vec(0..8_u64, 1..5), seed in any::<u64>(),
    ) {
        prop_assert_eq!(build(&like_host(frames, &free, seed)).is_ok(), is_possible(frames, &free));
    }

    /// Every state that a history of allocations can leave can be created as an initial state.
    #[test]
    fn any_state_can_be_made_again(
        frames in 1..3_000_u64, max_order in 0..8_u32, freed in prop::collection::vec((any::<u64>(), 0..8_u32), 0..200),
        seed in any::<u64>(),
    ) {
        let mut buddy = Buddy::new(frames, max_order);
        let single: Vec<_> = std::iter::from_fn(|| buddy.allocate(0)).collect();
        for (number, order) in freed {
            let first = ((number % frames) >> order) << order;
            for frame in single.iter().filter(|frame| frame.0 >= first && frame.0 < first + (1 << order)) {
                if buddy.block_of(*frame).unwrap().1 != BlockState::Free {
                    buddy.free(*frame, 0);
                }
            }
        }
        let again = build(&like_host(frames, &free_blocks(&buddy), seed)).unwrap();
        prop_assert_eq!(free_blocks(&again), free_blocks(&buddy));
        is_sound(&again)?;
    }

    #[test]
    fn fragmentation_is_one_less_the_unusable_index(
        frames in 1_000..40_000_u64, mut shares in prop::collection::vec(0.0..1.0_f64, 0..8), free in 0.0..0.5_f64,
        unmovable in 0.0..1.0_f64, unmovable_order in 0..12_u32, seed in any::<u64>(),
    ) {
        shares.push(1.0);
        shares.sort_by(|a, b| b.total_cmp(a));
        let initial = Initial::Fragmented { fragmentation: shares.clone(), free };
        let spec = MemorySpec {
            initial, unmovable, unmovable_order, seed, max_order: Some(10), ..MemorySpec::empty(frames << 12)
        };
        let Ok(buddy) = build(&spec) else { return Ok(()) };
        is_sound(&buddy)?;
        prop_assert_eq!(buddy.free_frames(), (free * frames as f64).round() as u64);
        for (order, share) in (0..).zip(&shares) {
            let usable: u64 = (order..=10).map(|order| buddy.free_blocks(order) << order).sum();
            let asked = share * buddy.free_frames() as f64;
            let less = asked.round() - usable as f64;
            prop_assert!((0.0..f64::from(1 << order)).contains(&less), "order {}: {} less", order, less);
        }
        let pinned = buddy.blocks().filter(|(_, state)| *state == BlockState::Unmovable).count();
        prop_assert_eq!(pinned as u64, (unmovable * buddy.used_frames() as f64).round() as u64);
    }
}

#[test]
fn a_real_host() {
    let text = "\
Node 0, zone      DMA      0      0      0      0      0      0      0      0      1      1      3 
Node 0, zone    DMA32      1      1      4      2      5      4      3      3      4      2    752 
Node 0, zone   Normal     71     15    785    841    682    414    280    109      0      0   1090 
";
    let host: BuddyInfo = text.parse().unwrap();
    let spec = MemorySpec {
        initial: Initial::BuddyInfo("host.txt".to_owned()),
        seed: 1,
        ..MemorySpec::empty(24 << 30)
    };
    let buddy = spec
        .build(PageSize::FOUR_KIB, |path| {
            assert_eq!(path, "host.txt");
            Ok::<_, String>(text.to_owned())
        })
        .unwrap();
    assert_eq!(free_blocks(&buddy), host.free_blocks());
    assert_eq!(buddy.max_order(), 10);
    let other = MemorySpec { seed: 2, ..spec.clone() };
    let other = other.build(PageSize::FOUR_KIB, |_| Ok::<_, String>(text.to_owned())).unwrap();
    assert_eq!(free_blocks(&other), host.free_blocks());
    assert_ne!(other, buddy, "another seed");
    let error = build(&spec).unwrap_err().to_string();
    assert_eq!(error, "memory: buddyinfo = \"host.txt\": host.txt is not there");
}

#[test]
fn unmovable_frames_fill_page_blocks() {
    let initial = Initial::Fragmented { fragmentation: vec![1.0], free: 0.25 };
    let spec =
        MemorySpec { initial, unmovable: 0.1, unmovable_order: 9, seed: 3, ..MemorySpec::empty(256 << 20) };
    let page_blocks = |spec: &MemorySpec| {
        let mut touched = [false; 128];
        for (block, state) in build(spec).unwrap().blocks() {
            touched[(block.first.0 >> 9) as usize] |= state == BlockState::Unmovable;
        }
        touched.iter().filter(|&&touched| touched).count()
    };
    assert!((12..=14).contains(&page_blocks(&spec)), "{}", page_blocks(&spec));
    assert_eq!(page_blocks(&MemorySpec { unmovable_order: 0, ..spec }), 128);
}

#[test]
fn other_frame_sizes_and_odd_memories() {
    for (frame, bytes, frames) in [("8K", 24 << 10, 3), ("16K", 1 << 24, 1024), ("64K", 3 << 30, 49_152)] {
        let frame: PageSize = frame.parse().unwrap();
        let buddy = MemorySpec::empty(bytes).build(frame, |_| Ok::<_, String>(String::new())).unwrap();
        assert_eq!((buddy.frames(), buddy.free_frames()), (frames, frames));
    }
    for bytes in [0, 4095, 4097, u64::MAX, (1 << 45) + (1 << 12)] {
        let error = build(&MemorySpec::empty(bytes)).unwrap_err().to_string();
        assert!(
            error.contains(&format!("size = {bytes} bytes with frames of 4096 bytes: choose")),
            "{error}"
        );
    }
}

#[test]
fn impossible_states_are_refused_with_the_reason() {
    let initial = Initial::Fragmented { fragmentation: vec![1.0], free: 0.6 };
    let spec = MemorySpec { initial, max_order: Some(4), ..MemorySpec::empty(1000 << 12) };
    let error = build(&spec).unwrap_err().to_string();
    assert!(
        error.contains("1000 frames cannot hold the 600 free ones asked for") && error.contains("has 62"),
        "{error}"
    );
    let mut host = like_host(4096, &[1, 0, 2], 0);
    host.max_order = Some(10);
    let error = build(&host).unwrap_err().to_string();
    assert!(error.contains("max_order = 10, but the host's free lists end at order 2"), "{error}");
    let huge = like_host(4096, &[u64::MAX, 0], 0);
    assert!(matches!(build(&huge), Err(MemoryError::NoRoom { .. })));
}
