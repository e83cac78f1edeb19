//! `pagewalk verify`: measures a plan in pairs of runs without and with it.

use crate::arguments::Verify;
use crate::exit::ExitCode;
use crate::output::{print, say, say_next, text_options, write_json, write_to_stderr};
use crate::signals::{STOPPED, note_stops};
use crate::terminal::Terminal;
use pagewalk::output::Output;
use pagewalk::plans::{PairOptions, Pairs, history};
use pagewalk::shell::{quoted, typed};
use pagewalk::{Error, Fault};
use std::io::{self, IsTerminal};

pub fn run(arguments: Verify) -> Result<ExitCode, Error> {
    let Some(path) = arguments.plan.as_deref().filter(|_| !arguments.history) else {
        return print(&history::show(arguments.data.json)?).map(|()| ExitCode::SUCCESS);
    };
    let (quiet, json) = (arguments.data.quiet, arguments.data.json);
    let file =
        arguments.data.output.as_deref().map(|output| Output::open_apart(output, [path])).transpose()?;
    let Verify { runs, width, budget, keep_others, warm, .. } = arguments;
    let options = PairOptions { runs, width, budget, keep_others, warm };
    let pairs = Pairs::prepare(path, &arguments.command, options)?;
    let record_to = (!arguments.no_record).then(history::place).transpose()?;
    let noted = note_stops()?;
    let verified = pairs.run(&STOPPED, &Terminal { quiet });
    drop(noted);
    let verified = verified?;
    // The figures are the requested output, in one form or another.
    if !quiet || (!json && file.is_none()) {
        write_to_stderr(&verified.text(&text_options(false, io::stderr().is_terminal())));
    }
    if !quiet {
        verified.notes().iter().for_each(say);
    }
    // Each is written even if another fails: the runs took time.
    let written = write_json(&arguments.data, &verified.document(), file);
    if let (Some(path), None) = (record_to, verified.missed()) {
        history::append(&path, &verified.record())?;
        if !quiet {
            say(format!("recorded in {}", path.display()));
        }
    }
    written?;
    if let Some(missed) = verified.missed() {
        return Err(Error::new(Fault::NotInEffect, missed));
    }
    if verified.pays() {
        say_next(quiet, format!("pagewalk apply {} {}", quoted(path), typed(&arguments.command)));
    }
    Ok(ExitCode::SUCCESS)
}
