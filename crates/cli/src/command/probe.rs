//! `pagewalk probe`: measures this host's TLBs, walks, caches and kernel costs by timing.

use crate::arguments::Probe;
use crate::exit::ExitCode;
use crate::output::{Files, print, text_options};
use crate::terminal::Terminal;
use pagewalk::probe::{ProbeOptions, measure};
use pagewalk::report::probe::{render_html, render_text, to_json};
use pagewalk::{Error, Fault, machines};
use std::fs;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

pub fn run(arguments: Probe) -> Result<ExitCode, Error> {
    let compared = arguments.machine.as_deref().map(machines::load).transpose()?;
    let mut files = Files::open(&arguments.outputs, &FORMS, NAMES, &[])?;
    if arguments.save {
        files.add(&saved()?, Form::Machine, &[])?;
    }
    let options = ProbeOptions { cpu: arguments.cpu, quick: arguments.quick };
    let terminal = Terminal { quiet: arguments.style.quiet };
    let measured = measure(options, compared.as_ref(), &terminal)?;
    let result = measured.result;
    let printed = if arguments.style.json {
        print(&to_json(&result))
    } else {
        print(&render_text(&result, &text_options(arguments.style.verbose, io::stdout().is_terminal())))
    };
    let render = |form| match form {
        Form::Html => ("report", render_html(&result)),
        Form::Json => ("result", to_json(&result)),
        Form::Machine => ("machine", measured.machine.clone()),
    };
    let written = files.write_and_say(arguments.style.quiet, render, |form, path| match form {
        Form::Machine => format!("; next: pagewalk profile -m {} -- CMD", path.display()),
        Form::Html | Form::Json => String::new(),
    });
    printed.and(written)?;
    Ok(ExitCode::SUCCESS)
}

/// A form in which the result can be saved.
#[derive(Clone, Copy)]
enum Form {
    Html,
    Json,
    Machine,
}

const FORMS: [(&str, Form); 3] = [("html", Form::Html), ("json", Form::Json), ("toml", Form::Machine)];
const NAMES: &str = ".toml for the machine file, in .html for the page, or in .json for the data";

/// Where `-m host` looks for the machine file; creates its folder.
fn saved() -> Result<PathBuf, Error> {
    let path = machines::saved_probe().ok_or_else(|| {
        Error::new(Fault::HostCannot, "neither XDG_CONFIG_HOME nor HOME says where settings are kept")
            .or("write the machine file with -o FILE.toml")
    })?;
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder)
        .map_err(|error| Error::new(Fault::Failed, format!("making {}: {error}", folder.display())))?;
    Ok(path)
}
