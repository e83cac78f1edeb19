//! The fuzz targets for a second each, under plain `cargo test`, so that they cannot rot. The same inputs each
//! time: what one second covers depends on the machine, what a case holds does not.

#[path = "../../../fuzz/src/lib.rs"]
mod harness;
#[path = "fuzz_smoke/mutator.rs"]
mod mutator;

use mutator::Mutator;
use std::time::{Duration, Instant};

/// Feeds `target` with the seeds and then with mutations of them.
fn fuzz(name: &str, seeds: &[Vec<u8>], target: fn(&[u8])) {
    for seed in seeds {
        target(seed);
    }
    let mut mutator = Mutator::new(seeds);
    let end = Instant::now() + Duration::from_secs(1);
    let mut cases = 0u64;
    while Instant::now() < end {
        let input = mutator.next_input();
        let outcome = std::panic::catch_unwind(|| target(&input));
        if outcome.is_err() {
            let path = std::env::temp_dir().join(format!("pagewalk-fuzz-{name}-{cases}"));
            std::fs::write(&path, &input).expect("the temporary folder is writable");
            panic!("{name}: case {cases} panicked; its input is in {}", path.display());
        }
        cases += 1;
    }
    assert!(cases > 100, "{name}: only {cases} cases in a second");
}

#[test]
fn machine_file() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines");
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).expect(folder).map(|entry| entry.expect(folder).path()).collect();
    paths.sort();
    let seeds: Vec<Vec<u8>> = paths.iter().map(|path| std::fs::read(path).expect("readable")).collect();
    assert!(!seeds.is_empty());
    fuzz("machine_file", &seeds, harness::machine_file);
}

#[test]
fn lackey_import() {
    let text = "==1== Lackey, an example Valgrind tool\nI  04000c50,3\n L 1ffeffe7e,8\n S 1ffeffe80,8\nI  04000c53,5\n\
                 M 0421c7cc,4\nI  04001000,1\nI  04001001,2\n L 04222fff,2\n==1== \n";
    fuzz("lackey_import", &[text.as_bytes().to_vec(), Vec::new()], harness::lackey_import);
}
