//! Times cycles over 4 KB and 2 MB pages, and derives the data TLBs.

use super::ProbeError;
use super::arrays::{Cycle, MOST_WAYS, Prober, SearchPlan, TlbSearch, find};
use super::chase::Chain;
use super::clock::Clock;
use super::figure::Samples;
use super::memory::{Aliases, HUGE, Pages, Space, available_bytes, huge_bytes};
use super::replacement::{self, Repeater, ReplacementFinding};
use pagewalk_units::Draws;
use std::collections::HashSet;

/// Fewest timed accesses per repeat.
const STEPS: u64 = 4000;
/// Most 4 KB pages of a cycle: twice the entries of the largest known data TLB (Zen 5: 4,096).
const MOST_BASE: u64 = 8192;
/// Most 2 MB pages of a cycle.
const MOST_HUGE: u64 = 2304;
/// Longest stride between 4 KB pages. Even an index that xors 15 bits with 15 others puts such pages into one set.
const LONGEST_BASE: u64 = 1 << 15;
/// Longest stride between 2 MB pages.
const LONGEST_HUGE: u64 = 1 << 10;
/// Divisor of available memory for huge pages.
const PART_OF_MEMORY: u64 = 4;
/// Fewest useful huge pages.
const FEWEST_HUGE: u64 = 64;
/// Bytes of a cache line.
const LINE: usize = 64;

/// How much to measure.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Repeats of each figure.
    pub rounds: usize,
    /// Most pages of a cycle, within the built-in limits.
    pub most_pages: u64,
    /// Longest stride.
    pub longest_stride: u64,
}

/// Cycles of 4 KB pages that share few frames, to keep data caches out.
pub struct BasePages {
    clock: Clock,
    aliases: Aliases,
    draws: Draws,
}

impl BasePages {
    /// Reserves room for the longest cycles.
    ///
    /// # Errors
    /// If the kernel refuses the addresses.
    pub fn new(clock: Clock) -> Result<BasePages, ProbeError> {
        let pages = MOST_BASE.max(MOST_WAYS.max(replacement::MOST_PLACES) * LONGEST_BASE);
        Ok(BasePages { clock, aliases: Aliases::reserve(pages as usize)?, draws: Draws::new(1) })
    }

    /// Follows a cycle for one repeat; returns the number of accesses.
    ///
    /// # Errors
    /// If the kernel refuses another mapping.
    pub fn follow(&mut self, cycle: Cycle) -> Result<u64, ProbeError> {
        const TURNS: u64 = 16;
        let chain = self.chain(cycle)?;
        (0..TURNS).for_each(|_| chain.warm());
        Ok(cycle.pages * TURNS)
    }

    fn time(&mut self, cycle: Cycle) -> Result<f64, ProbeError> {
        let mut chain = self.chain(cycle)?;
        chain.warm();
        chain.warm();
        Ok(chain.time(self.clock, 1, STEPS.max(cycle.pages) as usize))
    }

    fn chain(&mut self, cycle: Cycle) -> Result<Chain, ProbeError> {
        let nodes: Result<Vec<*mut u8>, ProbeError> = (0..cycle.pages)
            .map(|number| self.aliases.node((number * cycle.stride) as usize, number as usize))
            .collect();
        // SAFETY: nodes have places of their own in frames that live as long as `self`.
        Ok(unsafe { Chain::link(nodes?, &mut self.draws) })
    }
}

impl Prober for BasePages {
    type Error = ProbeError;

    fn costs(&mut self, cycles: &[Cycle], rounds: usize) -> Result<Vec<Samples>, ProbeError> {
        in_rounds(cycles, rounds, |cycle| self.time(cycle))
    }
}

impl Repeater for BasePages {
    type Error = ProbeError;

    fn patterns(&mut self, patterns: &[Vec<u64>], rounds: usize) -> Result<Vec<Samples>, ProbeError> {
        let mut all = vec![Samples::new(); patterns.len()];
        for _ in 0..rounds {
            for (pattern, samples) in patterns.iter().zip(&mut all) {
                // A pattern without room has no samples, so nothing can be said.
                let room = self.aliases.pages() as u64;
                if pattern.iter().any(|page| *page >= room) {
                    continue;
                }
                let Some(nodes) = self.aliases.nodes(pattern)? else { continue };
                // SAFETY: nodes have places of their own in frames that live as long as `self`.
                let mut chain = unsafe { Chain::in_order(nodes) };
                (0..replacement::WARM).for_each(|_| chain.warm());
                let steps = replacement::TIMED_ACCESSES.max(2 * pattern.len());
                samples.push(chain.time(self.clock, 1, steps));
            }
        }
        Ok(all)
    }
}

/// Cycles of 2 MB pages. Each page has a line of its own, so a cycle over the same lines of one page is measured right
/// after, and its cost beyond a first-level hit is subtracted.
pub struct HugePages {
    clock: Clock,
    space: Space,
    touched: HashSet<u64>,
    draws: Draws,
    hit: f64,
    most: u64,
}

