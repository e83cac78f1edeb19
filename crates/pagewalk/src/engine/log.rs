//! The engine's own messages: its failures, system calls it does not know, and everything else for verbose mode.

use std::collections::BTreeSet;
use std::path::Path;

/// Text at the start of, or inside, lines that report an engine failure.
const FAILURES: &[&str] =
    &["the 'impossible' happened", "Assertion '", "INTERNAL ERROR", "FATAL:", "out of memory:"];
/// Text before the number of an unknown system call.
const UNKNOWN_CALL: &str = "WARNING: unhandled amd64-linux syscall: ";
/// What works without the engine.
pub const WITHOUT_ENGINE: &str = "`trap`, `advise --pid` and `promote` run it without the engine";

/// The engine's messages about all processes of a run.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct EngineLog {
    text: String,
}

/// A process killed by an engine failure.
#[derive(Debug, PartialEq, Eq)]
pub struct Death {
    /// Its process id, if the messages name it.
    pub pid: Option<u32>,
    /// The engine's own reason.
    pub why: String,
}

impl EngineLog {
    /// Reads the log; a missing log is empty.
    pub fn read(file: &Path) -> EngineLog {
        let bytes = std::fs::read(file).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        EngineLog { text: lines.flat_map(|line| [line, "\n"]).collect() }
    }

    /// All messages, one per line.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The first message, without its process id.
    pub fn first(&self) -> Option<&str> {
        self.text.lines().map(|line| parts(line).1).find(|message| !message.is_empty())
    }

    /// The processes killed by engine failures.
    pub fn deaths(&self) -> Vec<Death> {
        let lines: Vec<(Option<u32>, &str)> = self.text.lines().map(parts).collect();
        let mut deaths: Vec<Death> = Vec::new();
        for (at, (pid, message)) in lines.iter().enumerate() {
            if !FAILURES.iter().any(|failure| message.contains(failure)) {
                continue;
            }
            // The state dump after the failure names the process.
            let pid = pid.or_else(|| lines[at..].iter().find_map(|(pid, _)| *pid));
            let why = match lines.get(at + 1) {
                Some((_, next)) if message.ends_with("happened:") => next,
                _ => message,
            };
            if deaths.iter().all(|death| death.pid != pid) {
                deaths.push(Death { pid, why: why.trim_start_matches("valgrind: ").to_owned() });
            }
        }
        deaths
    }

    /// Numbers of system calls that the engine does not know: the program is told that the kernel lacks them.
    pub fn unknown_calls(&self) -> BTreeSet<u32> {
        let number = |line: &str| parts(line).1.strip_prefix(UNKNOWN_CALL)?.trim().parse().ok();
        self.text.lines().filter_map(number).collect()
    }
}

/// A line's process id and message.
fn parts(line: &str) -> (Option<u32>, &str) {
    for mark in ["==", "--"] {
        let Some((number, message)) = line.strip_prefix(mark).and_then(|rest| rest.split_once(mark)) else {
            continue;
        };
        // `--123:0:aspacem`: from the address space manager.
        let number = number.split(':').next().unwrap_or_default();
        if let Ok(pid) = number.parse() {
            return (Some(pid), message.trim());
        }
    }
    (None, line.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(text: &str) -> EngineLog {
        EngineLog { text: text.to_owned() }
    }

    #[test]
    fn deaths_are_found_by_what_valgrind_says_of_them() {
        let panic = "Use --max-threads=INT to specify a larger number of threads\n\
                     valgrind: the 'impossible' happened:\n   Max number of threads is too low\n\
                     host stacktrace:\n==20420==    at 0x580082FA: ???\n==20421== another's\n";
        let why = "Max number of threads is too low".to_owned();
        assert_eq!(log(panic).deaths(), [Death { pid: Some(20420), why }]);
        let assertion = "valgrind: m_x.c:1 (f): Assertion 'a' failed.\n==7== host stacktrace\n";
        let why = "m_x.c:1 (f): Assertion 'a' failed.".to_owned();
        assert_eq!(log(assertion).deaths(), [Death { pid: Some(7), why }]);
        let fault = "--9-- VALGRIND INTERNAL ERROR: Valgrind received a signal 11 (SIGSEGV) - exiting\n";
        assert_eq!(log(fault).deaths()[0].pid, Some(9));
        assert_eq!(log("==5== Process terminating with default action of signal 4 (SIGILL)\n").deaths(), []);
    }

    #[test]
    fn calls_and_first_messages_are_found() {
        let text = "--5-- WARNING: unhandled amd64-linux syscall: 434\n--5-- You may be able\n\
                    --6-- WARNING: unhandled amd64-linux syscall: 434\n";
        assert_eq!(log(text).unknown_calls().into_iter().collect::<Vec<_>>(), [434]);
        assert_eq!(log("==4== \n==4== valgrind: no\n").first(), Some("valgrind: no"));
        assert_eq!(log("").first(), None);
    }
}
