//! Records the programs of a study once; later runs find the traces.

use crate::engine::{Isolation, Live};
use crate::error::{Error, Fault};
use crate::listener::Listener;
use crate::native::describe_end;
use crate::output::Output;
use crate::recording::{WrittenTrace, images};
use crate::shell::joined;
use pagewalk_capture::WindowSpec;
use pagewalk_sweep::{UNFINISHED, Workload};
use pagewalk_units::names::choice;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Where `folder` keeps a workload's trace. The name depends on what was run, so that another command under the same
/// workload name gets another trace. It is a file, or a folder of files if processes take turns.
pub fn trace_path(workload: &Workload, folder: &Path) -> PathBuf {
    let identity = serde_json::to_vec(workload).expect("workloads are plain");
    let hash = blake3::hash(&identity).to_hex();
    let ending = if workload.sharing.is_some() { "" } else { ".pwt" };
    folder.join(format!("{}-{}{ending}", workload.name, &hash[..16]))
}

/// A workload's recorded trace files at `path`, in order of start.
pub fn files(workload: &Workload, path: &Path) -> Result<Vec<PathBuf>, Error> {
    if workload.sharing.is_none() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = std::fs::read_dir(path).map_err(|e| {
        Error::new(Fault::Failed, format!("workload `{}`: {}: {e}", workload.name, path.display()))
    })?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    // Names are numbers of equal length.
    files.sort();
    Ok(files)
}

/// Records `workload` to `path`. The program runs in a folder of its own, which has its given files and which it may
/// write to.
pub fn record(workload: &Workload, study: &Path, path: &Path, listener: &dyn Listener) -> Result<(), Error> {
    let named = |what: &dyn std::fmt::Display| format!("workload `{}`: {what}", workload.name);
    let failed = |e: std::io::Error| Error::new(Fault::Failed, named(&e));
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(failed)?;
    let scratch = TempDir::with_prefix_in(UNFINISHED, folder).map_err(failed)?;
    let run_in = scratch.path().join("run");
    std::fs::create_dir(&run_in).map_err(failed)?;
    for file in &workload.files {
        std::fs::copy(&file.path, run_in.join(&file.name)).map_err(failed)?;
    }
    prepare(workload, study, &run_in)?;
    let mut input = tempfile::tempfile_in(scratch.path()).map_err(failed)?;
    input.write_all(workload.input.as_bytes()).and_then(|()| input.rewind()).map_err(failed)?;
    let written = run(workload, study, &scratch, run_in, input, listener)?;
    if workload.sharing.is_some() {
        let all = scratch.path().join("all");
        std::fs::create_dir(&all).map_err(failed)?;
        for (number, one) in written.iter().enumerate() {
            whole(workload, one)?;
            std::fs::rename(&one.path, all.join(format!("{number:04}.pwt"))).map_err(failed)?;
        }
        return std::fs::rename(&all, path).map_err(failed);
    }
    let chosen = choose(workload, &written)?;
    std::fs::rename(&chosen.path, path).map_err(failed)
}

/// Runs the commands that prepare for the program.
fn prepare(workload: &Workload, study: &Path, run_in: &Path) -> Result<(), Error> {
    let Some((program, arguments)) = workload.prepare.split_first() else { return Ok(()) };
    let failed = |why: &dyn std::fmt::Display| {
        Error::new(Fault::Failed, format!("workload `{}`: prepare: {why}", workload.name))
            .or(by_hand(workload, &workload.prepare))
    };
    let mut command = Command::new(program);
    command.args(arguments).current_dir(run_in).env("PAGEWALK_STUDY", study);
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
    match status.map_err(|error| failed(&format!("{program}: {error}")))? {
        status if status.success() => Ok(()),
        status => Err(failed(&format!("{program} ended with {}", describe_end(status)))),
    }
}

fn run(
    workload: &Workload,
    study: &Path,
    scratch: &TempDir,
    run_in: PathBuf,
    input: File,
    listener: &dyn Listener,
) -> Result<Vec<WrittenTrace>, Error> {
    let named = |what: &dyn std::fmt::Display| format!("workload `{}`: {what}", workload.name);
    let mut command: Vec<OsString> = workload.command.iter().map(OsString::from).collect();
    // Files that `prepare` made lie in the program's folder, not ours.
    if let Some(program) = command.first_mut().filter(|program| program.as_bytes().contains(&b'/')) {
        *program = run_in.join(&*program).into_os_string();
    }
    let live = Live::prepare(&command, None, listener).map_err(|error| {
        // The study names the command, so the input file is at fault.
        let fault = if error.fault == Fault::Usage { Fault::BadInput } else { error.fault };
        Error::new(fault, named(&error)).or(by_hand(workload, &workload.command))
    })?;
    let variable = Some(("PAGEWALK_STUDY", study.as_os_str().to_owned()));
    let live = live.isolate(Isolation { folder: run_in, input, variable });
    let first = scratch.path().join("t.pwt");
    let window = WindowSpec { max_instructions: workload.max_instructions, ..WindowSpec::default() };
    let (written, status) = images(&live, &window, workload.grain, &first, Output::open(&first)?, listener)?;
    if !status.success() {
        let ended = format!("the program ended with {}", describe_end(status));
        return Err(Error::new(Fault::Failed, named(&ended)).or(by_hand(workload, &workload.command)));
    }
    for one in &written {
        one.losses.iter().for_each(|loss| listener.warn(&named(loss)));
    }
    Ok(written)
}

/// Advice if a workload's command fails.
fn by_hand(workload: &Workload, command: &[String]) -> String {
    let needs = match workload.needs.is_empty() {
        true => String::new(),
        false => format!("it needs {} (Debian's names); ", workload.needs.join(", ")),
    };
    format!("{needs}run it by hand: {}", joined(command.iter().map(OsStr::new)))
}

/// The image that the study means: of the named program; if several, the one that executed most.
fn choose<'a>(workload: &Workload, written: &'a [WrittenTrace]) -> Result<&'a WrittenTrace, Error> {
    let file_name = |one: &WrittenTrace| {
        let name = Path::new(&one.program).file_name();
        name.map_or(String::new(), |name| name.to_string_lossy().into_owned())
    };
    let meant = |one: &&WrittenTrace| workload.image.as_ref().is_none_or(|image| file_name(one) == *image);
    let records = |one: &&WrittenTrace| {
        one.outcome.as_ref().map_or(0, |summary| summary.references + summary.block_executions)
    };
    // The first of equals; the last would depend on later images.
    let chosen = written.iter().filter(meant).rev().max_by_key(records).ok_or_else(|| {
        let mut programs: Vec<String> = written.iter().map(file_name).collect();
        programs.sort();
        programs.dedup();
        let image = workload.image.as_deref().unwrap_or_default();
        let why = format!("workload `{}`: image = \"{image}\" never ran", workload.name);
        Error::new(Fault::BadInput, why)
            .or(choice(image, &programs.iter().map(String::as_str).collect::<Vec<_>>()))
    })?;
    whole(workload, chosen).map(|()| chosen)
}

/// Checks that an image was written to its end.
fn whole(workload: &Workload, one: &WrittenTrace) -> Result<(), Error> {
    match &one.outcome {
        Ok(_) => Ok(()),
        Err(error) => {
            Err(Error::new(Fault::Failed, format!("workload `{}`: its trace: {error}", workload.name)))
        }
    }
}
