//! `pagewalk advise`: what huge pages would buy a program, and a plan.
//!
//! The program runs once under the engine, which says what each part of its memory is used for, and a few times at its
//! own speed: as it is, and with all on huge pages that could pay. What part of that gain the plan has is the model's.
//! Of a process that runs (`process`), misses are sampled.

mod prices;
mod process;
mod runs;
mod seen;
mod weighed;

use crate::arguments::Advise;
use crate::command::promote::beside::host_forbids;
use crate::error::{CliError, Code};
use crate::live::{Apart, Live};
use crate::machine;
use crate::output::{Output, print, say, say_next, text_options};
use crate::probed::assumed_values;
use crate::probed::{self, Assumed};
use pagewalk_forecast::choose::{Chosen, Limits, choose};
use pagewalk_forecast::interval::product;
use pagewalk_forecast::prices::Prices;
use pagewalk_forecast::{Grown, PieceKind, REGION_BYTES};
use pagewalk_live::pages::plan::{Forecast, Gain, Host, Part, Plan, Program, RANGES_MAX, Range, What};
use pagewalk_live::pages::settings::settings;
use pagewalk_mm::ThpMode;
use pagewalk_report::Class;
use pagewalk_report::huge_pages::schema::{
    ADVICE_SCHEMA, AdviceResult, AdvisedRange, Always, Estimates, GrownMemory, figures,
};
use pagewalk_report::huge_pages::{render_text, to_json};
use pagewalk_translate::MachineSpec;
use runs::{Kind, Trials, seconds_of, share_of};
use seen::Seen;
use std::io::{self, IsTerminal, Write};
use std::iter;
use std::process::ExitCode;
use tempfile::NamedTempFile;
use weighed::Weighed;

const MIB: f64 = (1 << 20) as f64;
/// Fewer blocks than these that grew by less than huge pages are not worth a word: every heap begins so.
const GROWN_LEAST: u64 = 4;
/// What to do about memory that grows by less than huge pages at a time.
pub const GROW_WHOLE: &str = "grow by whole 2 MiB: map, or open by mprotect, multiples of 2 MiB that begin on a \
     border of 2 MiB, and mark them before the first touch; for malloc's heap GLIBC_TUNABLES=glibc.malloc.hugetlb=1 \
     does so, and so does a plan of the heap";

pub fn run(arguments: Advise) -> Result<ExitCode, CliError> {
    let inputs = [&arguments.trace, &arguments.probe, &arguments.input].map(Option::as_deref);
    let apart = |path| Output::open_apart(path, inputs.into_iter().flatten());
    let output = arguments.output.as_deref().map(apart).transpose()?;
    if let Some(pid) = arguments.pid {
        return process::run(&arguments, pid, output);
    }
    let machines = match machine::load(machine::HOST) {
        // This host as it was probed is what the runs below meet.
        Ok(host) if arguments.model.machines.is_empty() => vec![host],
        _ => machine::chosen(&arguments.model, arguments.style.quiet)?,
    };
    let [machine] = machines.as_slice() else {
        return Err(CliError::new(Code::Usage, "advise simulates one machine").or("give one -m"));
    };
    if !machine.has_huge_pages() {
        let why = format!("machine `{}` has no huge pages", machine.name);
        return Err(CliError::new(Code::Usage, why).or("choose another with -m"));
    }
    let host = pagewalk_capture::Host::detect();
    let thp = machine::thp(arguments.model.thp, &host.thp);
    let (prices, assumed, seen) = look(&arguments, machine, thp)?;
    let everything = choose(&seen.found, &prices, &Limits { memory: None, waiting: 1.0, least: 0.0 });
    let trials = match arguments.trace {
        Some(_) => Trials { kinds: vec![Kind::given(&arguments.seconds)], unapplied: None, warmth: None },
        None => {
            let trial = trial(&seen, &everything, &arguments)?;
            runs::run(&arguments, trial.as_ref().map(NamedTempFile::path))?
        }
    };
    let weighed = Weighed::new(&prices, &seen.found, &everything, &trials.kinds, arguments.budget);
    let host = Host { kernel: host.kernel, thp: host.thp };
    let mut result = result(&weighed, &seen, &trials, &arguments, &host, &machine.name);
    result.assumed = assumed_values(&assumed);
    result.notes.extend(probed::assumed_lines(&assumed));
    if !everything.is_empty() {
        result.host_forbids = host_forbids(&settings());
    }
    let plan = plan(&weighed, &seen, host);
    let text = if arguments.style.json {
        to_json(&result)
    } else {
        render_text(&result, &text_options(arguments.style.verbose, io::stdout().is_terminal()))
    };
    let printed = print(&text);
    // Whatever became of the printing: the plan took its time.
    let text = if plan.ranges.is_empty() { None } else { Some(checked(&plan)?) };
    let quiet = arguments.style.quiet;
    write_plan(output, text, NOTHING_PAYS, quiet, |path| format!("pagewalk verify {path} -- CMD"))?;
    printed.map(|()| ExitCode::SUCCESS)
}

