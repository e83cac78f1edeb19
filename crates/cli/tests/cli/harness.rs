//! Shared by the tests: a folder for each, programs to run in it, and the command's outcome.

use pagewalk::capture::engine::{Engine, EngineOptions};
use pagewalk::report::kinds::ResultKind;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// The command under test.
pub const PAGEWALK: &str = env!("CARGO_BIN_EXE_pagewalk");
/// The PATH of the command, to find Valgrind, and of traced programs.
pub const SEARCH_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Exit code of wrong arguments.
pub const USAGE: i32 = 2;
/// Exit code of a bad input file.
pub const BAD_INPUT: i32 = 3;

/// The issue's example of a machine file.
pub const EXAMPLE_MACHINE: &str = r#"schema = 1
name = "example"

[[tlb]]
name = "l1d"
level = 1
serves = ["load", "store"]
page_sizes = ["4K"]
entries = 64
ways = 4
replacement = "lru"

[[tlb]]
name = "l2"
level = 2
serves = ["fetch", "load", "store"]
page_sizes = ["4K", "2M"]
entries = 1536
ways = 12

[walker]
kind = "radix"
levels = 4
caches = { pde = { entries = 32, ways = 4 }, pdpte = { entries = 4 }, pml4 = { entries = 2 } }

[cost]
l2_hit = 7
walk_reference = 20
"#;

fn user_cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache")
}

/// The engine that the command uses here.
pub fn engine() -> Engine {
    let cache = Some(user_cache().join("pagewalk"));
    Engine::prepare(&EngineOptions { cache, ..EngineOptions::default() })
        .expect("the engine builds on this host")
}

/// A folder of one test, where its commands run, with an environment variable for them.
pub struct Place(TempDir, Option<&'static str>);

impl Place {
    pub fn new() -> Place {
        Place(tempfile::tempdir().expect("the temporary folder is writable"), None)
    }

    /// A place with this program, compiled by [`Place::compile`], and its path.
    pub fn with_program(name: &str, source: &str) -> (Place, String) {
        let place = Place::new();
        let program = place.compile(name, source);
        (place, program)
    }

    /// A place where programs start, and lie in memory, as under Valgrind's own tools, for comparison with these.
    pub fn of_valgrind() -> Place {
        Place(Place::new().0, Some("PAGEWALK_IMAGE_OF_VALGRIND"))
    }

    /// A place with a small good trace, `good.pwt`.
    pub fn with_trace() -> Place {
        let place = Place::new();
        place.write("good.txt", lackey_text());
        place.good(&["trace", "import", "--format", "lackey", "-o", "good.pwt", "good.txt"]);
        place
    }

    /// A place with a program that leaves the file `ran` behind.
    pub fn with_witness() -> Place {
        let place = Place::new();
        place.write("witness", "#!/bin/sh\n: >ran\n");
        std::fs::set_permissions(place.path("witness"), Permissions::from_mode(0o755)).unwrap();
        place
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn has(&self, name: &str) -> bool {
        self.path(name).symlink_metadata().is_ok()
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes).expect("the temporary folder is writable");
        path
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        let path = self.path(name);
        std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    pub fn json(&self, name: &str) -> Value {
        let value = serde_json::from_slice(&self.read(name)).expect("the file is JSON");
        check_schema(&value);
        value
    }

    /// Compiles a C program without shared libraries; returns its path for a command line.
    pub fn compile(&self, name: &str, source: &str) -> String {
        self.compile_with(name, source, &[])
    }

    /// The same with more options.
    pub fn compile_with(&self, name: &str, source: &str, options: &[&str]) -> String {
        let file = self.write(&format!("{name}.c"), source);
        let include = concat!(env!("CARGO_MANIFEST_DIR"), "/../capture/engines/valgrind/include");
        let output = Command::new("gcc")
            .args(["-O1", "-g", "-static", "-I", include])
            .args(options)
            .arg("-o")
            .arg(self.path(name))
            .arg(file)
            .output()
            .expect("gcc is here");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        format!("./{name}")
    }

    /// The command in this folder, with a fixed environment. It would inherit ignored signals from the tests, as in a
    /// shell's background: it starts with none.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("/usr/bin/env");
        command.arg("--default-signal").arg(PAGEWALK).args(arguments);
        self.settle(&mut command);
        command
    }

    /// Gives a command this folder and the environment that is the same everywhere.
    pub fn settle(&self, command: &mut Command) {
        command.current_dir(self.0.path()).env_clear();
        command.env("PATH", SEARCH_PATH).env("XDG_CACHE_HOME", user_cache());
        command.envs(self.1.map(|name| (name, "1")));
    }

    /// Runs the command to its end.
    pub fn run(&self, arguments: &[&str]) -> Outcome {
        Outcome::of(self.command(arguments).output().expect("the command starts"))
    }

    /// Runs it and expects success.
    pub fn good(&self, arguments: &[&str]) -> Outcome {
        let outcome = self.run(arguments);
        assert_eq!(outcome.code, 0, "{arguments:?}: {}", outcome.stderr);
        outcome
    }
}

/// Lines that depend on whether the library knows this host, and on whether an engine was already built.
const BY_CHANCE: [&str; 2] =
    ["pagewalk: this host's CPU is not in the library", "pagewalk: building the capture engine"];

/// How a run of the command ended.
#[derive(Debug)]
pub struct Outcome {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Outcome {
    pub fn of(output: Output) -> Outcome {
        // What depends on the host and its cache is not what is tested.
        let about_host = |line: &&str| !BY_CHANCE.iter().any(|start| line.starts_with(start));
        let stderr = String::from_utf8_lossy(&output.stderr);
        let stderr: String = stderr.split_inclusive('\n').filter(about_host).collect();
        assert!(!stderr.contains("panicked"), "{stderr}");
        let code = output.status.code().unwrap_or_else(|| panic!("{}: {stderr}", output.status));
        Outcome { code, stdout: String::from_utf8_lossy(&output.stdout).into_owned(), stderr }
    }

    /// The printed JSON, which fits the schema that it names.
    #[track_caller]
    pub fn json(&self) -> Value {
        let value =
            serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error} in {}", self.stdout));
        check_schema(&value);
        value
    }

    /// What `doctor --json` found of the thing of which `key` is `value`.
    #[track_caller]
    pub fn finding(&self, key: &str, value: &str) -> Value {
        let all = self.json()["findings"].take();
        let found = all.as_array().expect("a list").iter().find(|finding| finding[key] == value);
        found.expect("doctor speaks of it").clone()
    }

    /// Expects this exit code, and one message that contains all of `parts`.
    #[track_caller]
    pub fn refuses(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, code, "{}", self.stderr);
        for part in parts {
            assert!(self.stderr.contains(part), "no `{part}` in: {}", self.stderr);
        }
        let messages = self.stderr.lines().filter(|line| line.starts_with("pagewalk: ")).count();
        let clap = self.stderr.starts_with("error: ");
        assert!(messages == 1 || clap, "{messages} messages: {}", self.stderr);
    }

    /// Expects that a file's damage is reported: in a message, or in the output of `trace info`.
    #[track_caller]
    pub fn tells_damage(&self, parts: &[&str]) {
        assert_eq!(self.code, 3, "{}{}", self.stdout, self.stderr);
        for part in parts {
            assert!(
                self.stderr.contains(part) || self.stdout.contains(part),
                "{}{}",
                self.stdout,
                self.stderr
            );
        }
    }
}

