//! What a program gains from huge pages, and a plan.
//!
//! The program runs once under the engine, which shows how each part of its memory is used, and a few times at its own
//! speed: as it is, and with everything on huge pages that could pay. The model says which share of the measured gain
//! belongs to the plan. For a running process (`process`), misses are sampled.

mod estimation;
mod options;
mod prices;
mod process;
mod profile;
mod runs;
mod samples;

use crate::engine::{Isolation, Live};
use crate::error::{Error, Fault};
use crate::listener::Listener;
use crate::machines;
use crate::plans::trial::open_input;
use crate::probe::{AssumedPrice, assumed_lines, assumed_values};
use crate::promotion::survey::{GROW_WHOLE, host_forbids};
use estimation::PlanEstimate;
use pagewalk_forecast::choose::{ChoiceLimits, RegionRun, choose};
use pagewalk_forecast::interval::product;
use pagewalk_forecast::prices::HostPrices;
use pagewalk_forecast::{BlockGrowth, PieceKind, REGION_BYTES};
use pagewalk_live::pages::settings::settings;
use pagewalk_mm::ThpMode;
use pagewalk_plan::{Forecast, ForecastHost, Gain, Plan, PlanRange, Program, RANGES_MAX, RangePart, What};
use pagewalk_report::Class;
use pagewalk_report::huge_pages::schema::{
    ADVICE_SCHEMA, AdviceResult, AdvisedRange, AlwaysForecast, Estimates, GrownMemory, figures,
};
use pagewalk_sim::Profile;
use pagewalk_translate::MachineSpec;
use process::MIB;
use profile::ProgramProfile;
use runs::{RunSeries, Trials, seconds_of, share_of};
use std::iter;

pub use options::AdviceOptions;
pub use process::{NOTHING_PAYS, ProcessAdvice, ProcessOptions, ProcessWatch};
pub use samples::{SampledOptions, of_samples};

/// Fewer piecemeal-grown blocks than this are not reported: every heap starts with some.
const GROWN_LEAST: u64 = 4;

/// Advice for one program.
pub struct Advice {
    /// The result.
    pub result: AdviceResult,
    plan: Plan,
}

impl Advice {
    /// The plan's text, if anything pays.
    ///
    /// # Errors
    /// If the plan would be invalid.
    pub fn plan(&self) -> Result<Option<String>, Error> {
        if self.plan.ranges.is_empty() {
            Ok(None)
        } else {
            checked(&self.plan).map(|plan| Some(plan.to_toml()))
        }
    }
}

/// Advises on a program.
///
/// # Errors
/// If the program cannot run, the trace cannot be read, or the machine has no huge pages.
pub fn advise(options: &AdviceOptions, listener: &dyn Listener) -> Result<Advice, Error> {
    let machines = match machines::load(machines::HOST) {
        // The runs below meet this host as it was probed.
        Ok(host) if options.machines.is_empty() => vec![host],
        _ => machines::chosen(&options.machines, listener)?,
    };
    let [machine] = machines.as_slice() else {
        return Err(Error::new(Fault::Usage, "advise simulates one machine").or("give one -m"));
    };
    if !machine.has_huge_pages() {
        let why = format!("machine `{}` has no huge pages", machine.name);
        return Err(Error::new(Fault::Usage, why).or("choose another with -m"));
    }
    if !Profile::suits(machine) {
        let name = &machine.name;
        let why =
            format!("machine `{name}` is simulated in order, and `advise` tries all regions in one pass");
        let way_out =
            format!("choose another with -m; `pagewalk simulate -m {name} --what-if` has alternatives");
        return Err(Error::new(Fault::Usage, why).or(way_out));
    }
    let host = pagewalk_capture::HostDescription::detect();
    let thp = machines::thp(options.thp, &host.thp);
    let (prices, assumed, seen) = profile_program(options, machine, thp, listener)?;
    let everything = choose(&seen.found, &prices, &ChoiceLimits { memory: None, waiting: 1.0, least: 0.0 });
    let trials = match options.trace {
        Some(_) => Trials { kinds: vec![RunSeries::given(&options.seconds)], unapplied: None, warmth: None },
        None => {
            let all = (!options.no_trial && !everything.is_empty()).then(|| trial(&seen, &everything));
            runs::run(options, all.transpose()?, listener)?
        }
    };
    let weighed = PlanEstimate::new(&prices, &seen.found, &everything, &trials.kinds, options.budget);
    let host = ForecastHost { kernel: host.kernel, thp: host.thp };
    let mut result = result(&weighed, &seen, &trials, options, &host, &machine.name);
    result.assumed = assumed_values(&assumed);
    result.notes.extend(assumed_lines(&assumed));
    if !everything.is_empty() {
        result.host_forbids = host_forbids(&settings());
    }
    let plan = plan(&weighed, &seen, host);
    Ok(Advice { result, plan })
}

