//! `pagewalk layout run`: what it prints, how it ends, what it refuses.

use crate::harness::{BAD_INPUT, Outcome, PAGEWALK, Place, USAGE, metric};
use pagewalk::layout::files;
use pagewalk::plan::{self, DEFAULT_ARENA, Layout, Plan, Program};
use pagewalk_skip::{Need, skip};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const HOST_CANNOT: i32 = 4;
const NOT_IN_EFFECT: i32 = 5;

/// A program that loads a library when it is told so: at once, or after something else has taken its place.
const PROGRAM: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
int main(int count, char **words) {
    if (count > 2)
        mmap((void *)strtoul(words[2], 0, 16), 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    void *library = count > 1 ? dlopen(words[1], RTLD_NOW) : 0;
    puts("the program's own");
    return library ? ((int (*)(void))dlsym(library, "seven"))() : 9;
}"#;

/// The places of a plan that has a layout.
fn places(plan: &mut Plan) -> &mut Vec<plan::Place> {
    &mut plan.layout.as_mut().unwrap().places
}

/// A folder with a library, a program that uses it, and a plan for it.
struct Lab {
    place: Place,
    library: String,
    plan: Plan,
}

impl Lab {
    fn new() -> Lab {
        let place = Place::new();
        let link = |name: &str, flags: &[&str]| {
            let mut command = Command::new("gcc");
            let source = place.path(&format!("{name}.c"));
            place.settle(command.args(flags).args(["-w", "-o", name]).arg(source));
            assert!(command.status().expect("gcc is here").success());
        };
        place.write("seven.so.c", "int seven(void) { return 7; }");
        place.write("p.c", PROGRAM);
        link("seven.so", &["-shared", "-fPIC", "-Wl,--build-id=0xBEEF"]);
        link("p", &["-Wl,--build-id=0xCAFE"]);
        let path = |name| place.path(name).canonicalize().unwrap().to_str().unwrap().to_owned();
        let library = path("seven.so");
        let places = vec![files::place(&library, 0x40_0000).unwrap()];
        let (planner, machines) = ("hand".into(), vec!["amd_k8".into()]);
        let layout = Layout { planner, machines, arena: DEFAULT_ARENA, places };
        let program = Program { path: path("p"), build_id: Some("cafe".into()), arguments: Vec::new() };
        let plan = Plan { layout: Some(layout), ..Plan::of(program) };
        let lab = Lab { place, library, plan };
        lab.write(|_| {});
        lab
    }

    /// A lab if the host can, see [`host_can`].
    fn where_host_can() -> Option<Lab> {
        let lab = Lab::new();
        host_can(&lab).then_some(lab)
    }

    /// Writes the plan with a change.
    fn write(&self, change: impl FnOnce(&mut Plan)) {
        let mut plan = self.plan.clone();
        change(&mut plan);
        self.place.write("plan.toml", plan.to_toml());
    }

    fn base(&self) -> u64 {
        let layout = self.plan.layout.as_ref().unwrap();
        layout.base(&layout.places[0])
    }

    fn run(&self, options: &[&str], program: &[&str]) -> Outcome {
        self.place.run(&[&["layout", "run", "plan.toml"], options, &["--"], program].concat())
    }
}

/// Whether this host lets libraries be placed. Where it does not, that is what is tested: the refusal.
fn host_can(lab: &Lab) -> bool {
    let able = lab.place.good(&["doctor", "--json"]).finding("name", "placing libraries");
    if able["able"] == true {
        return true;
    }
    lab.run(&[], &["./p"]).refuses(HOST_CANNOT, &["to enable: "]);
    skip(Need::Tracing, format_args!("{}; to enable: {}", able["found"], able["enable"]));
    false
}

#[test]
fn the_program_is_itself_and_the_table_says_where_its_libraries_lie() {
    let Some(lab) = Lab::where_host_can() else { return };
    let quiet = lab.run(&[], &["./p", &lab.library]);
    assert_eq!((quiet.code, &*quiet.stdout, &*quiet.stderr), (7, "the program's own\n", ""));
    let told = lab.run(&["--verify"], &["./p", &lab.library]);
    assert_eq!((told.code, &*told.stdout), (7, "the program's own\n"));
    let row = format!("  {}  {1:>#14x}  {1:>#14x}  landed\n", lab.library, lab.base());
    for part in ["loader done:\n  1 of 1 are not loaded\n", "at the end:\n", "planned", &row] {
        assert!(told.stderr.contains(part), "no `{part}` in: {}", told.stderr);
    }
    let unopened = lab.run(&[], &["./p"]);
    assert_eq!(unopened.code, 9);
    assert_eq!(
        unopened.stderr,
        format!("pagewalk: 1 of 1 planned libraries were not seen loaded: {}\n", lab.library)
    );
    assert_eq!(lab.run(&["-q"], &["./p"]).stderr, "");
    let child = lab.run(&["--no-randomize"], &["sh", "-c", &format!("cat; ./p {}; kill -9 $$", lab.library)]);
    assert_eq!((child.code, &*child.stdout), (128 + 9, "the program's own\n"));
}

#[test]
fn a_dry_run_tells_the_places_and_runs_nothing() {
    let Some(lab) = Lab::where_host_can() else { return };
    let base = format!("{:#x}", lab.base());
    for program in [&[][..], &["--", "./p", "./seven.so"]] {
        let dry = |options: &[&str]| {
            lab.place.good(&[&["layout", "run", "plan.toml", "--dry-run"], options, program].concat())
        };
        let told = dry(&[]).stdout;
        assert!(told.contains(&base) && told.contains("/seven.so\n"), "{told}");
        assert!(!told.contains("the program's own"), "{told}");
        let data = dry(&["--json"]).json();
        assert_eq!((&data["dry_run"], &data["missing"]), (&Value::Bool(true), &Value::Null));
        assert_eq!(data["would_place"][0]["base"], base.as_str());
    }
    lab.write(|plan| places(plan)[0].build_id = Some("dead".into()));
    let refused = lab.place.run(&["layout", "run", "plan.toml", "--dry-run"]);
    refused.refuses(NOT_IN_EFFECT, &["seven.so", "dead"]);
}

#[test]
fn the_result_is_there_as_data() {
    let Some(lab) = Lab::where_host_can() else { return };
    let outcome = lab.run(&["--json", "--verify", "-o", "r.json"], &["./p", &lab.library]);
    let ours = outcome.stdout.strip_prefix("the program's own\n").expect("the program's line comes first");
    let document: Value = serde_json::from_str(ours).expect("JSON and nothing else follows");
    assert_eq!(document, lab.place.json("r.json"));
    assert_eq!(document["schema"], "pagewalk.layout-run/1");
    assert_eq!((&document["end"]["exit"], &document["in_effect"]), (&7.into(), &true.into()));
    assert_eq!(document["plan"]["machines"][0], "amd_k8");
    let image = &document["images"][0];
    assert_eq!((&image["slid_bytes"], &image["obstacle"]), (&0.into(), &Value::Null));
    assert_eq!(image["at_start"], Value::Array(vec![]), "not loaded yet");
    let after = &image["at_end"][0];
    let base = format!("{:#x}", lab.base());
    assert_eq!((&after["state"], &after["actual"]), (&"landed".into(), &base.into()));
}

#[test]
fn a_library_that_does_not_land_is_an_error_unless_that_is_allowed() {
    let Some(lab) = Lab::where_host_can() else { return };
    let taken = format!("{:x}", lab.base());
    let program = ["./p", &lab.library, &taken];
    let outcome = lab.run(&[], &program);
    assert_eq!(outcome.stdout, "the program's own\n");
    outcome.refuses(
        NOT_IN_EFFECT,
        &[&lab.library, "did not land", "taken by memory of its own", "--or-default"],
    );
    let allowed = lab.run(&["--or-default"], &program);
    assert_eq!(allowed.code, 7);
    assert!(allowed.stderr.contains("did not land"), "{}", allowed.stderr);
    assert_eq!(lab.run(&["--or-default", "-q"], &program).stderr, "");
    let document = lab.run(&["--json", "-q"], &program);
    assert_eq!(document.code, NOT_IN_EFFECT);
    assert!(document.stdout.contains("\"in_effect\": false"), "{}", document.stdout);
}

/// Each is refused before the program begins, and the program runs by itself if it may.
#[test]
fn plans_that_do_not_fit_are_refused_by_name() {
    let lab = Lab::new();
    let refused = |code, parts: &[&str], program: &[&str], own_code| {
        let outcome = lab.run(&[], program);
        assert_eq!(outcome.stdout, "", "it has not begun");
        outcome.refuses(code, parts);
        let allowed = lab.run(&["--or-default"], program);
        assert_eq!(allowed.code, own_code, "{}", allowed.stderr);
        assert!(allowed.stderr.contains("it runs without the plan"), "{}", allowed.stderr);
    };
    lab.write(|plan| places(plan)[0].build_id = Some("beee".into()));
    refused(NOT_IN_EFFECT, &[&lab.library, "another build", "beee", "beef", "--or-default"], &["./p"], 9);
    lab.write(|plan| places(plan)[0].size += 4096);
    refused(NOT_IN_EFFECT, &[&lab.library, "another build"], &["./p"], 9);
    lab.write(|plan| places(plan)[0].file += ".gone");
    refused(NOT_IN_EFFECT, &["seven.so.gone", "No such file"], &["./p"], 9);
    lab.write(|plan| plan.program.build_id = Some("0123".into()));
    refused(NOT_IN_EFFECT, &["/p is another build", "0123"], &["./p"], 9);
    lab.write(|plan| {
        let first = places(plan)[0].clone();
        places(plan).push(first);
    });
    refused(BAD_INPUT, &["plan.toml", "two places"], &["./p"], 9);
    lab.write(|plan| {
        let mut other = places(plan)[0].clone();
        other.file += ".other";
        places(plan).push(other);
    });
    refused(BAD_INPUT, &["plan.toml", "overlap", "seven.so.other"], &["./p"], 9);
    lab.write(|plan| places(plan)[0].offset = 0x8_0000_0000);
    refused(BAD_INPUT, &["plan.toml", "limit", "0x1000000000"], &["./p"], 9);
    lab.write(|_| {});
    let statically = lab.place.compile("static", "int main(void) { return 3; }");
    if host_can(&lab) {
        let outcome = lab.run(&[], &[&statically]);
        outcome.refuses(NOT_IN_EFFECT, &["static", "--or-default"]);
        let alone = lab.run(&["--or-default", "--json"], &[&statically]);
        assert_eq!((alone.code, alone.stdout.as_str()), (3, ""));
        assert!(alone.stderr.contains("it runs without the plan"), "{}", alone.stderr);
    }
    lab.run(&[], &["./none"]).refuses(USAGE, &["./none"]);
    lab.run(&["--or-default"], &["./none"]).refuses(USAGE, &["./none"]);
    lab.place.run(&["layout", "run", "none.toml", "--", "./p"]).refuses(BAD_INPUT, &["none.toml"]);
    assert_eq!(lab.place.run(&["layout", "run", "plan.toml"]).code, USAGE);
    assert_eq!(lab.place.run(&["layout"]).code, USAGE);
}

#[test]
fn programs_that_gain_privileges_are_refused() {
    use std::os::unix::fs::PermissionsExt;
    let lab = Lab::new();
    std::fs::set_permissions(lab.place.path("p"), std::fs::Permissions::from_mode(0o4755)).unwrap();
    lab.run(&[], &["./p"]).refuses(NOT_IN_EFFECT, &["/p gains privileges", "--or-default"]);
    assert_eq!(lab.run(&["--or-default"], &["./p"]).code, 9);
}

/// Signals that came to us alone are the program's.
#[test]
fn signals_are_handed_on() {
    let Some(lab) = Lab::where_host_can() else { return };
    let script = "trap 'exit 11' TERM; trap 'echo usr' USR1; echo ready; while :; do sleep 0.01; done";
    let mut command = lab.place.command(&["layout", "run", "-q", "plan.toml", "--", "sh", "-c", script]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let pid = child.id().to_string();
    let send = |signal: &str| assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    send("-USR1");
    assert_eq!(lines.next().unwrap().unwrap(), "usr");
    send("-TERM");
    assert_eq!(child.wait().unwrap().code(), Some(11));
}

/// Runs a command and kills it at its Nth stop at the beginning or end of a system call; prints how many there were if
/// it ended before.
const KILLER: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int count, char **words) {
    long last = atol(words[1]), stops = 0;
    int status;
    pid_t child = fork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        execvp(words[2], words + 2);
        _exit(127);
    }
    waitpid(child, &status, 0);
    ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACESYSGOOD);
    ptrace(PTRACE_SYSCALL, child, 0, 0);
    while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
        int signal = WSTOPSIG(status);
        if (signal == (SIGTRAP | 0x80) && ++stops == last) {
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            return 0;
        }
        ptrace(PTRACE_SYSCALL, child, 0, signal == SIGTRAP || signal & 0x80 ? 0 : signal);
    }
    printf("%ld\n", stops);
    return 0;
}"#;

