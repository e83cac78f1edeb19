//! Arguments of `advise`.

use super::numbers::{bytes, count, process, seconds};
use super::{INSTEAD_OF_TEXT, Model, Style};
use clap::{Args, ValueHint};
use std::ffi::OsString;
use std::path::PathBuf;

/// Help of `-m`: advice is for one machine.
const ONE_MACHINE: &str = "Machine to simulate: a name from `pagewalk machines list`, a .toml file, or `host`. \
Default: what `pagewalk probe --save` found, else the library's machine of this CPU, else golden_cove";

/// Help of `--thp`: advice is for this host, not for the one that recorded the trace.
const THIS_HOSTS: &str = "Transparent huge page mode of the baseline. Default: this host's";

/// The forms of the command.
const USAGE: &str = "pagewalk advise [OPTIONS] -- <CMD>...
       pagewalk advise [OPTIONS] --seconds <SECONDS,…> <T.pwt>
       pagewalk advise [OPTIONS] --pid <PID>
       pagewalk advise [OPTIONS] --samples <FILE>";

#[derive(Debug, Args)]
#[command(override_usage = USAGE)]
#[command(mut_arg("json", |json| json.help(INSTEAD_OF_TEXT)))]
#[command(mut_arg("machines", |machines| machines.help(ONE_MACHINE)))]
#[command(mut_arg("thp", |thp| thp.help(THIS_HOSTS)))]
pub struct Advise {
    /// A trace of the program, instead of running it; give its run times with `--seconds`
    #[arg(value_name = "T.pwt", conflicts_with_all = ["command", "input", "runs", "pid"],
          value_hint = ValueHint::FilePath)]
    pub trace: Option<PathBuf>,
    /// A running process instead: samples its TLB misses as `pagewalk promote` does, and changes nothing
    #[arg(short, long, value_name = "PID", conflicts_with_all = ["command", "input", "runs", "no_trial", "machines"],
          value_parser = process)]
    pub pid: Option<i32>,
    /// Samples of perf instead: the process with most walks in a perf.data file, or in the text of `perf script`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath,
          conflicts_with_all = ["command", "trace", "pid", "watch", "input", "runs", "warm", "no_trial", "machines"])]
    pub samples: Option<PathBuf>,
    /// How long to watch the process, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, conflicts_with_all = ["command", "trace"],
          value_parser = seconds)]
    pub watch: f64,
    /// Processor time of each run of the recorded program on this host, in seconds
    #[arg(long, value_name = "SECONDS,…", value_delimiter = ',', requires = "trace", value_parser = seconds)]
    pub seconds: Vec<f64>,
    /// Write the plan here, for `pagewalk apply` and `pagewalk verify`
    #[arg(short, long, value_name = "PLAN.toml", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Most memory that may be backed but never touched, such as 512M. Default: as much as pays
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub budget: Option<u64>,
    /// Runs of the program as it is, and of each alternative. If they vary much, up to four times as many, within a
    /// minute
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = count::<u32>(5..=100))]
    pub runs: u32,
    /// Before each run, use and free as much memory as the program needs, so that the memory is already there: for
    /// guests that return free memory to the hypervisor (`pagewalk doctor`: steady memory)
    #[arg(long, conflicts_with_all = ["trace", "pid"])]
    pub warm: bool,
    /// Do not run the alternatives: forecast from the model alone, with a wide interval
    #[arg(long)]
    pub no_trial: bool,
    /// File for standard input in every run. Default: empty
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub input: Option<PathBuf>,
    /// A probe of this host, written by `pagewalk probe -o FILE.json`. Default: the last probe, or a new one (under a
    /// minute)
    #[arg(long, value_name = "FILE.json", value_hint = ValueHint::FilePath)]
    pub probe: Option<PathBuf>,
    #[command(flatten)]
    pub model: Model,
    #[command(flatten)]
    pub style: Style,
    /// The program and its arguments, after `--`
    #[arg(last = true, required_unless_present_any = ["trace", "pid", "samples"], value_name = "CMD",
          value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}