/// Prices of this host's walks and faults, and the program's profile.
fn profile_program(
    options: &AdviceOptions,
    machine: &MachineSpec,
    thp: ThpMode,
    listener: &dyn Listener,
) -> Result<(HostPrices, Vec<AssumedPrice>, ProgramProfile), Error> {
    if let Some(trace) = &options.trace {
        let (prices, assumed) = prices::of_host(options.probe.as_deref(), listener)?;
        return Ok((prices, assumed, profile::read(trace, machine, thp, listener)?));
    }
    let folder = std::env::current_dir().map_err(|error| Error::new(Fault::Failed, error))?;
    let apart = Isolation { folder, input: open_input(options.input())?, variable: None };
    let live = Live::prepare(&options.command, None, listener)?.isolate(apart);
    let (prices, assumed) = prices::of_host(options.probe.as_deref(), listener)?;
    Ok((prices, assumed, profile::see(&live, machine, thp, listener)?))
}

/// Memory that grew by less than a huge page at a time, if there is enough to report.
fn grown(seen: &ProgramProfile) -> Option<GrownMemory> {
    let BlockGrowth { blocks, walks } = seen.found.grown;
    (blocks >= GROWN_LEAST).then(|| GrownMemory {
        class: Class::Modelled,
        blocks,
        mib: (blocks * REGION_BYTES) as f64 / MIB,
        walks,
        remedy: GROW_WHOLE.to_owned(),
    })
}

/// The plan of all regions that could pay.
fn trial(seen: &ProgramProfile, everything: &[RegionRun]) -> Result<Plan, Error> {
    let ranges = ranges(seen, everything, |_| Gain::default());
    let plan = Plan { ranges, ..Plan::of(program(seen)) };
    checked(&plan).cloned()
}

/// Checks that `apply` accepts the plan.
fn checked(plan: &Plan) -> Result<&Plan, Error> {
    plan.check().map_err(|error| Error::new(Fault::Failed, format!("the plan would be invalid: {error}")))?;
    Ok(plan)
}

fn program(seen: &ProgramProfile) -> Program {
    Program {
        path: seen.program.clone(),
        build_id: pagewalk_symbols::build_id(&seen.program),
        arguments: seen.arguments.clone(),
    }
}

/// A plan's ranges: if there are too many, those that save most.
fn ranges(seen: &ProgramProfile, chosen: &[RegionRun], gain: impl Fn(&RegionRun) -> Gain) -> Vec<PlanRange> {
    let saved = |chosen: &RegionRun| chosen.saving.alone + chosen.saving.faults;
    let mut order: Vec<&RegionRun> = chosen.iter().collect();
    order.sort_by(|a, b| saved(b).total_cmp(&saved(a)));
    order.truncate(RANGES_MAX);
    order.sort_by_key(|chosen| (chosen.piece, chosen.bytes.start));
    let range = |chosen: &RegionRun| PlanRange {
        what: plan_name(seen, chosen),
        made_by: made_by(seen, chosen),
        gain: gain(chosen),
    };
    order.into_iter().map(range).collect()
}

fn plan_name(seen: &ProgramProfile, chosen: &RegionRun) -> What {
    let part = RangePart { from: chosen.bytes.start, to: chosen.bytes.end };
    match &seen.found.pieces[chosen.piece.0 as usize].kind {
        PieceKind::Heap => What::Heap(part),
        PieceKind::Static { file, offset } => {
            What::File { file: file.to_string(), offset: offset + part.from, bytes: part.bytes() }
        }
        &PieceKind::Anonymous { bytes, nth } => What::Anonymous { bytes, nth, by: None, part: Some(part) },
    }
}

/// Who asked for this memory.
fn made_by(seen: &ProgramProfile, chosen: &RegionRun) -> Option<String> {
    seen.made_by[chosen.piece.0 as usize].clone()
}

