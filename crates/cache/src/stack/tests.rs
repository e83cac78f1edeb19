use super::*;
use pagewalk_setassoc::Geometry;
use proptest::prelude::*;

const SETS: usize = 4;

fn spec(ways: u32, slices: u32) -> CacheSpec {
    let geometry = Geometry::new(SETS as u32 * ways, Some(ways)).expect("a power of two of sets");
    CacheSpec { slices, ..CacheSpec::plain("l2", 2, &[Requester::Load, Requester::Store], geometry, 10) }
}

/// All lines of a cache in one list, from the latest to the oldest: each with its set and its dirt.
#[derive(Clone, Default)]
struct Plain {
    ways: usize,
    lines: Vec<(usize, u64, bool)>,
}

impl Plain {
    fn take(&mut self, line: u64) -> Option<(usize, u64, bool)> {
        let place = self.lines.iter().position(|&(_, held, _)| held == line)?;
        Some(self.lines.remove(place))
    }

    fn touch(&mut self, line: u64, soils: bool) -> bool {
        let held = self.take(line);
        held.into_iter().for_each(|(set, line, dirty)| self.lines.insert(0, (set, line, dirty || soils)));
        held.is_some()
    }

    fn fill(&mut self, set: usize, line: u64, dirty: bool) -> Option<(u64, bool)> {
        let oldest = self.oldest(set);
        oldest.into_iter().for_each(|(line, _)| _ = self.take(line));
        self.lines.insert(0, (set, line, dirty));
        oldest
    }

    fn soil(&mut self, line: u64) -> bool {
        let held = self.lines.iter_mut().find(|(_, held, _)| *held == line);
        held.map(|(_, _, dirty)| *dirty = true).is_some()
    }

    fn of_set(&self, set: usize) -> Vec<(u64, bool)> {
        let own = self.lines.iter().filter(|&&(of, _, _)| of == set);
        own.map(|&(_, line, dirty)| (line, dirty)).collect()
    }

    fn oldest(&self, set: usize) -> Option<(u64, bool)> {
        self.of_set(set).get(self.ways - 1).copied()
    }
}

/// Few lines for each set, from so many tops.
fn line(tops: u64) -> impl Strategy<Value = u64> {
    (0..tops, 0..12_u64).prop_map(|(top, low)| top << 30 | low)
}

/// What is done to one of two stacks of a cache.
#[derive(Clone, Debug)]
enum Step {
    Enter(u64, bool),
    Touch(u64, bool),
    Give(u64),
    Soil(u64),
    Use(Vec<(u64, bool)>),
    /// Takes the sets of a part from the other.
    Take(usize),
}

fn step(tops: u64) -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (line(tops), any::<bool>()).prop_map(|(line, soils)| Step::Enter(line, soils)),
        1 => (line(tops), any::<bool>()).prop_map(|(line, soils)| Step::Touch(line, soils)),
        1 => line(tops).prop_map(Step::Give),
        1 => line(tops).prop_map(Step::Soil),
        1 => prop::collection::vec((line(tops), any::<bool>()), 0..4).prop_map(Step::Use),
        1 => (0..2_usize).prop_map(Step::Take),
    ]
}

/// Does it to the first of two stacks, and to the first of two lists.
fn take_step(step: Step, stacks: &mut [LruStack; 2], plain: &mut [Plain; 2]) -> Result<(), TestCaseError> {
    let ([stack, other], [lines, other_lines]) = (stacks, plain);
    let shape = stack.shape;
    match step {
        Step::Enter(line, soils) => {
            let expected = match lines.touch(line, soils) {
                true => None,
                false => Some(lines.fill(shape.set(line), line, soils)),
            };
            let left = match stack.enter(Portable, line, soils) {
                Entered::Held => None,
                Entered::Filled(oldest) => Some(oldest.line()),
            };
            prop_assert_eq!(left, expected);
            if soils {
                stack.soil_latest(line);
            }
        }
        Step::Touch(line, soils) => {
            prop_assert_eq!(stack.touch(Portable, line, soils), lines.touch(line, soils));
        }
        Step::Give(line) => {
            let expected = lines.take(line).map(|(_, _, dirty)| dirty);
            prop_assert_eq!(stack.give(Portable, line), expected);
        }
        Step::Soil(line) => prop_assert_eq!(stack.soil(line), lines.soil(line)),
        Step::Use(all) => {
            let held = all.iter().take_while(|&&(line, uses)| match uses {
                true => lines.touch(line, false),
                false => lines.soil(line),
            });
            let held: Vec<bool> = held.map(|&(_, uses)| uses).collect();
            let all = all.iter().map(|&(line, uses)| (line, uses.then_some(Requester::Load)));
            let mut hits = [0; 4];
            prop_assert_eq!(stack.use_while_held(all, &mut hits), held.len());
            let uses = held.into_iter().filter(|&uses| uses).count() as u64;
            prop_assert_eq!(hits, [0, uses, 0, 0]);
        }
        Step::Take(part) => {
            let mut own = (0..=shape.mask as usize).filter(|set| set % 2 == part);
            let is_same = own.all(|set| lines.of_set(set) == other_lines.of_set(set));
            prop_assert_eq!(stack.has_sets_of(other, part, 2), is_same);
            stack.set_part(part, 2, &other.sets_of_part(part, 2));
            lines.lines.retain(|(set, _, _)| set % 2 != part);
            lines.lines.extend(other_lines.lines.iter().filter(|(set, _, _)| set % 2 == part));
        }
    }
    Ok(())
}

proptest! {
    /// Whatever the words, and after they have run out: the same as a plain list.
    #[test]
    fn words_change_nothing(
        ways in prop_oneof![1..=8_u32, 9..=16_u32, 17..=32_u32],
        slices in 1..=3_u32,
        // More than there are words in the third case.
        (before, steps) in prop_oneof![Just((0, 2)), Just((0, 40)), Just((600, 600))].prop_flat_map(
            |(before, tops)| (Just(before), prop::collection::vec((any::<bool>(), step(tops)), 1..400))
        ),
    ) {
        let mut stacks = [0, 1].map(|_| LruStack::new(&spec(ways, slices)));
        let mut plain = [0, 1].map(|_| Plain { ways: ways as usize, lines: Vec::new() });
        let (shape, sets) = (stacks[0].shape, 0..=stacks[0].shape.mask as usize);
        let first = (0..before).map(|top| (false, Step::Enter(top << 30, false)));
        for (swaps, step) in first.chain(steps) {
            if swaps {
                stacks.swap(0, 1);
                plain.swap(0, 1);
            }
            take_step(step, &mut stacks, &mut plain)?;
        }
        for (stack, lines) in stacks.iter().zip(&plain) {
            for set in sets.clone() {
                prop_assert_eq!(stack.lines_of(set, set), lines.of_set(set));
                // With slices, not every set has one of the first lines.
                if let Some(line) = (0..200).find(|&line| shape.set(line) == set) {
                    prop_assert_eq!(stack.oldest(line).line(), lines.oldest(set));
                }
            }
            let sorted = |mut all: Vec<u64>| { all.sort_unstable(); all };
            let all = lines.lines.iter().map(|&(_, line, _)| line).collect();
            prop_assert_eq!(sorted(stack.all()), sorted(all));
        }
    }
}