/// A shell, a child of it that is another program, and a library that is opened: whatever we have just done when we are
/// killed, what has begun comes to its right end.
#[test]
fn the_program_outlives_us_at_every_step() {
    const KILLS: usize = 60;
    let lab = Lab::new();
    let killer = lab.place.compile("killer", KILLER);
    if !host_can(&lab) {
        return;
    }
    let run = |last: usize| {
        let _ = std::fs::remove_file(lab.place.path("log"));
        let script = format!("echo began >>log; ./p {} >/dev/null; echo $? >>log", lab.library);
        let last = last.to_string();
        let words = [&*last, PAGEWALK, "layout", "run", "-q", "plan.toml", "--", "sh", "-c", &script];
        let mut command = Command::new(&killer);
        lab.place.settle(command.args(words).stdin(Stdio::null()));
        Outcome::of(command.output().unwrap()).stdout
    };
    let log = || std::fs::read_to_string(lab.place.path("log")).unwrap_or_default();
    let all: usize = run(usize::MAX >> 1).trim().parse().expect("it ended by itself");
    assert_eq!(log(), "began\n7\n");
    let mut begun = 0;
    for kill in 0..KILLS {
        // The first part is reading the plan.
        run(all / 3 + kill * (all - all / 3) / KILLS);
        let killed = Instant::now();
        while log() != "began\n7\n" {
            if log().is_empty() && killed.elapsed() > Duration::from_millis(300) {
                break;
            }
            assert!(killed.elapsed() < Duration::from_secs(20), "kill {kill}: {:?}", log());
            std::thread::sleep(Duration::from_millis(2));
        }
        begun += usize::from(!log().is_empty());
    }
    assert!(begun > KILLS / 4, "{begun} began");
}