/// Kinds of results that have no type yet.
const WITHOUT_TYPE: [&str; 2] = ["pagewalk.trace-info/1", "pagewalk.verify-history/1"];

/// Expects a result to match the schema that `pagewalk schema` prints for its kind.
#[track_caller]
pub fn check_schema(result: &Value) {
    let Some(name) = result["schema"].as_str() else { return };
    if WITHOUT_TYPE.contains(&name) {
        return;
    }
    let kind = ResultKind::named(name).unwrap_or_else(|| panic!("no kind {name}"));
    let validator = jsonschema::validator_for(&kind.json_schema()).expect("it is a schema");
    let wrong: Vec<String> =
        validator.iter_errors(result).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(wrong.is_empty(), "{name}: {}", wrong.join("\n"));
}

/// Expects two results, or parts of them, to be equal; prints only where they differ.
#[track_caller]
pub fn assert_same(left: &Value, right: &Value, context: &str) {
    let mut differences = Vec::new();
    collect_differences(left, right, String::new(), &mut differences);
    let shown = differences.iter().take(20).fold(String::new(), |text, line| text + "\n" + line);
    assert!(differences.is_empty(), "{context}: {} differences:{shown}", differences.len());
}

fn collect_differences(left: &Value, right: &Value, at: String, differences: &mut Vec<String>) {
    let of_both = |key: &str| [left, right].map(|value| value.get(key).unwrap_or(&Value::Null));
    match (left, right) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))) {
                let [a, b] = of_both(key);
                collect_differences(a, b, format!("{at}/{key}"), differences);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                collect_differences(a, b, format!("{at}/{index}"), differences);
            }
        }
        _ if left == right => {}
        _ => differences.push(format!("{at}: {} != {}", short(left), short(right))),
    }
}

fn short(value: &Value) -> String {
    value.to_string().chars().take(100).collect()
}

/// A metric of the first machine, summed over all processes.
#[track_caller]
pub fn metric(result: &Value, name: &str) -> u64 {
    let metrics = &result["machines"][0]["metrics"];
    metrics[name].as_u64().unwrap_or_else(|| panic!("no {name} in {metrics}"))
}

/// The parts of a command line, one after the other.
pub fn joined<'a>(parts: &[&[&'a str]]) -> Vec<&'a str> {
    parts.concat()
}

/// A path as an argument.
pub fn text(path: &Path) -> &str {
    OsStr::to_str(path.as_os_str()).expect("temporary paths are plain")
}

/// Some lines of Lackey's, with references on 40 pages.
pub fn lackey_text() -> String {
    let page = |i: u64| 0x10000000 + i * 7 % 40 * 4096;
    (0..400).map(|i| format!("I  {:x},3\n L {:x},8\n", 0x400000 + i % 50 * 3, page(i))).collect()
}

/// A program that visits 4 MiB at random, which does not compress well.
pub fn random_visits(times: u32) -> String {
    format!(
        "int main(void) {{
            static unsigned char table[1 << 22];
            unsigned state = 1;
            for (int i = 0; i < {times}; i++) table[(state = state * 1664525u + 1013904223u) >> 10]++;
            return 0;
        }}"
    )
}
