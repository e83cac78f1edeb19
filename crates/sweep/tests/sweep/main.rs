//! Sweeps from end to end: cells equal direct simulation, resumed runs and any number of threads give the same bytes,
//! nothing stale is reused.

mod common;
mod composing;
mod energy;
mod kernels;
mod parcels;
mod plots;
mod structures;
mod together;
mod traps;

use common::{Program, Silent, Step, program, study, sweep};
use pagewalk_mm::{PageSizePolicy, Small, Thp, ThpMode};
use pagewalk_oracle::LruSets;
use pagewalk_report::sweep::schema::{SweepResult, Value};
use pagewalk_report::sweep::{to_json, to_parquet};
use pagewalk_reuse::{ReferenceKinds, SampledDistances, Sampling, StackDistances, gone};
use pagewalk_sim::{DesignSpec, NoObserver, Pass};
use pagewalk_sweep::{Claims, Study, metrics};
use pagewalk_units::Draws;
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const STUDY: &str = r#"
traces = ["a.pwt", "b.pwt", "c.pwt"]
machines = ["k8", "skylake_sp"]

[vary]
"cost.walk_reference" = [10, 20]
"walker.caches.pde.entries" = [4, 16, 64]

[cache_family]
line_bytes = [32, 128]
[family]
serves = "data"
ways = "1..8"

[curve]
serves = ["data", "fetches", "everything"]
rate = 0.5
pages = 64
"#;

fn traces(folder: &Path, seed: u64) -> Vec<Program> {
    let programs: Vec<Program> = (0..3).map(|n| program(seed + n, 3000 + 2000 * n)).collect();
    for (program, name) in programs.iter().zip(["a.pwt", "b.pwt", "c.pwt"]) {
        program.write(&folder.join(name));
    }
    programs
}

fn bytes(result: &SweepResult) -> (String, Vec<u8>) {
    (to_json(result), to_parquet(result).unwrap())
}

/// A machine's cell is what the machine counts alone.
fn check_machines(study: &Study, programs: &[Program], result: &SweepResult) {
    let mut cells = result.machines.iter();
    for (trace, program) in programs.iter().enumerate() {
        for variant in &study.machines {
            let machine = &variant.machine;
            let policy: Arc<dyn PageSizePolicy> = match machine.has_huge_pages() {
                true => Arc::new(Thp { mode: ThpMode::Always }),
                false => Arc::new(Small),
            };
            let design = DesignSpec::new(machine, policy);
            let mut alone = Pass::new(vec![design], NoObserver).unwrap();
            program.play(&mut alone);
            let cell = cells.next().unwrap();
            assert_eq!((cell.trace, &cell.machine), (trace, &variant.machine.name));
            assert_eq!(cell.parameters, variant.parameters);
            assert_eq!(cell.metrics, metrics(&alone.finish()[0]));
        }
    }
    assert!(cells.next().is_none());
}

/// A family's cell is what the array counts, simulated the slow way.
fn check_family(programs: &[Program], result: &SweepResult, random: &mut Draws) {
    for family in &result.families {
        for _ in 0..4 {
            let size = &family.sizes[random.below(5) as usize];
            let (row, column) = (random.below(13) as usize, random.below(8) as usize);
            let shift = size.page_bytes.trailing_zeros();
            let mut slow = LruSets::new(shift, size.sets[row] as usize, size.ways[column] as usize);
            for step in &programs[family.trace].steps {
                match step {
                    Step::Run { refs, .. } => refs.iter().for_each(|r| slow.refer(r.vpn().0)),
                    Step::Event(event) => {
                        gone(event).into_iter().filter(|vpns| !vpns.is_empty()).for_each(|vpns| {
                            slow.remove(vpns.start.0..vpns.end.0);
                        })
                    }
                }
            }
            assert_eq!(size.misses[row][column], slow.misses, "{} {row} {column}", size.page_size);
        }
    }
}

