//! Writing files and the terminal.

use crate::arguments::Style;
use crate::error::{CliError, Code};
use pagewalk_report::schema::RunResult;
use pagewalk_report::{TextOptions, render_html, render_text, to_json};
use std::fs::{File, OpenOptions};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

/// An output file that was opened before the work began, so that a bad path is found out early. Nothing
/// is lost if the work fails: the file is emptied only when the result is written.
pub struct Output {
    path: PathBuf,
    file: File,
}

impl Output {
    /// Opens `path` for writing.
    pub fn open(path: &Path) -> Result<Output, CliError> {
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        let file = file.map_err(|e| {
            CliError::new(Code::Failed, format!("cannot write {}: {e}", path.display()))
                .or("choose another place with -o")
        })?;
        Ok(Output { path: path.to_owned(), file })
    }

    /// Replaces the file's contents.
    pub fn write(mut self, bytes: &[u8]) -> Result<PathBuf, CliError> {
        let written = self.file.set_len(0).and_then(|()| self.file.write_all(bytes));
        written.map_err(|e| CliError::new(Code::Failed, format!("writing {}: {e}", self.path.display())))?;
        Ok(self.path)
    }

    /// The open file and its path.
    pub fn into_parts(self) -> (File, PathBuf) {
        (self.file, self.path)
    }
}

/// Prints to stdout; a reader that has gone away (as `head` does) is no error.
pub fn print(text: &str) -> Result<(), CliError> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(CliError::new(Code::Failed, format!("writing to standard output: {e}")))
        }
        _ => Ok(()),
    }
}

/// Prints a result as the style asks, and writes the report where one was asked for. A program's own
/// output went to stdout while it ran, so the text of `profile` goes to stderr, as perf's does; JSON goes
/// to stdout.
pub fn publish(
    result: &RunResult,
    style: Style,
    report: Option<Output>,
    beside_program: bool,
) -> Result<(), CliError> {
    if style.json {
        print(&to_json(result))?;
    } else {
        let terminal = if beside_program { std::io::stderr().is_terminal() } else { std::io::stdout().is_terminal() };
        let text = render_text(result, &text_options(style.verbose, terminal));
        if beside_program { eprint!("{text}") } else { print(&text)? }
    }
    if let Some(report) = report {
        let path = report.write(render_html(result).as_bytes())?;
        if !style.quiet {
            eprintln!("pagewalk: report written to {}", path.display());
        }
    }
    Ok(())
}

fn text_options(verbose: bool, terminal: bool) -> TextOptions {
    let width = rustix::termios::tcgetwinsize(std::io::stderr()).map_or(0, |size| usize::from(size.ws_col));
    let color = terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    TextOptions { width: if terminal && width > 0 { width.min(140) } else { 100 }, color, verbose }
}
