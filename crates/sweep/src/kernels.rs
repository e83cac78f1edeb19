//! The kernels of a study: `[[os]]` tables and the machines that they apply to; and the kernels of machines' own files.

use crate::error::SweepError;
use crate::source::StudyFiles;
use crate::study::{KernelKind, KernelVariant, MachineVariant};
use crate::task;
use pagewalk_mm::{OsError, OsKernel, OsSpec, read_files};
use pagewalk_sim::{Arrangement, PassError, check_offline};
use pagewalk_units::names::choice;
use std::path::Path;
use toml::{Table, Value};

/// The policy name for the recording host's kernel.
const HOST: &str = "host";

/// Reads every `[[os]]` table of the file with text `text`, with paths from the folder; builds each on every machine
/// that will run under it.
pub fn variants(
    file: &str,
    text: &str,
    (folder, files): (&Path, &mut StudyFiles),
    tables: Vec<Table>,
    machines: &[MachineVariant],
) -> Result<Vec<KernelVariant>, SweepError> {
    let wrong = |why: String| SweepError::Study { file: file.to_owned(), why };
    if machines.is_empty() && !tables.is_empty() {
        return Err(wrong(
            "os: there is no machine to run under it: name some with machines = [\"k8\"]".to_owned(),
        ));
    }
    let mut kernels: Vec<KernelVariant> = Vec::new();
    for (number, mut table) in (1..).zip(tables) {
        let numbered = |why| wrong(format!("[[os]] number {number}: {why}"));
        read_files(&mut table, |path| files.text(&folder.join(path))).map_err(numbered)?;
        let kernel = variant(table).map_err(numbered)?;
        let place = |error: &OsError| {
            error.line(text, number - 1).map_or_else(String::new, |line| format!("line {line}: "))
        };
        check(&kernel, machines, &place).map_err(|why| wrong(format!("os `{}`: {why}", kernel.name)))?;
        let clashes = |other: &&KernelVariant| {
            let on_both =
                |variant: &MachineVariant| other.is_for(&variant.machine) && kernel.is_for(&variant.machine);
            other.name == kernel.name && machines.iter().any(on_both)
        };
        if kernels.iter().any(|other| clashes(&other)) {
            return Err(wrong(format!(
                "two [[os]] are named `{}`: give each a name of its own, as in name = \"one\"",
                kernel.name
            )));
        }
        kernels.push(kernel);
    }
    let has_none = |variant: &&MachineVariant| !kernels.iter().any(|kernel| kernel.is_for(&variant.machine));
    match machines.iter().find(has_none).filter(|_| !kernels.is_empty()) {
        Some(variant) => Err(wrong(format!(
            "os: none is for machine `{}`: name it in one of their machines",
            variant.machine.name
        ))),
        None => Ok(kernels),
    }
}

fn variant(mut table: Table) -> Result<KernelVariant, String> {
    let machines = match table.remove("machines") {
        None => Vec::new(),
        Some(Value::Array(names)) if !names.is_empty() && names.iter().all(Value::is_str) => {
            names.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        Some(other) => {
            return Err(format!("machines = {other}: give names of the study's machines, such as [\"k8\"]"));
        }
    };
    if table.get("name").and_then(Value::as_str) == Some("") {
        return Err("name = \"\": give a name, or leave the key out".to_owned());
    }
    let text = identity(&table)?;
    let is_host = table.get("policy").and_then(Value::as_str) == Some(HOST);
    let known = ["name", "policy"];
    if let Some(key) = table.keys().find(|key| is_host && !known.contains(&key.as_str())) {
        return Err(format!("{key}: the kernel of the host has no keys but name, machines and policy"));
    }
    let spec = OsSpec::from_table(table).map_err(|e| e.to_string())?;
    let name = spec.name.clone();
    if name.is_empty() {
        return Err(format!("policy: name one: {HOST}, {}", policies()));
    }
    let kind = if is_host { KernelKind::Host } else { KernelKind::Policy(spec) };
    Ok(KernelVariant { name, machines, kind, text })
}

/// A table without its name.
fn identity(table: &Table) -> Result<String, String> {
    let mut identity = table.clone();
    identity.remove("name");
    toml::to_string(&identity).map_err(|e| e.to_string())
}

fn policies() -> String {
    OsSpec::policies().map(|(name, _)| name).collect::<Vec<_>>().join(", ")
}

/// Checks now, before any work, that it can be built on every machine that will run under it.
fn check(
    kernel: &KernelVariant,
    machines: &[MachineVariant],
    place: &dyn Fn(&OsError) -> String,
) -> Result<(), String> {
    if let Some(name) =
        kernel.machines.iter().find(|name| machines.iter().all(|one| one.machine.name != **name))
    {
        let mut names: Vec<&str> = machines.iter().map(|one| one.machine.name.as_str()).collect();
        names.dedup();
        return Err(format!("machines: \"{name}\": {}", choice(name, &names)));
    }
    for variant in machines.iter().filter(|variant| kernel.is_for(&variant.machine)) {
        works_on(kernel, variant, place, "; its key machines says on which machines it runs")?;
    }
    Ok(())
}

/// `place` says where in a file a key stands.
fn works_on(
    kernel: &KernelVariant,
    variant: &MachineVariant,
    place: &dyn Fn(&OsError) -> String,
    advice: &str,
) -> Result<(), String> {
    let name = &variant.machine.name;
    let built = kernel.build(&variant.machine);
    let built = built.map_err(|e| match e {
        OsError::Name { .. } => format!("{}{e}, {HOST}", place(&e)),
        OsError::Key { .. } | OsError::Value { .. } => format!("{}{e}", place(&e)),
        e => format!("{}machine `{name}`: {e}{advice}", place(&e)),
    })?;
    let wrong = |e: PassError| format!("{e}{advice}");
    match built {
        Some(OsKernel::Offline(settings)) => {
            check_offline(&variant.machine, &Arrangement::default(), &settings).map_err(wrong)
        }
        _ => task::counters(variant, (Some(kernel), None)).map(drop).map_err(wrong),
    }
}

/// The kernel in a machine's own file, if any.
pub fn own(variant: &MachineVariant) -> Result<Option<KernelVariant>, String> {
    let Some(table) = &variant.machine.os else { return Ok(None) };
    let spec = OsSpec::from_table(table.clone()).map_err(|e| e.to_string())?;
    let (name, machines) = (spec.name.clone(), vec![variant.machine.name.clone()]);
    let kernel = KernelVariant { name, machines, text: identity(table)?, kind: KernelKind::Policy(spec) };
    works_on(&kernel, variant, &|_| String::new(), "")?;
    Ok(Some(kernel))
}
