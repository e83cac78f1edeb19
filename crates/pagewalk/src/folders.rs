//! The user's folders, by the XDG base directory specification, and the file of this program.

use std::env;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;

/// The settings folder; none without a home.
pub fn config() -> Option<PathBuf> {
    folder("XDG_CONFIG_HOME", ".config")
}

/// The cache folder.
pub fn cache() -> Option<PathBuf> {
    folder("XDG_CACHE_HOME", ".cache")
}

/// The state folder.
pub fn state() -> Option<PathBuf> {
    folder("XDG_STATE_HOME", ".local/state")
}

/// The specification tells programs to ignore relative paths.
fn folder(variable: &str, below_home: &str) -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|folder| folder.is_absolute());
    let base = absolute(variable).or_else(|| absolute("HOME").map(|home| home.join(below_home)))?;
    Some(base.join("pagewalk"))
}

/// The file that this code was loaded from: the program, or a module of an interpreter.
///
/// # Errors
/// If `/proc` cannot be read.
pub fn own_file() -> io::Result<PathBuf> {
    let here = own_file as fn() -> io::Result<PathBuf> as usize as u64;
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    match maps.lines().find_map(|line| file_at(line, here)) {
        Some(path) => Ok(path),
        None => env::current_exe(),
    }
}

/// The BLAKE3 hash of that file, in hex, read once: it identifies this build.
///
/// # Errors
/// If the file cannot be read.
pub fn own_hash() -> io::Result<&'static str> {
    static HASH: OnceLock<String> = OnceLock::new();
    if let Some(known) = HASH.get() {
        return Ok(known);
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(File::open(own_file()?)?)?;
    Ok(HASH.get_or_init(|| hasher.finalize().to_hex().to_string()))
}

/// The file of a line of `/proc/PID/maps`, if the line's range holds the address.
fn file_at(line: &str, address: u64) -> Option<PathBuf> {
    let (start, rest) = line.split_once('-')?;
    let (end, rest) = rest.split_once(' ')?;
    let bound = |text| u64::from_str_radix(text, 16).ok();
    let is_there = (bound(start)?..bound(end)?).contains(&address);
    is_there.then(|| rest.find('/').map(|at| PathBuf::from(&rest[at..]))).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_file_of_a_program_is_its_executable() {
        assert_eq!(own_file().unwrap(), env::current_exe().unwrap().canonicalize().unwrap());
    }

    #[test]
    fn a_line_of_maps_names_the_file_of_its_addresses() {
        let line = "7f00-8000 r-xp 00001000 fe:01 77 /usr/lib/a b.so";
        assert_eq!(file_at(line, 0x7f00), Some("/usr/lib/a b.so".into()));
        assert_eq!(file_at(line, 0x8000), None);
        assert_eq!(file_at("7f00-8000 rw-p 00000000 00:00 0 ", 0x7f00), None);
    }
}
