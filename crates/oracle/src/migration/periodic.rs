//! Periodic policies: a page in a TLB moves now and then.

use super::{MigrationModel, Target, TargetChoice, Translation, Wishes, pages_of, shared_colors};
use pagewalk_units::Draws;

/// The policy.
#[derive(Clone, Debug)]
pub struct Periodic {
    /// Whether only pages move that share a color.
    competing: bool,
    period: u64,
    colors: u64,
    draws: Draws,
    target: Target,
    /// When it looked last.
    last: u64,
}

impl Periodic {
    /// The policy for so many colors. `draws`: for pages, and for colors.
    pub fn new(competing: bool, period: u64, colors: u64, draws: [Draws; 2]) -> Periodic {
        let [draws, targets] = draws;
        let target = Target::new(TargetChoice::Random, targets);
        Periodic { competing, period, colors, draws, target, last: 0 }
    }
}

impl MigrationModel for Periodic {
    /// It looks at the first miss after each period.
    fn missed(&mut self, _: Translation, tlbs: &[Translation], cycles: u64) -> Wishes {
        let mut wishes = Wishes::default();
        if cycles < self.last + self.period {
            return wishes;
        }
        self.last = cycles;
        let mut choice = pages_of(tlbs);
        let shared = shared_colors(&choice, self.colors);
        if self.competing {
            choice.retain(|(_, color)| shared.contains(color));
            choice.sort_by_key(|&(page, color)| (color, page));
        }
        if choice.is_empty() {
            return wishes;
        }
        let (page, own) = choice[self.draws.below(choice.len() as u64) as usize];
        let excluded = if self.competing { shared } else { vec![own] };
        let target = self.target.next(&excluded, &vec![0; self.colors as usize]);
        wishes.moves.extend(target.map(|color| (page, color)));
        wishes
    }
}
