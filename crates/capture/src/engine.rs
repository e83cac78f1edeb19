//! The Valgrind engine: finds it, builds it once for the installed Valgrind, and starts it.
//!
//! This library contains the tool's C sources. They are compiled against the headers and static libraries of the
//! distribution's `valgrind` package, into a cache folder named by a hash of all inputs. So an existing folder is
//! right, and never changes.

mod build;
mod environment;
mod error;
mod manager;

pub use self::build::BuildProgress;
use self::build::{TOOL, ValgrindFiles, build};
pub use self::environment::add_variable;
pub use self::error::EngineError;
use pagewalk_units::inheritance;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Tested versions of Valgrind. Others are tried.
pub const TESTED_VERSIONS: &[&str] = &["3.19.0"];

const COMPILERS: &[&str] = &["cc", "gcc", "clang"];

/// Where to look and build, instead of the defaults.
#[derive(Clone, Debug, Default)]
pub struct EngineOptions {
    /// The `valgrind` program; by default the first in `PATH`.
    pub valgrind: Option<PathBuf>,
    /// The C compiler; by default the first of `cc`, `gcc` and `clang` in `PATH`.
    pub compiler: Option<PathBuf>,
    /// The folder for built engines; by default `pagewalk` in `$XDG_CACHE_HOME` or `~/.cache`.
    pub cache: Option<PathBuf>,
}

/// A built engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Engine {
    launcher: PathBuf,
    folder: PathBuf,
    version: String,
}

/// The state of the engine on this host.
#[derive(Clone, Debug)]
pub enum EngineStatus {
    /// A built engine.
    Engine(Engine),
    /// A Valgrind without a built engine.
    Valgrind {
        /// The program.
        launcher: PathBuf,
        /// Its version.
        version: String,
        /// Where its engine goes.
        folder: PathBuf,
    },
}

impl Engine {
    /// Finds Valgrind and its engine; builds the engine if needed.
    ///
    /// # Errors
    /// If something is missing on this host, or the build fails.
    pub fn prepare(options: &EngineOptions) -> Result<Engine, EngineError> {
        Engine::prepare_and_tell(options, &mut |_| ())
    }

    /// As [`prepare`](Engine::prepare); `tell` gets the progress of a build.
    ///
    /// # Errors
    /// As [`prepare`](Engine::prepare).
    pub fn prepare_and_tell(
        options: &EngineOptions,
        tell: &mut dyn FnMut(&BuildProgress),
    ) -> Result<Engine, EngineError> {
        match Engine::find(options)? {
            EngineStatus::Engine(engine) => Ok(engine),
            EngineStatus::Valgrind { launcher, version, folder } => {
                let parts = ValgrindFiles::find(&launcher, &version)?;
                build(&parts, &find_compiler(options)?, &version, &folder, tell)?;
                Ok(Engine { launcher, folder, version })
            }
        }
    }

