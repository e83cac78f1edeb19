//! `pagewalk apply`, `verify` and `undo`: what they print, how they end, what they refuse.

use crate::classes::all_are_told;
use crate::harness::{BAD_INPUT, Outcome, PAGEWALK, Place, USAGE};
use crate::placing::c_library;
use pagewalk::layout::files;
use pagewalk::live::probe::memory::huge_pages_are_at_hand;
use pagewalk_skip::{Need, skip};
use rustix::process::geteuid;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

const HOST_CANNOT: i32 = 4;
const NOT_IN_EFFECT: i32 = 5;

/// Maps 64 MiB, touches all and says so. With the argument `nap` it then sleeps for a second; with another it waits for
/// the end of its input. With two arguments it has switched huge pages off.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>
int main(int count, char **words) {
    if (count > 2) prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    char *all = mmap(0, 64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(all, 1, 64 << 20);
    puts("ready");
    fflush(stdout);
    if (count > 1 && !strcmp(words[1], "nap")) sleep(1);
    else if (count > 1) getchar();
    return all[12345] == 1 ? 3 : 1;
}"#;

struct Lab(Place);

impl Lab {
    fn new() -> Lab {
        let place = Place::new();
        place.compile("p", PROGRAM);
        let lab = Lab(place);
        lab.plan("");
        lab
    }

    /// A lab if the host can, see [`host_can`].
    fn where_host_can() -> Option<Lab> {
        let lab = Lab::new();
        host_can(&lab).then_some(lab)
    }

    /// Writes the plan, with these lines of the program's.
    fn plan(&self, more: &str) {
        let path = self.0.path("p").canonicalize().unwrap();
        let text = format!(
            "schema = \"pagewalk.plan/1\"\n[program]\npath = {path:?}\n{more}\n\
             [[range]]\nwhat = \"anonymous\"\nbytes = \"0x4000000\"\nnth = 1\n"
        );
        self.0.write("plan.toml", text);
    }

    fn change(&self, from: &str, to: &str) {
        let text = String::from_utf8(self.0.read("plan.toml")).unwrap();
        assert!(text.contains(from), "{text}");
        self.0.write("plan.toml", text.replace(from, to));
    }

    fn run(&self, arguments: &[&str]) -> Outcome {
        let mut command = self.0.command(arguments);
        command.env("XDG_STATE_HOME", self.0.path("state"));
        Outcome::of(command.output().unwrap())
    }

    /// The same by a user that may not work on other processes' memory: as all but root, and root can lose the right.
    fn run_without_right(&self, arguments: &[&str]) -> Outcome {
        if !geteuid().is_root() {
            return self.run(arguments);
        }
        let mut command = Command::new("setpriv");
        command.arg("--bounding-set=-sys_nice").arg(PAGEWALK).args(arguments);
        self.0.settle(&mut command);
        Outcome::of(command.output().expect("util-linux is here"))
    }

    /// The program, that runs until its input ends.
    fn running(&self, words: &[&str]) -> Child {
        let mut command = Command::new(self.0.path("p"));
        let mut child =
            command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        child
    }
}

/// Whether plans take here; if not, the refusal has to name why.
fn host_can(lab: &Lab) -> bool {
    let dry = lab.run(&["apply", "plan.toml", "--dry-run", "--json"]);
    static AT_HAND: OnceLock<bool> = OnceLock::new();
    let at_hand = *AT_HAND.get_or_init(|| huge_pages_are_at_hand(128 << 20));
    let can = dry.code == 0 && dry.json()["mode"] != "never" && at_hand;
    assert!(dry.code == 0 || dry.code == HOST_CANNOT, "{}", dry.stderr);
    all_are_told(&dry.json(), &[]);
    match (can, at_hand) {
        (true, _) => {}
        (false, true) => skip(Need::Tracing, &dry.stderr),
        (false, false) => skip(Need::HugePages, "the host gives no 128 MiB on huge pages"),
    }
    can
}

#[test]
fn apply_runs_the_program_as_it_is_and_tells_what_took() {
    let Some(lab) = Lab::where_host_can() else { return };
    let outcome = lab.run(&["apply", "plan.toml", "-o", "r.json", "--", "./p"]);
    assert_eq!((outcome.code, &*outcome.stdout), (3, "ready\n"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("anonymous 0x4000000 number 1"), "{}", outcome.stderr);
    assert!(outcome.stderr.ends_with("next: pagewalk verify plan.toml -- ./p\n"), "{}", outcome.stderr);
    let json = lab.0.json("r.json");
    assert_eq!((&json["schema"], &json["in_effect"]), (&"pagewalk.apply/1".into(), &true.into()));
    assert_eq!(json["images"][0]["ranges"][0]["huge_bytes"], 64 << 20);
    all_are_told(&json, &[]);
    // Of the program: it touches 64 MiB, and what this tool takes is not in it.
    let processor_seconds = json["processor_seconds"].as_f64().unwrap();
    assert!(processor_seconds > 0.0 && json["resident_bytes"].as_u64() > Some(64 << 20), "{json}");
    // The planned program may be one that the command starts.
    let outcome = lab.run(&["apply", "plan.toml", "-q", "--", "sh", "-c", "./p; exit 8"]);
    assert_eq!((outcome.code, &*outcome.stderr), (8, ""));
}

#[test]
fn ranges_and_libraries_of_one_plan_are_applied_together() {
    let Some(lab) = Lab::where_host_can() else { return };
    let library = files::place(&c_library(), 0x40_0000).unwrap();
    let layout = format!(
        "[layout]\nplanner = \"hand\"\n[[place]]\nfile = {:?}\noffset = \"0x400000\"\nsize = \"{:#x}\"\n",
        library.file, library.size
    );
    let ranges = "[[range]]\nwhat = \"anonymous\"\nbytes = \"0x4000000\"\nnth = 1\n";
    lab.change("pagewalk.plan/1", "pagewalk.plan/2");
    lab.change(ranges, &format!("{ranges}{layout}"));
    let is_static = lab.run(&["apply", "plan.toml", "--", "./p"]);
    is_static.refuses(NOT_IN_EFFECT, &["cannot have its libraries placed", "linked statically"]);
    let mut gcc = Command::new("gcc");
    lab.0.settle(gcc.args(["-o", "p", "p.c"]));
    assert!(gcc.status().expect("gcc is here").success());
    let landed = |json: &Value| {
        let image = &json["libraries"][0];
        [&image["at_end"], &image["at_start"]].into_iter().any(|at| at[0]["state"] == "landed")
    };
    // A released program is inspected only while it runs, so it has to run for a while.
    for options in [&[][..], &["--release"]] {
        let arguments = [&["apply", "plan.toml", "--json", "-q"], options, &["--", "./p", "nap"]].concat();
        let outcome = lab.run(&arguments);
        let (ready, json) = outcome.stdout.split_once('\n').expect(&outcome.stderr);
        let json: Value = serde_json::from_str(json).unwrap();
        assert_eq!((outcome.code, ready), (3, "ready"), "{}", outcome.stderr);
        assert!(json["in_effect"] == true && landed(&json), "{json}");
        assert_eq!(json["images"][0]["ranges"][0]["in_effect"], true, "{json}");
    }
    let verified =
        lab.run(&["verify", "plan.toml", "--json", "-q", "--runs", "2", "--no-record", "--", "./p"]);
    assert!(landed(&verified.json()), "{}", verified.stdout);
    let dry = lab.run(&["apply", "plan.toml", "--dry-run"]).stdout;
    assert!(dry.contains("anonymous 0x4000000") && dry.contains(": placed at 0x800400000\n"), "{dry}");
    // The libraries of a process that runs stay: that is said, and its ranges are brought onto huge pages.
    let mut child = lab.running(&["wait"]);
    let attached = lab.run(&["apply", "plan.toml", "--pid", &child.id().to_string()]);
    assert!(attached.code == 0 || attached.code == HOST_CANNOT, "{}", attached.stderr);
    assert!(attached.code != 0 || attached.stderr.contains("libraries stay"), "{}", attached.stderr);
    drop(child.stdin.take());
    child.wait().unwrap();
    // Places alone.
    lab.change(ranges, "");
    let outcome = lab.run(&["apply", "plan.toml", "--", "./p"]);
    assert!(outcome.code == 3 && outcome.stderr.contains("landed"), "{}", outcome.stderr);
    let pid = std::process::id().to_string();
    lab.run(&["apply", "plan.toml", "--pid", &pid]).refuses(USAGE, &["libraries stay", "-- CMD"]);
    assert_eq!(lab.run(&["layout", "run", "plan.toml", "--", "./p"]).code, 3);
}

#[test]
fn what_did_not_take_is_told_with_its_reason() {
    let Some(lab) = Lab::where_host_can() else { return };
    lab.run(&["apply", "plan.toml", "--", "true"]).refuses(NOT_IN_EFFECT, &["did not run", "true"]);
    lab.change("nth = 1", "nth = 2");
    let outcome = lab.run(&["apply", "plan.toml", "-q", "--", "./p"]);
    outcome.refuses(NOT_IN_EFFECT, &["never appeared", "made 1 mappings of 0x4000000 bytes"]);
    let outcome = lab.run(&["apply", "plan.toml", "-q", "--or-default", "--", "./p"]);
    assert_eq!((outcome.code, &*outcome.stderr), (3, ""));
    lab.change("nth = 2", "nth = 1\nfrom = \"0x1000\"\nto = \"0x200000\"");
    lab.run(&["apply", "plan.toml", "-q", "--", "./p"]).refuses(NOT_IN_EFFECT, &["too short: 2044 KiB"]);
}

#[test]
fn plans_that_do_not_fit_are_refused_before_anything_runs() {
    let lab = Lab::new();
    let apply = ["apply", "plan.toml", "--", "./p"];
    lab.plan("build_id = \"cafe\"");
    lab.run(&apply).refuses(NOT_IN_EFFECT, &["another build", "cafe"]);
    let outcome = lab.run(&["apply", "plan.toml", "--or-default", "--", "./p"]);
    assert_eq!((outcome.code, &*outcome.stdout), (3, "ready\n"));
    lab.plan("");
    lab.change("nth", "nnth");
    lab.run(&apply).refuses(BAD_INPUT, &["plan.toml", "nnth"]);
    lab.run(&["apply", "none.toml", "--", "./p"]).refuses(BAD_INPUT, &["none.toml"]);
    lab.plan("");
    lab.change("/p\"", "/gone\"");
    lab.run(&apply).refuses(NOT_IN_EFFECT, &["gone is not there"]);
    lab.plan("");
    lab.run(&["apply", "plan.toml", "--", "./none"]).refuses(USAGE, &["none"]);
    lab.run(&["apply", "plan.toml"]).refuses(USAGE, &["CMD"]);
    lab.run(&["apply", "plan.toml", "--pid", "0"]).refuses(USAGE, &["0"]);
    lab.run(&["apply", "plan.toml", "--pid", "99999999"]).refuses(USAGE, &["no process 99999999"]);
}

#[test]
fn a_running_process_is_collapsed_and_split_again() {
    let Some(lab) = Lab::where_host_can() else { return };
    let mut child = lab.running(&["wait"]);
    let pid = child.id().to_string();
    let dry = |command| would(&lab, &[command, "plan.toml", "--pid", &pid, "--dry-run"]);
    let (code, before) = dry("apply");
    let bytes = |key: &str| before[key].as_u64().unwrap();
    let small = bytes("touched_block_bytes") - bytes("huge_bytes");
    assert_eq!(
        before["would"],
        match small {
            0 => "nothing to collapse: all of it is on huge pages".to_owned(),
            small => format!("would be collapsed: {:.1} MiB", mib(small)),
        }
    );
    assert_eq!(before["reason"], Value::Null, "nothing was tried, and nothing hinders: {before}");
    let outcome = lab.run(&["apply", "plan.toml", "--pid", &pid, "--json"]);
    assert_eq!(code == HOST_CANNOT, outcome.code == HOST_CANNOT, "{}", outcome.stderr);
    if outcome.code != HOST_CANNOT {
        let found = outcome.json();
        all_are_told(&found, &[]);
        let range = &found["ranges"][0];
        assert_eq!((&range["huge_bytes_before"], &range["would"]), (&before["huge_bytes"], &Value::Null));
        // On a host that has no free block at this moment, the kernel's reason is told.
        let took = found["in_effect"] == true;
        assert_eq!(outcome.code, if took { 0 } else { NOT_IN_EFFECT }, "{}", outcome.stderr);
        assert!(took || outcome.stderr.contains("did not collapse all of it: "), "{}", outcome.stderr);
        assert!(outcome.stderr.contains("last until"), "{}", outcome.stderr);
        let next = format!("next: pagewalk undo plan.toml --pid {pid}\n");
        assert_eq!(outcome.stderr.ends_with(&next), took, "{}", outcome.stderr);
        let huge = range["huge_bytes"].as_u64().unwrap();
        if huge > 0 {
            assert_eq!(dry("undo").1["would"], format!("would be split: {:.1} MiB", mib(huge)));
        }
        let undone = lab.run(&["undo", "plan.toml", "--pid", &pid, "--json"]);
        let split = undone.json();
        all_are_told(&split, &[]);
        assert_eq!((undone.code, &split["huge_bytes"]), (0, &0.into()), "{}", undone.stderr);
        assert_eq!(split["ranges"][0]["reason"], Value::Null, "small pages were asked for: {split}");
        assert_eq!(dry("undo").1["would"], "nothing to split: none of it is on huge pages");
    }
    drop(child.stdin.take());
    assert_eq!(child.wait().unwrap().code(), Some(3), "its memory is as it was");
    let own = std::process::id().to_string();
    lab.run(&["apply", "plan.toml", "--pid", &own]).refuses(NOT_IN_EFFECT, &["and the plan is for", "/p"]);
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// The end of a dry run and what it says of the only range, as text on standard output and as data.
#[track_caller]
fn would(lab: &Lab, words: &[&str]) -> (i32, Value) {
    let told = lab.run(&[words, &["-q"]].concat());
    let data = lab.run(&[words, &["--json"]].concat());
    assert_eq!(told.code, data.code);
    assert!(told.code == 0 || told.code == HOST_CANNOT, "{}", told.stderr);
    all_are_told(&data.json(), &[]);
    let range = data.json()["ranges"][0].clone();
    let last = told.stdout.lines().last().unwrap();
    assert!(last.starts_with("  anonymous 0x4000000 number 1 "), "{}", told.stdout);
    assert!(last.ends_with(range["would"].as_str().unwrap()), "{}{range}", told.stdout);
    (told.code, range)
}

#[test]
fn a_dry_run_says_what_hinders() {
    let Some(lab) = Lab::where_host_can() else { return };
    let mut child = lab.running(&["wait", "off"]);
    let pid = child.id().to_string();
    let words = ["apply", "plan.toml", "--pid", &pid, "--dry-run"];
    let off = would(&lab, &words).1;
    assert_eq!(off["would"], "the process has switched huge pages off (PR_SET_THP_DISABLE)");
    lab.change("nth = 1", "nth = 1\nfrom = \"0x1000\"\nto = \"0x200000\"");
    assert!(lab.run(&words).stdout.contains("it is not aligned"));
    lab.change("0x4000000", "0x40000000");
    for command in ["apply", "undo"] {
        let outcome = lab.run(&[command, "plan.toml", "--pid", &pid, "--dry-run"]);
        assert!(outcome.stdout.contains("never appeared: nothing is recognised"), "{}", outcome.stdout);
    }
    drop(child.stdin.take());
    child.wait().unwrap();
}

/// A dry run ends as the real one would, and shows what there is all the same; `doctor` has said so before.
#[test]
fn a_dry_run_finds_out_that_the_right_is_missing() {
    let Some(lab) = Lab::where_host_can() else { return };
    let mut child = lab.running(&["wait"]);
    let pid = child.id().to_string();
    for command in ["apply", "undo"] {
        let words = [command, "plan.toml", "--pid", &pid];
        let real = lab.run_without_right(&words);
        real.refuses(HOST_CANNOT, &["may not change the memory", "CAP_SYS_NICE"]);
        let dry = lab.run_without_right(&[&words[..], &["--dry-run"]].concat());
        dry.refuses(HOST_CANNOT, &["may not change the memory", "CAP_SYS_NICE"]);
        assert!(
            real.stdout.is_empty() && dry.stdout.contains("anonymous 0x4000000 number 1"),
            "{}",
            dry.stdout
        );
        let data = lab.run_without_right(&[&words[..], &["--dry-run", "--json"]].concat()).json();
        assert!(data["missing"][0].as_str().unwrap().contains("to enable: be root"), "{data}");
    }
    drop(child.stdin.take());
    child.wait().unwrap();
    let finding = lab.run_without_right(&["doctor", "--json"]).finding("name", "huge pages of others");
    assert_eq!(finding["able"], false);
    assert!(finding["enable"].as_str().unwrap().contains("CAP_SYS_NICE"), "{finding}");
}

#[test]
fn verify_measures_beside_the_forecast_and_keeps_a_record() {
    let Some(lab) = Lab::where_host_can() else { return };
    let forecast = "[forecast]\nseconds_now = 1.0\nseconds = 0.5\nlow = 0.4\nhigh = 0.6\nmemory_mib = 1.0";
    lab.plan(forecast);
    assert!(lab.run(&["verify", "--history"]).stdout.contains("no forecast was verified"));
    let outcome = lab.run(&["verify", "plan.toml", "--runs", "3", "--warm", "--json", "--", "./p"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let json = outcome.json();
    // The least, and five quarters of the 64 MiB that the program touches and of what else it has.
    assert!((144.0..200.0).contains(&json["warmed_mib"].as_f64().unwrap()), "{json}");
    assert_eq!((&json["schema"], &json["in_effect"]), (&"pagewalk.verify/1".into(), &true.into()));
    all_are_told(&json, &[]);
    assert_eq!(json["classes"]["forecast_processor_seconds_saved"], "modelled");
    assert_eq!(json["with"].as_array().unwrap().len(), 3);
    assert_eq!(json["forecast_processor_seconds_saved"]["mean"], 0.5);
    assert_eq!(json["forecast_processor_share"], 0.5);
    // Three pairs say no more of it.
    let found = &json["processor_share"];
    let pairs = (0..3).map(|pair| {
        let seconds = |of: &str| json[of][pair]["processor_seconds"].as_f64().unwrap();
        seconds("with") / seconds("without")
    });
    let (least, most) =
        pairs.fold((f64::MAX, 0.0f64), |(least, most), part| (least.min(part), most.max(part)));
    assert!((least..=most).contains(&found["share"].as_f64().unwrap()), "{json}");
    assert!(found["low"].is_null() && found["high"].is_null(), "{json}");
    assert!(outcome.stderr.contains("÷ without: forecast 0.500, measured "), "{}", outcome.stderr);
    assert!(json["seconds_saved"]["low"].as_f64() <= json["seconds_saved"]["high"].as_f64());
    assert!(outcome.stderr.contains("3 pairs of runs") && outcome.stderr.contains("recorded in"));
    all_are_told(&lab.run(&["verify", "--history", "--json"]).json(), &[]);
    let history = lab.run(&["verify", "--history"]).stdout;
    assert!(history.contains("error of its forecast: median"), "{history}");
    assert!(history.contains("share of the time without the plan: median"), "{history}");
    assert!(history.contains(" yes "), "--warm is told: {history}");
    lab.plan("");
    lab.change("nth = 1", "nth = 7");
    let outcome = lab.run(&["verify", "plan.toml", "-q", "--runs", "2", "--", "./p"]);
    outcome.refuses(NOT_IN_EFFECT, &["never appeared"]);
    assert_eq!(lab.run(&["verify", "--history"]).stdout, history, "what did not take is no forecast's fault");
}

#[test]
fn verify_has_programs_do_all_their_work() {
    let Some(lab) = Lab::where_host_can() else { return };
    lab.plan("");
    let shell = ["sh", "-c", "! [ /proc/self/fd/1 -ef /dev/null ] && ./p"];
    let outcome =
        lab.run(&[&["verify", "plan.toml", "--runs", "2", "--no-record", "--"], &shell[..]].concat());
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
}

/// Whoever asks for an end gets it. Whole pairs count, if there are two; a run that was cut short never does.
#[test]
fn an_interrupted_verify_keeps_whole_pairs() {
    let Some(lab) = Lab::where_host_can() else { return };
    lab.plan("[forecast]\nseconds_now = 1.0\nseconds = 0.5\nlow = 0.4\nhigh = 0.6\nmemory_mib = 1.0");
    let program = ["sh", "-c", "echo >>ran; ./p"];
    let words = ["verify", "plan.toml", "--runs", "1000", "--width", "0.000001", "-q", "-o", "v.json", "--"];
    // Two runs come before the first pair, and the last of these has begun.
    for (signal, runs) in [("-INT", 1), ("-TERM", 7)] {
        lab.0.write("ran", "");
        let mut command = lab.0.command(&[&words[..], &program].concat());
        command.env("XDG_STATE_HOME", lab.0.path("state")).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        while lab.0.read("ran").len() < runs {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let pid = child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        let outcome = Outcome::of(child.wait_with_output().unwrap());
        if runs == 1 {
            outcome.refuses(1, &["interrupted after 0 pairs", "nothing was recorded"]);
            assert!(!lab.0.has("v.json"), "there is no result");
            assert!(lab.run(&["verify", "--history"]).stdout.contains("no forecast was verified"));
            continue;
        }
        let found = lab.0.json("v.json");
        let [without, with] = ["without", "with"].map(|key| found[key].as_array().unwrap().len());
        assert!(without >= 2 && without == with, "{found}");
        assert_eq!(found["stopped_by"], "an interrupt");
        assert!(!lab.run(&["verify", "--history"]).stdout.contains("no forecast was verified"));
    }
}
