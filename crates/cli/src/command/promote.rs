//! `pagewalk promote`: huge pages for a running process where its TLB misses pay for them.

mod watcher;

use crate::arguments::{Promote, SamplerChoice};
use crate::exit::ExitCode;
use crate::output::{print, say_next, write_json};
use crate::signals::{STOPPED, note_stops};
use crate::terminal::Terminal;
use pagewalk::Error;
use pagewalk::output::Output;
use pagewalk::promotion::{PolicyLimits, PromoteOptions, Promotion, SamplerKind};
use watcher::Picture;

pub fn run(arguments: Promote) -> Result<ExitCode, Error> {
    let terminal = Terminal { quiet: arguments.data.quiet };
    let apart = |path| Output::open_apart(path, arguments.probe.as_deref());
    let file = arguments.data.output.as_deref().map(apart).transpose()?;
    let log = arguments.log.as_deref().map(apart).transpose()?;
    let promotion =
        Promotion::prepare(arguments.pid, arguments.probe.as_deref(), options(&arguments), &terminal)?;
    let _noted = note_stops()?;
    let mut picture = Picture::new(arguments.pid, arguments.data.quiet, log)?;
    let outcome = promotion.run(&STOPPED, &mut picture);
    let logged = picture.finish();
    let promoted = outcome?;
    let printed = if arguments.data.json { Ok(()) } else { print(&promoted.text()) };
    // Even if printing failed: the result took time to make.
    write_json(&arguments.data, &promoted.document(), file)?;
    printed?;
    logged?;
    if arguments.dry_run && promoted.summary.policy.promotions > 0 {
        say_next(arguments.data.quiet, format!("pagewalk promote --pid {}", arguments.pid));
    }
    promoted.check().map(|()| ExitCode::SUCCESS)
}

/// The options; the entries are this host's.
fn options(arguments: &Promote) -> PromoteOptions {
    let way = match arguments.sampler {
        SamplerChoice::Auto => None,
        SamplerChoice::Pmu => Some(SamplerKind::Pmu),
        SamplerChoice::Damon => Some(SamplerKind::Damon),
        SamplerChoice::Referenced => Some(SamplerKind::Referenced),
    };
    PromoteOptions {
        way,
        limits: PolicyLimits { factor: arguments.factor, budget_bytes: arguments.budget, entries: 0 },
        own_share: arguments.own_share / 100.0,
        seconds: arguments.seconds,
        dry_run: arguments.dry_run,
    }
}
