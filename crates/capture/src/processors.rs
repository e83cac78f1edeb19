//! Whether this process's processors are close to each other.

use pagewalk_units::processors::listed;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::OnceLock;

/// Whether all processors of this process share a cache. Passing a line between threads then costs about ten
/// nanoseconds, otherwise about a hundred, through a link between caches. False if unknown.
pub fn share_a_cache() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| are_near(&own_processors(), Path::new("/sys/devices/system/cpu")))
}

/// The processors that this process may run on.
fn own_processors() -> BTreeSet<usize> {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else { return BTreeSet::new() };
    (0..rustix::thread::CpuSet::MAX_CPU).filter(|&processor| set.is_set(processor)).collect()
}

/// The same for `processors`, from the kernel's folder of all processors.
fn are_near(processors: &BTreeSet<usize>, folder: &Path) -> bool {
    let Some(first) = processors.first() else { return false };
    let Ok(caches) = folder.join(format!("cpu{first}/cache")).read_dir() else { return false };
    let shared = caches
        .flatten()
        .filter_map(|cache| std::fs::read_to_string(cache.path().join("shared_cpu_list")).ok());
    shared.filter_map(|list| listed(&list)).any(|sharing| processors.is_subset(&sharing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_near_if_one_cache_serves_all() {
        let folder = std::env::temp_dir().join(format!("pagewalk-processors-{}", std::process::id()));
        let of = |level: usize| folder.join(format!("cpu0/cache/index{level}"));
        for (level, list) in [(0, "0\n"), (3, "0-2,7\n")] {
            std::fs::create_dir_all(of(level)).expect("a folder");
            std::fs::write(of(level).join("shared_cpu_list"), list).expect("a file");
        }
        let near = |processors: &[usize]| are_near(&processors.iter().copied().collect(), &folder);
        assert!(near(&[0]) && near(&[0, 1, 7]));
        assert!(!near(&[0, 3]) && !near(&[]) && !near(&[1]));
        std::fs::remove_dir_all(&folder).expect("the folder");
    }
}
