//! Measures the Lackey importer on a text like a real one, from memory.
//!
//! `cargo run --release -p pagewalk-capture --example lackey_bench`
//!
//! Prints millions of lines per second of processor time, the median of several runs.

use pagewalk_capture::LackeySource;
use pagewalk_trace::{Item, Source, seconds_worked};
use std::fmt::Write;
use std::io;

const LINES: u64 = 4_000_000;
const RUNS: usize = 5;

/// Loops over 5,000 instructions; two of five refer to data.
fn text() -> String {
    let mut text = String::new();
    let mut lines = 0;
    for at in 0u64.. {
        let instruction = at / 50 * 7919 % 100 * 50 + at % 50;
        let _ = writeln!(text, "I  {:08x},{}", 0x0400_0000 + instruction * 5, 1 + instruction % 7);
        lines += 1;
        if instruction % 5 < 2 {
            let kind = if instruction % 5 == 0 { 'L' } else { 'S' };
            let _ = writeln!(text, " {kind} {:08x},8", 0x1f_fe00_0000 + at * 104_729 % (1 << 24));
            lines += 1;
        }
        if lines >= LINES {
            break;
        }
    }
    text
}

/// Reads the text once; gives the lines per second of processor time.
fn rate(text: &str) -> io::Result<f64> {
    let start = seconds_worked()?;
    let mut source = LackeySource::new(text.as_bytes()).expect("memory can be read");
    let mut lines = 0;
    while let Some(item) = source.next_item().expect("the text is well formed") {
        if let Item::Batch(batch) = item {
            lines += batch.refs.len() + batch.spans.len();
        }
    }
    Ok(lines as f64 / (seconds_worked()? - start))
}

fn main() -> io::Result<()> {
    let text = text();
    let mut rates = (0..RUNS).map(|_| rate(&text)).collect::<io::Result<Vec<f64>>>()?;
    rates.sort_by(f64::total_cmp);
    println!("{:.1} M lines/s", rates[RUNS / 2] / 1e6);
    Ok(())
}
