//! A process's memory and mappings, from `/proc`.

use super::sys::{self, Pid, limit, map};
use pagewalk_units::PAGE_BYTES;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// Its first address.
    pub start: u64,
    /// The first address after it.
    pub end: u64,
    /// Its rights: bits of [`map`].
    pub protection: u64,
    /// Whether others that map it see stores.
    pub shared: bool,
    /// Its offset in the file.
    pub offset: u64,
    /// The file's device according to `/proc`; some file systems report another in `stat`.
    pub device: u64,
    /// The file's inode number; 0 without a file.
    pub inode: u64,
    /// The file's path or the kernel's name; empty for plain memory.
    pub name: String,
    /// Bytes in the page table. This and the following come from `smaps` only.
    pub resident_bytes: u64,
    /// Bytes of pages accessed since the bits were cleared.
    pub referenced_bytes: u64,
    /// Bytes of anonymous memory on huge pages.
    pub huge_bytes: u64,
    /// Bytes per page; more than a base page for hugetlb.
    pub page_bytes: u64,
    /// Bytes that are there of such pages, which do not count as resident.
    pub pool_bytes: u64,
    /// Whether its pages are such.
    pub is_pool: bool,
    /// Whether the kernel lets it grow downwards or its pages are no plain memory.
    pub special: bool,
    /// Whether the kernel says that huge pages may be there.
    pub huge_eligible: bool,
    /// Whether it is marked for huge pages.
    pub huge_wanted: bool,
    /// Whether it is marked against huge pages.
    pub huge_refused: bool,
}

impl Mapping {
    /// Its length.
    pub fn bytes(&self) -> u64 {
        self.end - self.start
    }

    /// Adds a line of `smaps`.
    fn add(&mut self, key: &str, value: &str) {
        let mut words = value.split_whitespace();
        let mut bytes = || words.next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024;
        match key {
            "Rss" => self.resident_bytes = bytes(),
            "Referenced" => self.referenced_bytes = bytes(),
            "AnonHugePages" => self.huge_bytes = bytes(),
            "KernelPageSize" => self.page_bytes = bytes(),
            "Shared_Hugetlb" | "Private_Hugetlb" => self.pool_bytes += bytes(),
            "THPeligible" => self.huge_eligible = value.trim() == "1",
            "VmFlags" => {
                for flag in words {
                    // Stack-like growth; raw page frames; driver mappings; hugetlb.
                    self.special |= ["gd", "pf", "io", "ht"].contains(&flag);
                    self.is_pool |= flag == "ht";
                    self.huge_wanted |= flag == "hg";
                    self.huge_refused |= flag == "nh";
                }
            }
            _ => {}
        }
    }

    /// Whether it is writable now.
    pub fn is_writable(&self) -> bool {
        self.protection & map::WRITE != 0
    }
}

/// A process's memory, by address. Fails for pages that wait for a userfaultfd: the kernel does not wait for faults on
/// behalf of others.
pub fn memory(pid: Pid) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(format!("/proc/{pid}/mem"))
}

/// A file under `/proc/PID`. Names may not be valid text, and the kernel cuts a program's name inside a character:
/// invalid text is replaced.
pub fn proc_text(pid: Pid, name: &str) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/{name}"))?).into_owned())
}

/// The bytes that a line such as `VmLck:  8 kB` of a text of the kernel's tells.
pub fn bytes_in(text: &str, key: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(key))?;
    let kib: u64 = value.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

/// The mappings of a process, in order.
pub fn mappings(pid: Pid) -> io::Result<Vec<Mapping>> {
    Ok(parsed(&proc_text(pid, "maps")?))
}

/// The mappings with all details of `smaps`: expensive, as the kernel counts pages.
pub fn detailed_mappings(pid: Pid) -> io::Result<Vec<Mapping>> {
    Ok(parsed(&proc_text(pid, "smaps")?))
}

/// Parses `maps` or `smaps`; ignores lines of other shapes.
pub fn parsed(text: &str) -> Vec<Mapping> {
    let mut mappings: Vec<Mapping> = Vec::new();
    for line in text.lines() {
        if let Some(mapping) = head(line) {
            mappings.push(mapping);
        } else if let Some((mapping, (key, value))) = mappings.last_mut().zip(line.split_once(':')) {
            mapping.add(key, value);
        }
    }
    mappings
}

