//! Host settings that keep memory from huge pages: each with its file, value and remedy.

use super::host::{FOLDER, Mode, chosen, mode_of};
use std::fs;

/// A setting that keeps memory from huge pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its file.
    pub file: String,
    /// Its value.
    pub value: String,
    /// Its effect.
    pub effect: String,
    /// The command that lifts it.
    pub allow: String,
}

impl std::fmt::Display for Setting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Setting { file, value, effect, allow } = self;
        write!(f, "{file} is `{value}`: {effect}; to allow it: {allow}")
    }
}

/// Limits of khugepaged: the default, and what a lower value prevents.
const LIMITS: [(&str, u64, &str); 3] = [
    ("max_ptes_none", 511, "untouched"),
    ("max_ptes_swap", 64, "swapped out"),
    ("max_ptes_shared", 256, "shared with other processes"),
];

/// All such settings of this host; empty if every program's memory gets huge pages.
pub fn settings() -> Vec<Setting> {
    found(&|name| fs::read_to_string(format!("{FOLDER}/{name}")).ok())
}

/// From the files' texts.
fn found(read: &dyn Fn(&str) -> Option<String>) -> Vec<Setting> {
    let Some(general) = read("enabled") else {
        return vec![Setting {
            file: FOLDER.to_owned(),
            value: "missing".to_owned(),
            effect: "this kernel has no transparent huge pages".to_owned(),
            allow: "a kernel with CONFIG_TRANSPARENT_HUGEPAGE".to_owned(),
        }];
    };
    const OF_SIZE: &str = "hugepages-2048kB/enabled";
    let of_size = read(OF_SIZE).and_then(|text| chosen(&text).map(str::to_owned));
    let (name, word) = match of_size {
        Some(word) if word != "inherit" => (OF_SIZE, Some(word)),
        _ => ("enabled", chosen(&general).map(str::to_owned)),
    };
    let mode = word.as_deref().and_then(mode_of);
    let mut all: Vec<Setting> = mode.and_then(|mode| of_mode(name, mode)).into_iter().collect();
    // If nothing gets huge pages, making room for them does not matter.
    if mode != Some(Mode::Never) {
        all.extend(of_compaction(read));
        all.extend(LIMITS.iter().filter_map(|limit| of_limit(read, limit)));
    }
    all
}

fn setting(name: &str, value: &str, effect: &str, wanted: &str) -> Setting {
    let file = format!("{FOLDER}/{name}");
    let allow = format!("echo {wanted} > {file}");
    Setting { file, value: value.to_owned(), effect: effect.to_owned(), allow }
}

fn of_mode(name: &str, mode: Mode) -> Option<Setting> {
    let effect = match mode {
        Mode::Always => return None,
        Mode::Madvise => {
            "memory that is not marked by madvise(MADV_HUGEPAGE) gets no huge pages. `pagewalk apply` marks what its \
             plan has"
        }
        Mode::Never => {
            "no memory gets huge pages, marked or not; nothing but MADV_COLLAPSE, which `pagewalk apply` and `promote` \
             use, brings it there"
        }
    };
    let wanted = if mode == Mode::Never { Mode::Madvise } else { Mode::Always };
    Some(setting(name, mode.name(), effect, wanted.name()))
}

/// Whether the kernel compacts memory for a huge page, at a first touch and in khugepaged.
fn of_compaction(read: &dyn Fn(&str) -> Option<String>) -> Vec<Setting> {
    let mut all = Vec::new();
    if read("defrag").is_some_and(|text| chosen(&text) == Some("never")) {
        let effect =
            "a first touch gets a huge page only while a free block of 2 MiB is at hand: no room is made";
        all.push(setting("defrag", "never", effect, "madvise"));
    }
    if read("khugepaged/defrag").is_some_and(|text| text.trim() == "0") {
        let effect = "khugepaged makes no room for the huge pages that it would build";
        all.push(setting("khugepaged/defrag", "0", effect, "1"));
    }
    all
}

fn of_limit(
    read: &dyn Fn(&str) -> Option<String>,
    &(name, usual, what): &(&str, u64, &str),
) -> Option<Setting> {
    let file = format!("khugepaged/{name}");
    let most: u64 = read(&file)?.trim().parse().ok()?;
    let effect =
        format!("khugepaged leaves a block of 2 MiB alone of whose 512 pages more than {most} are {what}");
    (most < usual).then(|| setting(&file, &most.to_string(), &effect, &usual.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(texts: &[(&str, &str)]) -> Vec<Setting> {
        found(&|name| texts.iter().find(|(file, _)| *file == name).map(|(_, text)| (*text).to_owned()))
    }

    #[test]
    fn what_forbids_is_named_with_the_command_that_allows_it() {
        let never = of(&[("enabled", "always madvise [never]\n"), ("defrag", "always defer [never]\n")]);
        assert_eq!(never.len(), 1, "{never:?}");
        let told = never[0].to_string();
        assert!(told.starts_with("/sys/kernel/mm/transparent_hugepage/enabled is `never`: "), "{told}");
        assert!(told.ends_with("echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"), "{told}");
        let size =
            [("enabled", "[always] madvise never"), ("hugepages-2048kB/enabled", "always inherit [never]")];
        assert!(of(&size)[0].file.ends_with("hugepages-2048kB/enabled"));
        let inherited =
            [("enabled", "always [madvise] never"), ("hugepages-2048kB/enabled", "[inherit] never")];
        assert_eq!(of(&inherited)[0].allow, "echo always > /sys/kernel/mm/transparent_hugepage/enabled");
        assert_eq!(of(&[])[0].allow, "a kernel with CONFIG_TRANSPARENT_HUGEPAGE");
    }

    #[test]
    fn what_allows_everything_is_no_hindrance() {
        let usual = [
            ("enabled", "[always] madvise never"),
            ("defrag", "always defer defer+madvise [madvise] never"),
            ("khugepaged/defrag", "1\n"),
            ("khugepaged/max_ptes_none", "511\n"),
            ("khugepaged/max_ptes_swap", "64\n"),
            ("khugepaged/max_ptes_shared", "256\n"),
        ];
        assert_eq!(of(&usual), []);
    }

    #[test]
    fn limits_of_khugepaged_are_told() {
        let texts = [
            ("enabled", "[always] madvise never"),
            ("defrag", "always [never]"),
            ("khugepaged/defrag", "0\n"),
            ("khugepaged/max_ptes_none", "0\n"),
        ];
        let found = of(&texts);
        let files: Vec<&str> =
            found.iter().map(|setting| setting.file.rsplit("hugepage/").next().unwrap()).collect();
        assert_eq!(files, ["defrag", "khugepaged/defrag", "khugepaged/max_ptes_none"]);
        assert!(
            found[2].effect.contains("more than 0 are untouched") && found[2].allow.contains("echo 511 > ")
        );
    }
}
