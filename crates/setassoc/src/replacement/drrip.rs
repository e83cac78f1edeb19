//! Dynamic re-reference interval prediction, DRRIP: the better of two policies, found by set dueling.
//!
//! Both are [`super::srrip`] with 2 bits, except for the prediction of a fill: SRRIP always predicts 2; BRRIP, for
//! working sets that do not fit, predicts 3, and 2 with a chance of 1 in 32. In each array 32 leader sets always fill
//! like SRRIP and 32 like BRRIP. A saturating counter of 10 bits counts up at fills (misses) of the former and down at
//! fills of the latter. The other sets fill like BRRIP if its highest bit is set, and otherwise like SRRIP.
//!
//! Sources: Jaleel, Theobald, Steely, Emer, "High Performance Cache Replacement Using Re-Reference Interval Prediction
//! (RRIP)", ISCA 2010, for the policies, the number of leaders and the counter. Qureshi, Jaleel, Patt, Steely, Emer,
//! "Adaptive Insertion Policies for High Performance Caching", ISCA 2007, for the choice of leaders: complement-select.
//! It cuts the sets into as many runs as each policy has leaders. In run n the set n places after the start
//! (cyclically) leads SRRIP, and the one n places before the end leads BRRIP.
//!
//! Choices where they are silent: The counter begins at 511, so SRRIP leads until its leaders miss more. Arrays of
//! fewer than 128 sets use a quarter of their sets as leaders of each policy, so that half follow; arrays of one or two
//! sets have no leaders and are SRRIP. Fills by prefetches and of victims count as misses too. Only fills of BRRIP draw
//! a random number ([`Draws`]), one each. Emptying an array keeps its counter.
//!
//! State: a byte per entry, one per set, and a counter. Cost: that of SRRIP, plus a draw per fill of BRRIP.

use super::srrip::Srrip;
use crate::{Geometry, NamedPolicy, RelevantHits, ReplacementError, ReplacementPolicy};
use pagewalk_units::Draws;

/// Leaders of each policy, if there are enough sets.
const LEADERS: usize = 32;
/// The counter's highest value.
const PSEL_MAX: u16 = (1 << 10) - 1;
/// The lowest value with the highest bit.
const PSEL_MIDDLE: u16 = 1 << 9;
/// BRRIP predicts a long interval, not a distant one, once in this many fills.
const BIMODAL: u64 = 32;

/// How a set fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    LeadsSrrip,
    LeadsBrrip,
    Follows,
}

/// Predictions, roles, and the counter.
#[derive(Clone, Debug)]
pub struct Drrip {
    predictions: Srrip<2>,
    roles: Vec<Role>,
    psel: u16,
    draws: Draws,
}

/// The role of each of `sets`, a power of two.
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

    /// The paper's example: with 1,024 sets and 32 leaders of each, the leaders are multiples of 33, and of 31 except
    /// 0.
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

    /// In a loop over 5 keys per 4 ways, SRRIP and LRU always miss; BRRIP and its followers keep most keys.
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