/// A cell of the family of caches is what the cache counts, simulated the slow way, line by line.
fn check_cache_families(programs: &[Program], result: &SweepResult, random: &mut Draws) {
    assert_eq!(
        result.cache_families.iter().map(|cell| cell.line_bytes).collect::<Vec<_>>(),
        [32, 128].repeat(3)
    );
    for cell in &result.cache_families {
        let caches: Vec<_> = cell.caches().collect();
        assert_eq!(caches.len(), 13 * 32);
        for _ in 0..4 {
            let cache = caches[random.below(caches.len() as u64) as usize];
            // The slow arrays number 4 KiB pages: here these are lines.
            let mut slow = LruSets::new(12, cache.sets as usize, cache.ways as usize);
            let mut full = LruSets::new(12, 1, (cache.sets * cache.ways) as usize);
            let mut refer =
                |line: u64| [&mut slow, &mut full].into_iter().for_each(|array| array.refer(line));
            let shift = cell.line_bytes.ilog2();
            for step in &programs[cell.trace].steps {
                if let Step::Run { refs, .. } = step {
                    let lines = refs.iter().map(|r| r.address().0 >> shift..=r.last_byte().0 >> shift);
                    lines.flatten().for_each(&mut refer);
                }
            }
            assert_eq!((cache.all(), cache.full), (slow.misses, full.misses), "{cache:?}");
        }
    }
}

fn check_curves(programs: &[Program], result: &SweepResult) {
    for curve in &result.curves {
        let serves = match curve.serves.as_str() {
            "data" => ReferenceKinds::Data,
            "fetches" => ReferenceKinds::Fetches,
            _ => ReferenceKinds::Everything,
        };
        let points = curve.entries.iter().zip(&curve.misses);
        if curve.method.name() == "exact" {
            let mut direct = StackDistances::new(serves);
            programs[curve.trace].play(&mut direct);
            assert_eq!(curve.references, direct.references());
            points.for_each(|(&n, &misses)| assert_eq!(misses, direct.misses_with(n as usize) as f64));
            let last = *curve.entries.last().unwrap() as usize;
            assert_eq!(direct.misses_with(last), direct.misses_with(usize::MAX));
        } else {
            let sampling =
                if curve.method.name() == "fixed_rate" { Sampling::Rate(0.5) } else { Sampling::Pages(64) };
            let mut direct = SampledDistances::new(serves, sampling);
            programs[curve.trace].play(&mut direct);
            for ((&n, &misses), &error) in points.zip(&curve.standard_errors) {
                let estimate = direct.misses_with(n);
                assert_eq!((misses, error), (estimate.value, estimate.standard_error));
            }
        }
    }
}

#[test]
fn cells_are_what_direct_simulation_counts() {
    for seed in 0..cases() {
        let folder = tempfile::tempdir().unwrap();
        let programs = traces(folder.path(), 10 * seed);
        let study = study(folder.path(), STUDY);
        let result = sweep(&study, folder.path(), 2, "t").run(&Silent).unwrap();
        assert_eq!((result.machines.len(), result.families.len(), result.curves.len()), (36, 3, 27));
        assert_eq!(result.machines[1].parameters["walker.caches.pde.entries"], Value::Integer(16));
        check_machines(&study, &programs, &result);
        check_family(&programs, &result, &mut Draws::new(seed));
        check_cache_families(&programs, &result, &mut Draws::new(seed));
        check_curves(&programs, &result);
    }
}

#[test]
fn threads_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    traces(folder.path(), 1);
    let study = study(folder.path(), STUDY);
    let on = |threads: usize| {
        let units = folder.path().join(threads.to_string());
        bytes(&sweep(&study, &units, threads, "t").run(&Silent).unwrap())
    };
    let one = on(1);
    assert!(on(4) == one && on(64) == one);
}

