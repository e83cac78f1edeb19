//! End-to-end test of `cargo xtask package`, with a small program instead of `pagewalk`.

use pagewalk_skip::{Need, skip};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A program that prints the same documentation as `pagewalk`.
const STAND_IN: &str = r##"
#include <stdio.h>
#include <string.h>
int main(int count, char** words) {
    if (!strcmp(words[1], "--version")) printf("pagewalk %s\n", VERSION);
    else if (!strcmp(words[1], "completions")) printf("# of %s\n", words[2]);
    else if (count == 2) puts(".TP\npagewalk\\-layout(1)\n.TP\npagewalk\\-help(1)");
    else if (count == 3) puts(".TP\npagewalk\\-layout\\-plan(1)");
    return 0;
}
"##;

/// The files in the package, with modes.
const FILES: &str = "\
-rwxr-xr-x ./usr/bin/pagewalk
-rw-r--r-- ./usr/include/pagewalk.h
-rw-r--r-- ./usr/share/bash-completion/completions/pagewalk
-rw-r--r-- ./usr/share/doc/pagewalk/CHANGELOG.md.gz
-rw-r--r-- ./usr/share/doc/pagewalk/NOTICES.gz
-rw-r--r-- ./usr/share/doc/pagewalk/README.md.gz
-rw-r--r-- ./usr/share/doc/pagewalk/changelog.gz
-rw-r--r-- ./usr/share/doc/pagewalk/copyright
-rw-r--r-- ./usr/share/fish/vendor_completions.d/pagewalk.fish
-rw-r--r-- ./usr/share/man/man1/pagewalk-layout-plan.1.gz
-rw-r--r-- ./usr/share/man/man1/pagewalk-layout.1.gz
-rw-r--r-- ./usr/share/man/man1/pagewalk.1.gz
-rw-r--r-- ./usr/share/zsh/vendor-completions/_pagewalk
";

/// Compiles the stand-in, which reports `version`.
fn stand_in(folder: &Path, version: &str, flags: &[&str]) -> PathBuf {
    let (source, binary) = (folder.join("stand_in.c"), folder.join("stand-in"));
    fs::write(&source, STAND_IN).unwrap();
    let mut cc = Command::new("cc");
    cc.arg(format!("-DVERSION=\"{version}\"")).args(flags).arg("-o").arg(&binary).arg(&source);
    good(&mut cc);
    binary
}

fn package(binary: &Path, output: &Path, extra: &[&str]) -> Output {
    let mut xtask = Command::new(env!("CARGO_BIN_EXE_xtask"));
    xtask.arg("package").arg("--binary").arg(binary).arg("--output").arg(output).args(extra);
    xtask.env("SOURCE_DATE_EPOCH", "1700000000").env_remove("DEBEMAIL").env_remove("DEBFULLNAME");
    xtask.output().unwrap()
}

fn good(command: &mut Command) -> String {
    text(command.output().unwrap())
}

fn text(output: Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The lines for files in a listing of `tar` or `dpkg-deb`, without owner, size and time.
fn files(listing: &str) -> String {
    let files = listing.lines().filter(|line| line.starts_with('-'));
    let mut lines: Vec<String> = files
        .map(|line| {
            assert!(line.contains(" root/root ") && line.contains(" 2023-11-14 "), "{line}");
            let words: Vec<&str> = line.split_whitespace().collect();
            format!("{} {}\n", words[0], words[words.len() - 1])
        })
        .collect();
    lines.sort_by(|one, other| one[11..].cmp(&other[11..]));
    lines.concat()
}

#[test]
fn a_deb_has_its_files_and_what_it_depends_on_and_the_same_bytes_twice() {
    if Command::new("dpkg-deb").arg("--version").output().is_err() {
        return skip(Need::Programs, "no dpkg-deb");
    }
    let folder = tempfile::tempdir().unwrap();
    let binary = stand_in(folder.path(), env!("CARGO_PKG_VERSION"), &[]);
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    let made = PathBuf::from(text(package(&binary, &one, &[])).trim());
    assert_eq!(made, one.join(format!("pagewalk_{}_amd64.deb", env!("CARGO_PKG_VERSION"))));
    let again = PathBuf::from(text(package(&binary, &two, &[])).trim());
    assert!(fs::read(&made).unwrap() == fs::read(again).unwrap(), "two packages of one binary differ");
    assert_eq!(fs::read_dir(&one).unwrap().count(), 1, "something else is left beside the package");

    assert_eq!(files(&good(Command::new("dpkg-deb").env("TZ", "UTC").arg("--contents").arg(&made))), FILES);
    let field = |name| good(Command::new("dpkg-deb").arg("--field").arg(&made).arg(name));
    assert_eq!(field("Architecture"), "amd64\n");
    assert_eq!(field("Version"), format!("{}\n", env!("CARGO_PKG_VERSION")));
    let depends = field("Depends");
    assert!(depends.starts_with("binutils, gcc, libc6 (>= 2."), "{depends}");
    assert!(depends.ends_with("), libc6-dev, valgrind\n"), "{depends}");

    let root = folder.path().join("root");
    good(Command::new("dpkg-deb").arg("--raw-extract").arg(&made).arg(&root));
    good(Command::new("md5sum").current_dir(&root).args(["--check", "--strict", "DEBIAN/md5sums"]));
    assert_eq!(
        fs::read_to_string(root.join("usr/share/zsh/vendor-completions/_pagewalk")).unwrap(),
        "# of zsh\n"
    );
}

#[test]
fn an_archive_holds_a_static_binary_and_all_licences() {
    let folder = tempfile::tempdir().unwrap();
    let binary = stand_in(folder.path(), env!("CARGO_PKG_VERSION"), &["-static"]);
    let made = text(package(&binary, folder.path(), &["--static"]));
    let listing =
        good(Command::new("tar").env("TZ", "UTC").args(["--list", "--verbose", "--file", made.trim()]));
    let names = files(&listing);
    for name in [
        "-rwxr-xr-x pagewalk-VERSION-x86_64-linux/bin/pagewalk\n",
        "-rw-r--r-- pagewalk-VERSION-x86_64-linux/share/doc/pagewalk/COPYING.GPL-2\n",
        "-rw-r--r-- pagewalk-VERSION-x86_64-linux/share/doc/pagewalk/LICENSE-APACHE\n",
        "-rw-r--r-- pagewalk-VERSION-x86_64-linux/share/man/man1/pagewalk-layout-plan.1.gz\n",
        "-rw-r--r-- pagewalk-VERSION-x86_64-linux/share/zsh/site-functions/_pagewalk\n",
    ] {
        let name = name.replace("VERSION", env!("CARGO_PKG_VERSION"));
        assert!(names.contains(&name), "{name:?} is not in {names}");
    }
}

#[test]
fn a_binary_that_is_not_the_release_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refusal = |binary: &Path, extra: &[&str]| {
        let output = package(binary, &folder.path().join("out"), extra);
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let stale = refusal(&stand_in(folder.path(), "0.0.1", &[]), &[]);
    assert!(stale.contains("is version 0.0.1, and Cargo.toml says"), "{stale}");
    let linked = refusal(&stand_in(folder.path(), env!("CARGO_PKG_VERSION"), &[]), &["--static"]);
    assert!(linked.contains("not static"), "{linked}");
    let absent = refusal(&folder.path().join("nowhere"), &[]);
    assert!(absent.contains("nowhere: No such file"), "{absent}");
}