/// Why there is no plan, mostly.
const NOTHING_PAYS: &str = "nothing pays";

/// Writes a plan where that was asked for, if anything pays, and says what comes `next`, or why there is
/// none.
fn write_plan(
    output: Option<Output>,
    plan: Option<String>,
    why_none: &str,
    quiet: bool,
    next: impl FnOnce(&str) -> String,
) -> Result<(), CliError> {
    let Some(output) = output else {
        if plan.is_some() {
            say_next(quiet, "give -o plan.toml too, for a plan that `apply` and `verify` take");
        }
        return Ok(());
    };
    let Some(plan) = plan else {
        let older = match output.was_there() {
            true => format!("; {} was there before and stays as it is", output.path().display()),
            false => String::new(),
        };
        say(format!("{why_none}, so no plan is written{older}"));
        return Ok(());
    };
    let path = output.write(plan.as_bytes())?.display().to_string();
    if !quiet {
        say(format!("plan written to {path}; next: {}", next(&path)));
    }
    Ok(())
}

/// What this host's walks and faults take, and what the profiler sees.
fn look(
    arguments: &Advise,
    machine: &MachineSpec,
    thp: ThpMode,
) -> Result<(Prices, Vec<Assumed>, Seen), CliError> {
    if let Some(trace) = &arguments.trace {
        let (prices, assumed) = prices::of_host(arguments)?;
        return Ok((prices, assumed, seen::read(trace, arguments.style.quiet, machine, thp)?));
    }
    let folder = std::env::current_dir().map_err(|error| CliError::new(Code::Failed, error))?;
    let apart = Apart { folder, input: runs::input(arguments)?, variable: None };
    let live = Live::prepare(&arguments.command, None)?.apart(apart);
    let (prices, assumed) = prices::of_host(arguments)?;
    Ok((prices, assumed, seen::see(&live, machine, thp)?))
}

/// Memory that grew by less than huge pages at a time, if it is worth a word.
fn grown(seen: &Seen) -> Option<GrownMemory> {
    let Grown { blocks, walks } = seen.found.grown;
    (blocks >= GROWN_LEAST).then(|| GrownMemory {
        class: Class::Modelled,
        blocks,
        mib: (blocks * REGION_BYTES) as f64 / MIB,
        walks,
        remedy: GROW_WHOLE.to_owned(),
    })
}

/// The plan of everything that could pay, in a file; none if there is nothing, or no trial is wanted.
fn trial(seen: &Seen, everything: &[Chosen], arguments: &Advise) -> Result<Option<NamedTempFile>, CliError> {
    if arguments.no_trial || everything.is_empty() {
        return Ok(None);
    }
    let ranges = ranges(seen, everything, |_| Gain::default());
    let plan = Plan { program: program(seen), host: None, forecast: None, ranges };
    let text = checked(&plan)?;
    let written = NamedTempFile::with_suffix(".toml")
        .and_then(|mut file| file.write_all(text.as_bytes()).map(|()| file));
    let file = written
        .map_err(|error| CliError::new(Code::Failed, format!("a file for the trial's plan: {error}")))?;
    Ok(Some(file))
}

