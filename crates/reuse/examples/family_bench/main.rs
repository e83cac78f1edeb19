//! How fast families of designs are when the stream lies in memory: reads traces stretch by stretch, and times each
//! way over a stretch once it is held. Prints one line of JSON for each trace.
//!
//!     family_bench [--records N] [--repetitions N] [--ways WAY,…] T.pwt…
//!
//! - `family_data`, `family_fetches`, `family_everything`: the 4,160 designs, serving those references;
//! - `caches_data`, `caches_fetches`, `caches_everything`: the 1,248 caches of three line sizes, with kinds of misses;
//! - `distances_data`, `distances_fetches`, `distances_everything`: exact stack distances over 4 KiB pages;
//! - `plain`: a straightforward loop over the 4,160 designs serving data, an array each, on the first records of the
//!   trace. Its misses must equal those of `family_data`;
//! - `sampled_data` …: distances of a tenth of the pages, with their errors;
//! - `plain_distances`: all pages in one list, searched from the top, on the first records of the trace. Its
//!   distances must equal those of `distances_data`.
//!
//! For each way the processor seconds of each repetition and, in millions per second, the median rate of *records*,
//! data references and block executions together, and the `own_rate` of those records alone that the way looks at.
//! Without `--ways` all of them run; they take turns on each stretch, each with as many simulators as there are
//! repetitions, so that a noisy moment of the machine meets all of them. The plain ways run once, and tell how many
//! records they got.

mod plain;

use pagewalk_reuse::{CacheFamily, Family, ReferenceKinds, SampledDistances, Sampling, StackDistances};
use pagewalk_trace::pwt::Reader;
use pagewalk_trace::{Analysis, Batch, Source, Stretch, seconds_worked};
use plain::{Plain, PlainStack};
use std::error::Error;
use std::fs::File;
use std::io;
use std::process::ExitCode;

/// Records in memory at a time: 128 MiB or more.
const STRETCH: usize = 16 << 20;
/// Number of records for the plain loop.
const PLAIN_RECORDS: usize = 200_000;
/// Number of records for the plain list.
const PLAIN_DISTANCES_RECORDS: usize = 20_000_000;
const USAGE: &str = "usage: family_bench [--records N] [--repetitions N] [--ways WAY,…] T.pwt…";

const SERVES: [(&str, ReferenceKinds); 3] = [
    ("data", ReferenceKinds::Data),
    ("fetches", ReferenceKinds::Fetches),
    ("everything", ReferenceKinds::Everything),
];

struct Options {
    records: usize,
    repetitions: usize,
    ways: Option<Vec<String>>,
    traces: Vec<String>,
}

impl Options {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Options, Box<dyn Error>> {
        let mut options = Options { records: usize::MAX, repetitions: 3, ways: None, traces: vec![] };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} wants a value; {USAGE}"));
            match word.as_str() {
                "--records" => options.records = value()?.parse()?,
                "--repetitions" => options.repetitions = value()?.parse()?,
                "--ways" => options.ways = Some(value()?.split(',').map(str::to_owned).collect()),
                option if option.starts_with('-') => {
                    return Err(format!("{option} is unknown; {USAGE}").into());
                }
                _ => options.traces.push(word),
            }
        }
        if options.traces.is_empty() || options.repetitions == 0 {
            return Err(USAGE.into());
        }
        Ok(options)
    }

    fn wants(&self, way: &str) -> bool {
        self.ways.as_ref().is_none_or(|ways| ways.iter().any(|wanted| wanted == way))
    }
}

