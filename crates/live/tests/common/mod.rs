//! Shared by the tests of several binaries: programs, signals for them, and kills of what runs them.
#![allow(dead_code, reason = "each of the binaries uses a part")]

use pagewalk_live::tracing::Interrupt;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The number of kills by default (`PAGEWALK_KILLS`).
const KILLS: u32 = 45;
/// Most time from a kill to the program's end, and from a launcher's start to its program's first output.
pub const LONG: Duration = Duration::from_secs(30);

/// Sources of programs, and a header for some.
const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs");

/// A program of `crates/live/tests/programs/`, compiled into a folder.
pub fn compiled(folder: &Path, name: &str, flags: &[&str]) -> PathBuf {
    let source = Path::new(PROGRAMS).join(name).with_extension("c");
    let program = folder.join(name);
    compile(&source, &program, flags);
    program
}

/// The same in a folder of its own, which goes when it is dropped.
pub fn alone(name: &str, flags: &[&str]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(folder.path(), name, flags);
    (folder, program)
}

fn compile(source: &Path, program: &Path, flags: &[&str]) {
    let mut command = Command::new("cc");
    let options = ["-O1", "-w", "-pthread", "-I", PROGRAMS, "-o"];
    command.args(options).args([program, source]).args(flags);
    let output = command.output().expect("cc is here");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A program of `crates/live/tests/programs/` that is ready; it is killed when it is dropped.
pub struct Program {
    child: Child,
    _folder: TempDir,
}

impl Program {
    /// Starts it; none if it ended before it was ready.
    pub fn start(name: &str, words: &[&str]) -> Option<Program> {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(compiled(folder.path(), name, &[]));
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let program = Program { child, _folder: folder };
        (line == "ready\n").then_some(program)
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder with libraries and programs.
pub struct Lab(TempDir);

impl Lab {
    pub fn new() -> Lab {
        Lab(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    /// Compiles C; libraries are found in this folder.
    pub fn compile(&self, name: &str, source: &str, flags: &[&str]) -> String {
        let file = self.0.path().join(format!("{name}.c"));
        fs::write(&file, source).unwrap();
        let folder = self.path("");
        let run_path = format!("-Wl,-rpath,{folder}");
        let flags = [&["-Wl,--no-as-needed", "-L", &folder, &run_path], flags].concat();
        compile(&file, &self.0.path().join(name), &flags);
        self.path(name)
    }

    /// A library with a function of its own name that returns `value`, and with `source`.
    pub fn library(&self, name: &str, value: u32, source: &str, flags: &[&str]) -> String {
        let source = format!("{source}\nint {name}(void) {{ return {value}; }}\n");
        self.compile(&format!("lib{name}.so"), &source, &[&["-shared", "-fPIC"], flags].concat())
    }
}

/// Relays a signal to `heeds.c` once the program has written the file that shows it is ready.
pub fn hand_on_when(ready: &Path, interrupt: &Interrupt, signal: i32) {
    let begun = Instant::now();
    while !ready.exists() {
        assert!(begun.elapsed() < LONG, "it does not begin");
        std::thread::sleep(Duration::from_millis(2));
    }
    interrupt.hand_on(signal);
}

/// The words for the launcher: see [`kill_at_every_moment`].
pub fn words_of_launcher() -> Option<Vec<String>> {
    Some(std::env::var("LAUNCH").ok()?.split('\n').map(str::to_owned).collect())
}

/// Kills the test `killed::launcher` of this binary at moments spread over all its time. It gets `words`, which name a
/// log, and runs a program that writes there. The program may not start, which it does within `begins_within`; once
/// started, it writes the same as natively.
pub fn kill_at_every_moment(natively: &str, begins_within: Duration, words: impl Fn(&Path) -> Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let start = |log: &Path| -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "killed::launcher"]).env("LAUNCH", words(log).join("\n"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.process_group(0).spawn().unwrap()
    };
    let (begun, log) = (Instant::now(), folder.path().join("whole"));
    assert!(start(&log).wait().unwrap().success());
    assert!(ended_as(natively, &log, begins_within, "nobody killed"), "it began");
    let whole = begun.elapsed();
    let kills = std::env::var("PAGEWALK_KILLS").map_or(KILLS, |text| text.parse().expect("a number"));
    let (mut begun, mut cut) = (0, 0);
    for kill in 0..kills {
        let log = folder.path().join(format!("log{kill}"));
        let mut launcher = start(&log);
        std::thread::sleep(whole * kill / kills);
        cut += u32::from(launcher.try_wait().unwrap().is_none());
        let _ = launcher.kill();
        launcher.wait().unwrap();
        begun += u32::from(ended_as(natively, &log, begins_within, &format!("kill {kill} of {kills}")));
    }
    eprintln!(
        "{kills} kills: {begun} programs began and ended as natively, {cut} launchers were killed at work"
    );
    assert!(begun > kills / 9 && cut > kills / 9, "{begun} began, {cut} launchers were killed");
}

/// Whether it started; panics if it then does not end as natively.
fn ended_as(natively: &str, log: &Path, begins_within: Duration, what: &str) -> bool {
    let begun = Instant::now();
    loop {
        let text = fs::read_to_string(log).unwrap_or_default();
        if text == natively {
            return true;
        }
        // Anything to be started has started by then.
        if text.is_empty() && begun.elapsed() > begins_within {
            return false;
        }
        assert!(natively.starts_with(&text), "{what}: {text}");
        assert!(begun.elapsed() < LONG, "{what}: it did not end: {text}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
