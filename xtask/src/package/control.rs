//! Debian's metadata of a package: control, checksums, changelog and copyright.

use super::{Contents, Release, capture, filtered};
use std::fmt::Write;
use std::process::Command;

/// Packages of the programs that `pagewalk` runs. The engine is built on first use: `gcc` compiles it with the headers
/// of Valgrind and of the C library, and `objcopy` from `binutils` prepares an object file of Valgrind.
const PROGRAMS: [&str; 4] = ["binutils", "gcc", "libc6-dev", "valgrind"];

const DESCRIPTION: &str = "\
simulate the TLBs and page walks of real programs
 pagewalk runs an unmodified Linux program, simulates its TLBs and page walks
 while it runs, and says which mappings, functions and pages the walks come
 from. In the same pass it simulates the alternatives: huge pages where Linux
 would give them, each costly mapping alone on 2 MiB pages, a larger TLB, a
 perfect TLB.
 .
 It needs no hardware counters, no root and no recompiled program. Its engine
 is a tool of Valgrind, built on first use for the Valgrind that is installed.
";

/// The control file. `libraries` are the packages of the linked libraries, in the syntax of `Depends`.
pub(super) fn control(release: &Release, libraries: &[String], kibibytes: u64) -> String {
    let mut depends: Vec<&str> = PROGRAMS.into_iter().chain(libraries.iter().map(String::as_str)).collect();
    depends.sort_unstable();
    let depends = depends.join(", ");
    let Release { version, maintainer, .. } = release;
    format!(
        "Package: pagewalk\nVersion: {version}\nArchitecture: amd64\nMaintainer: {maintainer}\n\
         Installed-Size: {kibibytes}\nDepends: {depends}\nSection: devel\nPriority: optional\n\
         Description: {DESCRIPTION}"
    )
}

/// The checksums of all installed files, in the format of `dpkg --verify`.
pub(super) fn sums(contents: &Contents) -> Result<Vec<u8>, String> {
    let mut text = String::new();
    for (path, bytes) in contents.files() {
        let sum = filtered(&mut Command::new("md5sum"), bytes)?;
        let sum = String::from_utf8_lossy(&sum);
        let sum = sum.split_whitespace().next().unwrap_or_default();
        let _ = writeln!(text, "{sum}  {path}");
    }
    Ok(text.into_bytes())
}

/// Debian's changelog with this release. Changes for users are in the project's own changelog, installed beside it.
pub(super) fn changelog(release: &Release) -> Result<String, String> {
    let mut date = Command::new("date");
    date.env("LC_ALL", "C").args(["--utc", "--rfc-email"]).arg(format!("--date=@{}", release.date));
    let date = capture(&mut date)?;
    let Release { version, maintainer, .. } = release;
    Ok(format!(
        "pagewalk ({version}) unstable; urgency=medium\n\n  \
         * Release {version}. CHANGELOG.md.gz says what changes.\n\n \
         -- {maintainer}  {}\n",
        String::from_utf8_lossy(&date).trim()
    ))
}

/// Debian's copyright file, from the text of the MIT licence: holders, an empty line, and the permissions.
pub(super) fn copyright(mit: &str) -> Result<String, String> {
    let holder = mit.lines().find(|line| line.starts_with("Copyright"));
    let holder = holder.ok_or("LICENSE-MIT has no line that begins with `Copyright`")?;
    let holder = holder.trim_start_matches("Copyright").trim_start_matches(" (c)").trim();
    let terms = mit.split_once("Permission is hereby granted").ok_or("LICENSE-MIT is not the MIT licence")?.1;
    let terms = indented(&format!("Permission is hereby granted{}", terms.trim_end()));
    Ok(format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
         Upstream-Name: pagewalk\n\
         Comment:\n \
         The binary links crates of other authors and Rust's standard library. Their\n \
         licences and notices stand in /usr/share/doc/pagewalk/NOTICES.gz.\n\n\
         Files: *\nCopyright: {holder}\nLicense: Apache-2.0 or Expat\n\n\
         Files: crates/capture/engines/valgrind/*\nCopyright: {holder}\nLicense: GPL-2+\n\
         Comment:\n \
         The capture engine. The binary carries its sources, and builds a program of its\n \
         own from them on first use, which links Valgrind's libraries.\n\n\
         Files: crates/capture/engines/valgrind/include/pagewalk.h\nCopyright: {holder}\n\
         License: Apache-2.0 or Expat\n\n\
         License: Apache-2.0\n \
         On Debian systems the full text is in /usr/share/common-licenses/Apache-2.0.\n\n\
         License: GPL-2+\n \
         This program is free software; you can redistribute it and/or modify it under\n \
         the terms of the GNU General Public License as published by the Free Software\n \
         Foundation; either version 2 of the License, or (at your option) any later\n \
         version. It comes without any warranty.\n .\n \
         On Debian systems the full text is in /usr/share/common-licenses/GPL-2.\n\n\
         License: Expat\n{terms}"
    ))
}

/// Formats text as continuation lines of a field.
fn indented(text: &str) -> String {
    text.lines().map(|line| if line.is_empty() { " .\n".to_owned() } else { format!(" {line}\n") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release() -> Release {
        Release { version: "1.2.3".into(), date: 86_400, maintainer: "Ann <ann@example.org>".into() }
    }

    #[test]
    fn control_says_what_the_engine_is_built_with() {
        let text = control(&release(), &["libc6 (>= 2.34)".to_owned()], 99);
        assert!(text.starts_with("Package: pagewalk\nVersion: 1.2.3\nArchitecture: amd64\n"), "{text}");
        for line in [
            "Maintainer: Ann <ann@example.org>",
            "Installed-Size: 99",
            "Depends: binutils, gcc, libc6 (>= 2.34), libc6-dev, valgrind",
        ] {
            assert!(text.lines().any(|found| found == line), "{line:?} is not in {text}");
        }
        let mut description = text.lines().skip_while(|line| !line.starts_with("Description: "));
        description.next().unwrap();
        assert!(description.all(|line| line.starts_with(' ') && line.len() <= 80), "{text}");
    }

    #[test]
    fn the_changelog_has_debians_form() {
        let expected = "pagewalk (1.2.3) unstable; urgency=medium\n\n  \
            * Release 1.2.3. CHANGELOG.md.gz says what changes.\n\n -- Ann <ann@example.org>  \
            Fri, 02 Jan 1970 00:00:00 +0000\n";
        assert_eq!(changelog(&release()).unwrap(), expected);
    }

    #[test]
    fn sums_name_the_installed_files() {
        let mut contents = Contents::default();
        contents.add("usr/bin/pagewalk", 0o755, Vec::new());
        let text = String::from_utf8(sums(&contents).unwrap()).unwrap();
        assert_eq!(text, "d41d8cd98f00b204e9800998ecf8427e  usr/bin/pagewalk\n");
    }

    #[test]
    fn copyright_has_both_licences_and_the_engines() {
        let mit = "MIT License\n\nCopyright (c) 2026 Ann\n\nPermission is hereby granted, free\n\nTHE END\n";
        let text = copyright(mit).unwrap();
        for part in ["Files: *\nCopyright: 2026 Ann\nLicense: Apache-2.0 or Expat\n", "License: GPL-2+\n"] {
            assert!(text.contains(part), "{part:?} is not in {text}");
        }
        assert!(
            text.ends_with("License: Expat\n Permission is hereby granted, free\n .\n THE END\n"),
            "{text}"
        );
        assert!(copyright("other").is_err());
    }
}
