//! Arguments of `promote`.

use super::Data;
use super::numbers::{bytes, percent, process, seconds, share};
use clap::{Args, ValueEnum, ValueHint};
use pagewalk::live::promote::policy::FACTOR;
use std::path::PathBuf;

/// Sources of samples of misses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SamplerChoice {
    /// The best of the following that works here
    Auto,
    /// The processor's precise samples of TLB misses (Intel)
    Pmu,
    /// Accessed bits of single pages, by the kernel's DAMON (root)
    Damon,
    /// Accessed bits of whole mappings, from /proc/PID/smaps
    Referenced,
}

#[derive(Debug, Args)]
pub struct Promote {
    /// The process
    #[arg(short, long, value_name = "PID", value_parser = process)]
    pub pid: i32,
    /// How to sample TLB misses
    #[arg(long, value_enum, default_value_t = SamplerChoice::Auto)]
    pub sampler: SamplerChoice,
    /// Most memory that promotions may newly make resident
    #[arg(long, value_name = "BYTES", default_value = "64M", value_parser = bytes)]
    pub budget: u64,
    /// Most processor time for sampling, in per cent of the process's
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, value_parser = percent)]
    pub own_share: f64,
    /// Promote a region once its misses have cost this share of a promotion
    #[arg(long, value_name = "SHARE", default_value_t = FACTOR, value_parser = share)]
    pub factor: f64,
    /// Stop after this many seconds. Default: when the process ends, or on Ctrl-C
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub seconds: Option<f64>,
    /// Sample, charge and decide, but promote nothing
    #[arg(long)]
    pub dry_run: bool,
    /// A probe of this host, written by `pagewalk probe -o FILE.json`. Default: the last probe, or a new one (under a
    /// minute)
    #[arg(long, value_name = "FILE.json", value_hint = ValueHint::FilePath)]
    pub probe: Option<PathBuf>,
    /// Write one line of JSON per decision here
    #[arg(long, value_name = "FILE.jsonl", value_hint = ValueHint::FilePath)]
    pub log: Option<PathBuf>,
    #[command(flatten)]
    pub data: Data,
}