/// A program that is recorded with its libraries elsewhere does what its recording says that it would do there.
#[test]
fn a_recording_under_a_plan_is_the_recording_rebased() {
    let place = Place::new();
    let record = |more: &[&str]| {
        place.good(&[&["record", "-q"], more, &["--", "ls", "-lR", "/usr/include/linux"]].concat());
    };
    record(&["-o", "before.pwt"]);
    let plan =
        ["layout", "plan", "-q", "--planner", "random", "--seed", "7", "-o", "plan.toml", "before.pwt"];
    place.good(&plan);
    record(&["--layout", "plan.toml", "-o", "placed.pwt"]);
    for machine in ["konireddygari_u256", "konireddygari_split64"] {
        let of = |arguments: &[&str]| {
            let simulate = ["simulate", "--json", "--thp", "never", "-m", machine];
            place.good(&[&simulate[..], arguments].concat()).json()
        };
        let rebased = of(&["--layout", "plan.toml", "before.pwt"]);
        let placed = of(&["placed.pwt"]);
        for (name, share) in [("instructions", 0.001), ("references", 0.001), ("walks", 0.01)] {
            let [rebased, placed] = [&rebased, &placed].map(|result| metric(result, name) as f64);
            assert!((rebased - placed).abs() <= share * rebased, "{machine} {name}: {rebased}, {placed}");
        }
        assert_ne!(
            metric(&of(&["before.pwt"]), "walks"),
            metric(&rebased, "walks"),
            "the plan does something"
        );
    }
}

