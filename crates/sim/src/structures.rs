//! The library of structures: `structures/*.toml`, embedded in the binary.

use pagewalk_mm::structure::{StructureError, StructureSpec};
use pagewalk_units::names::choice;

macro_rules! structures {
    ($($name:literal),* $(,)?) => {
        const FILES: &[(&str, &str)] = &[$(($name, include_str!(concat!("../../../structures/", $name, ".toml")))),*];
    };
}

// One line registers a structure; the file is its description.
structures! {
    "mach3",
    "mach3_afs_in",
    "mach3_afs_out",
    "osf1",
    "ultrix",
}

/// Why the library cannot give a structure.
#[derive(Debug, thiserror::Error)]
pub enum UnknownStructure {
    /// The library has no such structure.
    #[error("no structure `{name}` in the library: {choice}; a path to a .toml file works too")]
    Name {
        /// The name asked for.
        name: String,
        /// The available names, the closest first.
        choice: String,
    },
    /// The file is invalid.
    #[error(transparent)]
    Structure(#[from] StructureError),
}

/// The embedded structures.
#[derive(Clone, Copy, Debug)]
pub struct Structures;

impl Structures {
    /// Names in alphabetical order.
    pub fn names() -> impl Iterator<Item = &'static str> {
        FILES.iter().map(|&(name, _)| name)
    }

    /// The file's text.
    pub fn text(name: &str) -> Result<&'static str, UnknownStructure> {
        let found = FILES.iter().find(|&&(known, _)| known == name);
        found.map(|&(_, text)| text).ok_or_else(|| UnknownStructure::Name {
            name: name.to_owned(),
            choice: choice(name, &Structures::names().collect::<Vec<_>>()),
        })
    }

    /// The structure with this name.
    pub fn get(name: &str) -> Result<StructureSpec, UnknownStructure> {
        Ok(StructureSpec::from_toml(&format!("{name}.toml"), Structures::text(name)?)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_structure_reads_and_bears_its_files_name() {
        for name in Structures::names() {
            assert_eq!(Structures::get(name).unwrap().name, name);
        }
        assert!(Structures::names().is_sorted());
        let unknown = Structures::get("nonesuch").unwrap_err().to_string();
        assert!(unknown.contains("nonesuch") && unknown.contains("osf1"), "{unknown}");
        let misspelt = Structures::get("mach-3").unwrap_err().to_string();
        let expected = "no structure `mach-3` in the library: did you mean `mach3`";
        assert!(misspelt.starts_with(expected), "{misspelt}");
    }
}
