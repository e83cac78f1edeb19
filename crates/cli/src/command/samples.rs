//! `pagewalk samples`: what samples of perf say of translation.

use crate::arguments::Samples;
use crate::exit::ExitCode;
use crate::output::{print, say, say_next};
use crate::terminal::Terminal;
use pagewalk::Error;
use pagewalk::output::Output;
use pagewalk::report::documents;
use pagewalk::samples::{SamplesOptions, render, run as read};
use pagewalk::shell::quoted;
use std::path::Path;

pub fn run(arguments: Samples) -> Result<ExitCode, Error> {
    let Samples { file, with, output, style } = arguments;
    let inputs = [Some(file.as_path()), with.as_deref()];
    let output = output.as_deref().map(|path: &Path| Output::open_apart(path, inputs.into_iter().flatten()));
    let output = output.transpose()?;
    let options = SamplesOptions { file, with };
    let result = read(&options, &Terminal { quiet: style.quiet })?;
    let document = documents::text(&result);
    let printed = print(&if style.json { document.clone() } else { render(&result, style.verbose) });
    if let Some(output) = output {
        let path = output.write(document.as_bytes())?.display().to_string();
        if !style.quiet {
            say(format!("result written to {path}"));
        }
    }
    if result.samples.walks > 0 {
        say_next(style.quiet, format!("pagewalk advise -o plan.toml --samples {}", quoted(&options.file)));
    }
    printed.map(|()| ExitCode::SUCCESS)
}
