//! What users see first: where output goes, help, manual pages, completions, lists.

use crate::harness::{BAD_INPUT, Outcome, Place, USAGE, metric};
use std::collections::BTreeSet;
use std::process::{Command, Stdio};

const COMMANDS: [&str; 17] = [
    "profile",
    "record",
    "simulate",
    "sweep",
    "trap",
    "contiguity",
    "samples",
    "layout",
    "apply",
    "verify",
    "undo",
    "promote",
    "trace",
    "machines",
    "report",
    "doctor",
    "completions",
];

/// The program's output stays the program's: text goes to stderr, JSON to stdout after it, or to a file of its own.
#[test]
fn the_programs_output_and_ours_can_be_told_apart() {
    let place = Place::new();
    let program = ["--", "sh", "-c", "echo '{\"the program\": 1}'; echo complaint >&2"];
    let outcome = place.good(&[&["profile", "-o", "r.json", "-o", "r.html"], &program[..]].concat());
    assert_eq!(outcome.stdout, "{\"the program\": 1}\n");
    assert!(outcome.stderr.starts_with("complaint\n"), "{}", outcome.stderr);
    for part in ["walk cycles", "report written to r.html", "result written to r.json"] {
        assert!(outcome.stderr.contains(part), "{}", outcome.stderr);
    }
    assert_eq!(place.json("r.json")["schema"], "pagewalk.result/2");

    let outcome = place.good(&[&["profile", "-q", "--json"], &program[..]].concat());
    let ours = outcome.stdout.strip_prefix("{\"the program\": 1}\n").expect("the program's line comes first");
    let json: serde_json::Value = serde_json::from_str(ours).expect("JSON and nothing else follows");
    assert!(metric(&json, "instructions") > 10_000);
    assert_eq!(outcome.stderr, "complaint\n");

    // A trace has no program beside it: its text goes to stdout.
    place.good(&["record", "-q", "-o", "t.pwt", "--", "true"]);
    let outcome = place.good(&["simulate", "t.pwt"]);
    assert!(outcome.stdout.contains("walk cycles"));
    assert_eq!(outcome.stderr, "");
    let outcome = place.good(&["simulate", "--json", "t.pwt"]);
    assert_eq!(outcome.json()["processes"].as_array().unwrap().len(), 1);
}

