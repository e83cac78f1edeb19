//! Programs under faults behave as without, and every decision equals the slow twin's.

#[path = "../common/mod.rs"]
mod common;
mod habits;
mod killed;
mod ptraced;

use common::{alone, compiled};
use pagewalk_live::tracing::{Interrupt, ProcessEnd};
use pagewalk_live::trap::{TrapArray, TrapOptions, TrapRun, check_host, run};
use pagewalk_setassoc::{Geometry, Replacement, SetIndex};
use pagewalk_skip::{Need, skip};
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Whether programs can run under faults here. If not, only the refusal is tested, which must name a remedy.
fn host_can() -> bool {
    match check_host() {
        Ok(()) => true,
        Err(error) => {
            assert!(!error.enable().is_empty(), "{error}");
            skip(Need::Trap, format_args!("{error}; to enable: {}", error.enable()));
            false
        }
    }
}

fn array(entries: u32, ways: Option<u32>, replacement: Replacement, index: &str) -> TrapArray {
    TrapArray {
        name: "dtlb".to_owned(),
        geometry: Geometry::new(entries, ways).unwrap(),
        replacement,
        index: SetIndex::from_name(index).unwrap(),
    }
}

/// From so small that little more than one instruction's pages fit, to one that holds everything.
fn arrays() -> [TrapArray; 4] {
    [
        array(8, None, Replacement::Fifo, "modulo"),
        array(64, None, Replacement::Random { seed: 3 }, "modulo"),
        array(64, Some(4), Replacement::Fifo, "xor-4"),
        array(1024, Some(8), Replacement::Random { seed: 1 }, "xor-fold"),
    ]
}

fn trapped(words: &[&str], array: &TrapArray) -> TrapRun {
    let command: Vec<OsString> = words.iter().map(OsString::from).collect();
    run(&command, array, TrapOptions { check: true }, &Interrupt::new()).expect("the program starts")
}

/// The program ended well, everything was followed, and the twin agreed.
fn assert_good(run: &TrapRun, what: &str) {
    assert_eq!(run.end, ProcessEnd::Exit(0), "{what}: {:#?}", run.images);
    for image in &run.images {
        assert_eq!(image.not_followed, None, "{what}: {}", image.program);
        let checked = image.checked.as_ref().expect("asked for");
        assert_eq!(checked.first_difference, None, "{what}: {}", image.program);
        assert_eq!(checked.decisions, image.misses + image.forgotten, "{what}: {}", image.program);
    }
}

#[test]
fn memory_is_what_linux_promises() {
    let (_folder, program) = alone("memory", &[]);
    assert!(Command::new(&program).status().unwrap().success(), "it holds without us");
    if !host_can() {
        return;
    }
    for array in arrays() {
        let run = trapped(&[program.to_str().unwrap()], &array);
        assert_good(&run, &array.to_string());
        assert!(run.images[0].misses > 1000);
    }
}

#[test]
fn processes_and_threads_keep_apart_and_together() {
    let folder = tempfile::tempdir().unwrap();
    habits::holds(&compiled(folder.path(), "tasks", &[]), &[]);
}

/// Two threads that wait for the agent in turn: one processor suffices, until they no longer miss.
#[test]
fn threads_that_miss_share_a_processor_with_their_agent() {
    let (_folder, program) = alone("threads", &[]);
    if !host_can() || std::thread::available_parallelism().unwrap().get() == 1 {
        return;
    }
    let run = trapped(&[program.to_str().unwrap()], &array(64, None, Replacement::Fifo, "modulo"));
    assert_good(&run, "threads");
}

/// Remaining processes of this program: its agents.
fn left_of(program: &Path) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes.filter(|process| process.path().join("exe").read_link().is_ok_and(|exe| exe == program)).count()
}

