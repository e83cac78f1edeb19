//! The files of a package, by their paths under `/`.

use super::{Release, capture, compressed, control, notices, read, read_text};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

const BINARY: &str = "usr/bin/pagewalk";
const MAN: &str = "usr/share/man/man1";
const DOC: &str = "usr/share/doc/pagewalk";

/// The shells that `pagewalk completions` supports and that Debian has a folder for.
const SHELLS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/pagewalk"),
    ("zsh", "usr/share/zsh/vendor-completions/_pagewalk"),
    ("fish", "usr/share/fish/vendor_completions.d/pagewalk.fish"),
];

/// Documentation that the binary prints.
pub(super) struct Pages {
    pub version: String,
    /// Manual pages, by name without section.
    manual: BTreeMap<String, Vec<u8>>,
    /// Completion scripts, in the order of [`SHELLS`].
    completions: Vec<Vec<u8>>,
}

impl Pages {
    /// Gets the pages and scripts from the binary.
    pub fn of(binary: &Path) -> Result<Pages, String> {
        // A path without a slash would be searched for in PATH.
        let binary =
            fs::canonicalize(binary).map_err(|e| format!("cannot find {}: {e}", binary.display()))?;
        let ask = |arguments: &[&str]| capture(Command::new(&binary).args(arguments));
        let said = String::from_utf8_lossy(&ask(&["--version"])?).into_owned();
        let version = said.split_whitespace().nth(1).unwrap_or_default().to_owned();
        let manual = manual(|command| ask(&[&["man"], command].concat()))?;
        let completions =
            SHELLS.iter().map(|(shell, _)| ask(&["completions", shell])).collect::<Result<_, _>>()?;
        Ok(Pages { version, manual, completions })
    }
}

/// The manual pages of the program and of all commands that pages name; `page` gets the command's words.
fn manual(page: impl Fn(&[&str]) -> Result<Vec<u8>, String>) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let mut pages = BTreeMap::new();
    let mut open = vec!["pagewalk".to_owned()];
    while let Some(name) = open.pop() {
        let words: Vec<&str> = name.split('-').skip(1).collect();
        let text = page(&words)?;
        for named in named_pages(&String::from_utf8_lossy(&text)) {
            // A page names the pages of its subcommands, and `help`, which has no page.
            let is_its = named.strip_prefix(&name).is_some_and(|rest| rest.starts_with('-'));
            if is_its && !named.ends_with("-help") {
                open.push(named);
            }
        }
        pages.insert(name, text);
    }
    if pages.len() < 2 {
        return Err("the manual page of pagewalk names no command's as `pagewalk\\-NAME(1)`".to_owned());
    }
    Ok(pages)
}

/// The names of pages that a page refers to, such as `pagewalk\-layout\-plan(1)`.
fn named_pages(roff: &str) -> Vec<String> {
    let names = roff.lines().filter_map(|line| line.strip_suffix("(1)"));
    names.map(|name| name.replace("\\-", "-")).filter(|name| name.starts_with("pagewalk-")).collect()
}

/// Files with their modes and bytes, by path.
#[derive(Default)]
pub(super) struct Contents {
    files: BTreeMap<String, (u32, Vec<u8>)>,
}

impl Contents {
    /// All files to install; `binary` is installed unchanged.
    pub fn gather(root: &Path, release: &Release, binary: Vec<u8>, pages: Pages) -> Result<Contents, String> {
        let mut contents = Contents::default();
        contents.add(BINARY, 0o755, binary);
        for (name, page) in &pages.manual {
            contents.add(format!("{MAN}/{name}.1.gz"), 0o644, compressed(page)?);
        }
        for ((_, path), script) in SHELLS.iter().zip(pages.completions) {
            contents.add(*path, 0o644, script);
        }
        let header = "crates/capture/engines/valgrind/include/pagewalk.h";
        contents.add("usr/include/pagewalk.h", 0o644, read(&root.join(header))?);
        let mit = read_text(&root.join("LICENSE-MIT"))?;
        let documents = [
            ("changelog.gz", control::changelog(release)?.into_bytes()),
            ("CHANGELOG.md.gz", read(&root.join("CHANGELOG.md"))?),
            ("README.md.gz", read(&root.join("README.md"))?),
            ("NOTICES.gz", notices::of_crates(root)?.into_bytes()),
            ("copyright", control::copyright(&mit)?.into_bytes()),
        ];
        for (name, bytes) in documents {
            let bytes = if name.ends_with(".gz") { compressed(&bytes)? } else { bytes };
            contents.add(format!("{DOC}/{name}"), 0o644, bytes);
        }
        Ok(contents)
    }

