//! Reports tests that the host cannot run. A dev-dependency only.
//!
//! [`skip`] writes to the file named by `PAGEWALK_SKIPPED`; `./test` sets it and prints the file's content at the end.
//! `PAGEWALK_REQUIRE=trap,huge-pages,…` makes tests that would be skipped for one of these needs fail instead.

use std::fmt::Display;
use std::io::Write;

/// A feature that a host may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Handling page faults in user space, for `trap`.
    Trap,
    /// Tracing of programs, for `apply` and `layout run`.
    Tracing,
    /// Huge pages on request.
    HugePages,
    /// Permission to reserve hugetlb pages.
    Hugetlb,
    /// Sampling of a process's memory, for `promote` and `advise --pid`.
    Sampling,
    /// Mounting a small file system.
    Mount,
    /// A different root directory for a process.
    Root,
    /// Making process namespaces.
    Namespaces,
    /// Making control groups.
    ControlGroups,
    /// Landlock, by which a process restricts its own access to files.
    Landlock,
    /// A kernel with the version and settings that a test expects.
    Kernel,
    /// A refusal that a test expects: the host lacks or forbids what is asked for.
    Refusals,
    /// Programs that not every host has.
    Programs,
    /// Node.js, and the npm packages that the tests of HTML pages need.
    Node,
    /// The packages that the tests of the Python package need.
    Python,
}

impl Need {
    /// All of them.
    pub const ALL: [Need; 15] = [
        Need::Trap,
        Need::Tracing,
        Need::HugePages,
        Need::Hugetlb,
        Need::Sampling,
        Need::Mount,
        Need::Root,
        Need::Namespaces,
        Need::ControlGroups,
        Need::Landlock,
        Need::Kernel,
        Need::Refusals,
        Need::Programs,
        Need::Node,
        Need::Python,
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
            Need::Namespaces => "namespaces",
            Need::ControlGroups => "control-groups",
            Need::Landlock => "landlock",
            Need::Kernel => "kernel",
            Need::Refusals => "refusals",
            Need::Programs => "programs",
            Need::Node => "node",
            Need::Python => "python",
        }
    }
}

/// Reports that this thread's test, or a part of it, is skipped because the host lacks `need`.
///
/// # Panics
/// If `PAGEWALK_REQUIRE` contains the need's name, or an unknown name.
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
    // A single write, because tests of several processes share the file.
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