#[test]
fn programs_may_be_killed_and_continued_as_they_begin() {
    let (_folder, program) = alone("startup", &[]);
    assert!(Command::new(&program).status().unwrap().success(), "it holds without us");
    if !host_can() {
        return;
    }
    let [array, ..] = arrays();
    let command = [OsString::from(&program)];
    let run = run(&command, &array, TrapOptions::default(), &Interrupt::new()).expect("its end is seen");
    assert_eq!(run.end, ProcessEnd::Exit(0), "{:#?}", run.images);
    assert!(run.images.len() > 100);
    // An agent whose program was killed before pagewalk knew of it ends by itself.
    let long_enough = Instant::now() + Duration::from_secs(20);
    while left_of(&program) > 0 {
        assert!(Instant::now() < long_enough, "agents outlive their programs");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn what_is_refused_to_the_agent_is_refused_to_the_program() {
    let (_folder, program) = alone("refused", &[]);
    if !host_can() {
        return;
    }
    let [array, ..] = arrays();
    let run = trapped(&[program.to_str().unwrap()], &array);
    assert_eq!(run.end, ProcessEnd::Exit(0), "{:#?}", run.images);
    let [image, killed, child] = &run.images[..] else { panic!("{:#?}", run.images) };
    assert!(image.not_followed.as_ref().is_some_and(|why| why.starts_with("its agent was lost")));
    let why = killed.not_followed.as_deref().unwrap_or_default();
    assert!(why.starts_with("killed, as it could not be given memory of its own: Cannot allocate"), "{why}");
    assert_eq!(child.not_followed, None);
    let left = image.left_alone.join("; ");
    assert!(left.contains("64 KiB given back"), "{left}");
    assert!(left.contains("28 KiB that could not be copied: Bad address"), "{left}");
}

/// In a PID namespace, a program's tasks have other ids, and so has its agent.
#[test]
fn programs_in_a_process_namespace_of_their_own_run_by_themselves() {
    let forks = ["-p", "sh", "-c", "sh -c 'exit 7'; exit $?"];
    let natively = Command::new("unshare").args(forks).status();
    if !natively.is_ok_and(|status| status.code() == Some(7)) {
        return skip(Need::Namespaces, "`unshare -p` runs no program");
    }
    if !host_can() {
        return;
    }
    let [array, ..] = arrays();
    let run = trapped(&[&["unshare"][..], &forks].concat(), &array);
    assert_eq!(run.end, ProcessEnd::Exit(7), "{:#?}", run.images);
    let why = run.images[1].not_followed.as_deref().unwrap_or_default();
    assert!(why.contains("process namespace"), "{why}");
}

#[test]
fn programs_without_shared_libraries_run_too() {
    let (_folder, program) = alone("memory", &["-static"]);
    if host_can() {
        let [array, ..] = arrays();
        assert_good(&trapped(&[program.to_str().unwrap()], &array), "static");
    }
}

#[test]
fn the_end_of_the_program_is_told() {
    if !host_can() {
        return;
    }
    let [array, ..] = arrays();
    assert_eq!(trapped(&["sh", "-c", "exit 5"], &array).end, ProcessEnd::Exit(5));
    assert_eq!(trapped(&["sh", "-c", "kill -TERM $$"], &array).end, ProcessEnd::Signal(15));
    let piped = trapped(&["sh", "-c", "seq 1000 | sort -n | tail -n 1 | grep -qx 1000"], &array);
    assert_good(&piped, "a pipeline");
    assert!(piped.images.iter().any(|image| image.program.ends_with("/sort")));
}

#[test]
fn a_larger_array_has_fewer_misses() {
    if !host_can() {
        return;
    }
    let misses = |entries| {
        let run = trapped(
            &["sh", "-c", "exec seq 20000 >/dev/null"],
            &array(entries, None, Replacement::Fifo, "modulo"),
        );
        run.images.last().expect("one image").misses
    };
    let (small, large) = (misses(4), misses(512));
    assert!(small > 10 * large, "{small} and {large}");
}

#[test]
fn an_interrupted_run_ends_with_all_its_processes() {
    if !host_can() {
        return;
    }
    let [array, ..] = arrays();
    let interrupt = Interrupt::new();
    let command = ["sh", "-c", "sleep 100 & sleep 100 | sleep 100"].map(OsString::from);
    let run = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(500));
            interrupt.interrupt();
            std::thread::sleep(Duration::from_millis(100));
            interrupt.interrupt();
        });
        run(&command, &array, TrapOptions::default(), &interrupt).expect("the program starts")
    });
    assert_eq!(run.end, ProcessEnd::Signal(9));
}