/// Whichever units exist, intact or broken, the result is the same, and only the rest is computed.
#[test]
fn what_was_done_is_not_done_again() {
    let folder = tempfile::tempdir().unwrap();
    traces(folder.path(), 2);
    let study = study(folder.path(), STUDY);
    let begin = || sweep(&study, folder.path(), 2, "t");
    let tasks = |sweep: &pagewalk_sweep::Sweep<'_>| {
        sweep.remaining().iter().map(|one| one.tasks.len()).sum::<usize>()
    };
    assert_eq!(tasks(&begin()), 72);
    let uninterrupted = bytes(&begin().run(&Silent).unwrap());
    assert_eq!(tasks(&begin()), 0);
    let mut random = Draws::new(3);
    for _ in 0..5 {
        let mut lost = 0;
        for unit in std::fs::read_dir(folder.path().join("units")).unwrap() {
            let unit = unit.unwrap().path();
            let text = std::fs::read(&unit).unwrap();
            match random.below(6) {
                0 => std::fs::remove_file(unit).unwrap(),
                1 => std::fs::write(unit, &text[..random.below(text.len() as u64) as usize]).unwrap(),
                _ => continue,
            }
            lost += 1;
        }
        assert_eq!(tasks(&begin()), lost);
        assert!(bytes(&begin().run(&Silent).unwrap()) == uninterrupted);
    }
}

/// A job that another worker has is not run: its end is awaited, or its units are taken once they are there.
#[test]
fn a_claimed_job_is_left_alone_until_it_is_freed_or_kept() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    traces(folder.path(), 2);
    let study = study(folder.path(), STUDY);
    let alone = bytes(&sweep(&study, other.path(), 1, "t").run(&Silent).unwrap());
    let (claims, units) = (Claims::new(folder.path().join("claims")), folder.path().join("units"));
    for frees in [false, true] {
        let held = claims.claim("stream-0-task-0", "all of a").unwrap().unwrap();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| bytes(&sweep(&study, folder.path(), 1, "t").run(&Silent).unwrap()));
            // A busy host may take long to begin.
            while !units.exists() && !waits.is_finished() {
                std::thread::sleep(Duration::from_millis(10));
            }
            std::thread::sleep(Duration::from_secs(1));
            assert!(!waits.is_finished());
            if frees {
                drop(held);
            } else {
                for unit in std::fs::read_dir(other.path().join("units")).unwrap().flatten() {
                    std::fs::copy(unit.path(), units.join(unit.file_name())).unwrap();
                }
            }
            assert!(waits.join().unwrap() == alone);
        });
        std::fs::remove_dir_all(&units).unwrap();
    }
}

/// A unit's file with the right key but another task's outcome, or an incomplete one, counts as missing.
#[test]
fn outcomes_that_do_not_fit_are_not_used() {
    let folder = tempfile::tempdir().unwrap();
    traces(folder.path(), 2);
    let study = study(folder.path(), STUDY);
    let begin = || sweep(&study, folder.path(), 2, "t");
    let untouched = bytes(&begin().run(&Silent).unwrap());
    let read = |path: &PathBuf| -> Json { serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap() };
    let files = std::fs::read_dir(folder.path().join("units")).unwrap();
    let files: BTreeMap<PathBuf, Json> =
        files.map(|file| file.unwrap().path()).map(|path| (path.clone(), read(&path))).collect();
    let kind = |outcome: &Json| {
        let (name, inside) = outcome.as_object().unwrap().iter().next().unwrap();
        let method = &inside["method"];
        let method = method.as_object().and_then(|method| method.keys().next().cloned());
        format!("{name} {}", method.unwrap_or_default())
    };
    let kinds: BTreeMap<String, &Json> =
        files.values().map(|unit| (kind(&unit["outcome"]), &unit["outcome"])).collect();
    let names: Vec<&str> = kinds.keys().map(String::as_str).collect();
    let all = ["cache_family ", "curve ", "curve fixed_rate", "curve fixed_size", "family ", "machine "];
    assert_eq!(names, all);
    let mut seen = BTreeSet::new();
    for (path, unit) in &files {
        let own = kind(&unit["outcome"]);
        if !seen.insert(own.clone()) {
            continue;
        }
        let others = kinds.iter().filter(|(name, _)| **name != own).map(|(_, outcome)| (*outcome).clone());
        let short = ["misses", "standard_errors"].into_iter().filter_map(|list| {
            let mut outcome = unit["outcome"].clone();
            let inside = outcome.as_object_mut().unwrap().values_mut().next().unwrap();
            inside.get_mut(list)?.as_array_mut()?.pop()?;
            Some(outcome)
        });
        for outcome in others.chain(short) {
            let mut changed = unit.clone();
            changed["outcome"] = outcome;
            std::fs::write(path, changed.to_string()).unwrap();
            let to_do: usize = begin().remaining().iter().map(|one| one.tasks.len()).sum();
            assert_eq!(to_do, 1, "{own} became {}", kind(&changed["outcome"]));
        }
        assert!(bytes(&begin().run(&Silent).unwrap()) == untouched, "{own}");
    }
}

