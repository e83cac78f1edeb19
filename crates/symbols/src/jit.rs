//! Code generated at run time: `perf-PID.map` files.
//!
//! Many runtimes can write one (`python3 -X perf`, `node --perf-basic-prof`, Java agents): a line per function with its
//! address in the process, its size, both hexadecimal, and its name. The folder is open to every user, so only a
//! regular file of the current user counts.

use pagewalk_units::VirtAddr;
use rustix::fs::{FileType, Mode, OFlags};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Why an existing map of JIT code is not used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub struct JitError {
    /// The map.
    pub path: PathBuf,
    /// What is wrong with it.
    pub why: String,
}

/// Functions of one process by actual address.
#[derive(Debug, Default)]
pub struct JitSymbols {
    /// By start: end and name. Disjoint.
    functions: BTreeMap<u64, (u64, Box<str>)>,
}

impl JitSymbols {
    /// Reads the map of process `pid`, if there is one and it was not written after `until`: process ids are reused.
    pub fn of_process(pid: u32, until: Option<SystemTime>) -> Result<Option<JitSymbols>, JitError> {
        JitSymbols::read(Path::new(&format!("/tmp/perf-{pid}.map")), until)
    }

    /// Reads the map at `path`, if there is one and it was not written after `until`.
    pub fn read(path: &Path, until: Option<SystemTime>) -> Result<Option<JitSymbols>, JitError> {
        let error = |why: String| JitError { path: path.to_owned(), why };
        // Without following links or blocking: someone else may have put anything there.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(file) => file,
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(error(errno.to_string())),
        };
        let status = rustix::fs::fstat(&file).map_err(|errno| error(errno.to_string()))?;
        if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
            return Err(error("not a regular file".to_owned()));
        }
        let user = rustix::process::geteuid().as_raw();
        if status.st_uid != user {
            return Err(error(format!("belongs to user {}, not to user {user}", status.st_uid)));
        }
        let file = File::from(file);
        let written = file.metadata().and_then(|about| about.modified()).map_err(|e| error(e.to_string()))?;
        if until.is_some_and(|until| written > until) {
            return Err(error("is newer than the recording, so another process's".to_owned()));
        }
        JitSymbols::parse(BufReader::new(file)).map(Some).map_err(|e| error(e.to_string()))
    }

    /// The function that holds `address`.
    pub fn find(&self, address: VirtAddr) -> Option<&str> {
        let (_, (end, name)) = self.functions.range(..=address.0).next_back()?;
        (address.0 < *end).then_some(name)
    }

    /// Skips malformed lines: the process may have died while writing one.
    fn parse(mut map: impl BufRead) -> std::io::Result<JitSymbols> {
        let mut symbols = JitSymbols::default();
        let mut line = Vec::new();
        while map.read_until(b'\n', &mut line)? > 0 {
            if let Some((start, end, name)) = parse_line(&String::from_utf8_lossy(&line)) {
                symbols.insert(start, end, name);
            }
            line.clear();
        }
        Ok(symbols)
    }

    /// Code memory is reused: a later function replaces those that it overlaps.
    fn insert(&mut self, start: u64, end: u64, name: &str) {
        while let Some((&other, &(other_end, _))) = self.functions.range(..end).next_back() {
            if other_end <= start {
                break;
            }
            self.functions.remove(&other);
        }
        self.functions.insert(start, (end, name.into()));
    }
}

fn parse_line(line: &str) -> Option<(u64, u64, &str)> {
    let mut fields = line.trim_end().splitn(3, ' ');
    let mut number = || u64::from_str_radix(fields.next()?.trim_start_matches("0x"), 16).ok();
    let (start, bytes) = (number()?, number()?);
    let name = fields.next().filter(|name| !name.is_empty())?;
    let end = start.checked_add(bytes).filter(|&end| end > start)?;
    Some((start, end, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn found(symbols: &JitSymbols, address: u64) -> Option<&str> {
        symbols.find(VirtAddr(address))
    }

    #[test]
    fn a_function_holds_its_bytes_and_no_more() {
        let map = "1000 10 py::f:/a b.py\n0x2000 0x8 g\n";
        let symbols = JitSymbols::parse(map.as_bytes()).unwrap();
        assert_eq!(found(&symbols, 0xfff), None);
        assert_eq!(found(&symbols, 0x1000), Some("py::f:/a b.py"));
        assert_eq!(found(&symbols, 0x100f), Some("py::f:/a b.py"));
        assert_eq!(found(&symbols, 0x1010), None);
        assert_eq!(found(&symbols, 0x2007), Some("g"));
    }

    #[test]
    fn later_code_replaces_what_it_overlaps() {
        let map = "1000 100 old\n1100 10 kept\n10f0 8 new\n";
        let symbols = JitSymbols::parse(map.as_bytes()).unwrap();
        assert_eq!(found(&symbols, 0x1000), None);
        assert_eq!(found(&symbols, 0x10f0), Some("new"));
        assert_eq!(found(&symbols, 0x1100), Some("kept"));
    }

    #[test]
    fn bad_lines_are_passed_over() {
        let map = b"zz 10 a\n1000\n1000 0 empty\nffffffffffffffff 10 wraps\n3000 4 \n\xff\xfe\n\
                    2000 4 good\n2004 4 cu";
        let symbols = JitSymbols::parse(&map[..]).unwrap();
        assert_eq!(symbols.functions.len(), 2);
        assert_eq!(found(&symbols, 0x2000), Some("good"));
    }

    #[test]
    fn only_a_regular_file_of_the_same_user_counts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("perf-1.map");
        assert!(JitSymbols::read(&path, None).unwrap().is_none());
        std::fs::write(&path, "1000 10 f\n").unwrap();
        assert_eq!(found(&JitSymbols::read(&path, None).unwrap().unwrap(), 0x1000), Some("f"));

        let before = std::fs::metadata(&path).unwrap().modified().unwrap() - Duration::from_secs(1);
        assert!(JitSymbols::read(&path, Some(before)).unwrap_err().to_string().contains("newer"));
        assert!(JitSymbols::read(&path, Some(before + Duration::from_secs(2))).unwrap().is_some());

        let link = folder.path().join("perf-2.map");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(JitSymbols::read(&link, None).is_err());
        assert!(
            JitSymbols::read(folder.path(), None).unwrap_err().to_string().contains("not a regular file")
        );

        // Only root can give a file away.
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(1), None).unwrap();
            assert!(
                JitSymbols::read(&path, None)
                    .unwrap_err()
                    .to_string()
                    .contains("belongs to user 1, not to user 0")
            );
        }
    }
}
