//! `pagewalk contiguity`: reads a process's page map and compares TLB designs on it.

use crate::arguments::Contiguity;
use crate::exit;
use crate::exit::ExitCode;
use crate::output::{Files, print, say, say_next, text_options, write_to_stderr};
use crate::terminal::Terminal;
use pagewalk::contiguity::CacheColors;
use pagewalk::output::Output;
use pagewalk::report::contiguity::{
    ContiguityResult, huge_pages_help, render_html, render_text, run_lengths_file, to_json,
};
use pagewalk::shell::typed;
use pagewalk::{Error, contiguity};
use std::io::{self, IsTerminal};

pub fn run(arguments: Contiguity) -> Result<ExitCode, Error> {
    let terminal = Terminal { quiet: arguments.style.quiet };
    if let Some(program) = arguments.command.first() {
        contiguity::check(program)?;
    }
    let colors =
        arguments.colors.then(|| CacheColors::of(arguments.machine.as_deref(), &terminal)).transpose()?;
    let files = Files::open(&arguments.outputs, &FORMS, NAMES, &[])?;
    let list = arguments.frames.as_deref().map(|path| Output::open_apart(path, [])).transpose()?;
    if let (Some(pid), Some(list)) = (arguments.pid, list) {
        let path = list.write(contiguity::list_frames(pid)?.as_bytes())?;
        if !arguments.style.quiet {
            say(format!("frames written to {}", path.display()));
        }
    }
    let (reading, code) = match arguments.pid {
        Some(pid) => (contiguity::read(pid)?, ExitCode::SUCCESS),
        None => {
            let (reading, end) = contiguity::run(&arguments.command, &terminal)?;
            (reading, exit::as_ended(end))
        }
    };
    let result = reading.result(colors.as_ref());
    publish(&arguments, &result, files)?;
    if huge_pages_help(&result) {
        let whom = arguments.pid.map_or_else(|| typed(&arguments.command), |pid| format!("--pid {pid}"));
        say_next(arguments.style.quiet, format!("pagewalk advise -o plan.toml {whom}"));
    }
    Ok(code)
}

/// A form in which the result can be saved.
#[derive(Clone, Copy)]
enum Form {
    Html,
    Svg,
    Json,
}

const FORMS: [(&str, Form); 3] = [("html", Form::Html), ("svg", Form::Svg), ("json", Form::Json)];
const NAMES: &str = ".html for the page, in .svg for the picture, or in .json for the data";

/// The program's own output went to stdout, so the text goes to stderr then.
fn publish(arguments: &Contiguity, result: &ContiguityResult, files: Files<Form>) -> Result<(), Error> {
    let verbose = arguments.style.verbose;
    let printed = if arguments.style.json {
        print(&to_json(result))
    } else if arguments.pid.is_none() {
        write_to_stderr(&render_text(result, &text_options(verbose, io::stderr().is_terminal())));
        Ok(())
    } else {
        print(&render_text(result, &text_options(verbose, io::stdout().is_terminal())))
    };
    let written = files.write(arguments.style.quiet, |form| match form {
        Form::Html => ("report", render_html(result)),
        Form::Svg => ("picture", run_lengths_file(result)),
        Form::Json => ("result", to_json(result)),
    });
    printed.and(written)
}
