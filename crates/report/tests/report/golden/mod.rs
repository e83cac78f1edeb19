//! Golden files: expected texts kept as files.

use std::path::Path;

/// Compares with the file of this name in this folder; `UPDATE_GOLDEN=1` writes it.
pub fn check_golden(name: &str, actual: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/report/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, actual).unwrap();
    }
    let expected = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("golden {}: {error}; UPDATE_GOLDEN=1 writes it", path.display()));
    assert_eq!(actual, expected, "{name} differs; UPDATE_GOLDEN=1 rewrites it");
}
