//! How fast the simulator is when the stream lies in memory: reads traces stretch by stretch, and times each way of
//! simulating over a stretch once it is held. Prints one line of JSON.
//!
//!     from_memory [--machine NAME] [--records N] [--repetitions N] T.pwt…
//!
//! - `pass`: one machine on 4 KiB pages, counts only;
//! - `profile`: the same with attribution to functions, pages and mappings, under the recording host's
//!   transparent huge pages: what `pagewalk simulate` does after decoding;
//! - `plain`: a straightforward loop that looks every reference up. Its walks must equal those of `pass`.
//!
//! The ways take turns on each stretch, with as many simulators as there are repetitions (one of the slow `plain`),
//! so that a noisy moment of the machine meets all of them. A stretch is larger than most caches.

mod held;
mod plain;

use held::Stretch;
use pagewalk_mm::{Small, ThpMode};
use pagewalk_sim::{DesignSpec, Library, NoObserver, Pass, Profile};
use pagewalk_trace::pwt::Reader;
use pagewalk_trace::{Analysis, Source};
use pagewalk_translate::MachineSpec;
use plain::Plain;
use std::error::Error;
use std::fs::File;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

/// Records held at a time: 128 MiB or more.
const STRETCH: usize = 16 << 20;

const USAGE: &str = "usage: from_memory [--machine NAME] [--records N] [--repetitions N] T.pwt…";

struct Options {
    machine: String,
    records: usize,
    repetitions: usize,
    traces: Vec<String>,
}

impl Options {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Options, Box<dyn Error>> {
        let mut options =
            Options { machine: "skylake_sp".into(), records: usize::MAX, repetitions: 3, traces: vec![] };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} wants a value; {USAGE}"));
            match word.as_str() {
                "--machine" => options.machine = value()?,
                "--records" => options.records = value()?.parse()?,
                "--repetitions" => options.repetitions = value()?.parse()?,
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
}

/// One way of simulating: its seconds by repetition, and the walks that it counted.
struct Way {
    seconds: Vec<f64>,
    walks: u64,
}

impl Way {
    fn new(repetitions: usize) -> Way {
        Way { seconds: vec![0.0; repetitions], walks: 0 }
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("from_memory: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let options = Options::parse(std::env::args().skip(1))?;
    let machine = Library::get(&options.machine)?;
    let (mut pass, mut profile) = (Way::new(options.repetitions), Way::new(options.repetitions));
    let mut plain = Way::new(1);
    let mut records = 0;
    for trace in &options.traces {
        let reader = File::open(trace).map_err(Into::into).and_then(Reader::new);
        let reader = reader.map_err(|error| format!("{trace}: {error}"))?;
        let most = options.records - records;
        records += time(reader, &machine, most, [&mut pass, &mut profile, &mut plain])
            .map_err(|error| format!("{trace}: {error}"))?;
    }
    if pass.walks != plain.walks {
        let why = format!("the pass counted {} walks, the plain loop {}", pass.walks, plain.walks);
        return Err(why.into());
    }
    println!(
        "{{\"machine\":{:?},\"records\":{records},\"walks\":{},\"pass\":{:?},\"profile\":{:?},\"plain\":{:?}}}",
        options.machine, pass.walks, pass.seconds, profile.seconds, plain.seconds
    );
    Ok(())
}

/// Times every way over one trace, up to `most` records; returns the number of records.
fn time(
    mut source: impl Source,
    machine: &MachineSpec,
    most: usize,
    [pass, profile, plain]: [&mut Way; 3],
) -> Result<usize, Box<dyn Error>> {
    let thp = ThpMode::from_name(&source.header().thp).unwrap_or(ThpMode::Never);
    let repetitions = pass.seconds.len();
    let mut passes = several(repetitions, || counting(machine))?;
    let mut profiles = several(repetitions, || Ok(Profile::new(std::slice::from_ref(machine), thp, false)?))?;
    let mut loops = Plain::new(machine);
    let mut stretch = Stretch::default();
    let mut records = 0;
    while records < most && stretch.read(&mut source, STRETCH.min(most - records))?.is_some() {
        records += stretch.records();
        for repetition in 0..repetitions {
            pass.seconds[repetition] += seconds(&stretch, &mut passes[repetition]);
            profile.seconds[repetition] += seconds(&stretch, &mut profiles[repetition]);
        }
        plain.seconds[0] += seconds(&stretch, &mut loops);
    }
    pass.walks += passes[0].finish()[0].walks();
    plain.walks += loops.walks;
    Ok(records)
}

fn counting(machine: &MachineSpec) -> Result<Pass, Box<dyn Error>> {
    let (name, machine) = (machine.name.clone(), machine.clone());
    let design = DesignSpec { name, machine, policy: Arc::new(Small), reach: None };
    Ok(Pass::new(vec![design], NoObserver)?)
}

fn several<T>(count: usize, make: impl Fn() -> Result<T, Box<dyn Error>>) -> Result<Vec<T>, Box<dyn Error>> {
    (0..count).map(|_| make()).collect()
}

fn seconds(stretch: &Stretch, analysis: &mut dyn Analysis) -> f64 {
    let start = Instant::now();
    stretch.play(analysis);
    start.elapsed().as_secs_f64()
}