    /// Finds Valgrind and its engine; builds nothing.
    ///
    /// # Errors
    /// If there is no usable Valgrind, or no place for the engine.
    pub fn find(options: &EngineOptions) -> Result<EngineStatus, EngineError> {
        if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
            return Err(EngineError::Host(format!("{} {}", std::env::consts::ARCH, std::env::consts::OS)));
        }
        check_files(getrlimit(Resource::Nofile).maximum)?;
        let launcher = find_launcher(options)?;
        let cache = cache_folder(options)?;
        let key = build_key(&launcher)?;
        if let Some(engine) = find_built(&launcher, &cache, &key) {
            return Ok(EngineStatus::Engine(engine));
        }
        let version = ask_version(&launcher)?;
        let folder = cache.join(folder_name(&version, &key));
        Ok(EngineStatus::Valgrind { launcher, version, folder })
    }

    /// The Valgrind version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The program to run.
    pub fn launcher(&self) -> &Path {
        &self.launcher
    }

    /// The folder with the built tool.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The command that runs `program`, and every program it starts, under the engine.
    ///
    /// With `socket`, each process image connects there and streams; without, it is instrumented but nothing is kept.
    /// Valgrind's messages go to `log_file`; the program's own output is untouched. `extra` are further options for
    /// Valgrind.
    pub fn command<S: AsRef<OsStr>>(
        &self,
        socket: Option<&Path>,
        log_file: &Path,
        extra: &[S],
        program: &OsStr,
        args: &[S],
    ) -> Command {
        let mut command = Command::new(&self.launcher);
        add_variable(&mut command, "VALGRIND_LIB", self.folder.as_os_str());
        inheritance::pass_on(&mut command)
            // A user's .valgrindrc is for other tools, and an unknown option would end the run.
            .arg("--command-line-only=yes")
            .args(["--tool=pagewalk", "-q", "--trace-children=yes", "--vgdb=no"])
            // Threads take turns in the order of their requests, so that a spinning thread yields.
            .arg("--fair-sched=try")
            .args(stack_option())
            .arg(max_threads_option(default_max_threads()))
            .arg(joined("--log-file=", &percent_doubled(log_file.as_os_str())));
        if let Some(socket) = socket {
            command.arg(joined("--socket=", socket.as_os_str()));
        }
        command.args(extra).arg("--").arg(program).args(args);
        command
    }
}

/// Most threads at a time that the engine's table can hold, for [`Engine::command`]'s `extra`. Unused room costs only
/// addresses, and 200 bytes of memory each.
pub const MAX_THREADS: u32 = 1 << 20;

/// Valgrind's option for this many threads, up to [`MAX_THREADS`].
pub fn max_threads_option(threads: u32) -> String {
    // Valgrind counts one more that never runs, and has a least table size.
    format!("--max-threads={}", threads.clamp(4, MAX_THREADS) + 1)
}

/// The kernel's limit on threads, if programs may need that many.
fn default_max_threads() -> u32 {
    let limit = |name: &str| fs::read_to_string(name).ok()?.trim().parse::<u32>().ok();
    let names = ["/proc/sys/kernel/threads-max", "/proc/sys/kernel/pid_max"];
    let least = names.iter().filter_map(|name| limit(name)).min();
    least.unwrap_or(THREADS_OF_PROGRAMS).clamp(500, THREADS_OF_PROGRAMS)
}

/// By default Valgrind gives the first stack at most 16 MiB. The engine maps all of it at the start.
fn stack_option() -> Option<String> {
    let limit = getrlimit(Resource::Stack).current.unwrap_or(STACK_MOST);
    (limit > STACK_UNASKED).then(|| format!("--main-stacksize={}", limit.min(STACK_MOST)))
}

const STACK_UNASKED: u64 = 16 << 20;
/// More than programs use. If the stack may be larger, the kernel maps the vdso among the program's memory, and the
/// engine cannot start.
const STACK_MOST: u64 = 1 << 30;

/// Keeps the stack's limit at most [`STACK_MOST`] until dropped, for a process that is started meanwhile.
pub(crate) struct BoundedStack {
    before: Option<Rlimit>,
    _alone: MutexGuard<'static, ()>,
}

impl BoundedStack {
    pub fn new() -> BoundedStack {
        // Two at a time would take each other's limit for the user's.
        static ONE: Mutex<()> = Mutex::new(());
        let alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let limit = getrlimit(Resource::Stack);
        let bounded = Rlimit { current: Some(STACK_MOST), maximum: limit.maximum };
        let is_more = limit.current.is_none_or(|current| current > STACK_MOST);
        // Without it the engine says that it cannot start.
        let is_set = is_more && setrlimit(Resource::Stack, bounded).is_ok();
        BoundedStack { before: is_set.then_some(limit), _alone: alone }
    }
}

impl Drop for BoundedStack {
    fn drop(&mut self) {
        if let Some(limit) = self.before.take() {
            let _ = setrlimit(Resource::Stack, limit);
        }
    }
}