fn head(line: &str) -> Option<Mapping> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let hexadecimal = |text| u64::from_str_radix(text, 16).ok();
    let mut words = rest.splitn(5, ' ');
    let rights = words.next()?.as_bytes();
    let [read, write, execute, sharing] = *rights else { return None };
    let bit = |held, wanted, value| if held == wanted { value } else { 0 };
    let offset = hexadecimal(words.next()?)?;
    let (major, minor) = words.next()?.split_once(':')?;
    let inode = words.next()?.parse().ok()?;
    Some(Mapping {
        start: hexadecimal(start)?,
        end: hexadecimal(end)?,
        protection: bit(read, b'r', map::READ) | bit(write, b'w', map::WRITE) | bit(execute, b'x', map::EXEC),
        shared: sharing == b's',
        offset,
        device: hexadecimal(major)? << 32 | hexadecimal(minor)?,
        inode,
        name: words.next().unwrap_or_default().trim_start().to_owned(),
        ..Mapping::default()
    })
}

/// The ranges of pages in `[start, end)` that hold anything, as starts and lengths.
pub fn present(pid: Pid, start: u64, end: u64) -> io::Result<Vec<(u64, u64)>> {
    const PRESENT_OR_SWAPPED: u64 = 3 << 62;
    let file = File::open(format!("/proc/{pid}/pagemap"))?;
    let mut entries = vec![0u8; ((end - start) / PAGE_BYTES * 8) as usize];
    file.read_exact_at(&mut entries, start / PAGE_BYTES * 8)?;
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for (page, entry) in entries.as_chunks::<8>().0.iter().enumerate() {
        let address = start + page as u64 * PAGE_BYTES;
        if u64::from_le_bytes(*entry) & PRESENT_OR_SWAPPED != 0 {
            match ranges.last_mut() {
                Some((first, bytes)) if *first + *bytes == address => *bytes += PAGE_BYTES,
                _ => ranges.push((address, PAGE_BYTES)),
            }
        }
    }
    Ok(ranges)
}

/// The address of the program's arguments and environment, which `/proc` shows to others.
pub fn arguments_start(pid: Pid) -> io::Result<u64> {
    stat(pid, 48)
}

/// Where a process's heap begins.
pub fn heap_start(pid: Pid) -> io::Result<u64> {
    stat(pid, 47)
}

/// A field of `/proc/PID/stat`, from the third on.
fn stat(pid: Pid, number: usize) -> io::Result<u64> {
    let text = proc_text(pid, "stat")?;
    // The name in parentheses may hold anything; field 3 follows it.
    let after_name = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let field = after_name.split_whitespace().nth(number - 3).and_then(|word| word.parse().ok());
    field.ok_or_else(|| io::Error::other(format!("/proc/PID/stat has no field {number}")))
}

/// A thread's process, and that process's parent.
pub fn process_and_parent(thread: Pid) -> io::Result<(Pid, Pid)> {
    let number = |key| {
        let value = status(thread, key)?.and_then(|value| value.parse().ok());
        value.ok_or_else(|| io::Error::other(format!("/proc/PID/status has no {key}")))
    };
    Ok((number("Tgid:")?, number("PPid:")?))
}

/// Number of seccomp filters on a process.
pub fn filters(pid: Pid) -> io::Result<u64> {
    Ok(status(pid, "Seccomp_filters:")?.and_then(|value| value.parse().ok()).unwrap_or(0))
}

/// Bytes that a process has locked.
pub fn locked_bytes(pid: Pid) -> io::Result<u64> {
    Ok(bytes_in(&proc_text(pid, "status")?, "VmLck:").unwrap_or(0))
}

/// Whether a process may lock memory without limit (`CAP_IPC_LOCK`).
pub fn may_lock_any(pid: Pid) -> io::Result<bool> {
    const IPC_LOCK: u64 = 1 << 14;
    let held = status(pid, "CapEff:")?.and_then(|value| u64::from_str_radix(&value, 16).ok());
    Ok(held.unwrap_or(0) & IPC_LOCK != 0)
}

/// A process's soft and hard [`limit`], in bytes.
pub fn limit_of(pid: Pid, what: u64) -> io::Result<(u64, u64)> {
    sys::limit_of(pid, what).or_else(|error| {
        // For another user's process, only this file tells.
        let text = proc_text(pid, "limits").map_err(|_| error)?;
        Ok(limit_in(&text, what))
    })
}