/// The program reads our standard input, as if it had been started alone.
#[test]
fn the_programs_input_is_ours() {
    let place = Place::new();
    let mut child = place
        .command(&["record", "-q", "--", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"through\n").unwrap();
    assert_eq!(child.wait_with_output().unwrap().stdout, b"through\n");
}

#[test]
fn a_saved_result_makes_the_same_report() {
    let place = Place::new();
    place.good(&["profile", "-o", "r.json", "-o", "r.html", "--", "true"]);
    let outcome = place.good(&["report", "-o", "again.html", "r.json"]);
    assert_eq!(outcome.stderr, "pagewalk: report written to again.html\n");
    assert!(place.read("r.html") == place.read("again.html"));
}

#[test]
fn several_runs_make_one_report() {
    let place = Place::with_trace();
    for (machine, file) in [("zen4", "a.json"), ("golden_cove", "b.json")] {
        place.good(&["simulate", "-q", "-m", machine, "-o", file, "good.pwt"]);
    }
    let outcome = place.good(&["report", "-o", "r.html", "a.json", "b.json"]);
    assert_eq!(outcome.stderr, "pagewalk: report written to r.html\n");
    let page = String::from_utf8(place.read("r.html")).unwrap();
    for part in ["<option value=\"1\">b.json</option>", "to zen4</span>", "id=\"pagewalk-result-2\""] {
        assert!(page.contains(part), "no {part}");
    }
    let printed = place.good(&["report", "-o", "-", "a.json", "b.json"]);
    assert_eq!((printed.stdout, place.has("-")), (page, false));
    let before = place.read("b.json");
    place.run(&["report", "-o", "b.json", "a.json", "b.json"]).refuses(USAGE, &["both input and output"]);
    assert!(place.read("b.json") == before);
}

/// What they are decides, whatever else is in them.
#[test]
fn results_that_do_not_go_on_one_page_are_named() {
    let place = Place::new();
    for (name, kind) in [("r.json", "result"), ("p.json", "probe"), ("t.json", "trap")] {
        place.write(name, format!("{{\"schema\": \"pagewalk.{kind}/1\"}}"));
    }
    let together = "several results of runs (pagewalk.result/2), or one result of another kind";
    for (first, second, told) in [
        ("r.json", "p.json", "r.json is pagewalk.result/1, p.json is pagewalk.probe/1"),
        ("p.json", "p.json", "p.json is pagewalk.probe/1, p.json is pagewalk.probe/1"),
        ("t.json", "r.json", "t.json is pagewalk.trap/1, r.json is pagewalk.result/1"),
    ] {
        place.run(&["report", "-o", "r.html", first, second]).refuses(USAGE, &[told, together]);
    }
    let outcome = place.run(&["report", "-o", "r.html", "t.json"]);
    outcome.refuses(
        BAD_INPUT,
        &[
            "t.json",
            "pagewalk.trap/1",
            "`report` reads pagewalk.result/2, pagewalk.result/1, pagewalk.sweep/1,",
        ],
    );
    place.run(&["report", "-o", "r.html"]).refuses(USAGE, &["RESULT.json"]);
    assert!(!place.has("r.html"));
}

/// Forks and execs get files and results of their own, in order of start.
#[test]
fn children_have_files_of_their_own() {
    let place = Place::new();
    place.good(&["record", "-q", "-o", "t.pwt", "--", "dash", "-c", "/bin/true; /bin/echo"]);
    for (name, program, origin) in [
        ("t.pwt", "/dash", "start"),
        ("t.1.pwt", "/dash", "fork"),
        ("t.2.pwt", "/true", "exec"),
        ("t.3.pwt", "/dash", "fork"),
        ("t.4.pwt", "/echo", "exec"),
    ] {
        let info =
            serde_json::from_str::<serde_json::Value>(&place.good(&["trace", "info", "--json", name]).stdout);
        let header = &info.unwrap()["header"];
        assert!(header["program"].as_str().unwrap().ends_with(program), "{name}: {header}");
        assert_eq!(header["origin"].as_str().unwrap().to_lowercase(), origin, "{name}");
    }
    assert!(!place.has("t.5.pwt"));
    let all = ["t.pwt", "t.1.pwt", "t.2.pwt", "t.3.pwt", "t.4.pwt"];
    let together = place.good(&[&["simulate", "--json"], &all[..]].concat()).json();
    let alone = |name| metric(&place.good(&["simulate", "--json", name]).json(), "walks");
    assert_eq!(metric(&together, "walks"), all.into_iter().map(alone).sum::<u64>());
}

#[test]
fn help_and_manual_pages_exist_for_every_command() {
    let place = Place::new();
    let help = place.good(&["--help"]).stdout;
    assert!(help.contains("Exit codes: 0 done, 1 failed, 2 usage, 3 bad input file, 4 this host cannot"));
    assert!(place.good(&["man"]).stdout.contains(".TH pagewalk 1"));
    for command in COMMANDS {
        assert!(help.contains(&format!("\n  {command} ")), "{command}");
        let own = place.good(&[command, "--help"]).stdout;
        assert!(own.contains(&format!("Usage: pagewalk {command}")), "{own}");
        assert!(own.lines().all(|line| line.chars().count() <= 100), "{own}");
        let both =
            own.lines().any(|line| line.contains("Usage") && line.contains("T.pwt") && line.contains("CMD"));
        assert!(!both, "two ways to give the program are two lines: {own}");
        let page = place.good(&["man", command]).stdout;
        assert!(page.contains(&format!(".TH pagewalk-{command} 1")), "{page}");
        assert!(page.contains(&format!("\\fBpagewalk {command}\\fR")), "{page}");
    }
    let page = place.good(&["man", "trace", "import"]).stdout;
    assert!(page.contains(".TH pagewalk-trace-import 1"), "{page}");
    place.run(&["man", "trace", "inport"]).refuses(2, &["`inport`", "info, check, dump, import, export"]);
}

/// Six commands, each with an example, and what comes next; it is a fault of usage all the same.
#[test]
fn shared_options_may_stand_in_one_word() {
    let both = Place::new().run(&["-qv", "profile", "--", "true"]);
    both.refuses(2, &["'--quiet' cannot be used with '--verbose'"]);
}

#[test]
fn pagewalk_alone_says_where_to_begin() {
    let place = Place::new();
    for words in [&[][..], &["-q"]] {
        let outcome = place.run(words);
        assert_eq!((outcome.code, &outcome.stderr[..]), (USAGE, ""));
        let examples = outcome.stdout.lines().filter(|line| line.starts_with("  pagewalk "));
        assert_eq!(examples.count(), 6, "{}", outcome.stdout);
        for part in ["\nNext: pagewalk profile -- ", "pagewalk --help"] {
            assert!(outcome.stdout.contains(part), "{}", outcome.stdout);
        }
    }
}

#[test]
fn the_version_tells_the_engine_and_the_build() {
    let place = Place::new();
    let short = place.good(&["-V"]).stdout;
    assert!(short.starts_with("pagewalk 0.") && short.lines().count() == 1, "{short}");
    let long = place.good(&["--version"]).stdout;
    let lines: Vec<&str> = long.lines().collect();
    assert_eq!((lines.len(), lines[0]), (3, short.trim_end()));
    assert!(lines[1].starts_with("engine: Valgrind 3."), "{long}");
    assert!(lines[2].starts_with("build: ") && lines[2].contains("x86_64-unknown-linux-gnu, "), "{long}");
    let mut bare = place.command(&["--version"]);
    let outcome = Outcome::of(bare.env("PATH", "/nonexistent").output().unwrap());
    assert!(outcome.code == 0 && outcome.stdout.contains("\nengine: none: "), "{outcome:?}");
}

/// They mean the same before the command, between its names, and after it.
#[test]
fn shared_options_go_before_commands_too() {
    let place = Place::with_trace();
    let list = place.good(&["machines", "list", "--json"]).stdout;
    for words in [["--json", "machines", "list"], ["machines", "--json", "list"]] {
        assert_eq!(place.good(&words).stdout, list);
    }
    let longer = place.good(&["simulate", "-v", "good.pwt"]).stdout;
    assert_eq!(place.good(&["-v", "simulate", "good.pwt"]).stdout, longer);
    assert!(longer != place.good(&["simulate", "good.pwt"]).stdout);
    place.good(&["-q", "--json", "record", "-o", "t.pwt", "--", "true"]).json();
    // What stands behind `--` is the program's.
    let outcome = place.good(&["-q", "profile", "--json", "--", "echo", "-v"]);
    assert!(outcome.stdout.starts_with("-v\n{") && outcome.stderr.is_empty(), "{outcome:?}");
    place.run(&["-q", "simulate", "-v", "good.pwt"]).refuses(USAGE, &["--quiet", "--verbose"]);
}

#[test]
fn a_command_without_a_shared_option_says_which_have_it() {
    let place = Place::new();
    for (words, parts) in [
        (
            &["-q", "schema"][..],
            ["`pagewalk schema` takes no `-q`; commands that take it: profile, record,", "schema"],
        ),
        (
            &["schema", "-q"],
            ["`pagewalk schema` takes no `-q`; commands that take it: profile, record,", "schema"],
        ),
        (
            &["--json", "trace", "dump", "t.pwt"],
            ["`pagewalk trace dump` takes no `--json`", "trace info, trace check"],
        ),
        (
            &["trace", "dump", "t.pwt", "--json"],
            ["`pagewalk trace dump` takes no `--json`", "trace info, trace check"],
        ),
        (
            &["machines", "list", "-v"],
            ["`pagewalk machines list` takes no `-v`", "profile, record, simulate"],
        ),
    ] {
        let outcome = place.run(words);
        outcome.refuses(USAGE, &parts);
        assert!(outcome.stdout.is_empty());
    }
}

#[test]
fn completions_are_scripts_that_their_shells_accept() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = place.good(&["completions", shell]).stdout;
        for command in COMMANDS {
            assert!(script.contains(command), "{shell}: {command}");
        }
    }
    place.write("completions.bash", place.good(&["completions", "bash"]).stdout);
    let test = "source completions.bash && complete -p pagewalk";
    let mut command = Command::new("bash");
    place.settle(command.args(["--norc", "-c", test]));
    assert!(Outcome::of(command.output().unwrap()).stdout.contains("_pagewalk"));
}

