//! The operating systems of a study: names from the library, or files.

use crate::error::SweepError;
use crate::source::StudyFiles;
use crate::study::{MachineVariant, StructureVariant};
use pagewalk_mm::structure::StructureSpec;
use pagewalk_sim::Structures;
use std::path::Path;
use toml::Table;

/// The name for no structure: programs alone.
const NONE: &str = "none";

/// Resolves every name to a structure.
pub fn variants(
    file: &str,
    (folder, files): (&Path, &mut StudyFiles),
    names: &[String],
    machines: &[MachineVariant],
) -> Result<Vec<StructureVariant>, SweepError> {
    let wrong = |why: String| SweepError::Study { file: file.to_owned(), why: format!("structures: {why}") };
    let mut variants: Vec<StructureVariant> = Vec::new();
    for name in names {
        let variant = variant(folder, name, files).map_err(wrong)?;
        if variants.iter().any(|other| other.name == variant.name) {
            return Err(wrong(format!("\"{name}\": there is one of this name already")));
        }
        variants.push(variant);
    }
    if !variants.is_empty() && machines.is_empty() {
        return Err(wrong("there is no machine to be in it: name some with machines = [\"k8\"]".to_owned()));
    }
    Ok(variants)
}

fn variant(folder: &Path, name: &str, files: &mut StudyFiles) -> Result<StructureVariant, String> {
    if name == NONE {
        return Ok(StructureVariant { name: NONE.to_owned(), spec: None, text: String::new() });
    }
    let (spec, text) = if name.ends_with(".toml") || name.contains('/') {
        let path = folder.join(name);
        let text = files.text(&path).map_err(|e| format!("\"{name}\": {e}"))?;
        (StructureSpec::from_toml(name, &text).map_err(|e| e.to_string())?, text)
    } else {
        let spec = Structures::get(name).map_err(|e| format!("{e}; `{NONE}` stands for programs alone"))?;
        (spec, Structures::text(name).map_err(|e| e.to_string())?.to_owned())
    };
    // Comments and layout of the file do not matter.
    let table: Table = text.parse().map_err(|e: toml::de::Error| e.to_string())?;
    let text = toml::to_string(&table).map_err(|e| e.to_string())?;
    Ok(StructureVariant { name: spec.name.clone(), spec: Some(spec), text })
}