impl HugePages {
    /// Makes neighbouring huge pages, as many as `most` and memory allow.
    ///
    /// # Errors
    /// If the kernel gives none, or memory is short.
    pub fn new(clock: Clock, most: u64) -> Result<HugePages, ProbeError> {
        let room = available_bytes() / PART_OF_MEMORY / HUGE as u64;
        let spare = MOST_WAYS * u64::from(LONGEST_HUGE.ilog2());
        let most = most.min(MOST_HUGE).min(room.saturating_sub(spare));
        if most < FEWEST_HUGE {
            return Err(ProbeError::NoHugePages(format!(
                "{FEWEST_HUGE} of them and some to spare are more than a quarter of the memory that can be had"
            )));
        }
        let space = Space::reserve((MOST_WAYS * LONGEST_HUGE).max(most) as usize * HUGE, 1 << 30)?;
        let mut pages =
            HugePages { clock, space, touched: HashSet::new(), draws: Draws::new(2), hit: 0.0, most };
        let before = huge_bytes();
        (0..FEWEST_HUGE).try_for_each(|page| pages.touch(page))?;
        let got = huge_bytes().saturating_sub(before) / HUGE as u64;
        if got < FEWEST_HUGE {
            return Err(ProbeError::NoHugePages(format!("the kernel gave {got} of {FEWEST_HUGE} asked for")));
        }
        let first = Cycle { pages: 4, stride: 0 };
        pages.hit = (0..9).map(|_| pages.chase(first)).collect::<Samples>().low();
        Ok(pages)
    }

    /// Most pages of a cycle.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// The touched huge pages, from the first up to the first hole.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// Touches the first `pages` huge pages.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn fill(&mut self, pages: u64) -> Result<(), ProbeError> {
        (0..pages).try_for_each(|page| self.touch(page))
    }

    /// Bytes touched from the first page on without a hole.
    pub fn filled_bytes(&self) -> u64 {
        let pages = (0..).take_while(|page| self.touched.contains(page)).count();
        (pages * HUGE) as u64
    }

    fn touch(&mut self, page: u64) -> Result<(), ProbeError> {
        if self.touched.insert(page) {
            let offset = page as usize * HUGE;
            self.space.open(offset, HUGE, Pages::Huge)?;
            self.space.touch(offset, HUGE, HUGE);
        }
        Ok(())
    }

    /// Access cost, nothing subtracted. A stride of 0 is one page with the lines of all.
    fn chase(&mut self, cycle: Cycle) -> f64 {
        let lines = HUGE / LINE;
        // Five lines apart, so that a line's neighbour in its pair is unused or another node's.
        let place =
            |number: u64| (number * cycle.stride) as usize * HUGE + number as usize * 5 % lines * LINE;
        let nodes = (0..cycle.pages).map(|number| self.space.start().wrapping_add(place(number))).collect();
        // SAFETY: the pages of the cycle are open, and live as long as `self`; nodes have lines of their own.
        let mut chain = unsafe { Chain::link(nodes, &mut self.draws) };
        chain.warm();
        chain.warm();
        chain.time(self.clock, 1, STEPS.max(cycle.pages) as usize)
    }

    fn time(&mut self, cycle: Cycle) -> Result<f64, ProbeError> {
        (0..cycle.pages).try_for_each(|number| self.touch(number * cycle.stride))?;
        let cost = self.chase(cycle);
        let caches = self.chase(Cycle { stride: 0, ..cycle });
        Ok(cost - (caches - self.hit).max(0.0))
    }
}

impl Prober for HugePages {
    type Error = ProbeError;

    fn costs(&mut self, cycles: &[Cycle], rounds: usize) -> Result<Vec<Samples>, ProbeError> {
        in_rounds(cycles, rounds, |cycle| self.time(cycle))
    }
}

/// Measures all cycles in each round, so that a temporary disturbance affects one repeat of each.
fn in_rounds(
    cycles: &[Cycle],
    rounds: usize,
    mut time: impl FnMut(Cycle) -> Result<f64, ProbeError>,
) -> Result<Vec<Samples>, ProbeError> {
    let mut all = vec![Samples::new(); cycles.len()];
    for _ in 0..rounds {
        for (cycle, samples) in cycles.iter().zip(&mut all) {
            samples.push(time(*cycle)?);
        }
    }
    Ok(all)
}

/// The levels for 4 KB pages, and each level's replacement.
///
/// # Errors
/// If the kernel refuses memory.
pub fn base_pages(clock: Clock, effort: Effort) -> Result<(TlbSearch, Vec<ReplacementFinding>), ProbeError> {
    let plan = SearchPlan::new(
        effort.most_pages.min(MOST_BASE),
        effort.longest_stride.min(LONGEST_BASE),
        effort.rounds,
    );
    let mut pages = BasePages::new(clock)?;
    let found = find(&mut pages, &plan)?;
    let replaced = replacement::find(&mut pages, &found.levels, effort.rounds);
    let replaced = replaced
        .unwrap_or_else(|error| vec![ReplacementFinding::Undecided(error.to_string()); found.levels.len()]);
    Ok((found, replaced))
}

/// The levels for 2 MB pages.
///
/// # Errors
/// If the kernel refuses memory.
pub fn huge_pages(pages: &mut HugePages, effort: Effort) -> Result<TlbSearch, ProbeError> {
    let longest = effort.longest_stride.min(LONGEST_HUGE);
    find(pages, &SearchPlan::new(effort.most_pages.min(pages.most()), longest, effort.rounds))
}
