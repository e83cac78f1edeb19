//! Builds the tool from its sources and the installed Valgrind.

use super::manager::Manager;
use super::{EngineError, TESTED_VERSIONS, joined};
use std::fs;
use std::hash::{Hash, Hasher};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;

/// The tool's sources. Those ending in `.c` are compilation units.
const SOURCES: &[(&str, &str)] = &[
    ("aliases.c", include_str!("../../engines/valgrind/aliases.c")),
    ("arguments.c", include_str!("../../engines/valgrind/arguments.c")),
    ("blocks.c", include_str!("../../engines/valgrind/blocks.c")),
    ("calls.c", include_str!("../../engines/valgrind/calls.c")),
    ("engine.h", include_str!("../../engines/valgrind/engine.h")),
    ("events.c", include_str!("../../engines/valgrind/events.c")),
    ("exec.c", include_str!("../../engines/valgrind/exec.c")),
    ("exec.h", include_str!("../../engines/valgrind/exec.h")),
    ("faults.c", include_str!("../../engines/valgrind/faults.c")),
    ("guard.c", include_str!("../../engines/valgrind/guard.c")),
    ("handlers.h", include_str!("../../engines/valgrind/handlers.h")),
    ("image.c", include_str!("../../engines/valgrind/image.c")),
    ("instrument.c", include_str!("../../engines/valgrind/instrument.c")),
    ("limits.c", include_str!("../../engines/valgrind/limits.c")),
    ("loads.c", include_str!("../../engines/valgrind/loads.c")),
    ("main.c", include_str!("../../engines/valgrind/main.c")),
    ("maps.c", include_str!("../../engines/valgrind/maps.c")),
    ("native.c", include_str!("../../engines/valgrind/native.c")),
    ("passes.c", include_str!("../../engines/valgrind/passes.c")),
    ("placement.c", include_str!("../../engines/valgrind/placement.c")),
    ("places.c", include_str!("../../engines/valgrind/places.c")),
    ("program.c", include_str!("../../engines/valgrind/program.c")),
    ("ring.c", include_str!("../../engines/valgrind/ring.c")),
    ("roots.c", include_str!("../../engines/valgrind/roots.c")),
    ("seen.c", include_str!("../../engines/valgrind/seen.c")),
    ("segments.h", include_str!("../../engines/valgrind/segments.h")),
    ("signals.c", include_str!("../../engines/valgrind/signals.c")),
    ("stops.c", include_str!("../../engines/valgrind/stops.c")),
    ("symbols.c", include_str!("../../engines/valgrind/symbols.c")),
    ("sys.h", include_str!("../../engines/valgrind/sys.h")),
    ("syscalls.c", include_str!("../../engines/valgrind/syscalls.c")),
    ("threads.c", include_str!("../../engines/valgrind/threads.c")),
    ("translate.c", include_str!("../../engines/valgrind/translate.c")),
    ("vfork.c", include_str!("../../engines/valgrind/vfork.c")),
    ("waiting.c", include_str!("../../engines/valgrind/waiting.c")),
    ("wire.h", include_str!("../../engines/valgrind/wire.h")),
    ("include/pagewalk.h", include_str!("../../engines/valgrind/include/pagewalk.h")),
];

/// As for Valgrind's own tools: static with a fixed address, without SSE in code on Valgrind's stacks.
const COMPILE_FLAGS: &[&str] = &[
    "-DVGA_amd64",
    "-DVGO_linux",
    "-DVGP_amd64_linux",
    "-DVGPV_amd64_linux_vanilla",
    "-std=gnu11",
    "-O2",
    // Compilers from GCC 14 on do this anyway.
    "-Werror=implicit-function-declaration",
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
    "-Wl,-Ttext-segment=0x78000000",
    // The core's calls of these go to functions `__wrap_…`.
    "-Wl,--wrap=vgPlain_di_notify_mmap",
    "-Wl,--wrap=vgPlain_am_startup",
    "-Wl,--wrap=vgPlain_am_get_advisory",
    "-Wl,--wrap=vgPlain_am_get_advisory_client_simple",
    "-Wl,--wrap=vgPlain_load_ELF",
    "-Wl,--wrap=vgModuleLocal_get_linux_syscall_entry",
    "-Wl,--wrap=vgPlain_synth_sigill",
    "-Wl,--wrap=vgSysWrap_generic_sys_execve_before",
    "-Wl,--wrap=vgSysWrap_linux_sys_execveat_before",
    "-Wl,--wrap=vgSysWrap_generic_sys_open_before",
    "-Wl,--wrap=vgSysWrap_linux_sys_openat_before",
    "-Wl,--wrap=vgPlain_find_executable",
    "-Wl,--wrap=vgPlain_mkstemp",
    "-Wl,--wrap=vgPlain_init_log_xml_sinks",
    "-Wl,--wrap=vgPlain_open",
    "-Wl,--wrap=vgPlain_init_Threads",
    "-Wl,--wrap=vgPlain_client_syscall",
    "-Wl,--wrap=vgPlain_alloc_ThreadState",
    "-Wl,--wrap=vgPlain_am_alloc_VgStack",
    "-Wl,--wrap=vgPlain_sigframe_create",
    "-Wl,--wrap=vgPlain_fixup_guest_state_after_syscall_interrupted",
    "-Wl,--wrap=vgSysWrap_linux_sys_clone_before",
    "-Wl,--wrap=do_iropt_BB",
    "-Wl,--wrap=sanityCheckIRSB",
    "-Wl,--wrap=cprop_BB",
    "-Wl,--wrap=do_deadcode_BB",
    "-Wl,--wrap=vgPlain_sigaction",
    "-Wl,--wrap=vgPlain_sigtimedwait_zero",
    "-Wl,--wrap=LibVEX_Translate",
    "-Wl,--wrap=vgPlain_write",
    "-Wl,--wrap=vgPlain_translate",
];

