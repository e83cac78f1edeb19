//! The user's folders, by the XDG base directory specification.

use std::env;
use std::path::PathBuf;

/// pagewalk's folder for settings; none without a home.
pub fn config() -> Option<PathBuf> {
    of("XDG_CONFIG_HOME", ".config")
}

/// Its folder for what is found out again at some cost.
pub fn cache() -> Option<PathBuf> {
    of("XDG_CACHE_HOME", ".cache")
}

/// Its folder for what it remembers.
pub fn state() -> Option<PathBuf> {
    of("XDG_STATE_HOME", ".local/state")
}

/// The specification has programs ignore paths that are not absolute.
fn of(variable: &str, below_home: &str) -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|folder| folder.is_absolute());
    let base = absolute(variable).or_else(|| absolute("HOME").map(|home| home.join(below_home)))?;
    Some(base.join("pagewalk"))
}
