//! Bytes on huge pages from `/proc/PID/smaps`, for kernels that do not show where they are.

use super::HUGE_PAGES;
use super::PAGE_BYTES;
use crate::tracing::maps::proc_text;
use crate::tracing::sys::Pid;
use std::io;

/// Keys for huge-page bytes: anonymous memory, shared memory, files and pools.
const KEYS: [&str; 5] =
    ["AnonHugePages", "ShmemPmdMapped", "FilePmdMapped", "Shared_Hugetlb", "Private_Hugetlb"];

/// Base pages mapped by huge pages in the whole process.
pub fn huge_pages(pid: Pid) -> io::Result<u64> {
    proc_text(pid, "smaps").map(|text| total(&text))
}

fn total(text: &str) -> u64 {
    let bytes = text.lines().filter_map(|line| {
        let (key, value) = line.split_once(':')?;
        let kib: u64 = KEYS.contains(&key).then(|| value.split_whitespace().next()?.parse().ok())??;
        Some(kib * 1024)
    });
    bytes.sum::<u64>() / (HUGE_PAGES * PAGE_BYTES) * HUGE_PAGES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_kinds_of_huge_pages_count() {
        let text = "7f00-7f10 rw-p 00000000 00:00 0 \nRss: 9000 kB\nAnonHugePages: 4096 kB\nShmemPmdMapped: 0 kB\n\
                    7f20-7f30 rw-p 00000000 00:00 0 /a:b\nFilePmdMapped: 2048 kB\nPrivate_Hugetlb: 2048 kB\n";
        assert_eq!(total(text), 4 * 512);
    }
}
