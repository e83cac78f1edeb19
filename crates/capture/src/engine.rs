//! The Valgrind engine: found, built once for the Valgrind that is installed, and started.
//!
//! The tool's C sources are part of this library. They are compiled against the headers and static libraries
//! that the distribution's `valgrind` package ships, into a folder of the user's cache that is named after
//! everything the result depends on. So a folder that exists is right, and is never changed.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Versions of Valgrind that the engine has been tested with. Others are tried.
pub const TESTED_VERSIONS: &[&str] = &["3.19.0"];

/// The tool's sources. Only those that end in `.c` are compiled by themselves.
const SOURCES: &[(&str, &str)] = &[
    ("blocks.c", include_str!("../engines/valgrind/blocks.c")),
    ("engine.h", include_str!("../engines/valgrind/engine.h")),
    ("events.c", include_str!("../engines/valgrind/events.c")),
    ("instrument.c", include_str!("../engines/valgrind/instrument.c")),
    ("main.c", include_str!("../engines/valgrind/main.c")),
    ("maps.c", include_str!("../engines/valgrind/maps.c")),
    ("ring.c", include_str!("../engines/valgrind/ring.c")),
    ("sys.h", include_str!("../engines/valgrind/sys.h")),
    ("syscalls.c", include_str!("../engines/valgrind/syscalls.c")),
    ("wire.h", include_str!("../engines/valgrind/wire.h")),
    ("include/pagewalk.h", include_str!("../engines/valgrind/include/pagewalk.h")),
];

/// As Valgrind builds its own tools: static, for its fixed address, without SSE in code that runs on its stacks.
const COMPILE_FLAGS: &[&str] = &[
    "-DVGA_amd64",
    "-DVGO_linux",
    "-DVGP_amd64_linux",
    "-DVGPV_amd64_linux_vanilla",
    "-std=gnu11",
    "-O2",
    "-fno-stack-protector",
    "-fno-builtin",
    "-fno-pie",
    "-mno-sse",
];
const LINK_FLAGS: &[&str] = &[
    "-static",
    "-no-pie",
    "-nodefaultlibs",
    "-nostartfiles",
    "-u",
    "_start",
    "-Wl,-Ttext-segment=0x58000000",
];

const TOOL: &str = "pagewalk-amd64-linux";
const CORE_LIBRARY: &str = "libcoregrind-amd64-linux.a";
const VEX_LIBRARY: &str = "libvex-amd64-linux.a";
const HEADER: &str = "pub_tool_basics.h";
/// A file by which the folder of Valgrind's own tools is known.
const STOCK_TOOL: &str = "none-amd64-linux";
/// Where the folders with a name of their own lie below an installation's prefix.
const LIBRARY_FOLDERS: &[&str] =
    &["lib/x86_64-linux-gnu/valgrind", "lib64/valgrind", "lib/valgrind", "libexec/valgrind"];
const COMPILERS: &[&str] = &["cc", "gcc", "clang"];

/// Why the engine cannot be used on this host.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// Not x86-64 Linux.
    #[error("the Valgrind engine runs on x86-64 Linux only; this is {0}")]
    Host(String),
    /// No `valgrind` program.
    #[error("no program `valgrind` in PATH ({path}); on Debian and Ubuntu: apt-get install valgrind")]
    NoValgrind {
        /// The value of `PATH`.
        path: String,
    },
    /// `valgrind --version` failed or printed something else.
    #[error("`{program} --version` printed {printed:?}, not a version of Valgrind")]
    Version {
        /// What was run.
        program: PathBuf,
        /// Its output, or the reason why there is none.
        printed: String,
    },
    /// Valgrind is there, but not what building a tool needs.
    #[error(
        "{valgrind} (version {version}) is here, but {missing} is not; looked in {looked_in}. \
         On Debian and Ubuntu the package `valgrind` has it: apt-get install --reinstall valgrind"
    )]
    Incomplete {
        /// The program found.
        valgrind: PathBuf,
        /// Its version.
        version: String,
        /// The file that is missing.
        missing: &'static str,
        /// The folders searched.
        looked_in: String,
    },
    /// No C compiler.
    #[error(
        "no C compiler (cc, gcc or clang) in PATH to build the engine with; \
         on Debian and Ubuntu: apt-get install gcc libc6-dev"
    )]
    NoCompiler,
    /// The compiler refused the engine's sources.
    #[error(
        "the engine cannot be built for Valgrind {version} (tested: {tested}): `{compiler}` says\n{output}\n\
         If it misses a header of the C library, apt-get install libc6-dev; \
         if it does not know something of Valgrind's, install one of the tested versions"
    )]
    Build {
        /// The installed version.
        version: String,
        /// The versions known to work.
        tested: String,
        /// The compiler.
        compiler: PathBuf,
        /// The end of what it printed.
        output: String,
    },
    /// No place for what is built.
    #[error("neither XDG_CACHE_HOME nor HOME is set: there is no place to keep the engine; set one of them")]
    NoCache,
    /// A file operation failed.
    #[error("{action} {path}: {source}")]
    File {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

/// Where to look and where to build, instead of the usual places.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The `valgrind` program; by default the first in `PATH`.
    pub valgrind: Option<PathBuf>,
    /// The C compiler; by default the first of `cc`, `gcc` and `clang` in `PATH`.
    pub compiler: Option<PathBuf>,
    /// The folder for what is built; by default `pagewalk` in `$XDG_CACHE_HOME` or `~/.cache`.
    pub cache: Option<PathBuf>,
}

