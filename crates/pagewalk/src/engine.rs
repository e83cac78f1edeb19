//! Running a program under the engine.

pub(crate) mod log;

use crate::error::{Error, Fault};
use crate::listener::{Listener, RelayGuard, SignalRelay};
use crate::native::{asks_to_end, at_interrupt};
use crate::placement::FittedLayout;
use log::{Death, EngineLog, WITHOUT_ENGINE};
use pagewalk_capture::engine::{
    Engine, EngineError, EngineOptions, EngineStatus, add_variable, max_threads_option,
};
use pagewalk_capture::{
    CaptureError, HostDescription, RingSource, Session, SessionHandle, check_place, check_program,
    unmet_needs,
};
use pagewalk_layout::arrivals::{Landings, MappingWatch, MissedPlace};
use pagewalk_layout::files::Object;
use pagewalk_live::timing::nowhere;
use pagewalk_trace::all_calls;
use rustix::process::{Resource, Signal, getrlimit};
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::OnceLock;

/// Most misplaced objects to report one by one.
const MISSES_TOLD: usize = 10;

/// Most files with unsupported instructions to report.
const UNMET_TOLD: usize = 3;
/// Most processes killed by the engine to report one by one.
const DEATHS_TOLD: usize = 3;

/// Surroundings of a program that differ from ours; its output is dropped.
pub struct Isolation {
    /// Its working directory.
    pub folder: PathBuf,
    /// Its standard input.
    pub input: File,
    /// An extra environment variable.
    pub variable: Option<(&'static str, OsString)>,
}

/// How much of the engine's own messages to show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Noise {
    /// Nothing.
    Quiet,
    /// What the user can act on.
    #[default]
    Usual,
    /// Everything.
    Verbose,
}

/// The engine; if this host has none yet, builds it with progress to `listener`.
///
/// # Errors
/// If something is missing on this host, or the build fails.
pub(crate) fn prepare(listener: &dyn Listener) -> Result<Engine, EngineError> {
    let mut bar = None;
    Engine::prepare_and_tell(&EngineOptions::default(), &mut |built| {
        let bar = bar.get_or_insert_with(|| {
            let version = built.version;
            listener
                .note(&format!("building the capture engine for Valgrind {version} (some seconds, once)"));
            listener.shares("capture engine")
        });
        bar.reach((built.done * 100 / built.all) as u64, &format!("part {} of {}", built.done, built.all));
    })
}

/// The state of the engine on this host, in a sentence. Builds nothing.
pub fn state() -> String {
    match Engine::find(&EngineOptions::default()) {
        Ok(EngineStatus::Engine(engine)) => format!("Valgrind {}, capture tool built", engine.version()),
        Ok(EngineStatus::Valgrind { version, .. }) => {
            format!("Valgrind {version}, capture tool not built yet: the first `pagewalk profile` does it")
        }
        Err(error) => format!("none: {error}"),
    }
}

/// The stream of one process image.
pub type Stream = MappingWatch<RingSource>;

/// A program about to run under the engine.
pub struct Live {
    session: Session,
    engine: Engine,
    command: Vec<OsString>,
    /// Where the program runs and what it reads, if not as we do.
    apart: Option<Isolation>,
    /// Shared objects to place, and where they landed.
    placed: Vec<Object>,
    landings: Landings,
    noise: Noise,
    max_threads: Option<u32>,
    /// Processes killed by engine failures; set after the run.
    deaths: OnceLock<Vec<Death>>,
    /// The engine's name and version.
    pub engine_name: String,
    /// This host.
    pub host: HostDescription,
}

impl Live {
    /// Checks the program and the plan for its shared objects, if any; prepares the engine, with build progress to
    /// `listener`. Runs nothing yet.
    ///
    /// # Errors
    /// If the program cannot run under the engine, the plan does not fit, or this host lacks the engine.
    pub fn prepare(
        command: &[OsString],
        plan: Option<&Path>,
        listener: &dyn Listener,
    ) -> Result<Live, Error> {
        let program = command.first().ok_or_else(|| Error::new(Fault::Usage, "no program to run"))?;
        let checked = check_program(program).and_then(|program| check_place(&program));
        checked.map_err(|e| Error::new(Fault::Usage, e))?;
        let fitting = plan.map(|plan| FittedLayout::new(plan, program, "leave out --layout")).transpose()?;
        let placed = fitting.map_or_else(Vec::new, |fitting| fitting.objects);
        let engine = prepare(listener).map_err(host_cannot)?;
        tell_limit(listener);
        let engine_name = format!("valgrind {}", engine.version());
        let host = HostDescription::detect();
        let session = Session::new(&engine_name, host.clone()).map_err(failed)?;
        let (command, landings) = (command.to_vec(), Landings::new(&placed));
        let (noise, max_threads, deaths) = (Noise::default(), None, OnceLock::new());
        let apart = None;
        Ok(Live {
            session,
            engine,
            command,
            apart,
            placed,
            landings,
            noise,
            max_threads,
            deaths,
            engine_name,
            host,
        })
    }

