//! The command lines of `apply`, `verify` and `undo`.

use super::numbers::{count, percent, process, seconds};
use super::{AFTER_THE_PROGRAM, Data};
use clap::{Args, ValueHint};
use std::ffi::OsString;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(mut_arg("json", |json| json.help(AFTER_THE_PROGRAM)))]
pub struct Apply {
    /// The plan: docs/reference/plan-files.md explains the file
    #[arg(value_name = "PLAN.toml", value_hint = ValueHint::FilePath)]
    pub plan: PathBuf,
    /// Change this running process, once
    #[arg(short, long, value_name = "PID", conflicts_with_all = ["command", "release", "keep_others", "or_default"],
          value_parser = process)]
    pub pid: Option<i32>,
    /// Print what would happen to each range, and whether this host allows it; change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// If the host gives huge pages to all memory (mode `always`), do not prevent it for unplanned memory
    #[arg(long)]
    pub keep_others: bool,
    /// Detach from the program when the plan is in place, so that a debugger can attach. Programs that it starts then
    /// have no plan
    #[arg(long)]
    pub release: bool,
    /// If the plan does not fit, run the program without it; in any case end with its exit code
    #[arg(long)]
    pub or_default: bool,
    #[command(flatten)]
    pub data: Data,
    /// The program and its arguments, after `--`
    #[arg(last = true, required_unless_present_any = ["pid", "dry_run"], value_name = "CMD",
          value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct Verify {
    /// The plan: docs/reference/plan-files.md explains the file
    #[arg(value_name = "PLAN.toml", value_hint = ValueHint::FilePath, required_unless_present = "history")]
    pub plan: Option<PathBuf>,
    /// Most pairs of runs, without and with the plan
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = count::<u32>(2..=1000))]
    pub runs: u32,
    /// Stop when the 90 % interval of the saved processor time is narrower than this share of the total, in per cent
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0, value_parser = percent)]
    pub width: f64,
    /// Start no new pair after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub budget: Option<f64>,
    /// If the host gives huge pages to all memory (mode `always`), do not prevent it for unplanned memory
    #[arg(long)]
    pub keep_others: bool,
    /// Before each run, use and free as much memory as the program needs, so that the memory is already there: for
    /// guests that return free memory to the hypervisor (`pagewalk doctor`: steady memory)
    #[arg(long)]
    pub warm: bool,
    /// Do not record this measurement
    #[arg(long)]
    pub no_record: bool,
    /// Show how accurate earlier forecasts were
    #[arg(long, conflicts_with_all = ["plan", "command", "output"])]
    pub history: bool,
    #[command(flatten)]
    pub data: Data,
    /// The program and its arguments, after `--`. It runs several times with empty standard input, and its standard
    /// output is dropped
    #[arg(last = true, required_unless_present = "history", value_name = "CMD",
          value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct Undo {
    /// The plan
    #[arg(value_name = "PLAN.toml", value_hint = ValueHint::FilePath)]
    pub plan: PathBuf,
    /// The process to change
    #[arg(short, long, value_name = "PID", value_parser = process)]
    pub pid: i32,
    /// Print what would happen to each range, and whether this host allows it; change nothing
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub data: Data,
}
