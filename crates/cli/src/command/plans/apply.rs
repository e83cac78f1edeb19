//! `pagewalk apply`: puts a plan's ranges on huge pages, in a new program or a running process.

use crate::arguments::Apply;
use crate::exit;
use crate::exit::ExitCode;
use crate::output::{print, say, say_next, write_json, write_to_stderr};
use crate::terminal::Terminal;
use pagewalk::output::Output;
use pagewalk::plans::{CollapsedProcess, RunOptions, outline, run as run_applied};
use pagewalk::shell::{quoted, typed};
use pagewalk::{Error, Fault, Listener};

pub fn run(arguments: Apply) -> Result<ExitCode, Error> {
    let terminal = Terminal { quiet: arguments.data.quiet };
    let apart = |path| Output::open_apart(path, [&*arguments.plan]);
    let file = arguments.data.output.as_deref().map(apart).transpose()?;
    if let Some(pid) = arguments.pid {
        return attach(&arguments, pid, file);
    }
    if arguments.dry_run {
        return dry_run(&arguments, file);
    }
    let Apply { keep_others, or_default, release, .. } = arguments;
    let options = RunOptions { keep_others, or_default, release };
    let applied = match run_applied(&arguments.plan, &arguments.command, options, &terminal) {
        Err(error) if or_default && error.can_run_without() => {
            return exit::as_program(&arguments.command, arguments.data.quiet, &error);
        }
        other => other?,
    };
    if !arguments.data.quiet {
        write_to_stderr(&applied.tables());
        applied.notes().iter().for_each(say);
    }
    let document = applied.document(&arguments.plan, &arguments.command);
    write_json(&arguments.data, &document, file)?;
    match applied.missed() {
        None => say_next(
            arguments.data.quiet,
            format!("pagewalk verify {} {}", quoted(&arguments.plan), typed(&arguments.command)),
        ),
        Some(missed) if or_default => terminal.note(&missed),
        Some(missed) => {
            return Err(Error::new(Fault::NotInEffect, missed)
                .or("--or-default ends with the program's own exit code all the same"));
        }
    }
    Ok(exit::as_ended(applied.end()))
}

/// Prints what would be done, and whether this host allows it.
fn dry_run(arguments: &Apply, file: Option<Output>) -> Result<ExitCode, Error> {
    let outline = outline(&arguments.plan, arguments.command.first())?;
    if !arguments.data.json {
        print(&outline.text)?;
        if !arguments.data.quiet {
            outline.notes().iter().for_each(say);
        }
    }
    write_json(&arguments.data, &outline.document, file)?;
    outline.check_host()?;
    let (plan, command) = (quoted(&arguments.plan), typed(&arguments.command));
    say_next(arguments.data.quiet, format!("pagewalk apply {plan} {command}"));
    Ok(ExitCode::SUCCESS)
}

fn attach(arguments: &Apply, pid: i32, file: Option<Output>) -> Result<ExitCode, Error> {
    let (plan, quiet) = (&arguments.plan, arguments.data.quiet);
    let collapsed = CollapsedProcess::act(plan, pid, arguments.dry_run)?;
    super::report(&arguments.data, &collapsed.text(), arguments.dry_run)?;
    if !quiet {
        collapsed.notes().iter().for_each(say);
    }
    write_json(&arguments.data, &collapsed.document(plan), file)?;
    if let Some(command) = collapsed.next() {
        say_next(quiet, format!("pagewalk {command} {} --pid {pid}", quoted(plan)));
    }
    collapsed.check().map(|()| ExitCode::SUCCESS)
}