/// From `/proc/PID/limits`.
fn limit_in(text: &str, what: u64) -> (u64, u64) {
    let name = match what {
        limit::DATA => "Max data size",
        limit::STACK => "Max stack size",
        limit::LOCKED => "Max locked memory",
        _ => "Max address space",
    };
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    let mut words = line.split_whitespace();
    let mut next = || words.next().and_then(|word| word.parse().ok()).unwrap_or(sys::UNLIMITED);
    (next(), next())
}

/// A line of `/proc/PID/status`.
fn status(pid: Pid, key: &str) -> io::Result<Option<String>> {
    let text = proc_text(pid, "status")?;
    Ok(text.lines().find_map(|line| line.strip_prefix(key)).map(|value| value.trim().to_owned()))
}

/// The program that a process runs.
pub fn program(pid: Pid) -> String {
    fs::read_link(format!("/proc/{pid}/exe"))
        .map_or_else(|_| "unknown".to_owned(), |path| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_read_with_what_follows_them() {
        let text = "55d0c000-55d0d000 rw-p 00002000 fe:00 1234      /usr/bin/a program\n\
                    Size:                  4 kB\n\
                    Rss:                   8 kB\n\
                    VmFlags: rd wr mr mw me ac sd \n\
                    7ffc0000-7ffe1000 rw-p 00000000 00:00 0                          [stack]\n\
                    VmFlags: rd wr mr mw me gd ac \n\
                    7ffe2000-7ffe3000 r--s 00000000 00:00 0 \n";
        let found = parsed(text);
        assert_eq!(found.len(), 3);
        assert_eq!(found[0].name, "/usr/bin/a program");
        assert_eq!((found[0].start, found[0].end, found[0].offset), (0x55d0c000, 0x55d0d000, 0x2000));
        assert_eq!(found[0].device, 0xfe << 32);
        assert_eq!((found[0].inode, found[0].resident_bytes, found[0].special), (1234, 8192, false));
        assert!(found[0].is_writable() && !found[0].shared);
        assert!(found[1].special && found[1].name == "[stack]");
        assert!(found[2].shared && found[2].name.is_empty() && !found[2].is_writable());
    }

    #[test]
    fn what_huge_pages_depend_on_is_read() {
        let text = "7f00000-7f10000 rw-p 00000000 00:00 0 \nTHPeligible:           1\nVmFlags: rd wr mr hg \n\
                    7f20000-7f30000 r-xp 00001000 fe:00 12   /a b\nTHPeligible: 0\nVmFlags: rd nh\n";
        let found = parsed(text);
        assert_eq!(found.len(), 2);
        assert!(
            found[0].huge_eligible && found[0].huge_wanted && !found[0].huge_refused && found[0].inode == 0
        );
        assert!(
            !found[1].huge_eligible && !found[1].huge_wanted && found[1].huge_refused && found[1].inode != 0
        );
        assert_eq!((found[1].start, found[1].end), (0x7f20000, 0x7f30000));
    }

    #[test]
    fn limits_of_others_are_read() {
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
                    Max data size             unlimited            unlimited            bytes     \n\
                    Max locked memory         1048576              8388608              bytes     \n";
        assert_eq!(limit_in(text, limit::LOCKED), (1 << 20, 8 << 20));
        assert_eq!(limit_in(text, limit::DATA), (sys::UNLIMITED, sys::UNLIMITED));
        let own = std::process::id() as Pid;
        let text = proc_text(own, "limits").unwrap();
        assert_eq!(limit_in(&text, limit::STACK), sys::limit_of(own, limit::STACK).unwrap());
    }

    #[test]
    fn this_process_has_a_stack_and_arguments() {
        let pid = std::process::id() as Pid;
        let mappings = mappings(pid).unwrap();
        let stack = mappings.iter().find(|mapping| mapping.name == "[stack]").unwrap();
        let arguments = arguments_start(pid).unwrap();
        assert!((stack.start..stack.end).contains(&arguments));
        let page = arguments / PAGE_BYTES * PAGE_BYTES;
        assert_eq!(present(pid, page, page + PAGE_BYTES).unwrap(), [(page, PAGE_BYTES)]);
    }
}
