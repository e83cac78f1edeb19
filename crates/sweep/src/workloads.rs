//! Workloads in study files, or in a file that several studies share.

use crate::cache_family::{self, CacheFamilySpec};
use crate::names::name_is_plain;
use crate::source::StudyFiles;
use crate::study::{GivenFile, MachineVariant, Study, TraceSpec, Workload};
use crate::together;
use pagewalk_sim::check_grain;
use pagewalk_trace::Grain;
use pagewalk_translate::MachineSpec;
use pagewalk_units::names::with_closest;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// One `[[workload]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileWorkload {
    name: String,
    #[serde(default)]
    needs: Vec<String>,
    #[serde(default)]
    files: Vec<String>,
    #[serde(default)]
    prepare: Vec<String>,
    command: Vec<String>,
    #[serde(default)]
    input: String,
    image: Option<String>,
    max_instructions: Option<u64>,
    grain: Option<Grain>,
    quantum: Option<u64>,
    #[serde(default)]
    switch_at: Vec<String>,
    #[serde(default)]
    global_files: bool,
}

/// A file of workloads only.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkloadFile {
    schema: u32,
    workload: Vec<FileWorkload>,
}

/// The workloads of a file, and the base folder of their paths.
pub(crate) fn shared_workloads(
    path: &Path,
    files: &mut StudyFiles,
) -> Result<(Vec<FileWorkload>, PathBuf), String> {
    let text = files.text(path).map_err(|error| error.to_string())?;
    let parsed: WorkloadFile = toml::from_str(&text).map_err(|e| with_closest(e.to_string().trim_end()))?;
    if parsed.schema != 1 {
        return Err(format!("schema = {}: this version reads schema = 1", parsed.schema));
    }
    Ok((parsed.workload, path.parent().unwrap_or(Path::new("")).to_owned()))
}

/// Turns them into traces; a workload that does not say what to keep of addresses keeps `grain`.
pub(crate) fn workloads(
    listed: Vec<FileWorkload>,
    grain: Grain,
    folder: &Path,
    read: &mut StudyFiles,
) -> Result<Vec<TraceSpec>, String> {
    let mut traces = Vec::new();
    for workload in listed {
        name_is_plain(&workload.name).map_err(|why| format!("workload: {why}"))?;
        if workload.command.is_empty() {
            return Err(format!(
                "workload `{}`: command = []: give the program and its arguments",
                workload.name
            ));
        }
        let FileWorkload { name, files, prepare, command, input, image, max_instructions, .. } = &workload;
        let inside = |why: String| format!("workload `{name}`: {why}");
        let sharing = together::sharing(workload.quantum, &workload.switch_at, workload.global_files)
            .map_err(inside)?;
        if sharing.is_some() && image.is_some() {
            let why = "image: all process images take turns where quantum or switch_at is given";
            return Err(inside(why.to_owned()));
        }
        traces.push(TraceSpec::Workload(Workload {
            files: given(files, folder, read).map_err(inside)?,
            name: name.clone(),
            needs: workload.needs.clone(),
            prepare: prepare.clone(),
            command: command.clone(),
            input: input.clone(),
            image: image.clone(),
            max_instructions: *max_instructions,
            grain: workload.grain.unwrap_or(grain),
            sharing,
        }));
    }
    Ok(traces)
}

/// The least that recordings must keep of addresses: pages, unless caches are simulated.
pub(crate) fn needed_grain(machines: &[MachineVariant], family: Option<&CacheFamilySpec>) -> Grain {
    let machines = machines.iter().all(|variant| check_grain(Grain::Page, &variant.machine).is_ok());
    let enough = machines && cache_family::check_grain(Grain::Page, family).is_ok();
    if enough { Grain::Page } else { Grain::Byte }
}

/// Checks, before any recording, that each recording keeps what the machines need.
pub(crate) fn check_grains(study: &Study) -> Result<(), String> {
    for workload in study.traces.iter().filter_map(TraceSpec::workload) {
        let short = |machine: &&MachineSpec| check_grain(workload.grain, machine).is_err();
        if let Some(machine) = study.machines.iter().map(|variant| &variant.machine).find(short) {
            return Err(format!(
                "workload `{}`: grain = \"page\" keeps only the pages of its data, and machine `{}` has caches \
                 ([[cache]]), which need whole addresses: give grain = \"byte\", or leave the machine out",
                workload.name, machine.name
            ));
        }
        cache_family::check_grain(workload.grain, study.cache_family.as_ref())
            .map_err(|e| format!("workload `{}`: {e}", workload.name))?;
    }
    Ok(())
}

/// Files for a workload's folder, as they are now.
fn given(paths: &[String], folder: &Path, read: &mut StudyFiles) -> Result<Vec<GivenFile>, String> {
    let mut file = |path: &String| {
        let wrong = |why: &dyn std::fmt::Display| format!("files: \"{path}\": {why}");
        let name = Path::new(path).file_name().ok_or_else(|| wrong(&"is no file's path"))?;
        let content = read.hash(&folder.join(path)).map_err(|e| wrong(&e))?;
        Ok(GivenFile { name: name.to_string_lossy().into_owned(), path: folder.join(path), content })
    };
    let files = paths.iter().map(&mut file).collect::<Result<Vec<GivenFile>, String>>()?;
    let mut names = BTreeSet::new();
    match files.iter().find(|file| !names.insert(&file.name)) {
        Some(twice) => Err(format!("files: two are named `{}`: names must differ", twice.name)),
        None => Ok(files),
    }
}
