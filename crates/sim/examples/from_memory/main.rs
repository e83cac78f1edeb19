//! How fast the simulator is when the stream lies in memory: reads traces stretch by stretch, and times each way of
//! simulating over a stretch once it is held. Prints one line of JSON.
//!
//!     from_memory [--machine NAME|FILE.toml] [--replacement POLICY] [--records N] [--repetitions N]
//!                 [--ways WAY,…] [--os POLICY] T.pwt…
//!
//! - `pass`: one machine on 4 KiB pages, counts only;
//! - `system`: the same by the readable engine, whose walks must equal those of `pass`;
//!   on a shared Xeon (29 November 2026, `skylake_sp`) 122 and 83 M records/s (gzip, cc1; targets 100, 50), and with
//!   two caches of 32 KiB and one of 1 MiB, all LRU, 42 and 34 (targets 40, 20); without caches `pass` reaches 805 and
//!   334;
//! - `profile`: the same with attribution to functions, pages and mappings, under the recording host's
//!   transparent huge pages: what `pagewalk simulate` does after decoding;
//! - `what_if`: that with every alternative that `pagewalk profile` tries;
//! - `hundred`: a hundred two-level machines on 4 KiB pages together, counts only;
//! - `kernel`: the machine of `pass` under a kernel that builds superpages, by default `approx-online`;
//! - `system_kernel`: that kernel in the readable engine, with frames if it places or moves pages;
//! - `rivals`: the data sides of Karakostas 2016 together, under transparent huge pages everywhere: every operation of
//!   every array is counted;
//! - `plain`: a straightforward loop that looks every reference up. Its walks must equal those of `pass`.
//!
//! - `plain_hundred`: that loop for each of the hundred, one after the other. It must count the same walks.
//!
//! The ways take turns on each stretch, with as many simulators as there are repetitions (one of the slow `plain`),
//! so that a noisy moment of the machine meets all of them. A stretch is larger than most caches. Seconds are processor
//! time: what other programs take of a processor is no time of a simulator.

mod hundred;
mod plain;

use pagewalk_mm::{OsSpec, PageSizePolicy, Small, Thp, ThpMode};
use pagewalk_setassoc::Replacement;
use pagewalk_sim::{
    DataSides, DesignCounts, DesignSpec, Library, NoObserver, Pass, Profile, System, held_orders,
};
use pagewalk_trace::pwt::Reader;
use pagewalk_trace::{Analysis, Source, Stretch, seconds_worked};
use pagewalk_translate::MachineSpec;
use plain::Plain;
use std::error::Error;
use std::fs::File;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;

/// Records in memory at a time: 128 MiB or more.
const STRETCH: usize = 16 << 20;

const USAGE: &str = "usage: from_memory [--machine NAME|FILE.toml] [--replacement POLICY] [--records N] \
                     [--repetitions N] [--ways WAY,…] [--os POLICY] T.pwt…";

/// The ways of simulating.
const WAYS: [&str; 10] = [
    "pass",
    "profile",
    "what_if",
    "plain",
    "hundred",
    "plain_hundred",
    "kernel",
    "rivals",
    "system",
    "system_kernel",
];

/// The machines of the comparison, without the perfect TLB, which is not simulated.
const RIVALS: [&str; 8] = [
    "karakostas_4k",
    "karakostas_thp",
    "karakostas_ctlb",
    "karakostas_segment",
    "karakostas_tlb_lite",
    "karakostas_rmm",
    "karakostas_rmm_lite",
    "karakostas_tlb_pp",
];

struct Options {
    machine: String,
    /// Replacement policy for all TLB arrays, instead of the machine's.
    replacement: Option<Replacement>,
    records: usize,
    repetitions: usize,
    /// The kernel of way `kernel`.
    os: String,
    /// Names of the ways to measure.
    ways: Vec<String>,
    traces: Vec<String>,
}

