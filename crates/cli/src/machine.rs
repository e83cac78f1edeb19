//! Which machine: by name, by file, or the host's own; and which operating system around the programs.

use crate::arguments::{Model, Thp};
use crate::error::{CliError, Code};
use crate::output::say;
use pagewalk_mm::structure::StructureSpec;
use pagewalk_mm::{OsError, OsKernel, OsSpec, ThpMode};
use pagewalk_sim::{Library, LibraryError, Structures, held_orders};
use pagewalk_translate::MachineSpec;
use std::path::Path;

/// The CPU of this host as `/proc/cpuinfo` names it.
pub struct HostCpu {
    pub vendor: String,
    pub family: u32,
    pub model: u32,
}

impl HostCpu {
    /// This host's CPU; what the kernel does not say stays empty.
    pub fn detect() -> HostCpu {
        let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let value = |key: &str| {
            let line = text.lines().find(|line| line.split(':').next().is_some_and(|k| k.trim() == key));
            line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned())
        };
        let number = |key: &str| value(key).and_then(|value| value.parse().ok()).unwrap_or(0);
        HostCpu {
            vendor: value("vendor_id").unwrap_or_default(),
            family: number("cpu family"),
            model: number("model"),
        }
    }

    /// The machine that stands for it, with whether it is really this one.
    pub fn machine(&self) -> Result<(MachineSpec, bool), CliError> {
        Library::for_cpu(&self.vendor, self.family, self.model).map_err(library)
    }
}

/// The machines that the user asked for, or the default one. Says so on stderr when that is not the host's.
pub fn chosen(model: &Model, quiet: bool) -> Result<Vec<MachineSpec>, CliError> {
    if !model.machines.is_empty() {
        return model.machines.iter().map(|name| load(name)).collect();
    }
    let (machine, known) = HostCpu::detect().machine()?;
    if !known && !quiet {
        say(format!(
            "this host's CPU is not in the library; simulating {} (choose with -m, see `pagewalk \
             machines list`)",
            machine.name
        ));
    }
    Ok(vec![machine])
}

/// A machine by name or by path.
pub fn load(name: &str) -> Result<MachineSpec, CliError> {
    if !name.ends_with(".toml") && !name.contains('/') {
        return Library::get(name).map_err(library);
    }
    let text = std::fs::read_to_string(Path::new(name))
        .map_err(|e| CliError::new(Code::BadInput, format!("machine file {name}: {e}")))?;
    let machine = MachineSpec::from_toml(name, &text).map_err(|e| {
        CliError::new(Code::BadInput, e).or("docs/adding-a-machine.md explains every key of a machine file")
    })?;
    kernel(&machine).map_err(|e| {
        CliError::new(Code::BadInput, format!("machine file {name}: {e}"))
            .or("docs/kernel-policies.md lists policies and their keys")
    })?;
    Ok(machine)
}

/// The kernel that a machine's file describes.
pub fn kernel(machine: &MachineSpec) -> Result<Option<(OsSpec, OsKernel)>, OsError> {
    let Some(table) = &machine.os else { return Ok(None) };
    let os = OsSpec::from_table(table.clone())?;
    let kernel = os.build(machine.paging, held_orders(machine))?;
    Ok(Some((os, kernel)))
}

/// The structure of an operating system by name or by path.
pub fn structure(name: &str) -> Result<StructureSpec, CliError> {
    if !name.ends_with(".toml") && !name.contains('/') {
        return Structures::get(name).map_err(|e| CliError::new(Code::Usage, e));
    }
    let text = std::fs::read_to_string(Path::new(name))
        .map_err(|e| CliError::new(Code::BadInput, format!("structure file {name}: {e}")))?;
    StructureSpec::from_toml(name, &text)
        .map_err(|e| CliError::new(Code::BadInput, e).or("docs/os-structure.md explains every key"))
}

fn library(error: LibraryError) -> CliError {
    match error {
        LibraryError::Unknown { .. } => CliError::new(Code::Usage, error),
        LibraryError::Machine(_) => CliError::new(Code::BadInput, error),
    }
}

/// The baseline's mode: as asked for, else that of the recording host.
pub fn thp(asked: Option<Thp>, recorded: &str) -> ThpMode {
    match asked {
        Some(Thp::Always) => ThpMode::Always,
        Some(Thp::Madvise) => ThpMode::Madvise,
        Some(Thp::Never) => ThpMode::Never,
        // A host that does not say has no transparent huge pages.
        None => ThpMode::from_name(recorded).unwrap_or(ThpMode::Never),
    }
}
