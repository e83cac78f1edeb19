//! The host settings that decide about huge pages.

use crate::tracing::maps::proc_text;
use crate::tracing::sys::Pid;
use std::fs;
use std::path::{Path, PathBuf};

/// Bytes of a huge page.
pub const HUGE_BYTES: u64 = 2 << 20;
/// A cgroup with less room than this gets no more huge pages.
const ROOM_BYTES_MIN: u64 = 2 * HUGE_BYTES;
/// Log2 of the base pages in the first buddy block that fits a huge page.
const HUGE_ORDER: usize = 9;
/// The Linux version that has `PR_THP_DISABLE_EXCEPT_ADVISED`.
pub const EXCEPT_ADVISED_SINCE: (u32, u32) = (6, 18);

/// The folder of huge-page settings.
pub const FOLDER: &str = "/sys/kernel/mm/transparent_hugepage";

/// Which memory gets huge pages from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// All.
    Always,
    /// Marked memory.
    Madvise,
    /// None.
    Never,
}

impl Mode {
    /// The setting's word.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Always => "always",
            Mode::Madvise => "madvise",
            Mode::Never => "never",
        }
    }
}

/// The mode for 2 MiB anonymous memory, from the general setting and that for the size. None on a kernel without huge
/// pages.
pub fn mode() -> Option<Mode> {
    let read = |name: &str| fs::read_to_string(format!("{FOLDER}/{name}")).ok();
    let of_size = read("hugepages-2048kB/enabled").and_then(|text| chosen(&text).map(str::to_owned));
    match of_size.as_deref() {
        None | Some("inherit") => mode_of(chosen(&read("enabled")?)?),
        Some(word) => mode_of(word),
    }
}

/// The mode of a setting's word; none for `inherit`.
pub fn mode_of(word: &str) -> Option<Mode> {
    [Mode::Always, Mode::Madvise, Mode::Never].into_iter().find(|mode| mode.name() == word)
}

/// The word in brackets.
pub fn chosen(text: &str) -> Option<&str> {
    text.split_once('[')?.1.split_once(']').map(|(word, _)| word)
}

/// The kernel's release, as `6.18.44`.
pub fn kernel() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease")
        .map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

/// Whether a release is at least this version.
pub fn is_since(release: &str, version: (u32, u32)) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|word| word.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= version
}

/// Conditions that may keep memory on small pages now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostConditions {
    /// The kernel's mode.
    pub mode: Option<Mode>,
    /// Whether the process switched huge pages off by `prctl`.
    pub disabled: bool,
    /// Free blocks that fit a huge page; none if unknown.
    pub free_blocks: Option<u64>,
    /// Whether a memory limit of its cgroup is almost reached.
    pub limited: bool,
    /// How often since boot the kernel had no huge page for a first touch, or split one; none if unknown.
    pub failures: Option<u64>,
}

impl HostConditions {
    /// The conditions of a process.
    pub fn of(pid: Pid) -> HostConditions {
        let status = proc_text(pid, "status").unwrap_or_default();
        let buddies = fs::read_to_string("/proc/buddyinfo").ok();
        HostConditions {
            mode: mode(),
            disabled: is_disabled(&status),
            free_blocks: buddies.map(|text| free_blocks(&text)),
            limited: is_limited(pid),
            failures: fs::read_to_string("/proc/vmstat").ok().and_then(|text| failures(&text)),
        }
    }
}

/// Whether a process switched huge pages off for all its memory, from its `/proc/PID/status`.
pub fn is_disabled(status: &str) -> bool {
    let value = status.lines().find_map(|line| line.strip_prefix("THP_enabled:"));
    value.is_some_and(|value| value.trim() == "0")
}

/// From `/proc/vmstat`.
fn failures(text: &str) -> Option<u64> {
    let count = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.trim().parse::<u64>().ok())
    };
    Some(count("thp_fault_fallback")?.saturating_add(count("thp_split_pmd")?))
}

/// From `/proc/buddyinfo`: free blocks of each order in each zone.
fn free_blocks(text: &str) -> u64 {
    let of_zone = |line: &str| -> u64 {
        let counts = line.split_whitespace().skip(4).enumerate().skip(HUGE_ORDER);
        counts.map(|(order, word)| word.parse().unwrap_or(0) << (order - HUGE_ORDER)).sum()
    };
    text.lines().map(of_zone).sum()
}

fn is_limited(pid: Pid) -> bool {
    let text = proc_text(pid, "cgroup").unwrap_or_default();
    text.lines().filter_map(memory_group).any(|group| group.is_nearly_full())
}

