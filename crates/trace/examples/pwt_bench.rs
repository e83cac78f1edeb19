//! How small and how fast the `.pwt` format is, on traces that exist.
//!
//!     cargo run --release -p pagewalk-trace --example pwt_bench -- FILE.pwt…
//!
//! Each trace (its first 60 million records) is held in memory, written to memory and read back, three times;
//! the best of each is shown, in time on the processor, so that other load on the machine counts little. A pass
//! that copies the same references and one that checksums them stand beside as yardsticks. `pagewalk trace import`
//! makes traces of other tools' output, also of Valgrind's Lackey.
//!
//! On 2026-11-20 on two shared Xeon cores (AVX2): bytes per record (in brackets, of whole traces), and M records
//! written and read per second.
//!
//! ```text
//! gzip, 2 MB text                  0.330 (0.329)  123  267
//! sort, same                       0.081 (0.084)  213  414
//! CPython, 400,000-key dictionary  0.114 (0.027)  149  323
//! cc1 -O1                          0.216 (0.425)  108  232
//! ```

use pagewalk_trace::pwt::{Reader, Writer};
use pagewalk_trace::{Analysis, Batch, Event, Item, Ref, Source, StreamHeader, Stretch, seconds_worked};
use pagewalk_units::RefIndex;
use std::error::Error;
use std::fs::File;
use std::hint::black_box;
use std::io;

/// Records held in memory at most: half a gigabyte, and while references are copied three times as much.
const MOST_RECORDS: usize = 60_000_000;
const REPETITIONS: usize = 3;
/// Most threads that encode, besides the one that gathers.
const MOST_ENCODERS: usize = 2;

/// The references of a stream, and what else there is of it.
#[derive(Default)]
struct Contents {
    refs: Vec<Ref>,
    executions: usize,
    blocks: usize,
    events: usize,
}

impl Analysis for Contents {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        self.refs.extend_from_slice(batch.refs);
        self.executions += batch.spans.len();
        self.blocks = batch.blocks.len();
    }

    fn on_event(&mut self, _at: RefIndex, _event: &Event) {
        self.events += 1;
    }
}

/// The least time that `work` takes, in nanoseconds per record, with its last result.
fn best<T>(records: usize, mut work: impl FnMut() -> T) -> io::Result<(f64, T)> {
    let mut least = f64::INFINITY;
    let mut result = None;
    for _ in 0..REPETITIONS {
        drop(result.take());
        let start = seconds_worked()?;
        result = Some(work());
        least = least.min((seconds_worked()? - start) * 1e9 / records as f64);
    }
    Ok((least, result.expect("at least one repetition")))
}

/// As [`best`], for the thread that gives the stream to so many that encode, beside one that writes.
fn gathering(recording: &Stretch, header: &StreamHeader, encoders: usize) -> io::Result<f64> {
    let (least, summary) = best(recording.records(), || {
        let mut writer = Writer::with_encoders(Vec::new(), header, u64::MAX, encoders)?;
        recording.play(&mut writer);
        writer.finish()
    })?;
    summary.map(|_| least)
}

fn measure(path: &str) -> Result<(), Box<dyn Error>> {
    let mut reader = Reader::new(File::open(path)?)?;
    let header = reader.header().clone();
    let mut recording = Stretch::default();
    recording.read(&mut reader, MOST_RECORDS)?;
    let mut contents = Contents::default();
    recording.play(&mut contents);
    let Contents { refs, executions, blocks, events } = contents;
    let records = recording.records();
    let mut copy = Vec::new();
    let (copying, ()) = best(records, || {
        copy.clear();
        copy.extend_from_slice(&refs);
        black_box(&copy);
    })?;
    drop(copy);
    let (summing, sum) =
        best(records, || refs.iter().fold(0u64, |sum, reference| sum.rotate_left(1) ^ reference.bits()))?;
    black_box(sum);
    let references = refs.len();
    drop(refs);

    let mut file = Vec::new();
    let (encoding, summary) = best(records, || {
        file.clear();
        let mut writer = Writer::new(&mut file, &header)?;
        recording.play(&mut writer);
        writer.finish()
    })?;
    let summary = summary?;
    let gathering = (0..=MOST_ENCODERS).map(|encoders| gathering(&recording, &header, encoders));
    let gathering = gathering.collect::<Result<Vec<_>, _>>()?;
    let (decoding, read) = best(records, || -> Result<(usize, u64), Box<dyn Error>> {
        let mut reader = Reader::new(&file[..])?;
        let (mut records, mut last) = (0, 0);
        while let Some(item) = reader.next_item()? {
            if let Item::Batch(batch) = item {
                records += batch.refs.len() + batch.spans.len();
                last ^= batch.refs.last().map_or(0, |reference| reference.bits());
            }
        }
        Ok((records, last))
    })?;
    assert_eq!(read?.0, records, "everything is read back");

    let per_second = |nanoseconds: f64| 1e3 / nanoseconds;
    println!(
        "{path}: {records} records ({references} references, {executions} executions of {blocks} blocks, \
         {events} events)"
    );
    println!(
        "  {:.3} byte per record; write {encoding:.2} ns ({:.0} M/s), read {decoding:.2} ns ({:.0} M/s); \
         copying the references {copying:.2} ns, checksumming them {summing:.2} ns",
        summary.bytes as f64 / records as f64,
        per_second(encoding),
        per_second(decoding),
    );
    let gathering: Vec<String> = gathering.iter().map(|nanoseconds| format!("{nanoseconds:.2}")).collect();
    println!(
        "  work of the thread that gathers, with 0, 1 … that encode beside it: {} ns",
        gathering.join(", ")
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    if paths.is_empty() {
        return Err("usage: pwt_bench FILE.pwt…".into());
    }
    paths.iter().try_for_each(|path| measure(path))
}