/// An engine that is built and can be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Engine {
    launcher: PathBuf,
    folder: PathBuf,
    version: String,
}

impl Engine {
    /// Finds Valgrind and the engine for it, building the engine if that has not been done yet.
    pub fn prepare(options: &Options) -> Result<Engine, EngineError> {
        if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
            return Err(EngineError::Host(format!("{} {}", std::env::consts::ARCH, std::env::consts::OS)));
        }
        let launcher = find_launcher(options)?;
        let cache = cache_folder(options)?;
        let key = build_key(&launcher)?;
        if let Some(engine) = find_built(&launcher, &cache, &key) {
            return Ok(engine);
        }
        let version = ask_version(&launcher)?;
        let parts = Parts::find(&launcher, &version)?;
        let folder = cache.join(folder_name(&version, &key));
        build(&parts, &find_compiler(options)?, &version, &folder)?;
        Ok(Engine { launcher, folder, version })
    }

    /// The version of the Valgrind that the engine is built for.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The program that is run.
    pub fn launcher(&self) -> &Path {
        &self.launcher
    }

    /// The folder with the built tool.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The command that runs `program` under the engine, and every program it starts.
    ///
    /// With `socket` each process image connects there and streams; without, it is instrumented all the same but
    /// nothing is kept. Valgrind's messages go to `log_file`; the program's own output is left alone. `extra` are
    /// further options for Valgrind.
    pub fn command<S: AsRef<OsStr>>(
        &self,
        socket: Option<&Path>,
        log_file: &Path,
        extra: &[S],
        program: &OsStr,
        args: &[S],
    ) -> Command {
        let mut command = Command::new(&self.launcher);
        command
            .env("VALGRIND_LIB", &self.folder)
            // A user's .valgrindrc is written for other tools, and an unknown option would end the run.
            .arg("--command-line-only=yes")
            .args(["--tool=pagewalk", "-q", "--trace-children=yes", "--vgdb=no"])
            .arg(joined("--log-file=", &percent_doubled(log_file.as_os_str())));
        if let Some(socket) = socket {
            command.arg(joined("--socket=", socket.as_os_str()));
        }
        command.args(extra).arg("--").arg(program).args(args);
        command
    }
}

fn joined(option: &str, value: &OsStr) -> OsString {
    let mut text = OsString::from(option);
    text.push(value);
    text
}

/// Valgrind expands `%p` and the like in file names; a doubled sign stands for itself.
fn percent_doubled(path: &OsStr) -> OsString {
    let bytes = path.as_bytes().iter();
    OsString::from_vec(bytes.flat_map(|&b| if b == b'%' { vec![b, b] } else { vec![b] }).collect())
}

// --- finding -------------------------------------------------------------------------------------------

fn find_in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| is_program(file))
}

fn is_program(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.mode() & 0o111 != 0)
}

/// The program to start. Debian puts a shell script before it that changes the traced program's environment
/// (`LD_LIBRARY_PATH` among others), so the program behind the script is taken where there is one.
fn find_launcher(options: &Options) -> Result<PathBuf, EngineError> {
    let found = options.valgrind.clone().or_else(|| find_in_path("valgrind"));
    let missing = || EngineError::NoValgrind { path: std::env::var("PATH").unwrap_or_default() };
    let valgrind = found.filter(|file| is_program(file)).ok_or_else(missing)?;
    let mut behind = valgrind.clone().into_os_string();
    behind.push(".bin");
    let behind = PathBuf::from(behind);
    Ok(if is_program(&behind) { behind } else { valgrind })
}

fn find_compiler(options: &Options) -> Result<PathBuf, EngineError> {
    let found = options.compiler.clone().or_else(|| COMPILERS.iter().find_map(|name| find_in_path(name)));
    found.ok_or(EngineError::NoCompiler)
}

fn ask_version(launcher: &Path) -> Result<String, EngineError> {
    let wrong = |printed: String| EngineError::Version { program: launcher.to_owned(), printed };
    let output = Command::new(launcher).arg("--version").output().map_err(|e| wrong(e.to_string()))?;
    let printed = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    match printed.strip_prefix("valgrind-") {
        Some(version) if version.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b)) => {
            Ok(version.to_owned())
        }
        _ => Err(wrong(printed)),
    }
}