    /// Sets how loud the engine is and how many threads a process may have.
    pub fn with(self, noise: Noise, max_threads: Option<u32>) -> Live {
        Live { noise, max_threads, ..self }
    }

    /// Processes that the engine's own failures killed in the finished run.
    pub fn deaths(&self) -> &[Death] {
        self.deaths.get().map_or(&[], Vec::as_slice)
    }

    /// Checks that all planned objects that were loaded lie in their places; notes those that were not loaded.
    ///
    /// # Errors
    /// If some lie elsewhere.
    pub fn check_landed(&self, listener: &dyn Listener) -> Result<(), Error> {
        for file in self.landings.not_loaded() {
            listener.warn(&format!("{file} was not loaded"));
        }
        let missed = self.landings.missed();
        let tell = |missed: &MissedPlace| {
            let MissedPlace { file, program, planned, actual } = missed;
            format!("{file} did not land at {planned:#x} but at {actual:#x} in {program}")
        };
        match missed.len() {
            0 => Ok(()),
            _ => {
                let lines: Vec<String> = missed.iter().take(MISSES_TOLD).map(tell).collect();
                Err(Error::new(Fault::NotInEffect, lines.join("\n  ")))
            }
        }
    }

    /// Separates the program from our input, output and folder.
    pub fn isolate(self, apart: Isolation) -> Live {
        Live { apart: Some(apart), ..self }
    }

    /// Runs the program; each process image's stream goes to `on_stream` on a thread of its own.
    ///
    /// # Errors
    /// If it cannot run or be followed.
    pub fn run(
        &self,
        listener: &dyn Listener,
        on_stream: impl Fn(Stream) + Sync,
    ) -> Result<ExitStatus, Error> {
        let (program, arguments) = (&self.command[0], &self.command[1..]);
        let log = self.session.directory().join("valgrind.log");
        let socket = self.session.socket_path();
        let mut extra = self.write_places()?;
        extra.extend(self.max_threads.map(|threads| OsString::from(max_threads_option(threads))));
        let mut command = self.engine.command::<OsString>(Some(&socket), &log, &extra, program, arguments);
        if let Some(Isolation { folder, input, variable }) = &self.apart {
            let cannot = |which: &str, e| Error::new(Fault::Failed, format!("its {which}: {e}"));
            let input = input.try_clone().map_err(|e| cannot("input", e))?;
            command.current_dir(folder).stdin(input).stdout(nowhere().map_err(|e| cannot("output", e))?);
            variable.iter().for_each(|(name, value)| add_variable(&mut command, name, value));
        }
        let signals = watch_signals(self.session.handle(), listener)?;
        let status = std::thread::scope(|scope| {
            // Scanning large libraries takes a second; the engine starts in a tenth.
            scope.spawn(|| self.tell_unmet_needs(listener));
            self.session.run(command, |source| on_stream(self.landings.watch(source)))
        });
        drop(signals);
        for error in self.session.refused() {
            listener.warn(&error);
        }
        let said = EngineLog::read(&log);
        self.tell_messages(&said, &log, listener);
        let _ = self.deaths.set(said.deaths());
        status.map_err(|error| match (&error, said.first()) {
            (CaptureError::EngineSilent { .. }, Some(why)) => failed(error).or(format!("it said: {why}")),
            _ => failed(error),
        })
    }

    /// Reports files of the program that need instructions which the engine lacks.
    fn tell_unmet_needs(&self, listener: &dyn Listener) {
        if self.noise == Noise::Quiet {
            return;
        }
        // Preparing found it, but another folder may not have it; the fault itself is reported then.
        let Ok(program) = check_program(&self.command[0]) else { return };
        unmet_needs(&program).iter().take(UNMET_TOLD).for_each(|need| listener.warn(need));
    }

