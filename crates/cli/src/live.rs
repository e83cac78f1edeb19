//! Running a program under the engine.

use crate::command::layout::Fitting;
use crate::error::{CliError, Code};
use crate::output::{say, write_to_stderr};
use crate::signals::{Watch, watch};
use pagewalk_capture::engine::{Engine, EngineError, Options};
use pagewalk_capture::{CaptureError, Handle, Host, RingSource, Session, check_program};
use pagewalk_layout::files::Object;
use pagewalk_layout::landed::{Landings, Missed, Watched};
use pagewalk_live::timed::nowhere;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};

/// Objects elsewhere that are told one by one.
const MISSES_TOLD: usize = 10;

/// A program's surroundings, apart from ours; its output goes nowhere.
pub struct Apart {
    /// Where it runs.
    pub folder: PathBuf,
    /// Its standard input.
    pub input: File,
    /// An addition to its environment.
    pub variable: Option<(&'static str, OsString)>,
}

/// The stream of one process image.
pub type Stream = Watched<RingSource>;

/// A program about to run under the engine.
pub struct Live {
    session: Session,
    engine: Engine,
    command: Vec<OsString>,
    /// Where the program runs and what it reads, if not as we do.
    apart: Option<Apart>,
    /// Shared objects that are to lie at planned addresses, and what came of it.
    placed: Vec<Object>,
    landings: Landings,
    /// The engine with its version.
    pub engine_name: String,
    /// This host.
    pub host: Host,
}

impl Live {
    /// Checks the program, and the plan by which its shared objects are to lie if there is one; prepares the engine.
    /// Nothing runs yet.
    pub fn prepare(command: &[OsString], plan: Option<&Path>) -> Result<Live, CliError> {
        check_program(&command[0]).map_err(|e| CliError::new(Code::Usage, e))?;
        let fitting = plan.map(|plan| Fitting::new(plan, &command[0], "leave out --layout")).transpose()?;
        let placed = fitting.map_or_else(Vec::new, |fitting| fitting.objects);
        let engine = Engine::prepare(&Options::default()).map_err(host_cannot)?;
        let engine_name = format!("valgrind {}", engine.version());
        let host = Host::detect();
        let session = Session::new(&engine_name, host.clone()).map_err(failed)?;
        let (command, landings) = (command.to_vec(), Landings::new(&placed));
        Ok(Live { session, engine, command, apart: None, placed, landings, engine_name, host })
    }

    /// Whether all planned objects that were loaded came to their places; tells which were not loaded.
    pub fn check_landed(&self) -> Result<(), CliError> {
        for file in self.landings.not_loaded() {
            say(format!("{file} was not loaded"));
        }
        let missed = self.landings.missed();
        let tell = |missed: &Missed| {
            let Missed { file, program, planned, actual } = missed;
            format!("{file} did not land at {planned:#x} but at {actual:#x} in {program}")
        };
        match missed.len() {
            0 => Ok(()),
            _ => {
                let lines: Vec<String> = missed.iter().take(MISSES_TOLD).map(tell).collect();
                Err(CliError::new(Code::NotInEffect, lines.join("\n  ")))
            }
        }
    }

    /// The same, run apart from our input, output and folder.
    pub fn apart(self, apart: Apart) -> Live {
        Live { apart: Some(apart), ..self }
    }

    /// Runs the program; every process image's stream goes to `on_stream` on a thread of its own.
    pub fn run(&self, on_stream: impl Fn(Stream) + Sync) -> Result<ExitStatus, CliError> {
        let [program, arguments @ ..] = self.command.as_slice() else { unreachable!("clap requires one") };
        let log = self.session.directory().join("valgrind.log");
        let socket = self.session.socket_path();
        let places = self.write_places()?;
        let mut command = self.engine.command::<OsString>(Some(&socket), &log, &places, program, arguments);
        if let Some(Apart { folder, input, variable }) = &self.apart {
            let cannot = |which: &str, e| CliError::new(Code::Failed, format!("its {which}: {e}"));
            let input = input.try_clone().map_err(|e| cannot("input", e))?;
            command.current_dir(folder).stdin(input).stdout(nowhere().map_err(|e| cannot("output", e))?);
            variable.iter().for_each(|(name, value)| _ = command.env(name, value));
        }
        let signals = watch_signals(self.session.handle())?;
        let status = self.session.run(command, |source| on_stream(self.landings.watch(source)));
        drop(signals);
        for error in self.session.refused() {
            say(error);
        }
        self.tell_messages(&log);
        status.map_err(failed)
    }

    /// Hands on what Valgrind and the engine had to say.
    fn tell_messages(&self, log: &Path) {
        let messages = std::fs::read(log).unwrap_or_default();
        // A process that began before another opened the file anew writes on where it was: zeros lie between.
        let text = String::from_utf8_lossy(&messages).replace('\0', "");
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        lines.for_each(|line| write_to_stderr(&format!("{line}\n")));
    }

    /// The engine's option for planned places, if there are some.
    fn write_places(&self) -> Result<Vec<OsString>, CliError> {
        if self.placed.is_empty() {
            return Ok(Vec::new());
        }
        let line = |object: &Object| {
            let Object { device, inode, bytes, base, .. } = object;
            format!("{device:x} {inode:x} {bytes:x} {base:x}\n")
        };
        let path = self.session.directory().join("places");
        let text: String = self.placed.iter().map(line).collect();
        let cannot = |error| CliError::new(Code::Failed, format!("{}: {error}", path.display()));
        std::fs::write(&path, text).map_err(cannot)?;
        let mut option = OsString::from("--places=");
        option.push(&path);
        Ok(vec![option])
    }
}

fn failed(error: CaptureError) -> CliError {
    CliError::new(Code::Failed, error)
}

fn host_cannot(error: EngineError) -> CliError {
    CliError::new(Code::HostCannot, error).or("`pagewalk doctor` lists all that this host lacks")
}

/// The terminal sends Ctrl-C to the program as well, which decides how to end; a second one kills it.
/// SIGTERM and SIGHUP came to us alone, so they end the program at once.
fn watch_signals(session: Handle) -> Result<Watch, CliError> {
    watch(&[SIGINT, SIGTERM, SIGHUP], move |signal| {
        session.interrupt();
        if signal != SIGINT {
            session.interrupt();
        }
    })
}

/// The program's own end as our exit code: its status, or 128 and the signal's number.
pub fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    ExitCode::from(code as u8)
}

/// For people: `exit 0`, `signal 9`.
pub fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "unknown".to_owned(),
    }
}
