//! The color that a page moves to.

use pagewalk_units::Draws;
use std::collections::BTreeMap;

/// How the target is chosen (Romer 1998, sections 5.3.2 and 5.6.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TargetRule {
    /// The colors in turn.
    #[default]
    Sequential,
    /// The color with the fewest misses that the policy has counted; of several, the next in turn.
    ColdestMiss,
    /// The color with the fewest references since the policy began to count; of several, the next in turn. No hardware
    /// counts them.
    ColdestReference,
    /// A random color.
    Random,
}

/// Chooses target colors.
#[derive(Clone, Debug)]
pub struct Targets {
    rule: TargetRule,
    next: u64,
    draws: Draws,
    /// By color.
    references: BTreeMap<u64, u64>,
}

impl Targets {
    /// Targets by a rule; random ones are drawn with this seed.
    pub fn new(rule: TargetRule, seed: u64) -> Targets {
        Targets { rule, next: 0, draws: Draws::new(seed), references: BTreeMap::new() }
    }

    /// Whether each reference must be told with [`Targets::referenced`].
    pub fn counts_references(&self) -> bool {
        self.rule == TargetRule::ColdestReference
    }

    /// A reference of the cache.
    pub fn referenced(&mut self, color: u64) {
        if self.counts_references() {
            *self.references.entry(color).or_default() += 1;
        }
    }

    /// Counts references anew.
    pub fn clear(&mut self) {
        self.references.clear();
    }

    /// A color of `colors` that is not `excluded`; `None` if all are. `misses`: misses counted by color.
    pub fn choose(&mut self, colors: u64, excluded: &[u64], misses: impl Fn(u64) -> u64) -> Option<u64> {
        let start = if self.rule == TargetRule::Random { self.draws.below(colors) } else { self.next };
        let in_turn = (start..start + colors).map(|color| color % colors);
        let mut allowed = in_turn.filter(|color| !excluded.contains(color));
        let color = match self.rule {
            TargetRule::Sequential | TargetRule::Random => allowed.next(),
            TargetRule::ColdestMiss => allowed.min_by_key(|&color| misses(color)),
            TargetRule::ColdestReference => allowed.min_by_key(|color| self.references.get(color).copied()),
        }?;
        self.next = (color + 1) % colors;
        Some(color)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_come_in_turn_without_the_excluded_ones() {
        let mut targets = Targets::new(TargetRule::Sequential, 0);
        let chosen: Vec<_> = (0..5).map(|_| targets.choose(4, &[1], |_| 0)).collect();
        assert_eq!(chosen, [Some(0), Some(2), Some(3), Some(0), Some(2)]);
        assert_eq!(targets.choose(2, &[0, 1], |_| 0), None);
        let mut coldest = Targets::new(TargetRule::ColdestMiss, 0);
        assert_eq!(coldest.choose(4, &[3], |color| 9 - color), Some(2));
    }

    #[test]
    fn a_color_without_references_is_the_coldest() {
        let mut targets = Targets::new(TargetRule::ColdestReference, 0);
        [0, 1, 1, 2, 3, 3].into_iter().for_each(|color| targets.referenced(color));
        assert_eq!(targets.choose(4, &[0], |_| 0), Some(2));
        assert_eq!(targets.choose(5, &[0], |_| 0), Some(4), "nothing is less than one reference");
        targets.clear();
        assert_eq!(targets.choose(4, &[], |_| 0), Some(0), "in turn");
    }
}
