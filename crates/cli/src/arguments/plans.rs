//! The command lines of `apply`, `verify` and `undo`.

use super::numbers::{percent, seconds};
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
    /// Act on this running process, once
    #[arg(short, long, value_name = "PID", conflicts_with_all = ["command", "release", "keep_others", "or_default"],
          value_parser = clap::value_parser!(i32).range(1..))]
    pub pid: Option<i32>,
    /// Say what would be done to each range, and whether this host lets it, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Where the host gives huge pages to all memory (mode `always`): let it do so for what is not planned, too
    #[arg(long)]
    pub keep_others: bool,
    /// Let go of the program when the plan is in place, so that a debugger can attach. Programs that it starts then
    /// have no plan
    #[arg(long)]
    pub release: bool,
    /// Start the program without the plan if the plan does not fit, and end with its exit code in any case
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
    /// Pairs of runs at most, without and with the plan
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub runs: u32,
    /// Stop when the 90 % interval of the processor time saved is narrower than this share of it all, in per cent
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0, value_parser = percent)]
    pub width: f64,
    /// Begin no more pairs after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub budget: Option<f64>,
    /// Where the host gives huge pages to all memory (mode `always`): let it do so for what is not planned, too
    #[arg(long)]
    pub keep_others: bool,
    /// Before each run, use as much memory as it needs and free it, so that it finds memory that is there: for guests
    /// that give their free memory back (`pagewalk doctor`: steady memory)
    #[arg(long)]
    pub warm: bool,
    /// Keep no record of this measurement
    #[arg(long)]
    pub no_record: bool,
    /// Say how well the forecasts of former measurements held
    #[arg(long, conflicts_with_all = ["plan", "command", "output"])]
    pub history: bool,
    #[command(flatten)]
    pub data: Data,
    /// The program and its arguments, after `--`. It runs several times, reads nothing from standard input, and what it
    /// prints on standard output is dropped
    #[arg(last = true, required_unless_present = "history", value_name = "CMD",
          value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct Undo {
    /// The plan
    #[arg(value_name = "PLAN.toml", value_hint = ValueHint::FilePath)]
    pub plan: PathBuf,
    /// The process whose planned ranges go back to small pages
    #[arg(short, long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub pid: i32,
    /// Say what would be done to each range, and whether this host lets it, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub data: Data,
}