fn main() -> ExitCode {
    match Options::parse(std::env::args().skip(1)).and_then(|options| run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("family_bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// One way of simulating: what it looks at, a simulator for each repetition, and the seconds of each.
struct Way {
    name: String,
    serves: ReferenceKinds,
    simulators: Vec<Box<dyn Analysis>>,
    seconds: Vec<f64>,
}

/// The measurements of a way as JSON: counts, seconds of each repetition and median rates.
fn measured(count: &Counter, serves: ReferenceKinds, seconds: &[f64]) -> String {
    let own = match serves {
        ReferenceKinds::Data => count.refs,
        ReferenceKinds::Fetches => count.spans,
        ReferenceKinds::Everything => count.records(),
    };
    let mut sorted = seconds.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rate = |records: usize| records as f64 / sorted[sorted.len() / 2] / 1e6;
    format!(
        "{{\"records\":{},\"data_references\":{},\"seconds\":{seconds:?},\"rate\":{:.4},\"own_rate\":{:.4}}}",
        count.records(),
        count.refs,
        rate(count.records()),
        rate(own)
    )
}

fn ways(options: &Options) -> Vec<Way> {
    let mut ways = Vec::new();
    for kind in ["family", "caches", "distances", "sampled"] {
        for (word, serves) in SERVES {
            let name = format!("{kind}_{word}");
            if !options.wants(&name) {
                continue;
            }
            let simulator = || -> Box<dyn Analysis> {
                match kind {
                    "family" => Box::new(Family::new(serves)),
                    "caches" => Box::new(CacheFamily::new(serves)),
                    "distances" => Box::new(StackDistances::new(serves)),
                    _ => Box::new(SampledDistances::new(serves, Sampling::Rate(0.1))),
                }
            };
            let simulators = (0..options.repetitions).map(|_| simulator()).collect();
            ways.push(Way { name, serves, simulators, seconds: vec![0.0; options.repetitions] });
        }
    }
    ways
}

fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    for trace in &options.traces {
        let reader = || -> Result<_, Box<dyn Error>> {
            let reader = File::open(trace).map_err(Into::into).and_then(Reader::new);
            Ok(reader.map_err(|error| format!("{trace}: {error}"))?)
        };
        let mut ways = ways(options);
        let count = time(reader()?, options.records, &mut ways)?;
        let mut fields = vec![format!("\"trace\":{trace:?}")];
        let mut field = |name: &str, measured: String| fields.push(format!("{name:?}:{measured}"));
        for way in &ways {
            field(&way.name, measured(&count, way.serves, &way.seconds));
        }
        if options.wants("plain") {
            field("plain", time_plain(reader()?)?);
        }
        if options.wants("plain_distances") {
            field("plain_distances", time_plain_distances(reader()?)?);
        }
        println!("{{{}}}", fields.join(","));
    }
    Ok(())
}

/// Times every way over one trace, up to `most` records; returns how many records it had.
fn time(mut source: impl Source, most: usize, ways: &mut [Way]) -> Result<Counter, Box<dyn Error>> {
    let mut stretch = Stretch::default();
    let mut counter = Counter::default();
    while counter.records() < most && stretch.read(&mut source, STRETCH.min(most - counter.records()))? {
        stretch.play(&mut counter);
        for repetition in 0..ways.first().map_or(0, |way| way.seconds.len()) {
            for way in &mut *ways {
                let start = seconds_worked()?;
                stretch.play(way.simulators[repetition].as_mut());
                way.seconds[repetition] += seconds_worked()? - start;
            }
        }
    }
    Ok(counter)
}

/// Times the plain loop, whose misses are compared with the family's.
fn time_plain(mut source: impl Source) -> Result<String, Box<dyn Error>> {
    let mut stretch = Stretch::default();
    stretch.read(&mut source, PLAIN_RECORDS)?;
    let mut plain = Plain::new();
    let time = time_once(&stretch, &mut plain)?;
    let mut family = Family::new(ReferenceKinds::Data);
    stretch.play(&mut family);
    for array in &plain.arrays {
        let misses = family.misses(array.size, array.sets, array.ways);
        if misses != Some(array.misses) {
            let (size, sets, ways) = (array.size, array.sets, array.ways);
            let text =
                format!("{size}, {sets} sets, {ways} ways: {misses:?}, the plain loop {}", array.misses);
            return Err(text.into());
        }
    }
    Ok(time)
}

/// Times the plain list, whose distances are compared with the exact ones.
fn time_plain_distances(mut source: impl Source) -> Result<String, Box<dyn Error>> {
    let mut stretch = Stretch::default();
    stretch.read(&mut source, PLAIN_DISTANCES_RECORDS)?;
    let mut plain = PlainStack::default();
    let time = time_once(&stretch, &mut plain)?;
    let mut distances = StackDistances::new(ReferenceKinds::Data);
    stretch.play(&mut distances);
    if distances.histogram() != plain.histogram || distances.cold() + distances.taken_away() != plain.absent {
        return Err("the plain list counted other distances".into());
    }
    Ok(time)
}

/// Times a plain way, which serves data, over everything held.
fn time_once(stretch: &Stretch, plain: &mut dyn Analysis) -> io::Result<String> {
    let mut counter = Counter::default();
    stretch.play(&mut counter);
    let start = seconds_worked()?;
    stretch.play(plain);
    Ok(measured(&counter, ReferenceKinds::Data, &[seconds_worked()? - start]))
}

/// Counts records.
#[derive(Default)]
struct Counter {
    refs: usize,
    spans: usize,
}

impl Counter {
    fn records(&self) -> usize {
        self.refs + self.spans
    }
}

impl Analysis for Counter {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        self.refs += batch.refs.len();
        self.spans += batch.spans.len();
    }
}