#[test]
fn what_is_recorded_or_simulated_as_it_runs_can_be_placed() {
    let lab = Lab::new();
    let plan = ["--layout", "plan.toml"];
    let run =
        |command: &[&str], program: &[&str]| lab.place.run(&[command, &plan[..], &["--"], program].concat());
    let record = ["record", "-q", "-o", "t.pwt"];
    let loads = ["./p", &lab.library];
    assert_eq!(run(&record, &loads).code, 7);
    let dump = lab.place.good(&["trace", "dump", "t.pwt"]).stdout;
    let mapped = format!("# {{\"map\":{{\"start\":{},", lab.base());
    assert!(dump.lines().any(|line| line.starts_with(&mapped) && line.contains(&lab.library)));
    for command in ["profile", "simulate"] {
        let outcome = run(&[command, "-m", "konireddygari_u512", "-o", "r.json"], &loads);
        assert_eq!(outcome.code, 7, "{}", outcome.stderr);
    }
    let unopened = run(&record, &["./p"]);
    assert_eq!((unopened.code, unopened.stderr), (9, format!("pagewalk: {} was not loaded\n", lab.library)));

    let taken = format!("{:x}", lab.base());
    let outcome = run(&record, &["./p", &lab.library, &taken]);
    assert_eq!(outcome.stdout, "the program's own\n");
    outcome.refuses(NOT_IN_EFFECT, &[&lab.library, "did not land", &taken]);
    lab.write(|plan| places(plan)[0].size += 4096);
    let refused = run(&record, &loads);
    assert_eq!(refused.stdout, "", "it has not begun");
    refused.refuses(NOT_IN_EFFECT, &[&lab.library, "another build", "leave out --layout"]);
}

