//! The machines of a study, with every choice of the varied keys.

use crate::data_side::check_energy;
use crate::error::SweepError;
use crate::source::StudyFiles;
use crate::study::MachineVariant;
use crate::{kernels, task, vary};
use pagewalk_mm::read_files;
use pagewalk_report::sweep::schema::Value as Parameter;
use pagewalk_sim::Library;
use pagewalk_translate::{MachineSpec, requests_caches, with_caches};
use pagewalk_units::names::with_closest;
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// The machines `names`, library names or paths from the folder, with every choice of `vary` and of `cores`, if any;
/// `slots`: of host TLBs from whose misses they are simulated too.
pub fn variants(
    file: &str,
    (folder, files): (&Path, &mut StudyFiles),
    names: &[String],
    vary: &Table,
    (cores, slots): &(Vec<u8>, Vec<u32>),
) -> Result<Vec<MachineVariant>, SweepError> {
    let wrong = |why: String| SweepError::Study { file: file.to_owned(), why };
    if names.is_empty() && !vary.is_empty() {
        return Err(wrong(
            "vary: there is no machine to vary: name some with machines = [\"k8\"]".to_owned(),
        ));
    }
    let choices = vary::choices(vary).map_err(wrong)?;
    let mut variants = Vec::new();
    for name in names {
        let text = text_of(folder, name, files).map_err(|why| wrong(format!("machines: {why}")))?;
        // First unvaried, so that a mistake in the file is reported with its line.
        let as_it_is = MachineSpec::from_toml(name, &text)
            .map_err(|e| wrong(format!("machines: {}", with_closest(&e.to_string()))))?;
        let table: Table = text.parse().map_err(|e| wrong(format!("machines: {name}: {e}")))?;
        if variants.iter().any(|variant: &MachineVariant| variant.machine.name == as_it_is.name) {
            return Err(wrong(format!("machines: two are named `{}`: names must differ", as_it_is.name)));
        }
        if let Some(key) = idle_key(&table, &choices) {
            let why = format!("{name}: vary: \"{key}\" changes nothing without caches: name {name}+caches");
            return Err(wrong(format!("machines: {why}")));
        }
        let (by_name, lists) = vary::by_name(&table);
        for chosen in &choices {
            let mut varied = by_name.clone();
            for (key, value) in chosen {
                vary::set(&mut varied, key, value.clone())
                    .map_err(|why| wrong(format!("machines: {name}: {why}")))?;
            }
            for key in ["os", "ranges"] {
                if let Some(Value::Table(table)) = varied.get_mut(key) {
                    read_files(table, |path| files.text(&own_folder(folder, name).join(path)))
                        .map_err(|why| wrong(format!("machines: {name}: {key}.{why}")))?;
                }
            }
            let varied =
                vary::as_lists(varied, &lists).map_err(|why| wrong(format!("machines: {name}: {why}")))?;
            let text = toml::to_string(&varied).map_err(|e| wrong(format!("machines: {name}: {e}")))?;
            let parameters = vary::parameters(chosen);
            let label: String = parameters.iter().map(|(key, value)| format!(" {key} = {value}")).collect();
            let machine = MachineSpec::from_toml(&format!("{name} with{label}"), &text);
            let machine =
                machine.map_err(|e| wrong(format!("machines: {}", with_closest(&e.to_string()))))?;
            let number = variants.last().map_or(0, |last: &MachineVariant| last.number + 1);
            let variant =
                MachineVariant { machine, number, traps: None, cores: None, parameters, text, own: None };
            let inside = |why: String| wrong(format!("machines: {name} with{label}: {why}"));
            let around = on_cores(variant, cores).into_iter();
            for variant in around.flat_map(|variant| variant.also_by_traps(slots)) {
                variants.push(checked(variant).map_err(inside)?);
            }
        }
    }
    Ok(variants)
}

/// The machine on each number of cores.
fn on_cores(variant: MachineVariant, cores: &[u8]) -> Vec<MachineVariant> {
    if cores.is_empty() {
        return vec![variant];
    }
    let on = |&cores: &u8| {
        let mut on = MachineVariant { cores: Some(cores), ..variant.clone() };
        on.parameters.insert(MachineVariant::CORES.to_owned(), Parameter::Integer(cores.into()));
        on
    };
    cores.iter().map(on).collect()
}

/// Checks now, before any work, that a machine can be simulated.
fn checked(mut variant: MachineVariant) -> Result<MachineVariant, String> {
    variant.check_traps()?;
    check_energy(&variant.machine).map_err(|e| e.to_string())?;
    task::counters(&variant, (None, None)).map_err(|e| e.to_string())?;
    if variant.traps.is_none() {
        variant.own = kernels::own(&variant)?;
    }
    Ok(variant)
}

/// A machine file's folder.
fn own_folder(folder: &Path, name: &str) -> PathBuf {
    folder.join(name).parent().map_or_else(|| folder.to_owned(), Path::to_owned)
}

fn text_of(folder: &Path, name: &str, files: &mut StudyFiles) -> Result<String, String> {
    let (path, with_its_caches) = requests_caches(name);
    if !Library::is_path(path) {
        return Library::text(name).map(Cow::into_owned).map_err(|e| e.to_string());
    }
    let text = files.text(&folder.join(path)).map_err(|e| format!("{path}: {e}"))?;
    if !with_its_caches {
        return Ok(text);
    }
    // First as it is, so that a mistake in the file is reported with its line.
    MachineSpec::from_toml(path, &text).map_err(|e| e.to_string())?;
    with_caches(path, &text).map_err(|e| e.to_string())
}

/// A key that varies caches which are simulated on request only, and nobody requests.
fn idle_key<'a>(machine: &Table, choices: &'a [Vec<(String, Value)>]) -> Option<&'a str> {
    let is_idle = machine.get("caches").and_then(Value::as_str) == Some("on request");
    let keys = choices.iter().flatten().map(|(key, _)| key.as_str());
    keys.filter(|_| is_idle).find(|key| key.starts_with("cache.") || *key == "cost.memory")
}
