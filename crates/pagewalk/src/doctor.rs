//! What this host supports, and how to enable the rest.

use crate::engine::prepare;
use crate::listener::Listener;
use crate::machines::HostCpu;
use pagewalk_capture::HostDescription;
use pagewalk_capture::engine::{Engine, EngineError};
use pagewalk_live::probe::balloon::free_page_reporting;
use pagewalk_live::{layout, pagemap, pages, promote, trap};
use pagewalk_report::documents::doctor::{DOCTOR_SCHEMA, DoctorResult, EngineLocation, Finding};
use std::path::Path;
use std::time::{Duration, Instant};

/// Commands that run programs under the engine.
const UNDER_ENGINE: &str = "profile, record, simulate -- CMD, advise -- CMD, sweep of workloads";

/// What this host supports.
pub struct Doctor {
    engine: Result<Engine, EngineError>,
    findings: Vec<Finding>,
}

impl Doctor {
    /// Examines this host; builds the engine if possible, with progress to `listener`.
    pub fn examine(listener: &dyn Listener) -> Doctor {
        let engine = prepare(listener);
        let findings = vec![
            capture(&engine),
            machine(),
            faults(),
            layouts(),
            promotions(),
            others(),
            frames(),
            thp(),
            steady(),
            memory(),
            cores(),
        ];
        Doctor { engine, findings }
    }

    /// As text.
    pub fn text(&self) -> String {
        text(&self.findings)
    }

    /// As data.
    pub fn document(&self) -> DoctorResult {
        DoctorResult {
            schema: DOCTOR_SCHEMA,
            findings: self.findings.clone(),
            engine: self.engine.as_ref().ok().map(|engine| EngineLocation {
                version: engine.version().to_owned(),
                launcher: engine.launcher().to_string_lossy().into_owned(),
                folder: engine.folder().to_string_lossy().into_owned(),
            }),
        }
    }

    /// Whether something is missing without which nothing works.
    pub fn lacks(&self) -> bool {
        self.findings.iter().any(|finding| finding.required && !finding.able)
    }
}

fn text(findings: &[Finding]) -> String {
    let mut out = String::new();
    for finding in findings {
        let mark = if finding.able { "ok  " } else { "no  " };
        out += &format!("{mark}{:<20} {}\n", finding.name, finding.found);
        if finding.enable.is_empty() {
            continue;
        }
        // What works has other ways to work; what does not must be enabled.
        if finding.able {
            out += &format!("    {:<20} {}\n", "", finding.enable);
        } else {
            out += &format!("    {:<20} needed for: {}\n", "", finding.for_commands);
            out += &format!("    {:<20} to enable: {}\n", "", finding.enable);
        }
    }
    out
}

/// How to enable something that this host lacks; empty if it does not lack it.
fn unless(able: bool, enable: impl Into<String>) -> String {
    if able { String::new() } else { enable.into() }
}

fn capture(engine: &Result<Engine, EngineError>) -> Finding {
    let finding = |able, found, enable| Finding {
        name: "capture engine",
        able,
        found,
        enable,
        for_commands: UNDER_ENGINE,
        required: true,
    };
    match engine {
        Ok(engine) => finding(true, format!("valgrind {}, tool built", engine.version()), String::new()),
        Err(error) => {
            let enable = "apt-get install valgrind gcc libc6-dev (./pagewalk does it)";
            finding(false, error.to_string(), enable.to_owned())
        }
    }
}

fn machine() -> Finding {
    let cpu = HostCpu::detect();
    let (known, found) = match cpu.machine() {
        Ok((machine, true)) => (true, format!("{} ({})", machine.name, machine.title)),
        Ok((machine, false)) => (false, format!("not in the library; {} is simulated instead", machine.name)),
        Err(error) => (false, error.to_string()),
    };
    Finding {
        name: "machine of this CPU",
        able: known,
        found,
        enable: unless(
            known,
            format!(
                "a machine file with [match] vendor = \"{}\", family = {}, models = [{}] \
                 (docs/reference/machine-files.md)",
                cpu.vendor, cpu.family, cpu.model
            ),
        ),
        for_commands: "profile, simulate and advise without -m",
        required: false,
    }
}

/// Something that the host permits, which is then found, or refuses for a reason, which the way to enable it follows.
fn permission(
    name: &'static str,
    for_commands: &'static str,
    permitted: &str,
    refused: Option<(String, &str)>,
) -> Finding {
    let able = refused.is_none();
    let (found, enable) = refused.unwrap_or_else(|| (permitted.to_owned(), ""));
    Finding { name, able, found, enable: enable.to_owned(), for_commands, required: false }
}

fn faults() -> Finding {
    let permitted = "userfaultfd with minor faults of shared memory, of system calls too";
    let refused = trap::check_host().err().map(|error| (error.to_string(), error.enable()));
    permission("faults of programs", "trap", permitted, refused)
}

fn layouts() -> Finding {
    let commands = "layout run, apply -- CMD, verify, advise -- CMD (its trial), contiguity -- CMD";
    let refused = layout::check_host().err().map(|error| (error.to_string(), error.enable()));
    permission("placing libraries", commands, "a program's code can be changed before it begins", refused)
}

