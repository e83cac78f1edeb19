//! Dynamic re-reference interval prediction, DRRIP: the better of two policies, found by set dueling.
//!
//! Both are [`super::srrip`] with 2 bits but for what a fill predicts: SRRIP always 2; BRRIP, for working sets that do
//! not fit, 3, and 2 with a chance of 1 in 32. Of every array 32 sets always fill as SRRIP does and 32 as BRRIP. A
//! counter of 10 bits, which stays at its ends, goes up with each fill of the former, which is a miss, and down with
//! each of the latter. The other sets fill as BRRIP does where its highest bit is set, else as SRRIP.
//!
//! Sources: Jaleel, Theobald, Steely, Emer, "High Performance Cache Replacement Using Re-Reference Interval Prediction
//! (RRIP)", ISCA 2010, for the policies, the number of leaders and the counter. Qureshi, Jaleel, Patt, Steely, Emer,
//! "Adaptive Insertion Policies for High Performance Caching", ISCA 2007, for which sets lead: complement-select. All
//! sets are cut into as many runs of neighbours as each policy has leaders. In run n the set n places behind the
//! beginning, around the end, leads SRRIP, and the one as far before the end leads BRRIP.
//!
//! What they leave open, and what is taken. The counter begins at 511: SRRIP, until its leaders miss more. Arrays of
//! fewer than 128 sets have a quarter of their sets as leaders of each policy, so that half of them follow; those of
//! one or two sets have none and are SRRIP. A fill is a miss, but a fill by a prefetch or of what the level above
//! replaced is one too. Each fill of BRRIP draws one random number ([`Draws`]), and nothing else does. What empties an
//! array leaves its counter.
//!
//! State: a byte for each entry, one for each set, a counter. Cost: as of SRRIP, and a draw for each fill of BRRIP.

use super::srrip::Srrip;
use crate::{Geometry, NamedPolicy, RelevantHits, ReplacementError, ReplacementPolicy};
use pagewalk_units::Draws;

/// Sets that lead each policy, where there are enough.
const LEADERS: usize = 32;
/// The counter's highest value.
const PSEL_MAX: u16 = (1 << 10) - 1;
/// The lowest with the highest bit.
const PSEL_MIDDLE: u16 = 1 << 9;
/// BRRIP predicts an interval that is not distant once in so many fills.
const BIMODAL: u64 = 32;

/// How a set fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    LeadsSrrip,
    LeadsBrrip,
    Follows,
}

/// Predictions, roles, and who is ahead.
#[derive(Clone, Debug)]
pub struct Drrip {
    predictions: Srrip<2>,
    roles: Vec<Role>,
    psel: u16,
    draws: Draws,
}

/// What each of so many sets, a power of two, does.
fn roles(sets: usize) -> Vec<Role> {
    let leaders = LEADERS.min(sets / 4);
    let run = sets.checked_div(leaders).unwrap_or(sets);
    let role = |set: usize| match (set / run % run, set % run) {
        _ if leaders == 0 => Role::Follows,
        (place, at) if at == place => Role::LeadsSrrip,
        (place, at) if at == run - 1 - place => Role::LeadsBrrip,
        _ => Role::Follows,
    };
    (0..sets).map(role).collect()
}

impl NamedPolicy for Drrip {
    const NAME: &'static str = "drrip";
    const RELEVANT_HITS: RelevantHits = RelevantHits::Each;

    fn of(geometry: Geometry, seed: u64) -> Result<Drrip, ReplacementError> {
        Ok(Drrip {
            predictions: Srrip::new(geometry),
            roles: roles(geometry.sets()),
            psel: PSEL_MIDDLE - 1,
            draws: Draws::new(seed),
        })
    }
}

impl ReplacementPolicy for Drrip {
    #[inline(always)]
    fn hit(&mut self, set: usize, way: usize) {
        self.predictions.hit(set, way);
    }

    #[inline]
    fn victim(&mut self, set: usize) -> usize {
        self.predictions.victim(set)
    }

    #[inline]
    fn fill(&mut self, set: usize, way: usize) {
        let bimodal = match self.roles[set] {
            Role::LeadsSrrip => {
                self.psel = (self.psel + 1).min(PSEL_MAX);
                false
            }
            Role::LeadsBrrip => {
                self.psel = self.psel.saturating_sub(1);
                true
            }
            Role::Follows => self.psel >= PSEL_MIDDLE,
        };
        let distant = bimodal && self.draws.below(BIMODAL) > 0;
        let interval = if distant { Srrip::<2>::DISTANT } else { Srrip::<2>::LONG };
        self.predictions.predict(set, way, interval);
    }

    fn remove(&mut self, _set: usize, _way: usize) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Replacement, SetArray};

    fn leading(sets: usize, role: Role) -> Vec<usize> {
        let roles = roles(sets);
        (0..sets).filter(|&set| roles[set] == role).collect()
    }

    /// The paper's example, 1,024 sets and 32 leaders of each: multiples of 33, and of 31 but for 0.
    #[test]
    fn qureshi_2007_complement_select() {
        let multiples = |of: usize, first: usize| (0..32).map(|n| first + n * of).collect::<Vec<_>>();
        assert_eq!(leading(1024, Role::LeadsSrrip), multiples(33, 0));
        assert_eq!(leading(1024, Role::LeadsBrrip), multiples(31, 31));
    }

    #[test]
    fn half_of_few_sets_follow() {
        for sets in (0..16).map(|bits| 1 << bits) {
            let leaders = LEADERS.min(sets / 4);
            for role in [Role::LeadsSrrip, Role::LeadsBrrip] {
                assert_eq!(leading(sets, role).len(), leaders, "{sets} sets");
            }
        }
    }

    /// A loop over 5 keys for each 4 ways: SRRIP and LRU miss always, BRRIP keeps most of them, and so do followers.
    #[test]
    fn a_loop_that_does_not_fit_is_kept_in_part() {
        let misses = |name| {
            let replacement = Replacement::from_name(name, 1).unwrap();
            let mut array = SetArray::new(Geometry::new(1024, Some(4)).unwrap(), replacement).unwrap();
            let loops = (0..200).flat_map(|_| 0..5 * 256_u64);
            loops.filter(|&key| !array.touch(key, key) && (array.insert(key, key), true).1).count()
        };
        assert_eq!(misses("lru"), 200 * 5 * 256);
        let (srrip, drrip) = (misses("srrip"), misses("drrip"));
        assert!(2 * drrip < srrip, "{drrip}, {srrip}");
    }
}
