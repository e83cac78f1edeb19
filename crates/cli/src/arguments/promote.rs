//! Arguments of `promote`.

use super::Data;
use super::numbers::{bytes, percent, seconds, share};
use clap::{Args, ValueEnum, ValueHint};
use pagewalk::live::promote::policy::FACTOR;
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
    #[arg(long, value_name = "BYTES", default_value = "64M", value_parser = bytes)]
    pub budget: u64,
    /// Processor time that sampling may use, in per cent of the process's
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, value_parser = percent)]
    pub own_share: f64,
    /// Charges that a part is promoted for, as a share of those at which misses have cost as much as a promotion does
    #[arg(long, value_name = "SHARE", default_value_t = FACTOR, value_parser = share)]
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
    #[command(flatten)]
    pub data: Data,
}
