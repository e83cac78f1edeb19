//! `pagewalk promote`: huge pages for a running process, as its TLB misses pay for them.

pub mod beside;
mod json;
mod live;
pub mod prices;
mod ranges;
pub mod text;

use crate::arguments::{Promote, SamplerChoice};
use crate::error::{CliError, Code};
use crate::output::{Output, print, say_next, write_json};
use crate::signals::heeded;
use beside::Beside;
use live::Live;
use pagewalk_live::pagemap::PagemapError;
use pagewalk_live::promote::policy::Limits;
use pagewalk_live::promote::{self, Options, PromoteError, Summary, Way};
use prices::Priced;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub fn run(arguments: Promote) -> Result<ExitCode, CliError> {
    let apart = |path| Output::open_apart(path, arguments.probe.as_deref());
    let file = arguments.data.output.as_deref().map(apart).transpose()?;
    let log = arguments.log.as_deref().map(apart).transpose()?;
    let bytes = promote::anonymous_bytes(arguments.pid).map_err(failed)?;
    let survey = promote::survey(arguments.pid).map_err(failed)?;
    let Priced { prices, entries, assumed } =
        prices::of_host(arguments.probe.as_deref(), arguments.data.quiet, bytes)?;
    let beside = Beside { survey, assumed };
    let options = options(&arguments, entries);
    let stop = set_by_signals()?;
    let mut live = Live::new(arguments.pid, arguments.data.quiet, log)?;
    let outcome = promote::run(arguments.pid, &options, prices, &stop, &mut live);
    let logged = live.finish();
    let summary = outcome.map_err(failed)?;
    let printed =
        if arguments.data.json { Ok(()) } else { print(&text::render(&arguments, &summary, &beside)) };
    // Whatever became of the printing: the result took its time.
    write_json(&arguments.data, &json::document(&arguments, &options, &summary, &beside), file)?;
    printed?;
    logged?;
    if arguments.dry_run && summary.policy.promotions > 0 {
        say_next(arguments.data.quiet, format!("pagewalk promote --pid {}", arguments.pid));
    }
    ended(&summary)
}

/// Set when the user asks for an end.
pub fn set_by_signals() -> Result<Arc<AtomicBool>, CliError> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in heeded(&[SIGINT, SIGTERM, SIGHUP]) {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| CliError::new(Code::Failed, format!("watching signals: {error}")))?;
    }
    Ok(stop)
}

fn options(arguments: &Promote, entries: u32) -> Options {
    let way = match arguments.sampler {
        SamplerChoice::Auto => None,
        SamplerChoice::Pmu => Some(Way::Pmu),
        SamplerChoice::Damon => Some(Way::Damon),
        SamplerChoice::Referenced => Some(Way::Referenced),
    };
    Options {
        way,
        limits: Limits { factor: arguments.factor, budget_bytes: arguments.budget, entries },
        own_share: arguments.own_share / 100.0,
        seconds: arguments.seconds,
        dry_run: arguments.dry_run,
    }
}

/// Not in effect if something paid for itself and nothing could be promoted.
fn ended(summary: &Summary) -> Result<ExitCode, CliError> {
    if summary.failures == 0 || summary.policy.promotions > 0 {
        return Ok(ExitCode::SUCCESS);
    }
    let reason = summary.policy.parts().find_map(|part| part.last_failure.clone()).unwrap_or_default();
    let message = format!("nothing could be promoted: {} promotions failed: {reason}", summary.failures);
    Err(CliError::new(Code::NotInEffect, message))
}

/// What a process that cannot be watched is told as.
pub fn failed(error: PromoteError) -> CliError {
    let code = match &error {
        PromoteError::Process(PagemapError::NoProcess(_) | PagemapError::NoMemory(_)) => Code::Usage,
        PromoteError::Process(PagemapError::Forbidden { .. } | PagemapError::NoPagemap)
        | PromoteError::Forbidden { .. }
        | PromoteError::Kernel { .. }
        | PromoteError::NoSampler { .. } => Code::HostCannot,
        _ => Code::Failed,
    };
    let enable = error.enable();
    CliError::new(code, error).or(enable)
}
