//! Which machine: by name, by file, or the host's own; and which operating system around the programs.

use crate::arguments::{Model, Thp};
use crate::error::{CliError, Code};
use crate::folders;
use crate::output::say;
use pagewalk_mm::structure::StructureSpec;
use pagewalk_mm::{OsError, OsKernel, OsSpec, ThpMode};
use pagewalk_sim::{Library, LibraryError, Structures, held_orders};
use pagewalk_translate::MachineSpec;
use pagewalk_units::names::with_closest;
use std::path::{Path, PathBuf};

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
        let machines: Vec<MachineSpec> =
            model.machines.iter().map(|name| load_and_say(name, quiet)).collect::<Result<_, _>>()?;
        let mut names: Vec<&str> = machines.iter().map(|machine| machine.name.as_str()).collect();
        names.sort_unstable();
        return match names.windows(2).find(|pair| pair[0] == pair[1]) {
            // Results are told apart by them.
            Some(pair) => Err(CliError::new(Code::Usage, format!("two machines are named `{}`", pair[0]))
                .or("give each machine file a `name` of its own")),
            None => Ok(machines),
        };
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

/// How the host's own machine is called.
pub const HOST: &str = "host";

/// A machine; for the host's own says on stderr which that is.
pub fn load_and_say(name: &str, quiet: bool) -> Result<MachineSpec, CliError> {
    if name == HOST && !quiet {
        let which = match &host()? {
            HostMachine::Probed(path) => format!("what was probed ({path})"),
            HostMachine::Known(machine) => format!("{machine}, which stands for this CPU"),
        };
        say(format!("machine host: {which}"));
    }
    load(name)
}

/// What `host` stands for.
enum HostMachine {
    /// The machine file of a probe.
    Probed(String),
    /// A machine of the library.
    Known(String),
}

/// What `host` stands for here: what was probed and saved, else the library's machine of this CPU.
fn host() -> Result<HostMachine, CliError> {
    if let Some(path) = saved_probe().filter(|path| path.exists()) {
        return Ok(HostMachine::Probed(path.display().to_string()));
    }
    match HostCpu::detect().machine()? {
        (machine, true) => Ok(HostMachine::Known(machine.name)),
        (_, false) => Err(CliError::new(
            Code::Usage,
            "no machine `host`: nothing was probed, and the library does not know this CPU",
        )
        .or("measure it with `pagewalk probe --save`, or choose a machine (`pagewalk machines list`)")),
    }
}

/// Where `pagewalk probe --save` keeps the machine file; none where the environment does not say.
pub fn saved_probe() -> Option<PathBuf> {
    folders::config().map(|folder| folder.join("machines/host.toml"))
}

/// The text of a machine's file, by name or by path.
pub fn text(name: &str) -> Result<String, CliError> {
    let file = match (name, Library::text(name)) {
        (HOST, _) => match host()? {
            HostMachine::Probed(path) => path,
            HostMachine::Known(machine) => return text(&machine),
        },
        (_, Ok(text)) => return Ok(text.to_owned()),
        (_, Err(_)) => name.to_owned(),
    };
    std::fs::read_to_string(&file)
        .map_err(|e| CliError::new(Code::BadInput, format!("machine file {file}: {e}")))
}

/// A machine by name or by path.
pub fn load(name: &str) -> Result<MachineSpec, CliError> {
    if name == HOST {
        return match host()? {
            HostMachine::Probed(path) => load(&path),
            HostMachine::Known(machine) => load(&machine),
        };
    }
    if !name.ends_with(".toml") && !name.contains('/') {
        return Library::get(name).map_err(library);
    }
    let text = std::fs::read_to_string(Path::new(name))
        .map_err(|e| CliError::new(Code::BadInput, format!("machine file {name}: {e}")))?;
    let machine = MachineSpec::from_toml(name, &text).map_err(|e| {
        let told = with_closest(&e.to_string());
        CliError::new(Code::BadInput, told)
            .or("docs/adding-a-machine.md explains every key of a machine file")
    })?;
    kernel(&machine).map_err(|e| {
        let line = e.line(&text, 0).map_or_else(String::new, |line| format!("line {line}: "));
        CliError::new(Code::BadInput, format!("machine file {name}: {line}{e}"))
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
