//! `pagewalk promote`: what it prints and writes, how it ends, what it refuses.

use crate::advising::probe;
use crate::classes::all_are_told;
use crate::harness::{BAD_INPUT, Outcome, Place, USAGE};
use pagewalk_skip::{Need, skip};
use rustix::process::{Pid, Signal};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const HOST_CANNOT: i32 = 4;

/// Touches 32 MiB, says so, and visits them at random for ever.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
int main(void) {
    unsigned long bytes = 32ul << 20, state = 1;
    volatile char *all = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset((char *)all, 1, bytes);
    puts("ready");
    fflush(stdout);
    for (;;) all[((state = state * 6364136223846793005ul + 1442695040888963407ul) >> 20) % bytes]++;
}"#;

pub struct Lab {
    pub place: Place,
    pub child: Child,
}

impl Lab {
    pub fn new() -> Lab {
        let place = Place::new();
        place.compile("p", PROGRAM);
        place.write("probe.json", probe());
        let mut child = Command::new(place.path("p")).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Lab { place, child }
    }

    /// With the sampler that needs least.
    fn promote(&self, more: &[&str]) -> Outcome {
        let pid = self.child.id().to_string();
        let words = ["promote", "--pid", &pid, "--probe", "probe.json", "--sampler", "referenced"];
        self.place.run(&[&words[..], more].concat())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether the run was not refused because of this host.
fn could(outcome: &Outcome) -> bool {
    if outcome.code == HOST_CANNOT {
        skip(Need::Sampling, &outcome.stderr);
    }
    outcome.code != HOST_CANNOT
}

#[test]
fn a_dry_run_tells_what_it_would_do() {
    let lab = Lab::new();
    let words =
        ["--dry-run", "--seconds", "3", "--own-share", "50", "--json", "-o", "r.json", "--log", "log.jsonl"];
    let outcome = lab.promote(&words);
    if !could(&outcome) {
        return;
    }
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let json = outcome.json();
    assert_eq!(json, lab.place.json("r.json"));
    assert_eq!(json["schema"], "pagewalk.promote/1");
    all_are_told(&json, &[]);
    assert_eq!(json["classes"]["promoted_bytes"], "modelled", "nothing was promoted");
    assert_eq!(json["ended"], "time");
    assert_eq!(json["sampler"], "referenced");
    assert!(json["program"].as_str().unwrap().ends_with("/p"));
    assert_eq!(json["prices"]["walk_nanoseconds"], 8.0);
    assert_eq!(json["prices"]["walk_alone_nanoseconds"], 40.0);
    assert_eq!(json["limits"]["tlb_entries"], 1536);
    assert!(json["rounds"].as_u64().unwrap() >= 1 && json["own_processor_seconds"]["promotions"] == 0.0);
    assert!(json["parts"]["all"].as_u64().unwrap() >= 15, "{}", json["parts"]);
    let log = String::from_utf8(lab.place.read("log.jsonl")).unwrap();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(json["promotions"], lines.len());
    for line in lines {
        assert_eq!(line["decision"], "would_promote");
        assert!(line["charges"].as_f64().unwrap() >= json["prices"]["threshold_charges"].as_f64().unwrap());
    }
}

#[test]
fn text_goes_to_standard_output() {
    let lab = Lab::new();
    let outcome = lab.promote(&["--dry-run", "--seconds", "0.3"]);
    if !could(&outcome) {
        return;
    }
    for part in
        ["the time is over", "by referenced: ", "promotions: ", "paid (measured)", "gained (modelled)"]
    {
        assert!(outcome.stdout.contains(part), "no `{part}` in {}", outcome.stdout);
    }
    let quiet = lab.promote(&["--dry-run", "--seconds", "0.3", "-q"]);
    assert_eq!((quiet.code, &*quiet.stderr), (0, ""));
    assert!(quiet.stdout.contains("promotions: "), "what was asked for is told: {}", quiet.stdout);
}

/// Whoever ends it gets the result of what was done.
#[test]
fn it_ends_well_on_signals() {
    let lab = Lab::new();
    let pid = lab.child.id().to_string();
    let words =
        ["promote", "--pid", &pid, "--probe", "probe.json", "--sampler", "referenced", "--dry-run", "--json"];
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut command = lab.place.command(&[&words[..], &["--log", "log.jsonl"]].concat());
        let mut running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // The log is opened before signals are watched, and what comes then takes longer than that.
        while !lab.place.has("log.jsonl") && running.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(500));
        if running.try_wait().unwrap().is_none() {
            rustix::process::kill_process(Pid::from_child(&running), signal).unwrap();
        }
        let outcome = Outcome::of(running.wait_with_output().unwrap());
        if could(&outcome) {
            assert_eq!((outcome.code, &outcome.json()["ended"]), (0, &"interrupted".into()), "{signal:?}");
        }
        std::fs::remove_file(lab.place.path("log.jsonl")).unwrap();
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let lab = Lab::new();
    lab.place
        .run(&["promote", "--pid", "99999999", "--probe", "probe.json"])
        .refuses(USAGE, &["no process 99999999"]);
    lab.place.run(&["promote"]).refuses(USAGE, &["--pid"]);
    lab.promote(&["--own-share", "0"]).refuses(USAGE, &["more than 0"]);
    lab.place.write("probe.json", "{}");
    lab.promote(&["--seconds", "1"]).refuses(BAD_INPUT, &["probe.json", "pagewalk probe -o"]);
}

/// As of a host that others kept busy while it was probed.
#[test]
fn a_probe_that_lacks_figures_does() {
    let lab = Lab::new();
    lab.place.write("probe.json", probe().replace("collapse.2m", "collapse"));
    let outcome = lab.promote(&["--seconds", "0.3", "--dry-run", "--json"]);
    if !could(&outcome) {
        return;
    }
    let json = outcome.json();
    all_are_told(&json, &[]);
    assert_eq!(json["prices"]["assumed"][0]["figure"], "collapse.2m", "{json}");
    let text = lab.promote(&["--seconds", "0.3", "--dry-run"]).stdout;
    assert!(text.contains("collapse.2m is assumed, not measured"), "{text}");
    let pid = lab.child.id().to_string();
    let words = ["advise", "--pid", &pid, "--watch", "0.5", "--probe", "probe.json", "--json"];
    let advice = lab.place.run(&words);
    assert!(
        advice.code == HOST_CANNOT || advice.json()["prices"]["assumed"][0]["why"].is_string(),
        "{}",
        advice.stdout
    );
}

/// A way that this host has not is named with what would enable it; one that is chosen is not replaced.
#[test]
fn a_sampler_that_cannot_be_used_says_why() {
    let lab = Lab::new();
    let finding = lab.place.good(&["doctor", "--json"]).finding("name", "promotion");
    let found = finding["found"].as_str().unwrap();
    if !found.contains("; no pmu: ") {
        return skip(Need::Refusals, format_args!("the processor samples here: {found}"));
    }
    assert!(finding["enable"].as_str().unwrap().contains("pmu: "), "{finding}");
    lab.promote(&["--sampler", "pmu"]).refuses(USAGE, &["cannot be used multiple times"]);
    let pid = lab.child.id().to_string();
    let words = ["promote", "--pid", &pid, "--probe", "probe.json", "--sampler", "pmu", "--dry-run"];
    lab.place.run(&words).refuses(HOST_CANNOT, &["cannot be sampled here", "\n  pmu: "]);
}