/// A plan's text, which `apply` takes.
fn checked(plan: &Plan) -> Result<String, CliError> {
    plan.check()
        .map_err(|error| CliError::new(Code::Failed, format!("the plan would not be one: {error}")))?;
    Ok(plan.to_toml())
}

fn program(seen: &Seen) -> Program {
    Program {
        path: seen.program.clone(),
        build_id: pagewalk_symbols::build_id(&seen.program),
        arguments: seen.arguments.clone(),
    }
}

/// The ranges of a plan: of too many those that save most.
fn ranges(seen: &Seen, chosen: &[Chosen], gain: impl Fn(&Chosen) -> Gain) -> Vec<Range> {
    let saved = |chosen: &Chosen| chosen.saving.alone + chosen.saving.faults;
    let mut order: Vec<&Chosen> = chosen.iter().collect();
    order.sort_by(|a, b| saved(b).total_cmp(&saved(a)));
    order.truncate(RANGES_MAX);
    order.sort_by_key(|chosen| (chosen.piece, chosen.bytes.start));
    order.into_iter().map(|chosen| Range { what: what(seen, chosen), gain: gain(chosen) }).collect()
}

fn what(seen: &Seen, chosen: &Chosen) -> What {
    let part = Part { from: chosen.bytes.start, to: chosen.bytes.end };
    match &seen.found.pieces[chosen.piece.0 as usize].kind {
        PieceKind::Heap => What::Heap(part),
        PieceKind::Static { file, offset } => {
            What::File { file: file.to_string(), offset: offset + part.from, bytes: part.bytes() }
        }
        &PieceKind::Anonymous { bytes, nth } => What::Anonymous { bytes, nth, by: None, part: Some(part) },
    }
}

fn plan(weighed: &Weighed, seen: &Seen, host: Host) -> Plan {
    let forecast = weighed.forecast;
    let gain = |chosen: &Chosen| Gain {
        seconds_saved: Some(weighed.walk_seconds(chosen) + weighed.fault_seconds(chosen)),
        memory_mib: Some(chosen.saving.memory as f64 / MIB),
        ..Gain::default()
    };
    Plan {
        program: program(seen),
        host: Some(host),
        forecast: Some(Forecast {
            seconds_now: weighed.now.value,
            seconds: forecast.value,
            low: forecast.low.max(0.0),
            high: forecast.high,
            memory_mib: weighed.memory() as f64 / MIB,
        }),
        ranges: ranges(seen, &weighed.chosen, gain),
    }
}

fn result(
    weighed: &Weighed,
    seen: &Seen,
    trials: &Trials,
    arguments: &Advise,
    host: &Host,
    machine: &str,
) -> AdviceResult {
    let command = match arguments.trace {
        Some(_) => iter::once(&seen.program).chain(&seen.arguments).cloned().collect(),
        None => arguments.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
    };
    let range = |chosen: &Chosen| AdvisedRange {
        name: what(seen, chosen).to_string(),
        bytes: chosen.bytes.end - chosen.bytes.start,
        walk_seconds: weighed.walk_seconds(chosen),
        fault_seconds: weighed.fault_seconds(chosen),
        memory_mib: chosen.saving.memory as f64 / MIB,
    };
    let mut notes = Vec::new();
    if seen.images > 1 {
        notes.push(format!(
            "{} of {} process images was looked at, with {:.0} % of all instructions",
            seen.program,
            seen.images,
            seen.share * 100.0
        ));
    }
    if arguments.seconds.len() == 1 {
        notes.push(
            "of one timing it is not known how runs differ: the interval is the model's alone".to_owned(),
        );
    }
    let warmed_mib = trials.warmth.map(|warmth| warmth.mebibytes());
    if let Some(mebibytes) = warmed_mib {
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
        warmed_mib,
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
        always: (host.thp != "always").then(|| Always {
            forecast: seconds_of(Class::Modelled, product(weighed.now, weighed.always_ratio)),
            memory_mib: weighed.always_memory as f64 / MIB,
        }),
        verdict: weighed.verdict(),
        notes,
    }
}