/// Hashes everything that affects the build.
pub(super) fn hash_inputs(hasher: &mut impl Hasher) {
    (SOURCES, COMPILE_FLAGS, LINK_FLAGS).hash(hasher);
}

pub(super) const TOOL: &str = "pagewalk-amd64-linux";
const CORE_LIBRARY: &str = "libcoregrind-amd64-linux.a";
const VEX_LIBRARY: &str = "libvex-amd64-linux.a";
const HEADER: &str = "pub_tool_basics.h";
/// A file that identifies the folder of Valgrind's own tools.
const STOCK_TOOL: &str = "none-amd64-linux";
/// Folders with such names below an installation's prefix.
const LIBRARY_FOLDERS: &[&str] =
    &["lib/x86_64-linux-gnu/valgrind", "lib64/valgrind", "lib/valgrind", "libexec/valgrind"];

/// Files of an installed Valgrind for building tools.
pub(super) struct ValgrindFiles {
    headers: PathBuf,
    libraries: PathBuf,
    own_files: PathBuf,
}

impl ValgrindFiles {
    pub(super) fn find(launcher: &Path, version: &str) -> Result<ValgrindFiles, EngineError> {
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
        Ok(ValgrindFiles {
            headers: search(&["include/valgrind"], HEADER)?,
            libraries,
            own_files: search(LIBRARY_FOLDERS, STOCK_TOOL)?,
        })
    }
}

/// Progress of a build.
#[derive(Clone, Copy, Debug)]
pub struct BuildProgress<'a> {
    /// The Valgrind version.
    pub version: &'a str,
    /// Finished parts.
    pub done: usize,
    /// All parts.
    pub all: usize,
}

/// Builds in a temporary folder and renames it to `folder`, so that an existing `folder` is complete and concurrent
/// builds do no harm: the second keeps what the first put there.
pub(super) fn build(
    parts: &ValgrindFiles,
    compiler: &Path,
    version: &str,
    folder: &Path,
    tell: &mut dyn FnMut(&BuildProgress),
) -> Result<(), EngineError> {
    let cache = folder.parent().expect("a folder in the cache");
    let cannot_keep = |source| EngineError::Cache { folder: cache.to_owned(), source };
    fs::create_dir_all(cache).map_err(cannot_keep)?;
    let work = tempfile::Builder::new()
        .prefix(".building-")
        // A traced program that changes its user must still reach the tool.
        .permissions(fs::Permissions::from_mode(0o755))
        .tempdir_in(cache)
        .map_err(cannot_keep)?;
    write_sources(work.path())?;
    Build { parts, compiler, version, work: work.path() }.run(tell)?;
    link_own_files(&parts.own_files, work.path())?;
    match fs::rename(work.path(), folder) {
        Ok(()) => {
            // The guard has nothing to remove any more.
            let _ = work.keep();
            Ok(())
        }
        Err(_) if folder.join(TOOL).is_file() => Ok(()),
        Err(e) => Err(EngineError::file("make the folder", folder, e)),
    }
}

fn write_sources(work: &Path) -> Result<(), EngineError> {
    for (name, text) in SOURCES {
        let file = work.join("src").join(name);
        let folder = file.parent().expect("a file in a folder");
        fs::create_dir_all(folder).map_err(|e| EngineError::file("make the folder", folder, e))?;
        fs::write(&file, text).map_err(|e| EngineError::file("write", &file, e))?;
    }
    Ok(())
}