/// What is in the libraries is offered; a file can stand in its place.
#[test]
fn completions_offer_machines_structures_and_policies() {
    let place = Place::new();
    place.write("completions.bash", place.good(&["completions", "bash"]).stdout);
    let offered = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let [.., before, last] = words[..] else { panic!("{line}") };
        let test = format!(
            "source completions.bash; COMP_WORDS=({line}); COMP_CWORD={}; _pagewalk pagewalk '{last}' '{before}'; \
             echo \"${{COMPREPLY[@]}}\"",
            words.len() - 1
        );
        let mut command = Command::new("bash");
        place.settle(command.args(["--norc", "-c", &test]));
        Outcome::of(command.output().unwrap()).stdout.trim_end().to_owned()
    };
    for command in ["profile", "simulate", "advise", "trap", "probe", "layout plan", "layout analyze"] {
        assert_eq!(offered(&format!("pagewalk {command} -m ho")), "host", "{command}");
        assert_eq!(
            offered(&format!("pagewalk {command} --machine zen4")),
            "zen4 zen4_coalescing",
            "{command}"
        );
    }
    assert_eq!(offered("pagewalk machines show alpha"), "alpha_21064");
    assert_eq!(offered("pagewalk simulate --os asa"), "asap asap-4-64");
    assert_eq!(offered("pagewalk simulate --structure ult"), "ultrix");
    // Where no name fits, bash offers files, as it is asked to.
    assert_eq!(offered("pagewalk simulate -m ./"), "");
    let script = |shell| place.good(&["completions", shell]).stdout;
    assert!(script("bash").contains("-o bashdefault -o default pagewalk"));
    let (zsh, fish) = (script("zsh"), script("fish"));
    for names in ["host ", "mach3 "] {
        assert!(zsh.contains(&format!(":{{compadd \"$expl[@]\" -- {names}")), "{zsh}");
        assert!(!zsh.contains(&format!(":({names}")), "{zsh}");
        let first = format!("-a \"{}\\t''", names.trim_end());
        assert!(fish.contains(&format!("-r -F {first}")) && !fish.contains(&format!("-f {first}")), "{fish}");
    }
}

