//! Measures the time of a reference in an array with each policy: the lookup and, on a miss, the fill.
//!
//! `cargo run --release -p pagewalk-setassoc --example touch_bench`
//!
//! The stream is skewed: 49 of 50 references go to half as many pages as the array has entries, each page a
//! little more often than the next; the others anywhere in eight times as many pages as it has entries.
//! Prints one line of JSON: for each shape and policy the nanoseconds of processor time per reference (median
//! of several runs) and the misses per thousand.

use pagewalk_setassoc::{Geometry, Replacement, SetArray};
use pagewalk_trace::seconds_worked;
use std::hint::black_box;
use std::io;

const REFERENCES: usize = 1 << 20;
const RUNS: usize = 9;
/// Entries and ways.
const SHAPES: [(u32, u32); 3] = [(64, 4), (1536, 12), (64, 64)];

/// Page numbers.
fn stream(entries: u32) -> Vec<u64> {
    let entries = u64::from(entries);
    let mut state = 0x1234_5678_9abc_def1_u64;
    let mut below = |n: u64| {
        // Marsaglia's xorshift64 (2003).
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 8) % n
    };
    let mut page = || {
        let wide = below(50) == 0;
        let hot = entries / 2;
        0x7_f000 + if wide { below(8 * entries) } else { below(hot * hot).isqrt().abs_diff(hot) }
    };
    (0..REFERENCES).map(|_| page()).collect()
}

/// References that missed.
fn refer(array: &mut SetArray, pages: &[u64]) -> u64 {
    let mut misses = 0;
    for &page in pages {
        if !array.touch(page, page) {
            misses += 1;
            black_box(array.insert(page, page));
        }
    }
    misses
}

fn main() -> io::Result<()> {
    let mut rows = Vec::new();
    for (entries, ways) in SHAPES {
        let pages = stream(entries);
        let geometry = Geometry::new(entries, Some(ways)).expect("a shape");
        for name in Replacement::NAMES {
            let replacement = Replacement::from_name(name, 1).expect("a name");
            let Ok(mut array) = SetArray::new(geometry, replacement) else { continue };
            refer(&mut array, &pages);
            let mut runs = Vec::new();
            for _ in 0..RUNS {
                let start = seconds_worked()?;
                let misses = refer(&mut array, black_box(&pages));
                runs.push((seconds_worked()? - start, misses));
            }
            runs.sort_by(|a, b| a.0.total_cmp(&b.0));
            let (seconds, misses) = runs[RUNS / 2];
            let shape = format!(r#""entries": {entries}, "ways": {ways}, "replacement": "{name}""#);
            let nanoseconds = seconds * 1e9 / REFERENCES as f64;
            let misses = misses as f64 * 1e3 / REFERENCES as f64;
            rows.push(format!(r#"{{{shape}, "ns": {nanoseconds:.2}, "misses_per_mille": {misses:.1}}}"#));
        }
    }
    println!("[{}]", rows.join(", "));
    Ok(())
}