/// A build in a folder with the sources.
struct Build<'a> {
    parts: &'a ValgrindFiles,
    compiler: &'a Path,
    version: &'a str,
    work: &'a Path,
}

impl Build<'_> {
    /// Compiles each file, on all processors, and links them.
    fn run(&self, tell: &mut dyn FnMut(&BuildProgress)) -> Result<(), EngineError> {
        let manager = Manager::take(&self.parts.libraries.join(CORE_LIBRARY), self.work)?;
        let units: Vec<&str> =
            SOURCES.iter().map(|(name, _)| *name).filter(|name| name.ends_with(".c")).collect();
        // Linking is one part.
        let all = units.len() + 1;
        let mut tell = |done| tell(&BuildProgress { version: self.version, done, all });
        tell(0);
        let next = AtomicUsize::new(0);
        thread::scope(|scope| {
            let (sender, compiled) = channel();
            for _ in 0..thread::available_parallelism().map_or(1, usize::from).min(units.len()) {
                let (sender, next, units, segments) = (sender.clone(), &next, &units, manager.segments);
                scope.spawn(move || {
                    while let Some(unit) = units.get(next.fetch_add(1, Ordering::Relaxed)) {
                        // The receiver is gone after an error.
                        if sender.send(self.compile(unit, segments)).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(sender);
            compiled
                .into_iter()
                .enumerate()
                .try_for_each(|(done, compiled)| compiled.map(|()| tell(done + 1)))
        })?;
        self.link(&units, &manager.object)?;
        tell(all);
        Ok(())
    }

    fn compile(&self, unit: &str, segments: u64) -> Result<(), EngineError> {
        let mut command = Command::new(self.compiler);
        command.args(COMPILE_FLAGS).arg(format!("-DSEGMENTS_MAX={segments}"));
        command.arg(joined("-I", self.parts.headers.as_os_str()));
        self.finish(command.args(["-c", "-o", &object_name(unit), unit]))
    }

    fn link(&self, units: &[&str], manager: &Path) -> Result<(), EngineError> {
        let mut command = Command::new(self.compiler);
        command.arg("-o").arg(self.work.join(TOOL)).args(units.iter().map(|unit| object_name(unit)));
        command.args(LINK_FLAGS).arg(manager);
        command.arg(self.parts.libraries.join(CORE_LIBRARY)).arg(self.parts.libraries.join(VEX_LIBRARY));
        self.finish(command.arg("-lgcc"))
    }

    /// Runs a compiler command in the folder of sources.
    fn finish(&self, command: &mut Command) -> Result<(), EngineError> {
        let output = command.current_dir(self.work.join("src")).output();
        let output = output.map_err(|e| EngineError::file("run", self.compiler, e))?;
        if output.status.success() {
            return Ok(());
        }
        Err(EngineError::Build {
            version: self.version.to_owned(),
            tested: TESTED_VERSIONS.join(", "),
            compiler: self.compiler.to_owned(),
            output: first_lines(&String::from_utf8_lossy(&output.stderr), 12),
        })
    }
}

fn object_name(unit: &str) -> String {
    format!("{unit}.o")
}

fn first_lines(text: &str, count: usize) -> String {
    text.lines().take(count).collect::<Vec<_>>().join("\n")
}

/// Valgrind looks for everything in the folder `VALGRIND_LIB`: its preloaded libraries and other tools too.
fn link_own_files(own_files: &Path, work: &Path) -> Result<(), EngineError> {
    let entries = fs::read_dir(own_files).map_err(|e| EngineError::file("list", own_files, e))?;
    for entry in entries {
        let entry = entry.map_err(|e| EngineError::file("list", own_files, e))?;
        let link = work.join(entry.file_name());
        if !link.exists() {
            symlink(entry.path(), &link).map_err(|e| EngineError::file("make the link", &link, e))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn the_engine_lies_where_programs_are_told() {
        let place = format!("-Wl,-Ttext-segment={:#x}", crate::program::ENGINE_PLACE.start);
        assert!(LINK_FLAGS.contains(&place.as_str()));
    }

    #[test]
    fn what_is_missing_is_named_with_the_places_and_the_package() {
        let empty = tempfile::tempdir().unwrap();
        let launcher = empty.path().join("bin/valgrind");
        fs::create_dir_all(launcher.parent().unwrap()).unwrap();
        fs::write(&launcher, "").unwrap();
        let error = ValgrindFiles::find(&launcher, "3.25.0").err().unwrap().to_string();
        for part in ["3.25.0", CORE_LIBRARY, "lib64/valgrind", "apt-get install --reinstall valgrind"] {
            assert!(error.contains(part), "{part:?} is not in {error:?}");
        }
    }
}
