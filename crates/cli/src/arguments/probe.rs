//! Arguments of `probe`.

use super::numbers::any;
use super::{INSTEAD_OF_TEXT, Style};
use clap::{Args, ValueHint};
use std::path::PathBuf;

/// Help of `--verbose` for a probe.
const PROBE_VERBOSE: &str = "Print every figure, and why entries and ways are refused";

#[derive(Debug, Args)]
#[command(mut_arg("verbose", |verbose| verbose.help(PROBE_VERBOSE)))]
#[command(mut_arg("json", |json| json.help(INSTEAD_OF_TEXT)))]
pub struct Probe {
    /// Write here: a machine file for -m if the name ends in .toml, a page with pictures in .html, the data in .json;
    /// may be given several times
    #[arg(short, long = "output", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub outputs: Vec<PathBuf>,
    /// Save the machine file where `-m host` finds it: pagewalk/machines/host.toml in $XDG_CONFIG_HOME, or in ~/.config
    #[arg(long)]
    pub save: bool,
    /// Processor to measure on. Default: the current one
    #[arg(long, value_name = "N", value_parser = any::<usize>())]
    pub cpu: Option<usize>,
    /// Take a few seconds: few repeats over small footprints, not reliable
    #[arg(long)]
    pub quick: bool,
    /// Compare the result with this machine: a name from `pagewalk machines list` or a .toml file
    #[arg(short, long, value_name = "MACHINE")]
    pub machine: Option<String>,
    #[command(flatten)]
    pub style: Style,
}
