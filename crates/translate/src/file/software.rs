//! The keys of `[walker.mapped]`: mapped page tables.

use super::{FileReplacement, replacement};
use crate::{HandlerSystem, MissClass, Objective, Placement, SoftwareSpec, TlbSpec, TuningSpec};
use pagewalk_setassoc::{Geometry, SetIndex};
use pagewalk_units::PageSize;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileSoftware {
    system: Option<String>,
    systems: BTreeMap<String, FileSystem>,
    #[serde(default)]
    lower: u32,
    lower_replacement: Option<FileReplacement>,
    lower_seed: Option<u64>,
    #[serde(default)]
    placement: Placement,
    entry_bytes: u64,
    tuning: Option<FileTuning>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileSystem {
    structure: Option<String>,
    tables: u8,
    #[serde(default = "yes")]
    modify: bool,
    #[serde(default)]
    cycles: BTreeMap<String, u64>,
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileTuning {
    period: Option<u64>,
    step: Option<u32>,
    threshold: Option<f64>,
    lower_min: Option<u32>,
    lower_max: Option<u32>,
    #[serde(default)]
    objective: Objective,
    probe_after: Option<u32>,
}

impl FileSoftware {
    /// The specification, for the machine's only TLB.
    pub(super) fn check(self, tlb: &TlbSpec, base: PageSize) -> Result<SoftwareSpec, String> {
        let slots = tlb.geometry.entries() as u32;
        if tlb.index != SetIndex::Modulo {
            return Err(format!(
                "tlb.{}.index: with [walker.mapped] the lowest bits choose the set: leave it out",
                tlb.name
            ));
        }
        let bytes = self.entry_bytes;
        if !bytes.is_power_of_two() || bytes > base.bytes() / 2 {
            return Err(format!(
                "walker.mapped.entry_bytes = {bytes}: a page-table entry has a power of two of bytes, at most half a \
                 page of {base}"
            ));
        }
        let lower_replacement = self.lower_replacement.unwrap_or_else(FileReplacement::fifo);
        let whole = Geometry::new(1, None).map_err(|why| why.to_string())?;
        let lower_replacement = replacement(lower_replacement, self.lower_seed, whole)
            .map_err(|why| format!("walker.mapped.lower_replacement: {why}"))?;
        let has_partition = self.placement != Placement::D;
        let spec = SoftwareSpec {
            slots,
            ways: tlb.geometry.ways() as u32,
            lower: if has_partition { self.lower } else { 0 },
            lower_replacement,
            upper_replacement: tlb.replacement,
            placement: self.placement,
            entries_shift: base.shift() - bytes.ilog2(),
            system: system(self.system, self.systems)?,
            tuning: self.tuning.filter(|_| has_partition).map(|tuning| tuning.with_defaults(slots)),
        };
        spec.check()?;
        Ok(spec)
    }
}

/// The named system, or the only one.
fn system(name: Option<String>, mut systems: BTreeMap<String, FileSystem>) -> Result<HandlerSystem, String> {
    let choices = systems.keys().cloned().collect::<Vec<_>>().join(", ");
    let name = match name {
        Some(name) => name,
        None if systems.len() == 1 => choices.clone(),
        None => return Err(format!("walker.mapped: missing key `system`: choose from {choices}")),
    };
    let Some(FileSystem { structure, tables, modify, cycles }) = systems.remove(&name) else {
        return Err(format!("walker.mapped.system = \"{name}\": choose from {choices}"));
    };
    if !(1..=3).contains(&tables) {
        return Err(format!("walker.mapped.systems.{name}.tables = {tables}: choose 1, 2 or 3 levels"));
    }
    let class = |key: &str| MissClass::ALL.into_iter().find(|class| class.name() == key);
    if let Some(key) = cycles.keys().find(|key| class(key).is_none()) {
        let names = MissClass::ALL.map(MissClass::name).join(", ");
        return Err(format!(
            "walker.mapped.systems.{name}.cycles: unknown class `{key}`: choose from {names}"
        ));
    }
    let cycles = MissClass::ALL.map(|class| cycles.get(class.name()).copied());
    Ok(HandlerSystem { structure: structure.unwrap_or_else(|| name.clone()), name, tables, cycles, modify })
}

impl FileTuning {
    /// The tuning, with defaults for what the source leaves open.
    fn with_defaults(self, slots: u32) -> TuningSpec {
        TuningSpec {
            period: self.period.unwrap_or(10_000),
            step: self.step.unwrap_or(1),
            threshold: self.threshold.unwrap_or(0.03),
            lower_min: self.lower_min.unwrap_or(4),
            lower_max: self.lower_max.unwrap_or(slots.saturating_sub(8)),
            objective: self.objective,
            probe_after: self.probe_after.unwrap_or(4),
        }
    }
}