/// What an installed Valgrind has for the building of tools.
struct Parts {
    headers: PathBuf,
    libraries: PathBuf,
    own_files: PathBuf,
}

impl Parts {
    fn find(launcher: &Path, version: &str) -> Result<Parts, EngineError> {
        let real = fs::canonicalize(launcher).unwrap_or_else(|_| launcher.to_owned());
        let prefix = real.parent().and_then(Path::parent).unwrap_or(Path::new("/usr")).to_owned();
        let search = |folders: &[&str], missing: &'static str| {
            let folders: Vec<PathBuf> = folders.iter().map(|folder| prefix.join(folder)).collect();
            folders.iter().find(|folder| folder.join(missing).is_file()).cloned().ok_or_else(|| {
                EngineError::Incomplete {
                    valgrind: launcher.to_owned(),
                    version: version.to_owned(),
                    missing,
                    looked_in: folders.iter().map(|f| f.display().to_string()).collect::<Vec<_>>().join(", "),
                }
            })
        };
        let libraries = search(LIBRARY_FOLDERS, CORE_LIBRARY)?;
        search(LIBRARY_FOLDERS, VEX_LIBRARY)?;
        Ok(Parts {
            headers: search(&["include/valgrind"], HEADER)?,
            libraries,
            own_files: search(LIBRARY_FOLDERS, STOCK_TOOL)?,
        })
    }
}

// --- the cache -----------------------------------------------------------------------------------------

fn cache_folder(options: &Options) -> Result<PathBuf, EngineError> {
    if let Some(folder) = &options.cache {
        return Ok(folder.clone());
    }
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    base.map(|folder| folder.join("pagewalk")).ok_or(EngineError::NoCache)
}

/// A name for everything that the built tool depends on: this Valgrind (by its file, as asking it for its version
/// takes a process), our sources, and the flags.
fn build_key(launcher: &Path) -> Result<String, EngineError> {
    let meta = fs::metadata(launcher).map_err(|e| file_error("examine", launcher, e))?;
    let mut hasher = DefaultHasher::new();
    (launcher, meta.len(), meta.mtime(), meta.mtime_nsec()).hash(&mut hasher);
    (SOURCES, COMPILE_FLAGS, LINK_FLAGS).hash(&mut hasher);
    Ok(format!("{:016x}", hasher.finish()))
}

fn folder_name(version: &str, key: &str) -> String {
    format!("valgrind-{version}-{key}")
}

fn find_built(launcher: &Path, cache: &Path, key: &str) -> Option<Engine> {
    for entry in fs::read_dir(cache).ok()?.flatten() {
        let name = entry.file_name();
        let version = name
            .to_str()
            .and_then(|name| name.strip_prefix("valgrind-")?.strip_suffix(key)?.strip_suffix('-'));
        if let Some(version) = version {
            let folder = entry.path();
            if folder.join(TOOL).is_file() {
                return Some(Engine { launcher: launcher.to_owned(), folder, version: version.to_owned() });
            }
        }
    }
    None
}

// --- building ------------------------------------------------------------------------------------------

/// Builds in a folder of its own and renames it to `folder`, so that whoever finds `folder` finds all of it, and
/// two that build at the same time do no harm: the second keeps what the first has put there.
fn build(parts: &Parts, compiler: &Path, version: &str, folder: &Path) -> Result<(), EngineError> {
    let cache = folder.parent().expect("a folder in the cache");
    fs::create_dir_all(cache).map_err(|e| file_error("make the folder", cache, e))?;
    let work = tempfile::Builder::new()
        .prefix(".building-")
        // A traced program that changes its user must still reach the tool.
        .permissions(fs::Permissions::from_mode(0o755))
        .tempdir_in(cache)
        .map_err(|e| file_error("make a folder in", cache, e))?;
    write_sources(work.path())?;
    compile(parts, compiler, version, work.path())?;
    link_own_files(&parts.own_files, work.path())?;
    match fs::rename(work.path(), folder) {
        Ok(()) => {
            // Nothing is left for the guard to remove.
            let _ = work.keep();
            Ok(())
        }
        Err(_) if folder.join(TOOL).is_file() => Ok(()),
        Err(e) => Err(file_error("make the folder", folder, e)),
    }
}

fn write_sources(work: &Path) -> Result<(), EngineError> {
    for (name, text) in SOURCES {
        let file = work.join("src").join(name);
        let folder = file.parent().expect("a file in a folder");
        fs::create_dir_all(folder).map_err(|e| file_error("make the folder", folder, e))?;
        fs::write(&file, text).map_err(|e| file_error("write", &file, e))?;
    }
    Ok(())
}