#[test]
fn the_library_is_listed_shown_and_sound() {
    let place = Place::new();
    let list = place.good(&["machines", "list"]).stdout;
    let names: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.contains(&"golden_cove") && names.contains(&"zen4"), "{names:?}");
    let titles_begin =
        |line: &str| line.find("  ").map(|gap| gap + line[gap..].len() - line[gap..].trim_start().len());
    let columns: BTreeSet<_> = list.lines().map(titles_begin).collect();
    assert!(columns.len() == 1 && !columns.contains(&None), "{list}");
    assert_eq!(place.good(&["machines", "check"]).stdout.lines().count(), names.len());
    for name in names {
        assert!(place.good(&["machines", "show", name]).stdout.contains("walker: "));
        let json = place.good(&["machines", "show", "--json", name]).json();
        assert_eq!((&json["schema"], &json["machine"]["name"]), (&"pagewalk.machine/1".into(), &name.into()));
        assert!(json["reach_bytes"].as_object().is_some_and(|tlbs| !tlbs.is_empty()), "{json}");
        // The text it shows is a machine file that reads as the machine.
        place.write("copy.toml", place.good(&["machines", "show", "--toml", name]).stdout);
        let copy = place.good(&["machines", "show", "./copy.toml"]).stdout;
        assert_eq!(copy, place.good(&["machines", "show", name]).stdout);
    }
}

