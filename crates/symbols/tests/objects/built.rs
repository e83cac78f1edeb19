//! Programs compiled for a test, with what binutils reports.

use pagewalk_symbols::{FileOffset, Symbol, Symbolizer};
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// A program and the folder it lies in.
pub struct Built {
    pub folder: TempDir,
    pub path: PathBuf,
}

impl Built {
    pub fn new(compiler: &str, source: &str, options: &[&str]) -> Built {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        let source_path = folder.path().join(if compiler == "g++" { "program.cpp" } else { "program.c" });
        std::fs::write(&source_path, source).unwrap();
        let (path_text, source_text) = (path.to_str().unwrap(), source_path.to_str().unwrap());
        run(compiler, &[&["-O0", "-o", path_text, source_text], options].concat());
        Built { folder, path }
    }

    pub fn path(&self) -> &str {
        self.path.to_str().unwrap()
    }

    /// The file offset of the function's first byte, from `nm` and `readelf`.
    pub fn offset_of(&self, mangled: &str) -> FileOffset {
        let symbols = run("nm", &[self.path()]);
        let line = symbols.lines().find(|line| line.ends_with(&format!(" {mangled}"))).expect(mangled);
        self.offset_at(hex(line.split(' ').next().unwrap()))
    }

    /// The file offset of a stated address.
    pub fn offset_at(&self, address: u64) -> FileOffset {
        run("readelf", &["--program-headers", "--wide", self.path()])
            .lines()
            .filter_map(|line| line.trim().strip_prefix("LOAD"))
            .find_map(|line| {
                let fields: Vec<u64> = line.split_whitespace().take(4).map(hex).collect();
                let (offset, start, bytes) = (fields[0], fields[1], fields[3]);
                (start..start + bytes).contains(&address).then(|| FileOffset(address - start + offset))
            })
            .expect("the address lies in a segment")
    }

    /// The address of the stub with this name in `objdump`.
    pub fn stub(&self, name: &str) -> u64 {
        let listing = run("objdump", &["--disassemble", self.path()]);
        let line = listing.lines().find(|line| line.ends_with(&format!("<{name}>:"))).expect(name);
        hex(line.split(' ').next().unwrap())
    }

    pub fn lookup(&self, offset: FileOffset) -> Symbol {
        Symbolizer::with_debug_folder(self.folder.path().join("debug")).lookup(self.path(), offset)
    }
}

pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).env("LC_ALL", "C").output().expect(program);
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

pub fn hex(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap()
}
