//! The manual of policies: every key that the code reads, with its default, range and meaning.

use super::keys::Keys;
use super::{OsError, OsSpec, offline};
use pagewalk_units::Paging;
use std::cell::RefCell;
use std::rc::Rc;
use toml::{Table, Value};

/// A key of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyKey {
    /// Its name, with the tables that hold it: `memory.initial.free`.
    pub name: String,
    /// Its default, on a machine with 4 KiB base pages and 2 MiB huge pages.
    pub usual: String,
    /// Its allowed values.
    pub choices: String,
    /// What it means, in one line.
    pub meaning: &'static str,
}

/// The list of documented keys.
pub(super) type Manual = Rc<RefCell<Vec<PolicyKey>>>;

impl OsSpec {
    /// The keys of a policy in the order of reading: a table's keys follow the table.
    ///
    /// # Errors
    /// If there is no such policy.
    pub fn keys(policy: &str) -> Result<Vec<PolicyKey>, OsError> {
        let mut os = OsSpec::from_text(policy)?;
        let manual = Manual::default();
        let read =
            |table: &Table| Keys::new("os", table.clone(), Paging::FOUR_KIB, u32::MAX).documented(&manual);
        if policy == offline::NAME {
            os.offline(read(&os.table))?;
        } else {
            // The one required key.
            let memory = Table::from_iter([("size".to_owned(), Value::String("1G".to_owned()))]);
            os.table.insert("memory".to_owned(), Value::Table(memory));
            os.running(read(&os.table))?;
        }
        Ok(manual.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::MemorySpec;
    use crate::os::placement::{PLACEMENTS, RECOLORINGS};

    #[test]
    fn what_is_in_the_manual_is_read() {
        for (policy, _) in OsSpec::policies() {
            let keys = OsSpec::keys(policy).unwrap();
            assert!(!keys.is_empty(), "{policy}");
            // Whether a cache of any name exists, the machine knows.
            for key in keys
                .iter()
                .filter(|key| !["placement.cache", "placement.frames"].contains(&key.name.as_str()))
            {
                let name = key.name.replace("SIZE", "64K");
                let is_read = |with: &str| {
                    let os = OsSpec::from_text(&format!("{policy}:{name}=?{with}")).unwrap();
                    let built = os.build(Paging::FOUR_KIB, u32::MAX).map(|_| ());
                    let error = built.expect_err("no key takes a question mark");
                    !matches!(error, OsError::Key { .. })
                };
                // Placements and recoloring policies have keys of their own.
                let names = |table, names: Vec<&str>| {
                    names.into_iter().map(|name| format!(",{table}.policy={name}")).collect::<Vec<_>>()
                };
                let placements = names("placement", PLACEMENTS.iter().map(|(name, _)| *name).collect());
                let recolorings = names("recoloring", RECOLORINGS.iter().map(|(name, _)| *name).collect());
                let mut with = placements.into_iter().chain(recolorings);
                assert!(is_read("") || with.any(|with| is_read(&with)), "{policy}: {name}");
            }
        }
    }

    #[test]
    fn every_key_has_one_line() {
        for (policy, _) in OsSpec::policies() {
            let keys = OsSpec::keys(policy).unwrap();
            for key in &keys {
                let PolicyKey { name, usual, choices, meaning } = key;
                assert!(!usual.is_empty() && !choices.is_empty(), "{policy}: {key:?}");
                let is_line =
                    !meaning.is_empty() && !meaning.ends_with('.') && !meaning.contains(['\n', '|']);
                assert!(is_line, "{policy}: {name}: {meaning:?}");
                assert_eq!(keys.iter().filter(|other| other.name == *name).count(), 1, "{policy}: {name}");
            }
        }
    }

    #[test]
    fn defaults_are_those_that_are_in_force() {
        let usual = |policy: &str, name: &str| {
            let keys = OsSpec::keys(policy).unwrap();
            keys.into_iter().find(|key| key.name == name).map(|key| key.usual)
        };
        let all = [
            ("linux", "khugepaged.max_ptes_none", "511"),
            ("linux", "khugepaged.mthp", "never"),
            ("linux", "thp", "always"),
            ("linux", "files.around", "64K"),
            ("freebsd", "files.around", "32K"),
            ("fixed", "files", "false"),
            ("online", "bookkeeping_cycles", "2570"),
            ("asap", "max_page", "the largest that TLBs hold up to 8M, else the smallest above"),
            ("offline", "replays", "1000"),
            ("linux", "collapse.start", "must be given"),
        ];
        for (policy, name, value) in all {
            assert_eq!(usual(policy, name).as_deref(), Some(value), "{policy}: {name}");
        }
        assert_eq!(usual("offline", "memory.size"), None);
        assert!(OsSpec::keys("asop").is_err());
    }

    #[test]
    fn the_memorys_keys_are_all_there() {
        let message = |text: &str| toml::from_str::<MemorySpec>(text).unwrap_err().to_string();
        let names = |message: String| {
            let list = message.rsplit("expected one of").next().unwrap().to_owned();
            list.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()
        };
        let known = |depth: usize| {
            let of = MemorySpec::KEYS.iter().map(|key| key.name);
            of.filter(|name| name.matches('.').count() == depth)
                .map(|name| name.rsplit('.').next().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(names(message("sise = 1\n")), known(0));
        assert_eq!(names(message("size = \"1G\"\ninitial = { fre = 1 }\n")), known(1));
    }
}