fn promotions() -> Finding {
    let host = promote::check_host();
    let (able, found, enable) = match &host {
        Ok(host) => {
            let able: Vec<&str> = host.able.iter().map(|way| way.name()).collect();
            let by = if able.is_empty() { "nothing".to_owned() } else { able.join(", ") };
            let not_by = host.unable.iter().map(|unable| format!("not by {unable}; {}", unable.enable));
            let not_by: Vec<String> = not_by.collect();
            (!able.is_empty(), format!("misses are sampled by {by}"), not_by.join("; "))
        }
        Err(error) => (false, error.to_string(), error.enable()),
    };
    Finding { name: "promotion", able, found, enable, for_commands: "promote, advise --pid", required: false }
}

fn others() -> Finding {
    let commands = "apply --pid, promote, undo; apply -- CMD where huge pages are `never`";
    let permitted = "memory of running processes can be brought onto huge pages, and back";
    let refused = pages::check_host().err().map(|error| (error.to_string(), error.enable()));
    permission("huge pages of others", commands, permitted, refused)
}

fn frames() -> Finding {
    let zeros = "page maps show zeros to this user: no CAP_SYS_ADMIN";
    let refused = match pagemap::frames_readable() {
        Ok(true) => None,
        Ok(false) => Some((zeros.to_owned(), pagemap::ENABLE_FRAMES)),
        Err(error) => Some((error.to_string(), error.enable())),
    };
    let commands = "contiguity: designs that look at frames; the others need nothing";
    permission("frame numbers", commands, "page maps tell where pages lie in physical memory", refused)
}

fn thp() -> Finding {
    let mode = HostDescription::detect().thp;
    let able = mode == "always" || mode == "madvise";
    Finding {
        name: "huge pages (THP)",
        able,
        found: format!("mode {mode}: the baseline of profile follows it"),
        enable: unless(able, "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled (root)"),
        for_commands: "acting on the advice; simulating it needs nothing",
        required: false,
    }
}

fn steady() -> Finding {
    let reporting = free_page_reporting(Path::new("/sys"));
    Finding {
        name: "steady memory",
        able: reporting.is_none(),
        found: reporting.map_or_else(
            || "no free memory goes back to a hypervisor".to_owned(),
            |reporting| {
                format!(
                    "free blocks of {} KiB and more go back to the hypervisor (free page reporting): first touches \
                     may wait for it, and run times differ",
                    reporting.block_bytes() / 1024
                )
            },
        ),
        enable: reporting.map_or_else(String::new, |reporting| {
            format!("`--warm` of advise and verify; or, {}", reporting.enable())
        }),
        for_commands: "narrow intervals of probe, advise and verify",
        required: false,
    }
}

fn memory() -> Finding {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib: u64 = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0);
    let able = kib >= 1 << 20;
    Finding {
        name: "memory",
        able,
        found: format!(
            "{:.1} GiB available; pagewalk takes up to 300 MB beside Valgrind",
            kib as f64 / f64::from(1 << 20)
        ),
        enable: unless(able, "free memory: Valgrind needs the program's own and some hundred MB"),
        for_commands: UNDER_ENGINE,
        required: false,
    }
}

fn cores() -> Finding {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let worth = if cores > 1 { worth_of_two() } else { 1.0 };
    let able = worth >= TWO_PROCESSORS;
    let found = match cores {
        1 => "1: program and simulation share it".to_owned(),
        _ if able => format!("{cores}: the program runs on one, the simulation on another"),
        _ => {
            format!("{cores}, but two at once do {worth:.1} times the work of one: something else uses them")
        }
    };
    let enable = match cores {
        1 => "two processors make profile about twice as fast; one is enough to work",
        _ => "end what else runs; in a guest, what runs beside it may take turns with it, unseen from here",
    };
    Finding {
        name: "processors",
        able,
        found,
        enable: unless(able, enable),
        for_commands: "full speed of profile and record",
        required: false,
    }
}

/// Work of two processors at once, in that of one, from which on they count as two.
const TWO_PROCESSORS: f64 = 1.6;

/// How much two threads do at once, in what one does alone. Time that a hypervisor takes away shows nowhere else.
fn worth_of_two() -> f64 {
    const LONG: Duration = Duration::from_millis(40);
    let work = |until: Instant| {
        let mut rounds = 0_u64;
        while Instant::now() < until {
            rounds = std::hint::black_box(rounds + 1);
        }
        rounds
    };
    let alone = work(Instant::now() + LONG);
    let until = Instant::now() + LONG;
    let both = std::thread::scope(|scope| {
        let other = scope.spawn(|| work(until));
        work(until) + other.join().unwrap_or_default()
    });
    both as f64 / alone.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_does_not_work_is_said_to_need_something() {
        let finding = |able, enable: &str| Finding {
            name: "samplers",
            able,
            found: "two".to_owned(),
            enable: enable.to_owned(),
            for_commands: "promote",
            required: false,
        };
        let lines = |finding| text(&[finding]).lines().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(lines(finding(true, "")), ["ok  samplers             two"]);
        let in_part = lines(finding(true, "not by a third; be root"));
        assert_eq!(in_part[0], "ok  samplers             two");
        assert_eq!(in_part[1].trim(), "not by a third; be root");
        let lacking = lines(finding(false, "a third"));
        assert!(lacking[0].starts_with("no "), "{lacking:?}");
        assert!(lacking[1].ends_with("needed for: promote"), "{lacking:?}");
        assert!(lacking[2].ends_with("to enable: a third"), "{lacking:?}");
    }
}
