//! Tests that a host cannot run say so. A dev-dependency only.
//!
//! `./test` gives the file that [`skip`] writes to (`PAGEWALK_SKIPPED`) and tells what stands there at its end.
//! `PAGEWALK_REQUIRE=trap,huge-pages,…` turns a skip for one of these needs into a failure.

use std::fmt::Display;
use std::io::Write;

/// What hosts may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Faults served in user space, for `trap`.
    Trap,
    /// Tracing of programs, for `apply` and `layout run`.
    Tracing,
    /// Huge pages to be had when asked for.
    HugePages,
    /// Pages of hugetlb that this user may set aside.
    Hugetlb,
    /// Sampling of a process's memory, for `promote` and `advise --pid`.
    Sampling,
    /// Mounting a small file system.
    Mount,
    /// Another root than the host's, for a process.
    Root,
    /// Landlock, by which a process keeps files from itself.
    Landlock,
    /// Programs that are no part of every host.
    Programs,
    /// Node.js, and what the tests of pages need of npm.
    Node,
}

impl Need {
    /// All of them.
    pub const ALL: [Need; 10] = [
        Need::Trap,
        Need::Tracing,
        Need::HugePages,
        Need::Hugetlb,
        Need::Sampling,
        Need::Mount,
        Need::Root,
        Need::Landlock,
        Need::Programs,
        Need::Node,
    ];

    /// Its name in `PAGEWALK_REQUIRE`.
    pub fn name(self) -> &'static str {
        match self {
            Need::Trap => "trap",
            Need::Tracing => "tracing",
            Need::HugePages => "huge-pages",
            Need::Hugetlb => "hugetlb",
            Need::Sampling => "sampling",
            Need::Mount => "mount",
            Need::Root => "root",
            Need::Landlock => "landlock",
            Need::Programs => "programs",
            Need::Node => "node",
        }
    }
}

/// Says that the test of this thread is left out, or a part of it, as the host lacks `need`.
///
/// # Panics
/// If `PAGEWALK_REQUIRE` has the need's name, or a name that is none.
pub fn skip(need: Need, why: impl Display) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let required = std::env::var("PAGEWALK_REQUIRE").unwrap_or_default();
    let names: Vec<&str> = required.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    let unknown = names.iter().find(|name| Need::ALL.iter().all(|need| need.name() != **name));
    if let Some(unknown) = unknown {
        let all = Need::ALL.map(Need::name).join(", ");
        panic!("PAGEWALK_REQUIRE has `{unknown}`: choose from {all}");
    }
    assert!(!names.contains(&need.name()), "{test} needs {}, which is required: {why}", need.name());
    let line = format!("{test}: needs {}: {why}", need.name()).replace('\n', " ");
    eprintln!("skipped: {line}");
    let Some(path) = std::env::var_os("PAGEWALK_SKIPPED") else { return };
    // One write: tests of several processes share the file.
    let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
    let written = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
    written.unwrap_or_else(|error| panic!("PAGEWALK_SKIPPED: {error}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_have_names_of_their_own() {
        for (at, need) in Need::ALL.into_iter().enumerate() {
            assert!(Need::ALL[..at].iter().all(|other| other.name() != need.name()));
        }
    }
}