#[test]
fn doctor_says_what_this_host_can_do() {
    let place = Place::new();
    let outcome = place.good(&["doctor"]);
    assert!(outcome.stdout.starts_with("ok  capture engine       valgrind 3."), "{}", outcome.stdout);
    let json = place.good(&["doctor", "--json"]).json();
    assert_eq!(json["schema"], "pagewalk.doctor/1");
    assert_eq!(json["findings"][0]["able"], true);
}

#[test]
fn a_trace_can_be_looked_into() {
    let place = Place::new();
    place.good(&["record", "-q", "-o", "t.pwt", "--", "true"]);
    let info = place.good(&["trace", "info", "t.pwt"]).stdout;
    for part in ["t.pwt: version ", "program            ", "/true", "instructions", "bytes each", "map "] {
        assert!(info.contains(part), "{part}: {info}");
    }
    assert_eq!(place.good(&["trace", "check", "t.pwt"]).stdout, "t.pwt: sound\n");
    let dump = place.good(&["trace", "dump", "t.pwt"]).stdout;
    let instructions = metric(&place.good(&["simulate", "--json", "t.pwt"]).json(), "instructions");
    assert_eq!(dump.lines().filter(|line| line.starts_with("1 fetch ")).count() as u64, instructions);
    assert!(
        dump.lines().any(|line| line.starts_with("# {\"Map\":") || line.starts_with("# {\"map\":")),
        "no map"
    );
    assert!(dump.lines().last().unwrap().contains("xit"), "{:?}", dump.lines().last());
    let part = place.good(&["trace", "dump", "--skip", "100", "--max-instructions", "50", "t.pwt"]).stdout;
    let fetches = part.lines().filter(|line| line.contains(" fetch ")).count();
    assert!((50..80).contains(&fetches), "{fetches}");
}

#[test]
fn every_kind_of_result_has_a_schema() {
    let place = Place::new();
    let list = place.good(&["schema"]).stdout;
    for (name, schema) in
        [("result", "pagewalk.result/2"), ("trap", "pagewalk.trap/1"), ("doctor", "pagewalk.doctor/1")]
    {
        assert!(list.lines().any(|line| line.starts_with(name) && line.contains(schema)), "{list}");
        let told: serde_json::Value = serde_json::from_str(&place.good(&["schema", name]).stdout).unwrap();
        assert_eq!(told["properties"]["schema"]["const"], schema);
        assert_eq!(told["$schema"], "https://json-schema.org/draft/2020-12/schema");
    }
    place
        .run(&["schema", "resutl"])
        .refuses(2, &["no kind of result is named `resutl`: did you mean `result`?"]);
    for listed in
        [&["machines", "list"][..], &["machines", "show", "zen4"], &["machines", "check"], &["doctor"]]
    {
        place.run(&[listed, &["--json"]].concat()).json();
    }
}

/// In a file or a pipe, what has no room for 100 columns has some in more.
#[test]
fn output_is_as_wide_as_columns_says() {
    let place = Place::with_trace();
    let widest = |columns: Option<&str>| {
        let mut command = place.command(&["simulate", "-q", "-m", "golden_cove", "--what-if", "good.pwt"]);
        command.envs(columns.map(|columns| ("COLUMNS", columns)));
        let text = String::from_utf8(command.output().expect("it runs").stdout).expect("text");
        text.lines().map(|line| line.chars().count()).max()
    };
    assert!(widest(None) <= Some(100), "{:?}", widest(None));
    assert!(widest(Some("130")) > widest(None), "{:?}", widest(Some("130")));
    assert_eq!(widest(Some("wide")), widest(None));
}
