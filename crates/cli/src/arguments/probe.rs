//! Arguments of `probe`.

use super::{INSTEAD_OF_TEXT, Style};
use clap::{Args, ValueHint};
use std::path::PathBuf;

/// `--verbose` of a probe.
const PROBE_VERBOSE: &str = "Print every figure, and why entries and ways are refused";

#[derive(Debug, Args)]
#[command(mut_arg("verbose", |verbose| verbose.help(PROBE_VERBOSE)))]
#[command(mut_arg("json", |json| json.help(INSTEAD_OF_TEXT)))]
pub struct Probe {
    /// Write here: to a name that ends in .toml a machine file for -m, in .html a page with pictures, in .json the
    /// data; may be given several times
    #[arg(short, long = "output", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub outputs: Vec<PathBuf>,
    /// Keep the machine file where `-m host` finds it: pagewalk/machines/host.toml in $XDG_CONFIG_HOME, or in
    /// ~/.config
    #[arg(long)]
    pub save: bool,
    /// Processor to measure on. Default: the one at hand
    #[arg(long, value_name = "N")]
    pub cpu: Option<usize>,
    /// A look of a few seconds: few repeats over small footprints, not to be relied on
    #[arg(long)]
    pub quick: bool,
    /// Say beside what was found what this machine has: a name from `pagewalk machines list` or a .toml file
    #[arg(short, long, value_name = "MACHINE")]
    pub machine: Option<String>,
    #[command(flatten)]
    pub style: Style,
}
