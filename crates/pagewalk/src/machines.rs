//! Selects the machine, by name, file or the host's own, and the operating system around the programs.

mod description;

use crate::error::{Error, Fault};
use crate::folders;
use crate::listener::Listener;
use pagewalk_mm::structure::StructureSpec;
use pagewalk_mm::{OsError, OsKernel, OsSpec, ThpMode, read_files};
use pagewalk_sim::{Arrangement, HostKernel, Library, LibraryError, Simulation, Structures, held_orders};
use pagewalk_sweep::check_energy;
use pagewalk_translate::{MachineSpec, requests_caches, with_caches};
use pagewalk_units::names::with_closest;
use std::path::{Path, PathBuf};
use toml::Table;

pub use description::{description, walk_prices};

/// This host's CPU, from `/proc/cpuinfo`.
pub struct HostCpu {
    /// Such as `GenuineIntel`.
    pub vendor: String,
    /// The processor's family.
    pub family: u32,
    /// Its model within the family.
    pub model: u32,
}

impl HostCpu {
    /// This host's CPU; unknown parts stay empty.
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

    /// The library's machine for this CPU, and whether it is an exact match.
    ///
    /// # Errors
    /// If the library's machine is invalid.
    pub fn machine(&self) -> Result<(MachineSpec, bool), Error> {
        Library::for_cpu(&self.vendor, self.family, self.model).map_err(library)
    }
}

/// The machines of these names, or the default if there are none; warns if the default is not the host's.
///
/// # Errors
/// As [`load`], and if two machines have the same name.
pub fn chosen(names: &[String], listener: &dyn Listener) -> Result<Vec<MachineSpec>, Error> {
    if !names.is_empty() {
        let machines = names.iter().map(|name| load_and_say(name, listener));
        return together(machines.collect::<Result<_, _>>()?);
    }
    let (machine, known) = HostCpu::detect().machine()?;
    if !known {
        listener.note(&format!(
            "this host's CPU is not in the library; simulating {} (choose with -m, see `pagewalk \
             machines list`)",
            machine.name
        ));
    }
    Ok(vec![machine])
}

/// These machines, in the order in which results list them.
///
/// # Errors
/// If two machines have the same name.
pub fn together(mut machines: Vec<MachineSpec>) -> Result<Vec<MachineSpec>, Error> {
    // The first machine gets the longest report, and a data side has less to report.
    machines.sort_by_key(|machine| machine.data_side.is_some());
    let mut names: Vec<&str> = machines.iter().map(|machine| machine.name.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        // Results identify machines by name.
        Some(pair) => Err(Error::new(Fault::Usage, format!("two machines are named `{}`", pair[0]))
            .or("give each machine once, and each machine file a `name` of its own")),
        None => Ok(machines),
    }
}

/// The name of the host's own machine.
pub const HOST: &str = "host";