/// A cgroup that may limit memory.
#[derive(Debug, PartialEq, Eq)]
struct MemoryGroup {
    /// The mount point of its hierarchy.
    root: &'static Path,
    folder: PathBuf,
    /// File names of the limit and the usage.
    files: [&'static str; 2],
}

/// From a line of `/proc/PID/cgroup`: version 2, or version 1 with the memory controller.
fn memory_group(line: &str) -> Option<MemoryGroup> {
    let (controllers, path) = line.split_once(':')?.1.split_once(":/")?;
    let (root, files) = match controllers {
        "" => ("/sys/fs/cgroup", ["memory.max", "memory.current"]),
        names if names.split(',').any(|name| name == "memory") => {
            ("/sys/fs/cgroup/memory", ["memory.limit_in_bytes", "memory.usage_in_bytes"])
        }
        _ => return None,
    };
    Some(MemoryGroup { root: Path::new(root), folder: Path::new(root).join(path), files })
}

impl MemoryGroup {
    /// The limits of the group and its ancestors, each with folder and usage.
    fn limits(&self) -> impl Iterator<Item = (&Path, u64, u64)> {
        // "max" is not a number: no limit.
        let number = |folder: &Path, name: &str| -> Option<u64> {
            fs::read_to_string(folder.join(name)).ok()?.trim().parse().ok()
        };
        let above = self.folder.ancestors().take_while(|folder| folder.starts_with(self.root));
        above.filter_map(move |folder| {
            let [most, now] = self.files.map(|name| number(folder, name));
            Some((folder, most?, now?))
        })
    }

    /// Whether a limit leaves no room for huge pages.
    fn is_nearly_full(&self) -> bool {
        self.limits().any(|(_, most, now)| now.saturating_add(ROOM_BYTES_MIN) > most)
    }

    /// Bytes below the limits, if there are any. Idle file pages count as free, since they yield to demand.
    fn room(&self) -> Option<u64> {
        let room = |(folder, most, now): (&Path, u64, u64)| {
            let text = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
            most.saturating_sub(now.saturating_sub(idle_file_bytes(&text)))
        };
        self.limits().map(room).min()
    }
}

/// Bytes of idle file pages of a group and its descendants, from its `memory.stat`.
fn idle_file_bytes(text: &str) -> u64 {
    let of = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    of("total_inactive_file ").or_else(|| of("inactive_file ")).unwrap_or(0)
}

/// Bytes below the limits of this process's cgroups; none without a limit.
pub fn room_in_groups() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    text.lines().filter_map(memory_group).filter_map(|group| group.room()).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_texts_are_read() {
        assert_eq!(chosen("always [madvise] never\n").and_then(mode_of), Some(Mode::Madvise));
        assert_eq!(chosen("always inherit\n"), None);
        assert!(is_disabled("Name:\tx\nTHP_enabled:\t0\n") && !is_disabled("THP_enabled:\t1\n"));
        let zones =
            "Node 0, zone      DMA      0 0 0 0 0 0 0 0 1 1 3\nNode 0, zone   Normal 9 9 9 9 9 9 9 9 9 5 0\n";
        assert_eq!(free_blocks(zones), 1 + 6 + 5);
        let counts =
            "thp_fault_alloc 9\nthp_fault_fallback 3\nthp_fault_fallback_charge 7\nthp_split_pmd 4\n";
        assert_eq!((failures(counts), failures("nr_free_pages 1\n")), (Some(7), None));
        assert!(is_since("6.18.44-x", (6, 18)) && is_since("7.0", (6, 18)) && !is_since("6.6.1", (6, 18)));
        assert!(!is_since("strange", (6, 18)));
    }

    #[test]
    fn what_groups_leave_is_the_least_of_all_above() {
        let place = tempfile::tempdir().unwrap();
        let root: &'static Path = Box::leak(place.path().to_owned().into_boxed_path());
        let folder = root.join("outer/inner");
        fs::create_dir_all(&folder).unwrap();
        let files = ["memory.max", "memory.current"];
        let group = MemoryGroup { root, folder: folder.clone(), files };
        let limit = |folder: &Path, most: &str, now: &str| {
            fs::write(folder.join(files[0]), most).unwrap();
            fs::write(folder.join(files[1]), now).unwrap();
        };
        assert_eq!(group.room(), None);
        limit(&folder, "max\n", "100\n");
        assert_eq!(group.room(), None);
        limit(&root.join("outer"), "1000\n", "900\n");
        assert_eq!(group.room(), Some(100));
        fs::write(root.join("outer/memory.stat"), "anon 1\ninactive_file 300\nactive_file 7\n").unwrap();
        assert_eq!(group.room(), Some(400));
        limit(&folder, "150", "100");
        assert_eq!(group.room(), Some(50));
        assert_eq!(
            idle_file_bytes("inactive_file 1\ntotal_inactive_file 2\n"),
            2,
            "version 1: with those in it"
        );
    }

    #[test]
    fn groups_of_both_versions_are_found() {
        let of = |line| memory_group(line).map(|group| (group.folder, group.files[0]));
        assert_eq!(of("0::/a/b"), Some(("/sys/fs/cgroup/a/b".into(), "memory.max")));
        assert_eq!(of("4:memory:/c"), Some(("/sys/fs/cgroup/memory/c".into(), "memory.limit_in_bytes")));
        assert_eq!((of("3:cpu,cpuacct:/"), of("strange")), (None, None));
    }
}