fn compile(parts: &Parts, compiler: &Path, version: &str, work: &Path) -> Result<(), EngineError> {
    let sources = SOURCES.iter().map(|(name, _)| name).filter(|name| name.ends_with(".c"));
    let output = Command::new(compiler)
        .current_dir(work.join("src"))
        .args(COMPILE_FLAGS)
        .arg(joined("-I", parts.headers.as_os_str()))
        .arg("-o")
        .arg(work.join(TOOL))
        .args(sources)
        .args(LINK_FLAGS)
        .arg(parts.libraries.join(CORE_LIBRARY))
        .arg(parts.libraries.join(VEX_LIBRARY))
        .arg("-lgcc")
        .output()
        .map_err(|e| file_error("run", compiler, e))?;
    if output.status.success() {
        return Ok(());
    }
    Err(EngineError::Build {
        version: version.to_owned(),
        tested: TESTED_VERSIONS.join(", "),
        compiler: compiler.to_owned(),
        output: first_lines(&String::from_utf8_lossy(&output.stderr), 12),
    })
}

fn first_lines(text: &str, count: usize) -> String {
    text.lines().take(count).collect::<Vec<_>>().join("\n")
}

/// Valgrind looks for everything in the one folder that `VALGRIND_LIB` names: its preloaded libraries and the
/// tools of other tool names too.
fn link_own_files(own_files: &Path, work: &Path) -> Result<(), EngineError> {
    let entries = fs::read_dir(own_files).map_err(|e| file_error("list", own_files, e))?;
    for entry in entries {
        let entry = entry.map_err(|e| file_error("list", own_files, e))?;
        let link = work.join(entry.file_name());
        if !link.exists() {
            symlink(entry.path(), &link).map_err(|e| file_error("make the link", &link, e))?;
        }
    }
    Ok(())
}

fn file_error(action: &'static str, path: &Path, source: io::Error) -> EngineError {
    EngineError::File { action, path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engine() -> Engine {
        Engine {
            launcher: PathBuf::from("/usr/bin/valgrind.bin"),
            folder: PathBuf::from("/cache/valgrind-3.19.0-0123"),
            version: "3.19.0".to_owned(),
        }
    }

    #[test]
    fn the_command_ends_valgrinds_options_before_the_program() {
        let command = engine().command(
            Some(Path::new("/run/socket")),
            Path::new("/tmp/100%/log"),
            &["--chunks=8"],
            OsStr::new("-program"),
            &["--tool=none"],
        );
        let args: Vec<_> = command.get_args().map(|arg| arg.to_str().unwrap()).collect();
        assert_eq!(
            args[5..],
            [
                "--log-file=/tmp/100%%/log",
                "--socket=/run/socket",
                "--chunks=8",
                "--",
                "-program",
                "--tool=none"
            ]
        );
        let library = command.get_envs().find(|(name, _)| *name == "VALGRIND_LIB").unwrap().1;
        assert_eq!(library, Some(OsStr::new("/cache/valgrind-3.19.0-0123")));
    }

    #[test]
    fn every_source_file_of_the_engine_is_embedded() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("engines/valgrind");
        for entry in fs::read_dir(folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(".c") || name.ends_with(".h") {
                assert!(SOURCES.iter().any(|(known, _)| *known == name), "{name} is not in SOURCES");
            }
        }
    }

    #[test]
    fn what_is_missing_is_named_with_the_places_and_the_package() {
        let empty = tempfile::tempdir().unwrap();
        let launcher = empty.path().join("bin/valgrind");
        fs::create_dir_all(launcher.parent().unwrap()).unwrap();
        fs::write(&launcher, "").unwrap();
        let error = Parts::find(&launcher, "3.25.0").err().unwrap().to_string();
        for part in ["3.25.0", CORE_LIBRARY, "lib64/valgrind", "apt-get install --reinstall valgrind"] {
            assert!(error.contains(part), "{part:?} is not in {error:?}");
        }
    }

    #[test]
    fn a_built_engine_is_found_by_its_key_and_only_when_whole() {
        let cache = tempfile::tempdir().unwrap();
        let folder = cache.path().join(folder_name("3.19.0.GIT-lbmacos", "00ff"));
        fs::create_dir(&folder).unwrap();
        assert_eq!(find_built(Path::new("v"), cache.path(), "00ff"), None);
        fs::write(folder.join(TOOL), "").unwrap();
        assert_eq!(find_built(Path::new("v"), cache.path(), "00fe"), None);
        let found = find_built(Path::new("v"), cache.path(), "00ff").unwrap();
        assert_eq!(found.version(), "3.19.0.GIT-lbmacos");
        assert_eq!(found.folder(), folder);
    }
}
