//! `pagewalk doctor`: what this host can do, and what would enable the rest.

use crate::arguments::Doctor;
use crate::error::CliError;
use crate::machine::HostCpu;
use crate::output::print;
use pagewalk_capture::Host;
use pagewalk_capture::engine::{Engine, EngineError, Options};
use pagewalk_live::{pagemap, promote};
use serde::Serialize;
use std::process::ExitCode;

/// One thing that pagewalk may need.
#[derive(Serialize)]
struct Finding {
    /// What it is.
    name: &'static str,
    /// Whether this host has it.
    able: bool,
    /// What was found, or what is missing.
    found: String,
    /// What would enable it; empty where nothing is missing.
    enable: String,
    /// Which commands need it.
    for_commands: &'static str,
    /// Whether the present commands cannot work without it.
    required: bool,
}

pub fn run(arguments: Doctor) -> Result<ExitCode, CliError> {
    let engine = Engine::prepare(&Options::default());
    let findings =
        [capture(&engine), machine(), faults(), layouts(), promotions(), frames(), thp(), memory(), cores()];
    if arguments.json {
        let all = serde_json::json!({
            "schema": "pagewalk.doctor/1",
            "findings": findings,
            // Where it lies, for running it by hand.
            "engine": engine.ok().map(|engine| serde_json::json!({
                "version": engine.version(),
                "launcher": engine.launcher().to_string_lossy(),
                "folder": engine.folder().to_string_lossy(),
            })),
        });
        print(&format!("{all:#}\n"))?;
    } else {
        print(&text(&findings))?;
    }
    let lacking = findings.iter().any(|finding| finding.required && !finding.able);
    Ok(ExitCode::from(if lacking { 4 } else { 0 }))
}

fn text(findings: &[Finding]) -> String {
    let mut out = String::new();
    for finding in findings {
        let mark = if finding.able { "ok  " } else { "no  " };
        out += &format!("{mark}{:<20} {}\n", finding.name, finding.found);
        if !finding.able {
            out += &format!("    {:<20} needed for: {}\n", "", finding.for_commands);
            out += &format!("    {:<20} to enable: {}\n", "", finding.enable);
        }
    }
    out
}

fn capture(engine: &Result<Engine, EngineError>) -> Finding {
    let finding = |able, found, enable| Finding {
        name: "capture engine",
        able,
        found,
        enable,
        for_commands: "profile, record, simulate -- CMD",
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
        enable: format!(
            "a machine file with [match] vendor = \"{}\", family = {}, models = [{}] (docs/adding-a-machine.md)",
            cpu.vendor, cpu.family, cpu.model
        ),
        for_commands: "profile without -m",
        required: false,
    }
}

fn faults() -> Finding {
    let host = pagewalk_live::trap::check_host();
    Finding {
        name: "faults of programs",
        able: host.is_ok(),
        found: match &host {
            Ok(()) => "userfaultfd with minor faults of shared memory, of system calls too".to_owned(),
            Err(error) => error.to_string(),
        },
        enable: host.err().map_or("", |error| error.enable()).to_owned(),
        for_commands: "trap",
        required: false,
    }
}

fn layouts() -> Finding {
    let host = pagewalk_live::layout::check_host();
    Finding {
        name: "placing libraries",
        able: host.is_ok(),
        found: match &host {
            Ok(()) => "a program's code can be changed before it begins".to_owned(),
            Err(error) => error.to_string(),
        },
        enable: host.err().map_or("", |error| error.enable()).to_owned(),
        for_commands: "layout run",
        required: false,
    }
}

fn promotions() -> Finding {
    let host = promote::check_host();
    let (able, found, enable) = match &host {
        Ok(host) => {
            let able: Vec<&str> = host.able.iter().map(|way| way.name()).collect();
            let unable: String = host.unable.iter().map(|unable| format!("; no {unable}")).collect();
            let enable: Vec<&str> = host.unable.iter().map(|unable| unable.enable.as_str()).collect();
            let by = if able.is_empty() { "nothing".to_owned() } else { able.join(", ") };
            (!able.is_empty(), format!("misses are sampled by {by}{unable}"), enable.join("; "))
        }
        Err(error) => (false, error.to_string(), error.enable()),
    };
    Finding { name: "promotion", able, found, enable, for_commands: "promote", required: false }
}

fn frames() -> Finding {
    let readable = pagemap::frames_readable();
    Finding {
        name: "frame numbers",
        able: matches!(readable, Ok(true)),
        found: match &readable {
            Ok(true) => "page maps tell where pages lie in physical memory".to_owned(),
            Ok(false) => "page maps show zeros to this user: no CAP_SYS_ADMIN".to_owned(),
            Err(error) => error.to_string(),
        },
        enable: readable.as_ref().err().map_or(pagemap::ENABLE_FRAMES, |error| error.enable()).to_owned(),
        for_commands: "contiguity: designs that look at frames; the others need nothing",
        required: false,
    }
}

fn thp() -> Finding {
    let mode = Host::detect().thp;
    Finding {
        name: "huge pages (THP)",
        able: mode == "always" || mode == "madvise",
        found: format!("mode {mode}: the baseline of profile follows it"),
        enable: "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled (root)".to_owned(),
        for_commands: "acting on the advice; simulating it needs nothing",
        required: false,
    }
}

fn memory() -> Finding {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib: u64 = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0);
    Finding {
        name: "memory",
        able: kib >= 1 << 20,
        found: format!(
            "{:.1} GiB available; pagewalk takes up to 300 MB beside Valgrind",
            kib as f64 / f64::from(1 << 20)
        ),
        enable: "free memory: Valgrind needs the program's own and some hundred MB".to_owned(),
        for_commands: "profile, record",
        required: false,
    }
}

fn cores() -> Finding {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Finding {
        name: "processors",
        able: cores >= 2,
        found: format!("{cores}: the program runs on one, the simulation on another"),
        enable: "two processors make profile about twice as fast; one is enough to work".to_owned(),
        for_commands: "full speed of profile and record",
        required: false,
    }
}
