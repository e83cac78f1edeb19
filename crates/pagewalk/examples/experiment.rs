//! Simulates recorded programs on two machines, each under the host's kernel and under two others, and prints what
//! translation costs: `cargo run --example experiment -- T.pwt`, where T.pwt is made by `pagewalk record`.

use pagewalk::experiment::policies;
use pagewalk::{Error, Experiment, SilentListener, machines};
use std::path::PathBuf;

/// A line for each program, machine and kernel.
pub fn walks(traces: &[PathBuf]) -> Result<String, Error> {
    let experiment = Experiment {
        kernels: policies(&["asap".to_owned(), "linux:thp=always".to_owned()])?,
        ..Experiment::new(vec![machines::load("golden_cove")?, machines::load("zen4")?])
    };
    experiment.check(traces)?;
    let mut lines = String::new();
    for process in experiment.traces(traces, &SilentListener)?.result.processes {
        for row in process.kernels {
            let [walks, cycles] = ["walks", "tlb_mcpi"].map(|name| row.metrics[name].as_f64());
            let (program, machine, policy) = (&process.program, &row.machine, &row.policy);
            lines += &format!(
                "{program} on {machine} under {policy}: {walks} walks, {cycles:.4} cycles an instruction\n"
            );
        }
    }
    Ok(lines)
}

fn main() -> Result<(), String> {
    let traces: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    print!("{}", walks(&traces).map_err(|error| error.to_string())?);
    Ok(())
}
