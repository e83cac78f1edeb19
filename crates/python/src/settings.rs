//! Settings given by name, with the choices in the error.

use crate::error::UsageError;
use pagewalk::mm::{AreaRules, ThpMode};
use pagewalk::trace::Grain;
use pagewalk::units::names::choice;
use pyo3::prelude::*;

/// A mode of transparent huge pages.
pub fn thp(name: Option<&str>) -> PyResult<Option<ThpMode>> {
    let mode =
        |name| ThpMode::from_name(name).ok_or_else(|| wrong("thp", name, &["always", "madvise", "never"]));
    name.map(mode).transpose()
}

/// How areas of traces without mappings are inferred.
pub fn areas(text: Option<&str>) -> PyResult<AreaRules> {
    let rules = |text| AreaRules::from_text(text).map_err(|why| UsageError::new_err(format!("areas: {why}")));
    text.map_or_else(|| Ok(AreaRules::default()), rules)
}

/// What a recording keeps of addresses.
pub fn grain(name: &str) -> PyResult<Grain> {
    match name {
        "byte" => Ok(Grain::Byte),
        "page" => Ok(Grain::Page),
        _ => Err(wrong("grain", name, &["byte", "page"])),
    }
}

fn wrong(key: &str, value: &str, known: &[&str]) -> PyErr {
    UsageError::new_err(format!("{key}: there is no `{value}`\n  {}", choice(value, known)))
}