impl Options {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Options, Box<dyn Error>> {
        let mut options = Options {
            machine: "skylake_sp".into(),
            replacement: None,
            records: usize::MAX,
            repetitions: 3,
            os: "approx-online".into(),
            ways: WAYS[..4].iter().map(|&way| way.to_owned()).collect(),
            traces: vec![],
        };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} wants a value; {USAGE}"));
            match word.as_str() {
                "--machine" => options.machine = value()?,
                "--replacement" => options.replacement = Some(policy(&value()?)?),
                "--records" => options.records = value()?.parse()?,
                "--repetitions" => options.repetitions = value()?.parse()?,
                "--os" => options.os = value()?,
                "--ways" => options.ways = value()?.split(',').map(str::to_owned).collect(),
                option if option.starts_with('-') => {
                    return Err(format!("{option} is unknown; {USAGE}").into());
                }
                _ => options.traces.push(word),
            }
        }
        if let Some(way) = options.ways.iter().find(|way| !WAYS.contains(&way.as_str())) {
            return Err(format!("way {way} is unknown; there are {}", WAYS.join(", ")).into());
        }
        if options.traces.is_empty() || options.repetitions == 0 {
            return Err(USAGE.into());
        }
        Ok(options)
    }
}

/// Measurements: the seconds of each way by repetition, and the walks that it counted.
#[derive(Default)]
struct Measured {
    records: usize,
    seconds: [Vec<f64>; WAYS.len()],
    walks: [u64; WAYS.len()],
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
    let mut machine = match options.machine.strip_suffix(".toml") {
        Some(_) => MachineSpec::from_toml(&options.machine, &std::fs::read_to_string(&options.machine)?)?,
        None => Library::get(&options.machine)?,
    };
    if let Some(replacement) = options.replacement {
        machine.tlbs.iter_mut().for_each(|tlb| tlb.replacement = replacement);
    }
    let mut measured = Measured::default();
    for (way, seconds) in WAYS.iter().zip(&mut measured.seconds) {
        let repetitions = if way.starts_with("plain") { 1 } else { options.repetitions };
        seconds.resize(if options.ways.iter().any(|w| w == way) { repetitions } else { 0 }, 0.0);
    }
    for trace in &options.traces {
        let reader = File::open(trace).map_err(Into::into).and_then(Reader::new);
        let reader = reader.map_err(|error| format!("{trace}: {error}"))?;
        // Only whole batches are taken, so there may be slightly more records.
        let most = options.records.saturating_sub(measured.records);
        time(reader, &machine, &options.os, most, &mut measured)
            .map_err(|error| format!("{trace}: {error}"))?;
    }
    let Measured { records, seconds, walks } = measured;
    for [fast, slow] in [[0, 3], [4, 5], [0, 8]] {
        if !seconds[fast].is_empty() && !seconds[slow].is_empty() && walks[fast] != walks[slow] {
            let [fast_walks, slow_walks] = [walks[fast], walks[slow]];
            return Err(
                format!("{} counted {fast_walks} walks, {} {slow_walks}", WAYS[fast], WAYS[slow]).into()
            );
        }
    }
    let ways: Vec<String> =
        WAYS.iter().zip(&seconds).map(|(way, taken)| format!("{way:?}:{taken:?}")).collect();
    println!(
        "{{\"machine\":{:?},\"records\":{records},\"walks\":{},{}}}",
        options.machine,
        walks.iter().max().unwrap_or(&0),
        ways.join(",")
    );
    Ok(())
}

