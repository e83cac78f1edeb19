//! `pagewalk sweep`: runs a study of many machines, families and curves over many streams.

use crate::arguments::Sweep;
use crate::exit::ExitCode;
use crate::output::{print, say, text_options};
use crate::terminal::Terminal;
use pagewalk::Error;
use pagewalk::report::sweep;
use pagewalk::study::{StudyFolder, check_findings};
use std::io::IsTerminal;

pub fn run(arguments: Sweep) -> Result<ExitCode, Error> {
    let Sweep { output, threads, traces, study, style, .. } = &arguments;
    let terminal = Terminal { quiet: style.quiet };
    let study = StudyFolder::read(study, traces, output.as_deref(), *threads, &terminal)?;
    if arguments.dry_run {
        print(&study.outline()?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let result = study.run(&terminal)?;
    if style.json {
        print(&sweep::to_json(&result))?;
    } else {
        let options = text_options(style.verbose, std::io::stdout().is_terminal());
        print(&sweep::render_text(&result, &options))?;
    }
    if !style.quiet {
        say(format!("results written to {}", study.folder().display()));
    }
    check_findings(&result)?;
    Ok(ExitCode::SUCCESS)
}
