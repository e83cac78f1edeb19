//! OFFLINE in studies: the policy that knows the future, which takes several replays of a stream.

use crate::error::SweepError;
use crate::metrics::metrics;
use pagewalk_report::schema::Metrics;
use pagewalk_sim::{OfflineSettings, Take, held_orders, offline};
use pagewalk_trace::pwt::Reader;
use pagewalk_translate::MachineSpec;
use std::fs::File;
use std::path::Path;
use toml::Table;

/// The policy's name in `[[os]]`.
pub const POLICY: &str = "offline";

/// What an `[[os]]` table without its name and machines says of it.
pub fn settings(table: &Table) -> Result<OfflineSettings, String> {
    let mut settings = OfflineSettings::default();
    for (key, value) in table {
        let wrong = |expected: &str| format!("os.{key} is {value}: expected {expected}");
        let count = || {
            let count =
                value.as_integer().and_then(|count| u64::try_from(count).ok()).filter(|&count| count > 0);
            count.ok_or_else(|| wrong("a whole number, 1 or more"))
        };
        match key.as_str() {
            "policy" => {}
            "take" => {
                let share = value.as_float().or(value.as_integer().map(|share| share as f64));
                let share = share.filter(|&share| share > 0.0 && share <= 1.0);
                settings.take = Take::Share(share.ok_or_else(|| wrong("a share above 0 and up to 1"))?);
            }
            "replays" => settings.replays = usize::try_from(count()?).unwrap_or(usize::MAX),
            "miss_cycles" => settings.miss_cycles = count()?,
            "build_cycles_per_kib" => settings.costs.copy_per_kib = count()?,
            _ => {
                let known = "policy, take, replays, miss_cycles, build_cycles_per_kib";
                return Err(format!("unknown key `os.{key}`: known are {known}"));
            }
        }
    }
    Ok(settings)
}

/// Whether there is a superpage to choose on a machine.
pub fn check(machine: &MachineSpec) -> Result<(), String> {
    if held_orders(machine) >> 1 == 0 {
        return Err(format!(
            "no TLB of `{}` holds pages larger than its base page for all references",
            machine.name
        ));
    }
    Ok(())
}

/// A machine's counters over a trace with the superpages that are best for it.
pub fn run(path: &Path, machine: &MachineSpec, settings: &OfflineSettings) -> Result<Metrics, SweepError> {
    let wrong = |why: String| SweepError::Trace { path: path.to_owned(), why };
    let open = || {
        let file = File::open(path).map_err(|e| e.to_string())?;
        Reader::new(file).map_err(|e| e.to_string())
    };
    let found = offline(open, machine, settings, |_| {}).map_err(|e| wrong(e.to_string()))?;
    Ok(metrics(&found.counts))
}
