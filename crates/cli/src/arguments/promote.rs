//! Arguments of `promote`.

use clap::{Args, ValueEnum, ValueHint};
use std::path::PathBuf;

/// By what misses are sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SamplerChoice {
    /// The best of the following that can be used
    Auto,
    /// The processor's precise samples of TLB misses (Intel)
    Pmu,
    /// Accessed bits of single pages, by the kernel's DAMON (root)
    Damon,
    /// Accessed bits of whole mappings, by /proc/PID/smaps
    Referenced,
}

#[derive(Debug, Args)]
pub struct Promote {
    /// The process
    #[arg(short, long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub pid: i32,
    /// By what its TLB misses are sampled
    #[arg(long, value_enum, default_value_t = SamplerChoice::Auto)]
    pub sampler: SamplerChoice,
    /// Memory that promotions may make resident and was not
    #[arg(long, value_name = "MIB", default_value_t = 64)]
    pub budget: u64,
    /// Processor time that sampling may use, in per cent of the process's
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, value_parser = percent)]
    pub own_share: f64,
    /// Charges that a part is promoted for, as a share of those at which misses have cost as much as a promotion does
    #[arg(long, value_name = "SHARE", default_value_t = 0.125, value_parser = share)]
    pub factor: f64,
    /// End after so many seconds. Default: when the process ends, or on Ctrl-C
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub seconds: Option<f64>,
    /// Sample, charge and decide, and promote nothing
    #[arg(long)]
    pub dry_run: bool,
    /// A probe of this host, as `pagewalk probe -o FILE.json` writes it. Default: the one that was taken last, or one
    /// that is taken now (under a minute)
    #[arg(long, value_name = "FILE.json", value_hint = ValueHint::FilePath)]
    pub probe: Option<PathBuf>,
    /// Write a line of JSON here for each decision
    #[arg(long, value_name = "FILE.jsonl", value_hint = ValueHint::FilePath)]
    pub log: Option<PathBuf>,
    /// Print JSON on standard output
    #[arg(long)]
    pub json: bool,
    /// Write the same JSON here
    #[arg(short, long, value_name = "FILE.json", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Say nothing but what was asked for and errors
    #[arg(short, long)]
    pub quiet: bool,
}

fn number(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|number: &f64| number.is_finite()).ok_or_else(|| "give a number".to_owned())
}

fn percent(text: &str) -> Result<f64, String> {
    let given = number(text)?;
    if given > 0.0 && given <= 100.0 {
        Ok(given)
    } else {
        Err("give more than 0, and 100 at most".to_owned())
    }
}

fn share(text: &str) -> Result<f64, String> {
    let given = number(text)?;
    if given > 0.0 && given <= 1000.0 {
        Ok(given)
    } else {
        Err("give more than 0, and 1000 at most".to_owned())
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    let given = number(text)?;
    if given > 0.0 && given <= 1e9 { Ok(given) } else { Err("give more than 0, and 1e9 at most".to_owned()) }
}