/// Times every way over one trace, up to `most` records.
fn time(
    mut source: impl Source,
    machine: &MachineSpec,
    os: &str,
    most: usize,
    measured: &mut Measured,
) -> Result<(), Box<dyn Error>> {
    let thp = ThpMode::from_name(&source.header().thp).unwrap_or(ThpMode::Never);
    let profile = |what_if| Ok(Profile::new(std::slice::from_ref(machine), thp, what_if)?);
    let counts = measured.seconds.each_ref().map(Vec::len);
    let mut passes = several(counts[0], || counting(machine))?;
    let mut profiles = several(counts[1], || profile(false))?;
    let mut what_ifs = several(counts[2], || profile(true))?;
    let mut loops = several(counts[3], || Ok(Plain::new(machine)))?;
    let machines = if counts[4] + counts[5] > 0 { hundred::machines(machine) } else { Vec::new() };
    let mut hundreds = several(counts[4], || counting_all(&machines))?;
    let mut plain_hundreds = several(counts[5], || Ok(machines.iter().map(Plain::new).collect::<Vec<_>>()))?;
    let mut kernels = several(counts[6], || under_kernel(machine, os))?;
    let mut rivals = several(counts[7], rivals)?;
    let mut systems = several(counts[8], || system(machine))?;
    let mut system_kernels = several(counts[9], || Ok(System::new(with_kernel(machine, os)?, 1)?))?;
    let mut stretch = Stretch::default();
    let mut records = 0;
    while records < most && stretch.read(&mut source, STRETCH.min(most - records))? {
        records += stretch.records();
        let [
            of_pass,
            of_profile,
            of_what_if,
            of_plain,
            of_hundred,
            of_plain_hundred,
            of_kernel,
            of_rivals,
            of_system,
            of_system_kernel,
        ] = &mut measured.seconds;
        for repetition in 0..counts.into_iter().max().unwrap_or(0) {
            play(&stretch, of_pass, &mut passes, repetition)?;
            play(&stretch, of_system, &mut systems, repetition)?;
            play(&stretch, of_system_kernel, &mut system_kernels, repetition)?;
            play(&stretch, of_kernel, &mut kernels, repetition)?;
            play(&stretch, of_rivals, &mut rivals, repetition)?;
            play(&stretch, of_profile, &mut profiles, repetition)?;
            play(&stretch, of_what_if, &mut what_ifs, repetition)?;
            play(&stretch, of_plain, &mut loops, repetition)?;
            play(&stretch, of_hundred, &mut hundreds, repetition)?;
            play(&stretch, of_plain_hundred, &mut plain_hundreds, repetition)?;
        }
    }
    measured.walks[0] += passes.first_mut().map_or(0, |pass| pass.finish()[0].walks());
    measured.walks[3] += loops.first().map_or(0, |plain| plain.walks);
    let walks_of_all = |pass: &mut Pass| pass.finish().iter().map(DesignCounts::walks).sum::<u64>();
    measured.walks[4] += hundreds.first_mut().map_or(0, walks_of_all);
    measured.walks[5] += plain_hundreds.first().map_or(0, |hundred| hundred.iter().map(|p| p.walks).sum());
    measured.walks[8] += systems.first().map_or(0, |system| system.counts().walks());
    measured.records += records;
    Ok(())
}

/// Plays the stretch to the simulator of this repetition, if there is one, and adds to its seconds.
fn play<T: Analysis>(
    stretch: &Stretch,
    seconds: &mut [f64],
    simulators: &mut [T],
    repetition: usize,
) -> io::Result<()> {
    if let (Some(seconds), Some(simulator)) = (seconds.get_mut(repetition), simulators.get_mut(repetition)) {
        let start = seconds_worked()?;
        stretch.play(simulator);
        *seconds += seconds_worked()? - start;
    }
    Ok(())
}

/// A machine under a kernel.
fn under_kernel(machine: &MachineSpec, os: &str) -> Result<Pass, Box<dyn Error>> {
    Ok(Pass::new(vec![with_kernel(machine, os)?], NoObserver)?)
}

fn with_kernel(machine: &MachineSpec, os: &str) -> Result<DesignSpec, Box<dyn Error>> {
    let kernel = OsSpec::from_text(os)?.kernel(machine.paging, held_orders(machine))?;
    Ok(DesignSpec::with_kernel(os.to_owned(), machine, kernel))
}

/// The machine of `pass`, by the readable engine.
fn system(machine: &MachineSpec) -> Result<System, Box<dyn Error>> {
    Ok(System::new(DesignSpec::new(machine, Arc::new(Small)), 1)?)
}

fn rivals() -> Result<DataSides, Box<dyn Error>> {
    let machines = RIVALS.iter().map(|name| Library::get(name)).collect::<Result<Vec<_>, _>>()?;
    Ok(DataSides::new(&machines, Arc::new(Thp { mode: ThpMode::Always }))?)
}

fn counting(machine: &MachineSpec) -> Result<Pass, Box<dyn Error>> {
    counting_all(std::slice::from_ref(machine))
}

/// All of `machines` in one pass.
fn counting_all(machines: &[MachineSpec]) -> Result<Pass, Box<dyn Error>> {
    let policy: Arc<dyn PageSizePolicy> = Arc::new(Small);
    let designs = machines.iter().map(|machine| DesignSpec::new(machine, Arc::clone(&policy)));
    Ok(Pass::new(designs.collect(), NoObserver)?)
}

fn policy(name: &str) -> Result<Replacement, String> {
    Replacement::from_name(name, 1).ok_or_else(|| format!("no replacement `{name}`; {USAGE}"))
}

fn several<T>(count: usize, make: impl Fn() -> Result<T, Box<dyn Error>>) -> Result<Vec<T>, Box<dyn Error>> {
    (0..count).map(|_| make()).collect()
}
