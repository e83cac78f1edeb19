//! The shared libraries that a binary needs, as Debian packages with minimum versions.

use object::LittleEndian;
use object::elf::FileHeader64;
use object::read::elf::FileHeader;
use std::collections::BTreeMap;

/// A version as numbers, so that 2.9 is older than 2.34.
type Version = Vec<u32>;

/// The needed packages in the syntax of `Depends`, such as `libc6 (>= 2.34)`. Empty for a static binary.
///
/// The linker records in the binary the library and version of each symbol.
pub(super) fn needed(binary: &[u8]) -> Result<Vec<String>, String> {
    let mut packages: BTreeMap<&str, Version> = BTreeMap::new();
    for (library, version) in versions(binary).map_err(|e| format!("the binary is not as expected: {e}"))? {
        let package = package(&library).ok_or(format!("no package is known for the library {library}"))?;
        let version = least(&version).ok_or(format!("{library} has no version {version} that is known"))?;
        let least = packages.entry(package).or_default();
        *least = version.max(std::mem::take(least));
    }
    let dotted = |version: Version| version.iter().map(u32::to_string).collect::<Vec<_>>().join(".");
    Ok(packages.into_iter().map(|(package, version)| format!("{package} (>= {})", dotted(version))).collect())
}

/// Each library with each version that the binary needs.
fn versions(binary: &[u8]) -> object::read::Result<Vec<(String, String)>> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let header = FileHeader64::<LittleEndian>::parse(binary)?;
    let endian = LittleEndian;
    let sections = header.sections(endian, binary)?;
    let mut found = Vec::new();
    let Some((mut libraries, link)) = sections.gnu_verneed(endian, binary)? else { return Ok(found) };
    let strings = sections.strings(endian, binary, link)?;
    while let Some((library, mut versions)) = libraries.next()? {
        let name = text(library.file(endian, strings)?);
        while let Some(version) = versions.next()? {
            found.push((name.clone(), text(version.name(endian, strings)?)));
        }
    }
    Ok(found)
}

fn package(library: &str) -> Option<&'static str> {
    match library.split(".so").next()? {
        "libc" | "libm" | "libdl" | "libpthread" | "librt" | "ld-linux-x86-64" => Some("libc6"),
        "libgcc_s" => Some("libgcc-s1"),
        _ => None,
    }
}

/// The numbers of `GLIBC_2.34` or `GCC_4.2.0`.
fn least(version: &str) -> Option<Version> {
    if version == "GLIBC_ABI_DT_RELR" {
        // Packed relocations need glibc 2.36.
        return Some(vec![2, 36]);
    }
    let numbers = version.strip_prefix("GLIBC_").or_else(|| version.strip_prefix("GCC_"))?;
    numbers.split('.').map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_program_needs_a_c_library() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let needed = needed(&own).unwrap();
        assert!(needed.iter().any(|package| package.starts_with("libc6 (>= 2.")), "{needed:?}");
    }

    #[test]
    fn versions_compare_by_numbers() {
        assert!(least("GLIBC_2.34") > least("GLIBC_2.9"));
        assert_eq!(least("GCC_4.2.0"), Some(vec![4, 2, 0]));
        assert_eq!(least("GLIBC_PRIVATE"), None);
    }

    #[test]
    fn what_is_no_program_is_refused() {
        assert!(needed(b"#!/bin/sh\n").unwrap_err().starts_with("the binary is not as expected"));
        assert_eq!(package("libssl.so.3"), None);
    }
}
