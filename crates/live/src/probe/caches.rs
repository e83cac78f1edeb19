//! Latencies of caches and memory, by a chase's footprint.

use super::ProbeError;
use super::chase::Chain;
use super::clock::Clock;
use super::figure::{Curve, Figure, Samples};
use super::memory::{BASE, Space};
use super::tlb::HugePages;
use pagewalk_units::Draws;
use std::fs;

/// Bytes of a cache line.
const LINE: usize = 64;
/// Timed accesses per repeat.
const STEPS: usize = 2048;
/// Lines per repeat of memory latency.
const FLUSHED: usize = 2048;

/// A data cache, as the kernel describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// 1 for the first level.
    pub level: u32,
    /// Its bytes.
    pub bytes: u64,
}

/// A processor's data caches; empty if the kernel lists none.
pub fn described(cpu: usize) -> Vec<Cache> {
    let read = |index: usize, name: &str| {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/cache/index{index}/{name}");
        fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
    };
    let cache = |index: usize| {
        let kib = read(index, "size")?.strip_suffix('K')?.parse::<u64>().ok()?;
        Some(Cache { level: read(index, "level")?.parse().ok()?, bytes: kib * 1024 })
    };
    let data = (0..16).filter(|&index| read(index, "type").is_some_and(|kind| kind != "Instruction"));
    let mut caches: Vec<Cache> = data.filter_map(cache).collect();
    caches.sort_by_key(|cache| cache.level);
    caches
}

/// Footprints from 8 KiB to `most`, two per octave.
pub fn footprints(most: u64) -> Vec<u64> {
    let octaves = (13..63).flat_map(|bit| [1u64 << bit, 3 << (bit - 1)]);
    octaves.take_while(|&bytes| bytes <= most).collect()
}

/// Access cost for each footprint's lines, in random order.
pub fn measure(clock: Clock, space: &Space, footprints: &[u64], rounds: usize) -> Vec<Samples> {
    let mut all = vec![Samples::new(); footprints.len()];
    let mut draws = Draws::new(4);
    for (samples, &bytes) in all.iter_mut().zip(footprints) {
        let nodes = (0..bytes as usize / LINE).map(|line| space.start().wrapping_add(line * LINE)).collect();
        // SAFETY: lines of memory that may be written and that no other chain uses meanwhile; the chain does not
        // outlive it.
        let mut chain = unsafe { Chain::link(nodes, &mut draws) };
        chain.warm();
        *samples = (0..rounds).map(|_| chain.time(clock, 1, STEPS)).collect();
    }
    all
}

/// Cost of an access that no cache serves: to lines across a space in huge pages, flushed before.
pub fn memory(clock: Clock, space: &Space, bytes: usize, rounds: usize) -> Samples {
    let mut draws = Draws::new(5);
    let pages = bytes / BASE;
    let step = (pages / FLUSHED).max(1);
    let nodes = (0..pages)
        .step_by(step)
        .map(|page| {
            space.start().wrapping_add(page * BASE + draws.below((BASE / LINE) as u64) as usize * LINE)
        })
        .collect();
    // SAFETY: as above.
    let mut chain = unsafe { Chain::link(nodes, &mut draws) };
    let steps = chain.len() / 64 * 64;
    let once = |_| {
        chain.flush();
        chain.time(clock, 1, steps)
    };
    (0..rounds).map(once).collect()
}

/// Largest footprint for memory latency.
const MOST_MEMORY: u64 = 1 << 30;

/// The curve, the latency of each described cache over half of its bytes, and the latency of memory. All use huge pages
/// to exclude translation.
pub(super) fn results(
    clock: Clock,
    cpu: usize,
    most: u64,
    rounds: usize,
    huge: Result<&HugePages, &ProbeError>,
) -> (Vec<Curve>, Vec<Figure>) {
    let described = described(cpu);
    let name = |cache: &Cache| format!("cache.l{}", cache.level);
    let title =
        |cache: &Cache| format!("load: level {} cache, half of its {} KiB", cache.level, cache.bytes >> 10);
    let memory_names = ["memory.load", "load: memory"];
    let huge = match huge {
        Ok(huge) => huge,
        Err(why) => {
            let mut figures: Vec<Figure> = described
                .iter()
                .map(|cache| Figure::refused(&name(cache), &title(cache), "ns", why))
                .collect();
            figures.push(Figure::refused(memory_names[0], memory_names[1], "ns", why));
            return (Vec::new(), figures);
        }
    };
    let mut bytes = footprints(most);
    bytes.extend(
        described
            .iter()
            .map(|cache| cache.bytes / 2 / LINE as u64 * LINE as u64)
            .filter(|&half| half <= most),
    );
    bytes.sort_unstable();
    bytes.dedup();
    let samples = measure(clock, huge.space(), &bytes, rounds);
    let points = bytes.iter().copied().zip(&samples);
    let curve = Curve::of(
        ["caches", "a load, over so many bytes in random order, in 2 MB pages"],
        ["bytes", "ns"],
        points,
    );
    let latency = |cache: &Cache| {
        let half = cache.bytes / 2 / LINE as u64 * LINE as u64;
        match bytes.iter().position(|&bytes| bytes == half) {
            Some(place) => Figure::of(&name(cache), &title(cache), "ns", &samples[place]),
            None => {
                Figure::refused(&name(cache), &title(cache), "ns", "larger than what this probe goes over")
            }
        }
    };
    let mut figures: Vec<Figure> = described.iter().map(latency).collect();
    let footprint = MOST_MEMORY.min(huge.filled_bytes());
    figures.push(Figure::of(
        memory_names[0],
        memory_names[1],
        "ns",
        &memory(clock, huge.space(), footprint as usize, rounds),
    ));
    (vec![curve], figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_ascend() {
        let caches = described(0);
        assert!(caches.windows(2).all(|pair| pair[0].level < pair[1].level && pair[0].bytes < pair[1].bytes));
        assert_eq!(footprints(16 << 10), [8 << 10, 12 << 10, 16 << 10]);
    }
}
