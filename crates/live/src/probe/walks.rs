//! Walk costs as the footprint grows, dependent and several at once.

use super::chase::Chain;
use super::clock::Clock;
use super::figure::{Curve, Figure, Samples};
use super::memory::{BASE, HUGE, Pages, Space};
use super::{ProbeError, tlb::HugePages};
use pagewalk_units::Draws;

/// Numbers of concurrent chains.
pub const CHAINS: [usize; 4] = [1, 2, 4, 8];
/// Timed accesses per repeat: few, so that few repeats are disturbed. The next continues where the last stopped.
const STEPS: usize = 2048;
/// Bytes of a cache line.
const LINE: usize = 64;

/// Access costs, to one line of each 4 KB of a footprint in random order.
#[derive(Clone, Debug)]
pub struct Walks {
    /// Bytes, ascending.
    pub footprints: Vec<u64>,
    /// For each of [`CHAINS`] and each footprint, in 4 KB pages.
    pub base: Vec<Vec<Samples>>,
    /// The same lines in 2 MB pages; none if there are no huge pages.
    pub huge: Option<Vec<Vec<Samples>>>,
}

/// Footprints with figures, and their names.
const NAMED: [(u64, &str); 3] = [(32 << 20, "32m"), (256 << 20, "256m"), (1 << 30, "1g")];

impl Walks {
    /// The curves, and walk costs at some footprints: how much longer an access takes in 4 KB pages than to the same
    /// lines in 2 MB pages. `missing` says why there are none.
    pub(super) fn results(&self, missing: Option<&ProbeError>) -> (Vec<Curve>, Vec<Figure>) {
        let mut curves = Vec::new();
        for (number, chains) in CHAINS.iter().enumerate() {
            let curve = |page: &str, size: &str, samples: &[Samples]| {
                let title = format!("an access to one line of each 4 KB, {chains} at once, in {size} pages");
                let points = self.footprints.iter().copied().zip(samples);
                Curve::of([&format!("walks.{page}.chains_{chains}"), &title], ["bytes", "ns"], points)
            };
            curves.push(curve("4k", "4 KB", &self.base[number]));
            curves.extend(self.huge.as_ref().map(|huge| curve("2m", "2 MB", &huge[number])));
        }
        let largest = self.footprints.last().copied().unwrap_or(0);
        let named = NAMED.iter().filter(|(bytes, _)| *bytes <= largest);
        let figures = named.flat_map(|&(bytes, name)| {
            (0..CHAINS.len()).map(move |number| self.extra(number, bytes, name, missing))
        });
        (curves, figures.collect())
    }

    fn extra(&self, number: usize, bytes: u64, name: &str, missing: Option<&ProbeError>) -> Figure {
        let chains = CHAINS[number];
        let name = format!("walk_extra.{name}.chains_{chains}");
        let title = format!("4 KB pages over {} MiB, extra to 2 MB pages, {chains} at once", bytes >> 20);
        let place = self.footprints.iter().position(|&footprint| footprint == bytes);
        match (&self.huge, place, missing) {
            (Some(huge), Some(place), _) => {
                Figure::of(&name, &title, "ns", &self.base[number][place].less(&huge[number][place]))
            }
            (_, _, Some(why)) => Figure::refused(&name, &title, "ns", why),
            _ => Figure::refused(&name, &title, "ns", "that footprint was not measured"),
        }
    }
}

/// Footprints from 16 MiB to `most`, two per octave.
pub fn footprints(most: u64) -> Vec<u64> {
    let octaves = (24..63).flat_map(|bit| [1u64 << bit, 3 << (bit - 1)]);
    octaves.take_while(|&bytes| bytes <= most).collect()
}

/// Measures all footprints in 4 KB pages and, if `huge` is given, in its pages.
///
/// # Errors
/// If the kernel refuses memory.
pub fn measure(
    clock: Clock,
    footprints: &[u64],
    rounds: usize,
    huge: Option<&HugePages>,
) -> Result<Walks, ProbeError> {
    let most = footprints.last().copied().unwrap_or(0) as usize;
    let plain = Space::memory(most.max(HUGE), Pages::Base)?;
    plain.touch(0, most, BASE);
    let mut base = vec![vec![Samples::new(); footprints.len()]; CHAINS.len()];
    let mut with_huge = base.clone();
    let mut draws = Draws::new(3);
    for (place, &bytes) in footprints.iter().enumerate() {
        let mut on_base = chain(&plain, bytes as usize, &mut draws);
        let mut on_huge = huge.map(|huge| chain(huge.space(), bytes as usize, &mut draws));
        on_base.warm();
        on_huge.iter().for_each(Chain::warm);
        // Rounds with one number of chains follow each other, so that all other pages come before a page's next turn.
        for (number, &chains) in CHAINS.iter().enumerate() {
            for _ in 0..rounds {
                base[number][place].push(on_base.time(clock, chains, STEPS));
                if let Some(on_huge) = &mut on_huge {
                    with_huge[number][place].push(on_huge.time(clock, chains, STEPS));
                }
            }
        }
    }
    Ok(Walks { footprints: footprints.to_vec(), base, huge: huge.map(|_| with_huge) })
}

/// A chain over one line of each 4 KB of a space's first bytes.
fn chain(space: &Space, bytes: usize, draws: &mut Draws) -> Chain {
    assert!(bytes <= space.bytes(), "{bytes} bytes of a space of {}", space.bytes());
    let nodes = (0..bytes / BASE)
        .map(|page| {
            space.start().wrapping_add(page * BASE + draws.below((BASE / LINE) as u64) as usize * LINE)
        })
        .collect();
    // SAFETY: one node a page, in memory that may be written; the chain does not outlive its caller's borrow of it.
    unsafe { Chain::link(nodes, draws) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn footprints_are_two_an_octave() {
        let mib = |bytes: &[u64]| bytes.iter().map(|bytes| bytes >> 20).collect::<Vec<_>>();
        assert_eq!(mib(&footprints(100 << 20)), [16, 24, 32, 48, 64, 96]);
    }

    #[test]
    fn without_huge_pages_the_extra_cost_is_refused() {
        let walks = measure(Clock::calibrate(), &[16 << 20, 32 << 20], 5, None).unwrap();
        let why = ProbeError::NoHugePages("never".to_owned());
        let (curves, figures) = walks.results(Some(&why));
        assert_eq!((curves.len(), figures.len()), (CHAINS.len(), CHAINS.len()));
        assert!(curves.iter().all(|curve| curve.points.len() == 2 && curve.points[0].value > 0.0));
        assert!(
            figures.iter().all(|figure| figure.refused.as_deref() == Some("no huge pages: never")),
            "{figures:?}"
        );
    }
}