    /// Explains what the engine's messages mean for the results; in verbose mode shows all and where they are kept.
    fn tell_messages(&self, said: &EngineLog, log: &Path, listener: &dyn Listener) {
        if self.noise == Noise::Quiet {
            return;
        }
        let deaths = said.deaths();
        for Death { pid, why } in deaths.iter().take(DEATHS_TOLD) {
            let whose = pid.map_or("a process".to_owned(), |pid| format!("process {pid}"));
            listener.warn(&format!("{whose} died of the engine, not of itself: {why}; {WITHOUT_ENGINE}"));
        }
        if deaths.len() > DEATHS_TOLD {
            listener.warn(&format!("… and {} more processes died of the engine", deaths.len() - DEATHS_TOLD));
        }
        let calls: Vec<String> = said.unknown_calls().into_iter().map(call_name).collect();
        if !calls.is_empty() {
            let calls = calls.join(", ");
            listener.warn(&format!(
                "the engine does not know {calls} and told the program that the kernel lacks it (ENOSYS): \
                 where the program went another way then, so do the figures; {WITHOUT_ENGINE}"
            ));
        }
        if self.noise == Noise::Verbose && !said.text().is_empty() {
            listener.text(said.text());
            match keep(log) {
                Ok(path) => listener.warn(&format!("Valgrind's messages are in {}", path.display())),
                Err(error) => listener.warn(&format!("Valgrind's messages could not be kept: {error}")),
            }
        }
    }

    /// The engine's option for planned places, if there are any.
    fn write_places(&self) -> Result<Vec<OsString>, Error> {
        if self.placed.is_empty() {
            return Ok(Vec::new());
        }
        let line = |object: &Object| {
            let Object { device, inode, bytes, base, .. } = object;
            format!("{device:x} {inode:x} {bytes:x} {base:x}\n")
        };
        let path = self.session.directory().join("places");
        let text: String = self.placed.iter().map(line).collect();
        let cannot = |error| Error::new(Fault::Failed, format!("{}: {error}", path.display()));
        std::fs::write(&path, text).map_err(cannot)?;
        let mut option = OsString::from("--places=");
        option.push(&path);
        Ok(vec![option])
    }
}

/// Copies the log out of the run's folder, which is deleted after the run.
fn keep(log: &Path) -> std::io::Result<PathBuf> {
    let kept = tempfile::Builder::new().prefix("pagewalk-valgrind-").suffix(".log").tempfile()?;
    std::fs::copy(log, kept.path())?;
    Ok(kept.keep().map_err(|error| error.error)?.1)
}

/// As text: `system call 434 (pidfd_open)`.
fn call_name(number: u32) -> String {
    match all_calls().find(|(known, _)| *known == number) {
        Some((_, name)) => format!("system call {number} ({name})"),
        None => format!("system call {number}"),
    }
}

fn failed(error: CaptureError) -> Error {
    Error::new(Fault::Failed, error)
}

fn host_cannot(error: EngineError) -> Error {
    Error::new(Fault::HostCannot, error).or("`pagewalk doctor` lists all that this host lacks")
}

/// Passes signals on to the program. A second Ctrl-C kills it and everything that it started.
fn watch_signals(session: SessionHandle, listener: &dyn Listener) -> Result<RelayGuard, Error> {
    let of_terminal = session.clone();
    let signal = move |signal| {
        let took = Signal::from_named_raw(signal).is_some_and(|signal| session.hand_on(signal));
        // The program has ended: stop what it left running.
        if !took && asks_to_end(signal) {
            session.interrupt();
            session.interrupt();
        }
    };
    let of_terminal = at_interrupt(move || of_terminal.interrupt());
    listener.relay(SignalRelay { signal: Box::new(signal), of_terminal })
}

/// Warns of a limit within which the engine's memory counts as the program's.
fn tell_limit(listener: &dyn Listener) {
    if let Some(limit) = getrlimit(Resource::As).current {
        listener.warn(&format!(
            "the address space is limited to {} MiB (ulimit -v), of which the engine takes a part: the program may run \
             out of memory, as it would not alone; to raise the limit: ulimit -v unlimited",
            limit >> 20
        ));
    }
}
