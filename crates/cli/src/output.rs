//! Output: files and the terminal.

use crate::arguments::{Data, Style};
use pagewalk::output::Output;
use pagewalk::report::documents;
use pagewalk::report::schema::RunResult;
use pagewalk::report::{TextOptions, render_html, render_text, to_json};
use pagewalk::{Error, Fault};
use serde::Serialize;
use std::fmt;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Ignores a closed pipe, as `head` leaves one.
pub fn unless_gone(outcome: io::Result<()>) -> Result<(), Error> {
    match outcome {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => {
            Err(Error::new(Fault::Failed, format!("writing to standard output: {e}")))
        }
        _ => Ok(()),
    }
}

/// Prints to stdout.
pub fn print(text: &str) -> Result<(), Error> {
    unless_gone(io::stdout().lock().write_all(text.as_bytes()))
}

/// Writes to stderr. Unlike `eprint`, it does not end the work when nobody can read it.
pub fn write_to_stderr(text: &str) {
    // No channel is left to report a failure on.
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Prints a message on stderr.
pub fn say(message: impl fmt::Display) {
    write_to_stderr(&format!("pagewalk: {message}\n"));
}

/// Suggests the next command.
pub fn say_next(quiet: bool, command: impl fmt::Display) {
    if !quiet {
        say(format!("next: {command}"));
    }
}

/// Output files, opened before the work begins, each with the form that its name asks for.
pub struct Files<Form>(Vec<(Output, Form)>);

impl<Form: Copy> Files<Form> {
    /// Opens every file; none may be one of `inputs`. `forms` maps name endings to forms; `names` lists the endings for
    /// the error.
    pub fn open(
        paths: &[PathBuf],
        forms: &[(&str, Form)],
        names: &str,
        inputs: &[&Path],
    ) -> Result<Files<Form>, Error> {
        let form = |path: &PathBuf| {
            let end = path.extension().and_then(|end| end.to_str());
            forms.iter().find(|(known, _)| Some(*known) == end).map(|(_, form)| *form).ok_or_else(|| {
                Error::new(Fault::Usage, format!("cannot tell what to write to {}", path.display()))
                    .or(format!("let the name end in {names}"))
            })
        };
        // All forms before any file: a wrong name then creates nothing.
        let forms = paths.iter().map(form).collect::<Result<Vec<Form>, Error>>()?;
        let mut files = Files(Vec::new());
        paths.iter().zip(forms).try_for_each(|(path, form)| files.add(path, form, inputs))?;
        Ok(files)
    }

    /// Opens one more file.
    pub fn add(&mut self, path: &Path, form: Form, inputs: &[&Path]) -> Result<(), Error> {
        self.0.push((Output::open_apart(path, inputs.iter().copied())?, form));
        Ok(())
    }

    /// Writes every file, even after a failure. `render` returns a form's description and text.
    pub fn write(self, quiet: bool, render: impl FnMut(Form) -> (&'static str, String)) -> Result<(), Error> {
        self.write_and_say(quiet, render, |_, _| String::new())
    }

    /// As `write`; `next` suggests a next command.
    pub fn write_and_say(
        self,
        quiet: bool,
        mut render: impl FnMut(Form) -> (&'static str, String),
        next: impl Fn(Form, &Path) -> String,
    ) -> Result<(), Error> {
        let write = |(output, form): (Output, Form)| {
            let (what, text) = render(form);
            let path = output.write(text.as_bytes())?;
            if !quiet {
                say(format!("{what} written to {}{}", path.display(), next(form, &path)));
            }
            Ok(())
        };
        self.0.into_iter().map(write).fold(Ok(()), Result::and)
    }
}

/// A form in which the result of a run can be saved.
#[derive(Clone, Copy)]
pub enum ResultForm {
    Html,
    Json,
}

/// Where the result of a run goes.
pub type ResultFiles = Files<ResultForm>;

/// Opens every file; none may be one of `inputs`.
pub fn result_files(paths: &[PathBuf], inputs: &[&Path]) -> Result<ResultFiles, Error> {
    let forms = [("html", ResultForm::Html), ("json", ResultForm::Json)];
    Files::open(paths, &forms, ".html for the report, or in .json for the data", inputs)
}

/// Prints a result in the chosen style and writes it to `files`. The program already wrote to stdout, so the text of
/// `profile` goes to stderr, as perf's does. JSON goes to stdout.
pub fn publish(
    result: &RunResult,
    style: Style,
    files: ResultFiles,
    beside_program: bool,
) -> Result<(), Error> {
    let printed = if style.json {
        print(&to_json(result))
    } else if beside_program {
        let options = text_options(style.verbose, io::stderr().is_terminal());
        write_to_stderr(&render_text(result, &options));
        Ok(())
    } else {
        print(&render_text(result, &text_options(style.verbose, io::stdout().is_terminal())))
    };
    // Even if printing failed: the result took time to make.
    let written = files.write(style.quiet, |form| match form {
        ResultForm::Html => ("report", render_html(result)),
        ResultForm::Json => ("result", to_json(result)),
    });
    printed.and(written)
}

/// Writes JSON to stdout and to the file, where asked for.
pub fn write_json(data: &Data, document: &impl Serialize, file: Option<Output>) -> Result<(), Error> {
    if !data.json && file.is_none() {
        return Ok(());
    }
    let json = documents::text(document);
    let printed = if data.json { print(&json) } else { Ok(()) };
    // Even if printing failed.
    let written = file.map_or(Ok(()), |file| {
        let path = file.write(json.as_bytes())?;
        if !data.quiet {
            say(format!("result written to {}", path.display()));
        }
        Ok(())
    });
    printed.and(written)
}

/// Text options for this terminal; for a file or pipe, as wide as `COLUMNS` says.
pub fn text_options(verbose: bool, terminal: bool) -> TextOptions {
    let seen = rustix::termios::tcgetwinsize(io::stderr()).map_or(0, |size| usize::from(size.ws_col));
    let said = std::env::var("COLUMNS").map_or(0, |columns| columns.parse().unwrap_or(0));
    let width = if terminal { seen } else { said };
    let color = terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    TextOptions { width: if width == 0 { 100 } else { width.min(140) }, color, verbose }
}
