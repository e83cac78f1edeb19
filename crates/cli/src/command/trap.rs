//! `pagewalk trap`: runs a program at its own speed and counts a TLB's misses by page faults.

use crate::arguments::{BlindReplacement, Trap};
use crate::exit;
use crate::exit::ExitCode;
use crate::output::{print, say, write_to_stderr};
use crate::terminal::Terminal;
use pagewalk::machines::load_and_say;
use pagewalk::output::Output;
use pagewalk::report::documents;
use pagewalk::setassoc::Replacement;
use pagewalk::trap::{Changes, TrapOutcome, TrapProgram};
use pagewalk::{Error, Fault};

pub fn run(arguments: Trap) -> Result<ExitCode, Error> {
    let terminal = Terminal { quiet: arguments.style.quiet };
    let machine = load_and_say(&arguments.machine, &terminal)?;
    let trapping = TrapProgram::prepare(&machine, changes(&arguments)?, &arguments.command)?;
    let file = arguments.output.as_deref().map(Output::open).transpose()?;
    let outcome = trapping.run(arguments.native, arguments.check, &terminal)?;
    publish(&arguments, &outcome, file)?;
    outcome.check()?;
    Ok(exit::as_ended(outcome.run.end))
}

fn changes(arguments: &Trap) -> Result<Changes, Error> {
    let replacement = match (arguments.replacement, arguments.seed) {
        (None, _) => None,
        (Some(BlindReplacement::Fifo), None) => Some(Replacement::Fifo),
        (Some(BlindReplacement::Fifo), Some(seed)) => {
            return Err(Error::new(Fault::Usage, format!("--seed {seed}: FIFO draws nothing"))
                .or("`--replacement random` does"));
        }
        (Some(BlindReplacement::Random), seed) => Some(Replacement::Random { seed: seed.unwrap_or(0) }),
    };
    Ok(Changes { entries: arguments.entries, ways: arguments.ways, replacement })
}

fn publish(arguments: &Trap, outcome: &TrapOutcome, file: Option<Output>) -> Result<(), Error> {
    let json = || documents::text(&outcome.document());
    let printed = if arguments.style.json {
        print(&json())
    } else {
        write_to_stderr(&outcome.text(arguments.style.verbose));
        Ok(())
    };
    // Even if printing failed: the result took time to make.
    if let Some(file) = file {
        let path = file.write(json().as_bytes())?;
        if !arguments.style.quiet {
            say(format!("result written to {}", path.display()));
        }
    }
    printed
}