fn plan(weighed: &PlanEstimate, seen: &ProgramProfile, host: ForecastHost) -> Plan {
    let forecast = weighed.forecast;
    let gain = |chosen: &RegionRun| Gain {
        seconds_saved: Some(weighed.walk_seconds(chosen) + weighed.fault_seconds(chosen)),
        memory_mib: Some(chosen.saving.memory as f64 / MIB),
        ..Gain::default()
    };
    Plan {
        host: Some(host),
        forecast: Some(Forecast {
            seconds_now: weighed.now.value,
            seconds: forecast.value,
            low: forecast.low.max(0.0),
            high: forecast.high,
            memory_mib: weighed.memory() as f64 / MIB,
        }),
        ranges: ranges(seen, &weighed.chosen, gain),
        ..Plan::of(program(seen))
    }
}

fn result(
    weighed: &PlanEstimate,
    seen: &ProgramProfile,
    trials: &Trials,
    options: &AdviceOptions,
    host: &ForecastHost,
    machine: &str,
) -> AdviceResult {
    let is_always = machines::thp(options.thp, &host.thp) == ThpMode::Always;
    let command = match options.trace {
        Some(_) => iter::once(&seen.program).chain(&seen.arguments).cloned().collect(),
        None => options.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
    };
    let range = |chosen: &RegionRun| AdvisedRange {
        name: plan_name(seen, chosen).to_string(),
        made_by: made_by(seen, chosen),
        bytes: chosen.bytes.end - chosen.bytes.start,
        walk_seconds: weighed.walk_seconds(chosen),
        fault_seconds: weighed.fault_seconds(chosen),
        memory_mib: chosen.saving.memory as f64 / MIB,
    };
    let now = &trials.kinds[0];
    AdviceResult {
        schema: ADVICE_SCHEMA.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        program: seen.program.clone(),
        command,
        machine: machine.to_owned(),
        kernel: host.kernel.clone(),
        thp: host.thp.clone(),
        instructions: seen.found.instructions,
        walks: seen.found.walks,
        huge_walks: seen.found.huge_walks,
        classes: figures(),
        runs: trials.kinds.iter().map(|kind| kind.result(now)).collect(),
        warmed_mib: trials.warmth.map(|warmth| warmth.mebibytes()),
        waiting: weighed.waiting,
        ranges: weighed.chosen.iter().map(range).collect(),
        forecast: seconds_of(Class::Modelled, weighed.forecast),
        forecast_share: share_of(Class::Modelled, weighed.ratio),
        estimates: weighed.estimates.map(|of| Estimates {
            model: share_of(Class::Modelled, of.model),
            trial: share_of(Class::Measured, of.trial),
            joined: share_of(Class::Modelled, of.joined),
        }),
        assumed: Vec::new(),
        host_forbids: Vec::new(),
        grown: grown(seen),
        memory_mib: weighed.memory() as f64 / MIB,
        always: weighed.always_ratio.filter(|_| !is_always).map(|ratio| AlwaysForecast {
            forecast: seconds_of(Class::Modelled, product(weighed.now, ratio)),
            memory_mib: weighed.always_memory as f64 / MIB,
        }),
        verdict: weighed.verdict(),
        notes: notes(seen, trials, options),
    }
}

/// What the figures leave out.
fn notes(seen: &ProgramProfile, trials: &Trials, options: &AdviceOptions) -> Vec<String> {
    let mut notes = Vec::new();
    if seen.images > 1 {
        notes.push(format!(
            "{} of {} process images was looked at, with {:.0} % of all instructions",
            seen.program,
            seen.images,
            seen.share * 100.0
        ));
    }
    if options.seconds.len() == 1 {
        notes.push(
            "of one timing it is not known how runs differ: the interval is the model's alone".to_owned(),
        );
    }
    if let Some(mebibytes) = trials.warmth.map(|warmth| warmth.mebibytes()) {
        notes.push(format!(
            "before each run {mebibytes:.0} MiB were used and freed (--warm): where memory comes back from the \
             hypervisor at its first touch, that is in none of these times"
        ));
    }
    if let Some(why) = &trials.unapplied {
        notes.push(format!(
            "a plan could not be followed here, so all ranges were not tried: the forecast is the model's alone ({why})"
        ));
    }
    if let Some(GrownMemory { mib, blocks, walks, remedy, .. }) = grown(seen) {
        notes.push(format!(
            "{mib:.0} MiB ({blocks} blocks of 2 MiB, {walks} walks) grew by less than 2 MiB at a time: each block had \
             small pages before it lay whole in a mapping, and the kernel keeps those, whatever its mode and marks; \
             {remedy}"
        ));
    }
    notes
}
