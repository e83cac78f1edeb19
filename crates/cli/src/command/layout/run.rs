//! `pagewalk layout run`: runs a program with its libraries at planned addresses.

use crate::arguments::LayoutRun;
use crate::exit;
use crate::exit::ExitCode;
use crate::output::{print, say, write_json, write_to_stderr};
use crate::terminal::Terminal;
use pagewalk::output::Output;
use pagewalk::placement::{self, LayoutOutcome, PlacementOptions};
use pagewalk::{Error, Fault, Listener};

pub fn run(arguments: LayoutRun) -> Result<ExitCode, Error> {
    let terminal = Terminal { quiet: arguments.data.quiet };
    let apart = |path| Output::open_apart(path, [&*arguments.plan]);
    let file = arguments.data.output.as_deref().map(apart).transpose()?;
    if arguments.dry_run {
        return dry_run(&arguments, file);
    }
    let options = PlacementOptions {
        verify: arguments.verify,
        release: arguments.release,
        no_randomise: arguments.no_randomize,
    };
    let outcome = match placement::run(&arguments.plan, &arguments.command, options, &terminal) {
        Err(error) if arguments.or_default && error.can_run_without() => {
            return exit::as_program(&arguments.command, arguments.data.quiet, &error);
        }
        other => other?,
    };
    publish(&arguments, &outcome, file)?;
    if let Some(missed) = outcome.landings().missed() {
        if !arguments.or_default {
            return Err(Error::new(Fault::NotInEffect, missed)
                .or("--or-default ends with the program's own exit code all the same"));
        }
        terminal.note(&missed);
    }
    Ok(exit::as_ended(outcome.run.end))
}

fn publish(arguments: &LayoutRun, outcome: &LayoutOutcome, file: Option<Output>) -> Result<(), Error> {
    if arguments.verify {
        write_to_stderr(&outcome.landings().tables());
    }
    if !arguments.data.quiet {
        outcome.notes().into_iter().for_each(say);
    }
    let document = outcome.document(&arguments.plan, &arguments.command);
    write_json(&arguments.data, &document, file)
}

/// Prints what would be placed where, and whether files and host allow it.
fn dry_run(arguments: &LayoutRun, file: Option<Output>) -> Result<ExitCode, Error> {
    let outline = placement::outline(&arguments.plan, &arguments.command)?;
    if !arguments.data.json {
        print(&outline.text)?;
    }
    write_json(&arguments.data, &outline.document, file)?;
    outline.check_host().map(|()| ExitCode::SUCCESS)
}
