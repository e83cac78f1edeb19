//! The cost of placing a program's libraries.

use crate::common::Lab;
use crate::lab::{VERIFY, assert_landed, host_can, packed, placed};
use pagewalk_live::layout::PlacementOptions;
use std::process::Command;
use std::time::Instant;

const LIBRARIES: u32 = 100;
const OVERHEAD_SECONDS_MAX: f64 = 0.020;

/// The shortest of several times.
fn shortest(times: u32, mut work: impl FnMut()) -> f64 {
    let one = |_| {
        let begun = Instant::now();
        work();
        begun.elapsed().as_secs_f64()
    };
    (0..times).map(one).fold(f64::INFINITY, f64::min)
}

#[test]
fn a_hundred_libraries_start_as_fast_as_ever() {
    let lab = Lab::new();
    let (mut files, mut flags, mut sum) = (Vec::new(), Vec::new(), String::from("0"));
    for number in 0..LIBRARIES {
        let name = format!("l{number}");
        files.push(lab.library(&name, 1, "", &[]));
        flags.push(format!("-l{name}"));
        sum += &format!(" + {name}()");
    }
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let program = lab.compile("p", &format!("int main(void) {{ return {sum}; }}"), &flags);
    if !host_can() {
        return;
    }
    let objects = packed(&files);
    assert_landed(&placed(&[&program], &objects, VERIFY).unwrap().images[0], &objects);
    let alone = shortest(20, || {
        assert_eq!(Command::new(&program).status().unwrap().code(), Some(LIBRARIES as i32));
    });
    let with_plan = shortest(20, || _ = placed(&[&program], &objects, PlacementOptions::default()).unwrap());
    let verified = shortest(5, || _ = placed(&[&program], &objects, VERIFY).unwrap());
    eprintln!("{LIBRARIES} libraries: alone {alone:.4} s, placed {with_plan:.4} s, verified {verified:.4} s");
    assert!(with_plan - alone < OVERHEAD_SECONDS_MAX, "{alone} and {with_plan}");
}
