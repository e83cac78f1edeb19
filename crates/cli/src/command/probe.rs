//! `pagewalk probe`: this host's TLBs, walks, caches and kernel costs, by timing alone.

pub mod result;

use crate::arguments::Probe;
use crate::error::{CliError, Code};
use crate::machine;
use crate::output::{Output, print, say, text_options};
use crate::progress;
use pagewalk_capture::Host;
use pagewalk_live::probe::{self, Options, machine_file};
use pagewalk_report::probe::{ProbeResult, render_html, render_text, to_json};
use std::fs;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub fn run(arguments: Probe) -> Result<ExitCode, CliError> {
    let compared = arguments.machine.as_deref().map(machine::load).transpose()?;
    let files = Files::open(&arguments)?;
    let bar = progress::shares("probe", arguments.style.quiet);
    let options = Options { cpu: arguments.cpu, quick: arguments.quick };
    let measured = probe::measure(options, |what, share| {
        bar.set_message(what.to_owned());
        bar.set_position((share * 100.0) as u64);
    });
    bar.finish_and_clear();
    let measured = measured.map_err(|error| {
        CliError::new(Code::HostCannot, error)
            .or("choose another with --cpu, or widen the mask (taskset, the control group's cpuset.cpus)")
    })?;
    let host = Host::detect();
    let machine = machine_file(&measured, &host.cpu, &host.kernel);
    let result = result::of(&measured, &host, compared.as_ref());
    let printed = if arguments.style.json {
        print(&to_json(&result))
    } else {
        print(&render_text(&result, &text_options(arguments.style.verbose, io::stdout().is_terminal())))
    };
    let written = files.write(&result, &machine, arguments.style.quiet);
    printed.and(written)?;
    Ok(ExitCode::SUCCESS)
}

/// A form in which the result can be saved.
#[derive(Clone, Copy)]
enum Format {
    Html,
    Json,
    Machine,
}

/// Where the result goes: files opened before the work began.
struct Files(Vec<(Output, Format)>);

impl Files {
    fn open(arguments: &Probe) -> Result<Files, CliError> {
        let open = |path: &PathBuf| Ok((Output::open(path)?, format_of(path)?));
        // The form first: a name that tells none makes no file.
        arguments.outputs.iter().try_for_each(|path| format_of(path).map(drop))?;
        let mut files: Vec<(Output, Format)> =
            arguments.outputs.iter().map(open).collect::<Result<_, CliError>>()?;
        if arguments.save {
            files.push((Output::open(&saved()?)?, Format::Machine));
        }
        Ok(Files(files))
    }

    /// Writes every file, also those after one that fails.
    fn write(self, result: &ProbeResult, machine: &str, quiet: bool) -> Result<(), CliError> {
        let write = |(output, format): (Output, Format)| {
            let (what, text) = match format {
                Format::Html => ("report", render_html(result)),
                Format::Json => ("result", to_json(result)),
                Format::Machine => ("machine", machine.to_owned()),
            };
            let path = output.write(text.as_bytes())?;
            if !quiet {
                let next = match format {
                    Format::Machine => format!("; next: pagewalk profile -m {} -- CMD", path.display()),
                    Format::Html | Format::Json => String::new(),
                };
                say(format!("{what} written to {}{next}", path.display()));
            }
            Ok(())
        };
        self.0.into_iter().map(write).fold(Ok(()), Result::and)
    }
}

/// The form that a file's name asks for.
fn format_of(path: &Path) -> Result<Format, CliError> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("html") => Ok(Format::Html),
        Some("json") => Ok(Format::Json),
        Some("toml") => Ok(Format::Machine),
        _ => Err(CliError::new(Code::Usage, format!("cannot tell what to write to {}", path.display())).or(
            "let the name end in .toml for the machine file, in .html for the page, or in .json for the data",
        )),
    }
}

/// Where `-m host` finds the machine file, its folder made.
fn saved() -> Result<PathBuf, CliError> {
    let path = machine::saved_probe().ok_or_else(|| {
        CliError::new(Code::HostCannot, "neither XDG_CONFIG_HOME nor HOME says where settings are kept")
            .or("write the machine file with -o FILE.toml")
    })?;
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder)
        .map_err(|error| CliError::new(Code::Failed, format!("making {}: {error}", folder.display())))?;
    Ok(path)
}
