//! How small and how fast the `.pwt` format is, on traces that exist.
//!
//!     cargo run --release -p pagewalk-trace --example pwt_bench -- FILE.pwt…
//!     valgrind --tool=lackey --trace-mem=yes --log-fd=9 gzip -c FILE 9>&1 >/dev/null 2>/dev/null |
//!         cargo run --release -p pagewalk-trace --example pwt_bench -- --lackey [-o FILE.pwt]
//!
//! Each trace (its first 60 million records) is held in memory, written to memory and read back, three times;
//! the best of each is shown, in time on the processor, so that other load on the machine counts little. A pass
//! that copies the same references and one that checksums them stand beside as yardsticks.
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

mod lackey;

use pagewalk_trace::pwt::{Reader, Writer};
use pagewalk_trace::{
    Analysis, Batch, Dictionary, Event, Item, Ref, Source, Span, StreamHeader, seconds_worked,
};
use pagewalk_units::{RefIndex, SpaceId, ThreadId};
use std::error::Error;
use std::hint::black_box;
use std::io;
use std::path::PathBuf;

/// Records held in memory at most: half a gigabyte.
const MOST_RECORDS: usize = 60_000_000;
const REPETITIONS: usize = 3;
/// Most threads that encode, besides the one that gathers.
const MOST_ENCODERS: usize = 2;

/// A stream in memory.
struct Recording {
    name: String,
    header: StreamHeader,
    blocks: Dictionary,
    refs: Vec<Ref>,
    spans: Vec<Span>,
    batches: Vec<Piece>,
    events: Vec<(RefIndex, usize, Event)>,
}

/// A batch of a recording: where it ends, and what else is to be known of it.
struct Piece {
    refs_end: usize,
    spans_end: usize,
    thread: ThreadId,
    space: SpaceId,
    first: RefIndex,
    first_instruction: u64,
    wide: bool,
}

impl Recording {
    fn new(name: String, header: StreamHeader) -> Self {
        let blocks = Dictionary::default();
        Recording { name, header, blocks, refs: vec![], spans: vec![], batches: vec![], events: vec![] }
    }

    fn records(&self) -> usize {
        self.refs.len() + self.spans.len()
    }

    fn push(&mut self, batch: &Batch<'_>) {
        self.refs.extend_from_slice(batch.refs);
        self.spans.extend_from_slice(batch.spans);
        let Batch { thread, space, first, first_instruction, wide, .. } = *batch;
        let (refs_end, spans_end) = (self.refs.len(), self.spans.len());
        self.batches.push(Piece { refs_end, spans_end, thread, space, first, first_instruction, wide });
    }

    /// Plays the recording, an analysis at the other end.
    fn play(&self, to: &mut dyn Analysis) {
        let mut events = self.events.iter().peekable();
        let (mut refs_start, mut spans_start) = (0, 0);
        for (number, piece) in self.batches.iter().enumerate() {
            while let Some((at, _, event)) = events.next_if(|(_, before, _)| *before <= number) {
                to.on_event(*at, event);
            }
            let Piece { thread, space, first, first_instruction, wide, .. } = *piece;
            let refs = &self.refs[refs_start..piece.refs_end];
            let spans = &self.spans[spans_start..piece.spans_end];
            (refs_start, spans_start) = (piece.refs_end, piece.spans_end);
            let blocks = &self.blocks;
            to.on_batch(&Batch { thread, space, first, first_instruction, refs, spans, wide, blocks });
        }
        events.for_each(|(at, _, event)| to.on_event(*at, event));
    }
}

fn read(path: &PathBuf) -> Result<Recording, Box<dyn Error>> {
    let mut reader = Reader::new(std::io::BufReader::with_capacity(1 << 20, std::fs::File::open(path)?))?;
    let mut recording = Recording::new(path.display().to_string(), reader.header().clone());
    while let Some(item) = reader.next_item()? {
        match item {
            Item::Batch(batch) => recording.push(&batch),
            Item::Event { at, event } => recording.events.push((at, recording.batches.len(), event)),
        }
        if recording.records() >= MOST_RECORDS {
            break;
        }
    }
    recording.blocks = reader.blocks().clone();
    Ok(recording)
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
fn gathering(recording: &Recording, encoders: usize) -> io::Result<f64> {
    let (least, summary) = best(recording.records(), || {
        let mut writer = Writer::with_encoders(Vec::new(), &recording.header, u64::MAX, encoders)?;
        recording.play(&mut writer);
        writer.finish()
    })?;
    summary.map(|_| least)
}

fn measure(recording: &Recording) -> Result<Vec<u8>, Box<dyn Error>> {
    let records = recording.records();
    let mut copy = Vec::new();
    let (copying, ()) = best(records, || {
        copy.clear();
        copy.extend_from_slice(&recording.refs);
        black_box(&copy);
    })?;
    drop(copy);
    let (summing, sum) = best(records, || {
        recording.refs.iter().fold(0u64, |sum, reference| sum.rotate_left(1) ^ reference.bits())
    })?;
    black_box(sum);

    let mut file = Vec::new();
    let (encoding, summary) = best(records, || {
        file.clear();
        let mut writer = Writer::new(&mut file, &recording.header)?;
        recording.play(&mut writer);
        writer.finish()
    })?;
    let summary = summary?;
    let gathering = (0..=MOST_ENCODERS).map(|encoders| gathering(recording, encoders));
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
        "{}: {records} records ({} references, {} executions of {} blocks, {} events)",
        recording.name,
        recording.refs.len(),
        recording.spans.len(),
        recording.blocks.len(),
        recording.events.len(),
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
    Ok(file)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--lackey", ref rest @ ..] => {
            let recording = lackey::read(std::io::stdin().lock(), MOST_RECORDS)?;
            let file = measure(&recording)?;
            if let ["-o", path] = rest {
                std::fs::write(path, file)?;
            }
        }
        [] => return Err("usage: pwt_bench FILE.pwt… | --lackey [-o FILE.pwt]".into()),
        ref paths => {
            for path in paths {
                measure(&read(&PathBuf::from(path))?)?;
            }
        }
    }
    Ok(())
}