/// What a debugger or a profiler needs: nobody else traces the program, and its mappings are a loader's.
#[test]
fn a_program_that_was_let_go_can_be_debugged() {
    let Some(lab) = Lab::where_host_can() else { return };
    lab.write(|plan| places(plan).push(files::place(&c_library(), 0x80_0000).unwrap()));
    let program = "grep TracerPid /proc/self/status; grep -m 1 libc.so /proc/self/maps; exit 3";
    let outcome = lab.run(&["--release", "-q"], &["sh", "-c", program]);
    let own = lab.run(&["--release"], &["cat", "/proc/self/status", "/proc/self/maps"]);
    assert!(own.stdout.contains("TracerPid:\t0\n"), "{}", own.stdout);
    let base = format!("{:x}-", lab.plan.layout.as_ref().unwrap().arena + 0x80_0000);
    assert!(
        own.stdout.lines().any(|line| line.starts_with(&base) && line.contains("libc.so")),
        "{}",
        own.stdout
    );
    assert_eq!((own.code, outcome.code), (0, 3), "{}", own.stderr);
    assert!(!outcome.stdout.contains(&base), "what it starts has its usual layout: {}", outcome.stdout);
    let traced = lab.run(&["-q"], &["cat", "/proc/self/status"]);
    assert!(!traced.stdout.contains("TracerPid:\t0\n"), "{}", traced.stdout);
}

/// The file of this host's C library.
pub fn c_library() -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut paths = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
    paths.find(|path| path.contains("/libc.so")).expect("a C library").to_owned()
}
