//! Runs the tests of the Python package (`python/tests`) in the environment that `./test` prepares, on the module as
//! these tests were built.

use pagewalk_skip::{Need, skip};
use rayon::prelude::*;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The package's folder.
const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python");

/// The folder of everything that was built.
fn target() -> PathBuf {
    let tests = Path::new(env!("CARGO_TARGET_TMPDIR"));
    tests.parent().expect("the folder for tests lies in the target folder").to_owned()
}

/// The interpreter with the packages of `python/tests/requirements.txt`, as `scripts/python-packages.sh` makes it.
fn interpreter() -> Option<PathBuf> {
    Some(target().join("python/bin/python")).filter(|path| path.exists())
}

/// A folder with the package: its files in the tree, and the module beside them.
fn package() -> PathBuf {
    let module = env::current_exe().unwrap().with_file_name("libpagewalk_python.so");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python");
    let _ = fs::remove_dir_all(&folder);
    let package = folder.join("pagewalk");
    fs::create_dir_all(&package).unwrap();
    let source = Path::new(PYTHON).join("pagewalk").canonicalize().unwrap();
    for file in fs::read_dir(source).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file())
    {
        symlink(&file, package.join(file.file_name().unwrap())).unwrap();
    }
    symlink(module, package.join("_pagewalk.abi3.so")).unwrap();
    folder
}

#[test]
fn the_python_package_passes_its_tests() {
    let Some(interpreter) = interpreter() else {
        return skip(Need::Python, "scripts/python-packages.sh has not run: numpy, polars, pyarrow, mypy");
    };
    let package = package();
    let names =
        fs::read_dir(Path::new(PYTHON).join("tests")).unwrap().map(|entry| entry.unwrap().file_name());
    let mut files: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with("test_")).collect();
    files.sort();
    assert!(!files.is_empty(), "python/tests has no tests");
    // A file at a time on each processor: most of them wait for one program after the other.
    let failed: Vec<String> =
        files.par_iter().filter_map(|file| failure(&interpreter, &package, file)).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Runs the tests of one file of `python/tests`; returns what they said if one failed.
fn failure(interpreter: &Path, package: &Path, file: &OsStr) -> Option<String> {
    let run = Command::new(interpreter)
        .args(["-B", "-m", "unittest", "discover", "--start-directory"])
        .arg(Path::new(PYTHON).join("tests"))
        .arg("--pattern")
        .arg(file)
        // The interpreter looks here first: not at the package without its module.
        .current_dir(package)
        .env("PYTHONPATH", package)
        .env("MYPY_CACHE_DIR", target().join("python/mypy"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stderr);
    (!run.status.success()).then(|| format!("{}:\n{said}", file.display()))
}