/// More than programs have at a time: Go stops at 10,000.
const THREADS_OF_PROGRAMS: u32 = 32_768;

fn joined(option: &str, value: &OsStr) -> OsString {
    let mut text = OsString::from(option);
    text.push(value);
    text
}

/// Doubles `%`, since Valgrind expands `%p` and the like in file names.
fn percent_doubled(path: &OsStr) -> OsString {
    let bytes = path.as_bytes().iter();
    OsString::from_vec(bytes.flat_map(|&b| if b == b'%' { vec![b, b] } else { vec![b] }).collect())
}

/// As many files as `FILES_LEAST` in `limits.c`.
const FILES_LEAST: u64 = 32;

/// Valgrind reserves twelve files, and ends with its own message if there are fewer.
fn check_files(limit: Option<u64>) -> Result<(), EngineError> {
    match limit {
        Some(limit) if limit < FILES_LEAST => Err(EngineError::Files { limit, least: FILES_LEAST }),
        _ => Ok(()),
    }
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
/// (`LD_LIBRARY_PATH` among others), so the program behind the script is preferred.
fn find_launcher(options: &EngineOptions) -> Result<PathBuf, EngineError> {
    let found = options.valgrind.clone().or_else(|| find_in_path("valgrind"));
    let missing = || EngineError::NoValgrind { path: std::env::var("PATH").unwrap_or_default() };
    let valgrind = found.filter(|file| is_program(file)).ok_or_else(missing)?;
    let mut behind = valgrind.clone().into_os_string();
    behind.push(".bin");
    let behind = PathBuf::from(behind);
    Ok(if is_program(&behind) { behind } else { valgrind })
}

fn find_compiler(options: &EngineOptions) -> Result<PathBuf, EngineError> {
    let found = options.compiler.clone().or_else(|| COMPILERS.iter().find_map(|name| find_in_path(name)));
    found.ok_or(EngineError::NoCompiler)
}

fn ask_version(launcher: &Path) -> Result<String, EngineError> {
    let wrong = |printed: String| EngineError::Version { program: launcher.to_owned(), printed };
    let output = Command::new(launcher).arg("--version").output().map_err(|e| wrong(e.to_string()))?;
    let told = if output.stdout.is_empty() { &output.stderr } else { &output.stdout };
    let printed = String::from_utf8_lossy(told).trim().to_owned();
    match printed.strip_prefix("valgrind-") {
        Some(version) if version.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b)) => {
            Ok(version.to_owned())
        }
        _ => Err(wrong(printed)),
    }
}

// --- the cache -----------------------------------------------------------------------------------------

fn cache_folder(options: &EngineOptions) -> Result<PathBuf, EngineError> {
    if let Some(folder) = &options.cache {
        return Ok(folder.clone());
    }
    // A relative folder would break when a program changes its working directory (and the XDG Base Directory
    // Specification ignores relative values).
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    base.map(|folder| folder.join("pagewalk")).ok_or(EngineError::NoCache)
}

/// The name for all inputs of a build: this Valgrind (by its file, since asking for its version takes a process), our
/// sources, and the flags.
fn build_key(launcher: &Path) -> Result<String, EngineError> {
    let meta = fs::metadata(launcher).map_err(|e| EngineError::file("examine", launcher, e))?;
    let mut hasher = DefaultHasher::new();
    (launcher, meta.len(), meta.mtime(), meta.mtime_nsec()).hash(&mut hasher);
    build::hash_inputs(&mut hasher);
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
            args[7..],
            [
                "--log-file=/tmp/100%%/log",
                "--socket=/run/socket",
                "--chunks=8",
                "--",
                "-program",
                "--tool=none"
            ]
        );
    }

    #[test]
    fn too_low_a_limit_of_files_is_named() {
        assert!(check_files(None).is_ok() && check_files(Some(32)).is_ok());
        let error = check_files(Some(6)).unwrap_err().to_string();
        assert!(error.starts_with("6 files may be open at a time (ulimit -Hn"), "{error}");
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
