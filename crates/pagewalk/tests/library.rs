//! The library as programs call it.

use pagewalk::capture::WindowSpec;
use pagewalk::experiment::policies;
use pagewalk::{Experiment, Fault, Listener, SilentListener, machines};
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Mutex;

#[path = "../examples/experiment.rs"]
#[allow(dead_code, reason = "its main is the example's")]
mod example;

fn recorded() -> PathBuf {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../trace/tests/fixtures/small.pwt").into()
}

fn experiment(names: &[&str]) -> Experiment {
    Experiment::new(names.iter().map(|name| machines::load(name).unwrap()).collect())
}

#[test]
fn the_example_tells_of_each_machine_under_each_kernel() {
    let lines = example::walks(&[recorded()]).unwrap();
    let told: Vec<&str> = lines
        .lines()
        .filter_map(|line| line.split_once(" on ")?.1.split_once(':'))
        .map(|(at, _)| at)
        .collect();
    let all = ["golden_cove", "zen4"]
        .map(|machine| ["host", "asap", "linux"].map(|kernel| format!("{machine} under {kernel}")));
    assert_eq!(told, all.concat(), "{lines}");
}

#[test]
fn kernels_beside_the_hosts_change_none_of_its_counts() {
    let alone = experiment(&["golden_cove"]).traces(&[recorded()], &SilentListener).unwrap().result;
    let beside =
        Experiment { kernels: policies(&["asap".to_owned()]).unwrap(), ..experiment(&["golden_cove"]) };
    let beside = beside.traces(&[recorded()], &SilentListener).unwrap().result;
    assert!(!alone.machines.is_empty());
    assert_eq!(alone.machines, beside.machines);
}

#[test]
fn what_does_not_go_together_is_refused_with_whose_fault_it_is() {
    let by_traps = Experiment { by_traps: Some(64), ..experiment(&["golden_cove", "zen4"]) };
    let error = by_traps.check(&[recorded()]).unwrap_err();
    assert_eq!(error.fault, Fault::Usage);
    assert!(error.to_string().contains("[walker.mapped]"), "{error}");
    let missing = experiment(&["zen4"]).traces(&["no/such.pwt".into()], &SilentListener).unwrap_err();
    assert_eq!(missing.fault, Fault::BadInput);
    assert!(missing.to_string().contains("no/such.pwt"), "{missing}");
    assert_eq!(experiment(&[]).check(&[]).unwrap_err().fault, Fault::Usage);
    assert_eq!(experiment(&["zen4"]).traces(&[], &SilentListener).unwrap_err().fault, Fault::Usage);
}

/// Keeps what it hears.
#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl Listener for Heard {
    fn warn(&self, message: &dyn Display) {
        self.0.lock().unwrap().push(message.to_string());
    }
}

#[test]
fn a_listener_hears_what_the_result_lacks() {
    let heard = Heard::default();
    let window = WindowSpec { to_marker: Some(77), ..WindowSpec::default() };
    let outcome = Experiment { window, ..experiment(&["zen4"]) }.traces(&[recorded()], &heard).unwrap();
    assert!(!outcome.cut);
    let heard = heard.0.into_inner().unwrap();
    assert_eq!(heard.len(), 1, "{heard:?}");
    assert!(heard[0].contains("--to-marker 77 never came"), "{heard:?}");
}
