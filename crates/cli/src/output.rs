//! Writing files and the terminal.

use crate::arguments::{Data, Style};
use crate::error::{CliError, Code};
use pagewalk_live::tracing::End;
use pagewalk_report::documents;
use pagewalk_report::schema::RunResult;
use pagewalk_report::{TextOptions, render_html, render_text, to_json};
use serde::Serialize;
use std::fmt;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// An output file that was opened before the work began, so that a bad path is found out early. Nothing
/// is lost if the work fails: what was there is replaced only when the result is written, and a file that
/// was not there is taken away again.
pub struct Output {
    path: PathBuf,
    file: File,
    /// Whether the file was made here and nothing has been written to it yet.
    is_empty_and_ours: bool,
}

impl Output {
    /// Opens `path` for writing.
    pub fn open(path: &Path) -> Result<Output, CliError> {
        let mut options = OpenOptions::new();
        let (file, is_empty_and_ours) = match options.write(true).create_new(true).open(path) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                (options.create_new(false).create(true).truncate(false).open(path), false)
            }
            made => (made, true),
        };
        let file = file.map_err(|e| {
            CliError::new(Code::Failed, format!("cannot write {}: {e}", path.display()))
                .or("choose another place")
        })?;
        Ok(Output { path: path.to_owned(), file, is_empty_and_ours })
    }

    /// The same, where the work reads `inputs`: none of them may be `path`, as it would be gone before it is read, or
    /// with nothing to show for it.
    pub fn open_apart<'a>(
        path: &Path,
        inputs: impl IntoIterator<Item = &'a Path>,
    ) -> Result<Output, CliError> {
        let file = |path: &Path| std::fs::metadata(path).ok().filter(|found| found.is_file());
        let is = |found: &Metadata| (found.dev(), found.ino());
        if let Some(output) = file(path)
            && let Some(input) =
                inputs.into_iter().find(|input| file(input).is_some_and(|at| is(&at) == is(&output)))
        {
            let message = match input == path {
                true => format!("{} is both input and output", path.display()),
                false => format!("{} is the input {}", path.display(), input.display()),
            };
            return Err(CliError::new(Code::Usage, message).or("choose another place"));
        }
        Output::open(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether there was such a file before.
    pub fn was_there(&self) -> bool {
        !self.is_empty_and_ours
    }

    /// The file, emptied.
    pub fn begin(mut self) -> io::Result<File> {
        self.is_empty_and_ours = false;
        // Devices and pipes have nothing to empty.
        if self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        self.file.try_clone()
    }

    /// Replaces the file's contents.
    pub fn write(self, bytes: &[u8]) -> Result<PathBuf, CliError> {
        let path = self.path.clone();
        let written = self.begin().and_then(|mut file| file.write_all(bytes));
        written.map_err(|e| cannot_write(&path, &e))?;
        Ok(path)
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if self.is_empty_and_ours {
            // If this fails an empty file stays: nothing worth a message of its own.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The error of writing to `path` once the work had begun.
pub fn cannot_write(path: &Path, error: &io::Error) -> CliError {
    CliError::new(Code::Failed, format!("writing {}: {error}", path.display()))
}

/// A reader that has gone away (as `head` does) is no error.
pub fn unless_gone(outcome: io::Result<()>) -> Result<(), CliError> {
    match outcome {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => {
            Err(CliError::new(Code::Failed, format!("writing to standard output: {e}")))
        }
        _ => Ok(()),
    }
}

/// Prints to stdout.
pub fn print(text: &str) -> Result<(), CliError> {
    unless_gone(io::stdout().lock().write_all(text.as_bytes()))
}

/// Writes to stderr. Unlike `eprint`, it does not end the work when nobody can read it.
pub fn write_to_stderr(text: &str) {
    // There is no place left where a failure could be told.
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Says something about the work on stderr.
pub fn say(message: impl fmt::Display) {
    write_to_stderr(&format!("pagewalk: {message}\n"));
}

/// Says which command follows sensibly.
pub fn say_next(quiet: bool, command: impl fmt::Display) {
    if !quiet {
        say(format!("next: {command}"));
    }
}

/// A form in which a result can be saved.
#[derive(Clone, Copy)]
enum Format {
    Html,
    Json,
}

/// The form that a file's name asks for.
fn format_of(path: &Path) -> Result<Format, CliError> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("html") => Ok(Format::Html),
        Some("json") => Ok(Format::Json),
        _ => Err(CliError::new(Code::Usage, format!("cannot tell what to write to {}", path.display()))
            .or("let the name end in .html for the report, or in .json for the data")),
    }
}

/// Where results go: files opened before the work began.
pub struct ResultFiles(Vec<(Output, Format)>);

impl ResultFiles {
    /// Opens every file, none of which may be one of `inputs`.
    pub fn open<'a>(
        paths: &[PathBuf],
        inputs: impl Iterator<Item = &'a Path> + Clone,
    ) -> Result<ResultFiles, CliError> {
        let open = |path: &PathBuf| {
            let format = format_of(path)?;
            Ok((Output::open_apart(path, inputs.clone())?, format))
        };
        paths.iter().map(open).collect::<Result<_, _>>().map(ResultFiles)
    }

    /// Writes the result to every file, also to those after one that fails.
    fn write(self, result: &RunResult, quiet: bool) -> Result<(), CliError> {
        let write = |(output, format): (Output, Format)| {
            let (what, text) = match format {
                Format::Html => ("report", render_html(result)),
                Format::Json => ("result", to_json(result)),
            };
            let path = output.write(text.as_bytes())?;
            if !quiet {
                say(format!("{what} written to {}", path.display()));
            }
            Ok(())
        };
        self.0.into_iter().map(write).fold(Ok(()), Result::and)
    }
}

/// Prints a result as the style asks and writes it to `files`. A program's own output went to stdout while
/// it ran, so the text of `profile` goes to stderr, as perf's does; JSON goes to stdout.
pub fn publish(
    result: &RunResult,
    style: Style,
    files: ResultFiles,
    beside_program: bool,
) -> Result<(), CliError> {
    let printed = if style.json {
        print(&to_json(result))
    } else if beside_program {
        let options = text_options(style.verbose, io::stderr().is_terminal());
        write_to_stderr(&render_text(result, &options));
        Ok(())
    } else {
        print(&render_text(result, &text_options(style.verbose, io::stdout().is_terminal())))
    };
    // Whatever became of the printing: the result took its time.
    let written = files.write(result, style.quiet);
    printed.and(written)
}

/// Writes JSON where it was asked for: to stdout, to a file.
pub fn write_json(data: &Data, document: &impl Serialize, file: Option<Output>) -> Result<(), CliError> {
    if !data.json && file.is_none() {
        return Ok(());
    }
    let json = documents::text(document);
    let printed = if data.json { print(&json) } else { Ok(()) };
    // Whatever became of the printing.
    let written = file.map_or(Ok(()), |file| {
        let path = file.write(json.as_bytes())?;
        if !data.quiet {
            say(format!("result written to {}", path.display()));
        }
        Ok(())
    });
    printed.and(written)
}

/// How text is laid out on this terminal.
pub fn text_options(verbose: bool, terminal: bool) -> TextOptions {
    let width = rustix::termios::tcgetwinsize(io::stderr()).map_or(0, |size| usize::from(size.ws_col));
    let color = terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    TextOptions { width: if terminal && width > 0 { width.min(140) } else { 100 }, color, verbose }
}

/// How a program ended, as results have it.
pub fn end(end: End) -> documents::End {
    match end {
        End::Exit(status) => documents::End::Exit(status),
        End::Signal(signal) => documents::End::Signal(signal),
    }
}