    pub fn add(&mut self, path: impl Into<String>, mode: u32, bytes: Vec<u8>) {
        self.files.insert(path.into(), (mode, bytes));
    }

    /// The paths and bytes, sorted by path.
    pub fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.iter().map(|(path, (_, bytes))| (path.as_str(), bytes.as_slice()))
    }

    /// The content of the program file.
    pub fn binary(&self) -> &[u8] {
        &self.files[BINARY].1
    }

    /// The installed size as Debian counts it: files rounded up to KiB, and one KiB for every folder.
    pub fn kibibytes(&self) -> u64 {
        let installed = || self.files().filter(|(path, _)| path.starts_with("usr/"));
        let folders: BTreeSet<&str> =
            installed().flat_map(|(path, _)| path.match_indices('/').map(|(at, _)| &path[..at])).collect();
        installed().map(|(_, bytes)| (bytes.len() as u64).div_ceil(1024)).sum::<u64>() + folders.len() as u64
    }

    /// The same files with paths relative to a folder such as `/usr/local`.
    pub fn relocated(&self) -> Contents {
        let place = |path: &str| {
            let path = path.strip_prefix("usr/").unwrap_or(path);
            path.replace("zsh/vendor-completions", "zsh/site-functions")
        };
        Contents { files: self.files.iter().map(|(path, file)| (place(path), file.clone())).collect() }
    }

    /// Writes the files under `folder`; all files and folders get the time `date`.
    pub fn write(&self, folder: &Path, date: u64) -> Result<(), String> {
        let failed = |path: &Path, e| format!("cannot write {}: {e}", path.display());
        let mut folders = BTreeSet::from([folder.to_owned()]);
        for (path, (mode, bytes)) in &self.files {
            let file = folder.join(path);
            let own = file.parent().unwrap_or(folder);
            folders.extend(own.ancestors().take_while(|above| above.starts_with(folder)).map(PathBuf::from));
            fs::create_dir_all(own).map_err(|e| failed(own, e))?;
            fs::write(&file, bytes).map_err(|e| failed(&file, e))?;
            settle(&file, *mode, date).map_err(|e| failed(&file, e))?;
        }
        folders.iter().try_for_each(|folder| settle(folder, 0o755, date).map_err(|e| failed(folder, e)))
    }
}

/// Sets a file's mode, regardless of the umask, and its time.
fn settle(path: &Path, mode: u32, date: u64) -> std::io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    File::open(path)?.set_modified(UNIX_EPOCH + Duration::from_secs(date))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_lead_to_those_of_their_commands() {
        let page = |words: &[&str]| {
            let names: &[&str] = match words {
                [] => &["layout", "help", "man"],
                ["layout"] => &["layout-plan", "layout-help"],
                _ => &[],
            };
            let line = |name: &&str| format!("pagewalk\\-{}(1)\n.TP\n", name.replace('-', "\\-"));
            Ok(names.iter().map(line).collect::<String>().into_bytes())
        };
        let names: Vec<String> = manual(page).unwrap().into_keys().collect();
        assert_eq!(names, ["pagewalk", "pagewalk-layout", "pagewalk-layout-plan", "pagewalk-man"]);
    }

    #[test]
    fn sizes_count_begun_kibibytes_and_folders() {
        let mut contents = Contents::default();
        contents.add("usr/bin/a", 0o755, vec![0; 1025]);
        contents.add("usr/bin/b", 0o755, vec![0; 1]);
        contents.add("DEBIAN/md5sums", 0o644, vec![0; 5000]);
        assert_eq!(contents.kibibytes(), 2 + 1 + 2);
    }

    #[test]
    fn elsewhere_the_files_lie_as_there() {
        let mut contents = Contents::default();
        for (_, path) in SHELLS {
            contents.add(path, 0o644, Vec::new());
        }
        let moved = contents.relocated();
        let paths: Vec<_> = moved.files().map(|(path, _)| path).collect();
        assert_eq!(
            paths,
            [
                "share/bash-completion/completions/pagewalk",
                "share/fish/vendor_completions.d/pagewalk.fish",
                "share/zsh/site-functions/_pagewalk"
            ]
        );
    }
}
