//! The library of machines: `machines/*.toml`, embedded in the binary.

use pagewalk_translate::{MachineError, MachineSpec, requests_caches, with_caches};
use pagewalk_units::names::choice_of_many;
use std::borrow::Cow;

macro_rules! machines {
    ($($name:literal),* $(,)?) => {
        const FILES: &[(&str, &str)] = &[$(($name, include_str!(concat!("../../../machines/", $name, ".toml")))),*];
    };
}

// One line registers a machine; the file is its description.
machines! {
    "alpha_21064",
    "apple_m1",
    "golden_cove",
    "haswell",
    "k8",
    "karakostas_4k",
    "karakostas_colt",
    "karakostas_ctlb",
    "karakostas_rmm",
    "karakostas_rmm_4k",
    "karakostas_rmm_lite",
    "karakostas_segment",
    "karakostas_thp",
    "karakostas_tlb_lite",
    "karakostas_tlb_pp",
    "karakostas_tlb_pred",
    "konireddygari_split128",
    "konireddygari_split64",
    "konireddygari_u256",
    "konireddygari_u512",
    "la464",
    "mips_r2000",
    "mips_r4000",
    "neoverse_n1",
    "neoverse_v2",
    "neoverse_v2_contiguous",
    "p550",
    "park_anchor",
    "pentium_4",
    "pentium_m",
    "romer_1998",
    "romer_combined",
    "romer_remapping",
    "sandy_bridge",
    "skylake_sp",
    "zen2",
    "zen3",
    "zen4",
    "zen4_coalescing",
    "zen5",
}

/// The machine for a host whose CPU is not in the library: a current server core.
const FALLBACK: &str = "golden_cove";

/// Why the library cannot give a machine.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// The library has no such machine.
    #[error("no machine `{name}` in the library: {choice}; a path to a .toml file works too")]
    Unknown {
        /// The name asked for.
        name: String,
        /// The closest names, and how to list all.
        choice: String,
    },
    /// The file is invalid.
    #[error(transparent)]
    Machine(#[from] MachineError),
}

/// The embedded machines.
#[derive(Clone, Copy, Debug)]
pub struct Library;

impl Library {
    /// Whether a machine's name is the path of a file.
    pub fn is_path(name: &str) -> bool {
        name.ends_with(".toml") || name.contains('/')
    }

    /// Names in alphabetical order.
    pub fn names() -> impl Iterator<Item = &'static str> {
        FILES.iter().map(|&(name, _)| name)
    }

    /// The file's text. `Zen 4` and `skylake-sp` name machines too: only letters and digits matter, in either case.
    /// `zen4+caches` is the machine with its caches.
    pub fn text(name: &str) -> Result<Cow<'static, str>, LibraryError> {
        let (name, with_its_caches) = requests_caches(name);
        let asked = letters(name);
        let found = FILES.iter().find(|&&(known, _)| letters(known) == asked);
        let &(known, text) = found.ok_or_else(|| LibraryError::Unknown {
            name: name.to_owned(),
            choice: match name.split_once('+') {
                Some((machine, _)) => format!("`+caches` alone may follow a name, as in `{machine}+caches`"),
                None => choice_of_many(name, Library::names(), "`pagewalk machines list`"),
            },
        })?;
        match with_its_caches {
            true => Ok(with_caches(known, text)?.into()),
            false => Ok(text.into()),
        }
    }

    /// The machine with this name.
    pub fn get(name: &str) -> Result<MachineSpec, LibraryError> {
        Ok(MachineSpec::from_toml(&format!("{name}.toml"), &Library::text(name)?)?)
    }

    /// The machine for a host CPU and true, or a current machine and false.
    pub fn for_cpu(vendor: &str, family: u32, model: u32) -> Result<(MachineSpec, bool), LibraryError> {
        for name in Library::names() {
            let machine = Library::get(name)?;
            let matches = machine.matches.as_ref().is_some_and(|cpu| {
                cpu.vendor == vendor && cpu.family == family && cpu.models.contains(&model)
            });
            if matches {
                return Ok((machine, true));
            }
        }
        Ok((Library::get(FALLBACK)?, false))
    }
}

/// The letters and digits of a name, in lower case.
fn letters(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_array_says_what_its_replacement_rests_on() {
        for name in Library::names() {
            for tlb in Library::get(name).unwrap().tlbs {
                assert!(tlb.replacement_source.is_some(), "{name}: {}: no replacement_source", tlb.name);
            }
        }
    }

    #[test]
    fn every_machine_reads_and_bears_its_files_name() {
        for name in Library::names() {
            assert_eq!(Library::get(name).unwrap().name, name);
        }
        assert!(Library::names().is_sorted());
        assert!(matches!(Library::get("nonesuch"), Err(LibraryError::Unknown { .. })));
    }

    #[test]
    fn caches_that_a_file_has_can_be_requested() {
        let with_caches = Library::names()
            .filter(|name| FILES.iter().any(|(own, text)| own == name && text.contains("[[cache]]")));
        let names: Vec<String> = with_caches.map(|name| format!("{name}+caches")).collect();
        assert!(names.len() > 15, "{names:?}");
        for name in names {
            let machine = Library::get(&name).unwrap_or_else(|why| panic!("{name}: {why}"));
            assert!(!machine.caches.is_empty() && machine.cost.memory > 0, "{name}");
        }
    }

    #[test]
    fn case_and_signs_of_a_name_do_not_matter() {
        for (asked, name) in [("Zen 4", "zen4"), ("Skylake-SP", "skylake_sp"), ("alpha-21064", "alpha_21064")]
        {
            assert_eq!(Library::get(asked).unwrap().name, name);
        }
        let mut names: Vec<String> = Library::names().map(letters).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), Library::names().count(), "names differ by letters");
    }

    #[test]
    fn a_misspelt_name_is_answered_with_the_closest() {
        for (name, closest) in [
            ("alpha-21046", "`alpha_21064`?"),
            ("r2000", "`mips_r2000`"),
            ("thp_always", "`karakostas_thp`"),
            ("Golden Coave", "`golden_cove`?"),
        ] {
            let told = Library::get(name).unwrap_err().to_string();
            let expected = format!("no machine `{name}` in the library: did you mean {closest}");
            assert!(told.starts_with(&expected), "{told}");
            assert!(told.contains("`pagewalk machines list` lists all ") && told.len() < 240, "{told}");
        }
    }
}