#[test]
fn stale_results_are_not_reused() {
    let folder = tempfile::tempdir().unwrap();
    traces(folder.path(), 4);
    let begin = |text: &str, tool: &str| -> Vec<usize> {
        let study = study(folder.path(), text);
        sweep(&study, folder.path(), 2, tool).remaining().iter().map(|one| one.tasks.len()).collect()
    };
    let original = study(folder.path(), STUDY);
    sweep(&original, folder.path(), 2, "t").run(&Silent).unwrap();
    assert_eq!(begin(STUDY, "t"), [0, 0, 0]);
    // Another program; another kernel mode, which affects only machines; one more value; a smaller family.
    assert_eq!(begin(STUDY, "another"), [24, 24, 24]);
    assert_eq!(begin(&format!("thp = \"never\"\n{STUDY}"), "t"), [12, 12, 12]);
    assert_eq!(begin(&STUDY.replace("[10, 20]", "[10, 20, 30]"), "t"), [6, 6, 6]);
    assert_eq!(begin(&STUDY.replace("1..8", "2..4"), "t"), [0, 0, 0]);
    // Another stream under the same name.
    program(99, 3000).write(&folder.path().join("b.pwt"));
    assert_eq!(begin(STUDY, "t"), [0, 24, 0]);
}

/// Studies in the repository stay readable.
#[test]
fn kept_studies_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies");
    let mut studies = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let file = file.unwrap().path();
        if file.extension().is_some_and(|extension| extension == "toml") {
            let study = Study::read(&file).unwrap();
            assert_eq!(format!("{}.toml", study.name), file.file_name().unwrap().to_str().unwrap());
            studies += 1;
        }
    }
    assert!(studies > 0);
}

fn cases() -> u64 {
    pagewalk_oracle::cases(4).into()
}

/// Machines of several page formats, too many for one pass, come out in the study's order.
#[test]
fn machines_are_grouped_as_passes_want_them() {
    let folder = tempfile::tempdir().unwrap();
    let text = r#"schema = 1
name = "large"

[[tlb]]
name = "l1"
level = 1
serves = ["fetch", "load", "store"]
page_sizes = ["16K"]
entries = 16

[walker]
kind = "software"
refill_cycles = 20

[paging]
base = "16K"

[cost]
"#;
    std::fs::write(folder.path().join("large.toml"), text).unwrap();
    let small = text.replace("large", "small").replace("16K", "4K");
    std::fs::write(folder.path().join("small.toml"), small).unwrap();
    let programs = [program(5, 2000)];
    programs[0].write(&folder.path().join("a.pwt"));
    let study = study(
        folder.path(),
        "traces = [\"a.pwt\"]\nmachines = [\"small.toml\", \"large.toml\"]\n[vary]\n\
         \"tlb.l1.entries\" = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24]\n\
         \"tlb.l1.replacement\" = [\"lru\", \"fifo\", \"random\"]\n",
    );
    assert_eq!(study.machines.len(), 144);
    let result = sweep(&study, folder.path(), 3, "t").run(&Silent).unwrap();
    check_machines(&study, &programs, &result);
}
