//! Machine descriptions in TOML. `docs/adding-a-machine.md` explains every key.

mod tlb;
mod walker;

use crate::{CostSpec, MachineError, MachineSpec, Match};
use pagewalk_setassoc::{Geometry, Replacement, SetArray};
use serde::Deserialize;
use tlb::FileTlb;
use walker::FileWalker;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    schema: u32,
    name: String,
    title: Option<String>,
    #[serde(default)]
    tlb: Vec<FileTlb>,
    walker: FileWalker,
    cost: CostSpec,
    #[serde(rename = "match")]
    matches: Option<Match>,
}

/// [`Replacement`] without its seed; the parser names line and choices where it is none.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum FileReplacement {
    #[default]
    Lru,
    TreePlru,
    BitPlru,
    Fifo,
    Random,
}

/// The replacement that the keys `replacement` and `seed` name, for an array of this shape.
fn replacement(name: FileReplacement, seed: Option<u64>, geometry: Geometry) -> Result<Replacement, String> {
    let replacement = match name {
        FileReplacement::Lru => Replacement::Lru,
        FileReplacement::TreePlru => Replacement::TreePlru,
        FileReplacement::BitPlru => Replacement::BitPlru,
        FileReplacement::Fifo => Replacement::Fifo,
        FileReplacement::Random => Replacement::Random { seed: seed.unwrap_or(0) },
    };
    if seed.is_some() && !matches!(replacement, Replacement::Random { .. }) {
        let name = replacement.name();
        return Err(format!("seed is for replacement = \"random\" alone, not for \"{name}\""));
    }
    SetArray::new(geometry, replacement).map_err(|why| format!("replacement: {why}"))?;
    Ok(replacement)
}

impl MachineSpec {
    /// Reads a machine from TOML text; `file` is its name for messages.
    pub fn from_toml(file: &str, text: &str) -> Result<MachineSpec, MachineError> {
        let parsed: File = toml::from_str(text).map_err(|error| MachineError::Syntax {
            file: file.to_owned(),
            message: error.to_string().trim_end().to_owned(),
        })?;
        let rule = |why: String| MachineError::Rule { file: file.to_owned(), why };
        if parsed.schema != 1 {
            return Err(rule(format!("schema = {}: this version reads schema = 1", parsed.schema)));
        }
        let tlbs = parsed.tlb.into_iter().map(|tlb| tlb.check(file)).collect::<Result<Vec<_>, _>>()?;
        let machine = MachineSpec {
            title: parsed.title.unwrap_or_else(|| parsed.name.clone()),
            name: parsed.name,
            tlbs,
            walker: parsed.walker.check(file)?,
            cost: parsed.cost,
            matches: parsed.matches,
        };
        machine.check().map_err(rule)?;
        Ok(machine)
    }
}
