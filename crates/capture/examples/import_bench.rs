//! How fast an importer reads a file, without writing a trace of it.
//!
//!     cargo run --release -p pagewalk-capture --example import_bench -- FORMAT FILE [RUNS]
//!
//! Rates are per second of the processor, as other work on the host makes seconds of the clock longer. Next to packed
//! files, time their unpacking alone: `xz -dc FILE >/dev/null`.

use pagewalk_capture::import::{Input, importer, open};
use pagewalk_trace::{Item, Source};
use rustix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::io::BufReader;
use std::time::Instant;

/// What the command reads from a file at a time.
const PIECE_BYTES: usize = 128 << 10;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [format, file, rest @ ..] = &words[..] else {
        return Err("usage: import_bench FORMAT FILE [RUNS]".into());
    };
    let runs = rest.first().map_or(Ok(3), |runs| runs.parse())?;
    for _ in 0..runs {
        let input = Input {
            name: file.clone(),
            bytes: Box::new(BufReader::with_capacity(PIECE_BYTES, File::open(file)?)),
            in_folder: false,
        };
        let (clock, processor) = (Instant::now(), processor_seconds());
        let mut source = open(vec![input], importer(format))?.import.source;
        let (mut instructions, mut references) = (0, 0);
        while let Some(item) = source.next_item()? {
            if let Item::Batch(batch) = item {
                // All but the last batch's: counting them in its blocks would be timed too.
                instructions = batch.first_instruction;
                references += batch.refs.len() as u64;
            }
        }
        let used = processor_seconds() - processor;
        let rate = |count: u64| count as f64 / used / 1e6;
        println!(
            "{:.1} M instructions/s, {:.1} M instructions and references/s ({instructions} and {references} in \
             {used:.2} s, {:.2} s by the clock)",
            rate(instructions),
            rate(instructions + references),
            clock.elapsed().as_secs_f64()
        );
    }
    Ok(())
}

/// What this process has used of the processor.
fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