/// Loads a machine; for `host`, notes which one that is.
///
/// # Errors
/// As [`load`].
pub fn load_and_say(name: &str, listener: &dyn Listener) -> Result<MachineSpec, Error> {
    if requests_caches(name).0 == HOST {
        let which = match &host()? {
            HostMachine::Probed(path) => format!("what was probed ({path})"),
            HostMachine::Known(machine) => format!("{machine}, which stands for this CPU"),
        };
        listener.note(&format!("machine host: {which}"));
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

/// Resolves `host`: the saved probe, else the library's machine for this CPU.
fn host() -> Result<HostMachine, Error> {
    if let Some(path) = saved_probe().filter(|path| path.exists()) {
        return Ok(HostMachine::Probed(path.display().to_string()));
    }
    match HostCpu::detect().machine()? {
        (machine, true) => Ok(HostMachine::Known(machine.name)),
        (_, false) => Err(Error::new(
            Fault::Usage,
            "no machine `host`: nothing was probed, and the library does not know this CPU",
        )
        .or("measure it with `pagewalk probe --save`, or choose a machine (`pagewalk machines list`)")),
    }
}

/// Where `pagewalk probe --save` keeps the machine file; none if the environment does not say.
pub fn saved_probe() -> Option<PathBuf> {
    folders::config().map(|folder| folder.join("machines/host.toml"))
}

/// The text of a machine's file, by name or by path; with `+caches` behind it, with its caches.
///
/// # Errors
/// If there is none, or if it has no caches.
pub fn text(name: &str) -> Result<String, Error> {
    let (name, with_its_caches) = requests_caches(name);
    let text = match name {
        HOST => match host()? {
            HostMachine::Probed(path) => of_file(&path)?,
            HostMachine::Known(machine) => text(&machine)?,
        },
        _ if Library::is_path(name) => of_file(name)?,
        _ => Library::text(name).map_err(library)?.into_owned(),
    };
    match with_its_caches {
        true => with_caches(name, &text).map_err(|e| {
            let have = Library::names().filter(|&name| Library::get(&format!("{name}+caches")).is_ok());
            Error::new(Fault::Usage, e.to_string())
                .or(format!("these have caches: {}", have.collect::<Vec<_>>().join(", ")))
        }),
        false => Ok(text),
    }
}

fn of_file(path: &str) -> Result<String, Error> {
    std::fs::read_to_string(path)
        .map_err(|e| Error::of_file(Path::new(path), format!("machine file {path}: {e}")))
}

/// A machine by name or by path.
///
/// # Errors
/// If the library has none of the name, or the file is wrong.
pub fn load(name: &str) -> Result<MachineSpec, Error> {
    let (file, with_its_caches) = requests_caches(name);
    if with_its_caches {
        load(file)?;
    }
    parse(file, &text(name)?)
}

/// The machine that the text of a file describes; `name` names the text in errors.
///
/// # Errors
/// If the text is wrong.
pub fn parse(name: &str, text: &str) -> Result<MachineSpec, Error> {
    let mut machine = MachineSpec::from_toml(name, text).map_err(|e| {
        let told = with_closest(&e.to_string());
        Error::new(Fault::BadInput, told)
            .or("docs/reference/machine-files.md explains every key of a machine file")
    })?;
    if let Some(os) = &mut machine.os {
        let folder = Path::new(name).parent().unwrap_or(Path::new(""));
        read_files(os, |path| std::fs::read_to_string(folder.join(path)))
            .map_err(|why| Error::new(Fault::BadInput, format!("machine file {name}: os.{why}")))?;
    }
    kernel(&machine).map_err(|e| {
        let line = e.line(text, 0).map_or_else(String::new, |line| format!("line {line}: "));
        Error::new(Fault::BadInput, format!("machine file {name}: {line}{e}"))
            .or("`pagewalk schema policies` lists policies and their keys")
    })?;
    check_data_side(&machine)
        .map_err(|error| Error::new(Fault::BadInput, format!("machine file {name}: {error}")))?;
    Ok(machine)
}

/// Checks that the memory of a data side can be built, and its energy priced.
///
/// # Errors
/// If not.
pub fn check_data_side(machine: &MachineSpec) -> Result<(), Error> {
    if machine.data_side.is_none() {
        return Ok(());
    }
    let wrong = |why: &dyn std::fmt::Display| Error::new(Fault::BadInput, why);
    let alone = vec![HostKernel::new(ThpMode::Never).design(machine)];
    Simulation::new(alone, &Arrangement::default()).map_err(|why| wrong(&why))?;
    check_energy(machine).map_err(|why| wrong(&why))
}

/// The text of a machine's file with some keys changed, such as `tlb.stlb.entries`; a list of named tables is entered
/// by a name.
///
/// # Errors
/// If a key leads nowhere.
pub fn vary(name: &str, text: &str, changes: &Table) -> Result<String, Error> {
    pagewalk_sweep::varied(text, changes)
        .map_err(|why| Error::new(Fault::Usage, format!("machine {name}: {why}")))
}

/// The kernel in a machine's file, if any.
pub(crate) fn kernel(machine: &MachineSpec) -> Result<Option<(OsSpec, OsKernel)>, OsError> {
    let Some(table) = &machine.os else { return Ok(None) };
    let os = OsSpec::from_table(table.clone())?;
    let kernel = os.build(machine.paging, held_orders(machine))?;
    Ok(Some((os, kernel)))
}

/// An operating system structure by name or by path.
///
/// # Errors
/// If the library has no such name, or the file is invalid.
pub fn structure(name: &str) -> Result<StructureSpec, Error> {
    if !name.ends_with(".toml") && !name.contains('/') {
        return Structures::get(name).map_err(|e| Error::new(Fault::Usage, e));
    }
    let path = Path::new(name);
    let text = std::fs::read_to_string(path)
        .map_err(|e| Error::of_file(path, format!("structure file {name}: {e}")))?;
    StructureSpec::from_toml(name, &text).map_err(|e| {
        Error::new(Fault::BadInput, e).or("docs/reference/structure-files.md explains every key")
    })
}

fn library(error: LibraryError) -> Error {
    match error {
        LibraryError::Unknown { .. } => Error::new(Fault::Usage, error),
        LibraryError::Machine(_) => Error::new(Fault::BadInput, error),
    }
}

/// The baseline's mode: the requested one, else the recording host's.
pub fn thp(asked: Option<ThpMode>, recorded: &str) -> ThpMode {
    // A host that reports none has no transparent huge pages.
    asked.or_else(|| ThpMode::from_name(recorded)).unwrap_or(ThpMode::Never)
}
