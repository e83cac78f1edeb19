//! The processes of a session, by id.

use rustix::process::{Pid, Signal, kill_process};
use std::collections::{HashMap, HashSet};
use std::fs;

/// Kills these processes and all their descendants that still have a parent among them.
pub(super) fn kill_trees(roots: &[u32]) {
    // Killing a parent first would hand its children to init, out of sight: so find all, then kill.
    let children = children_by_parent();
    let mut doomed: Vec<u32> = roots.to_vec();
    let mut seen: HashSet<u32> = doomed.iter().copied().collect();
    let mut next = 0;
    while let Some(pid) = doomed.get(next) {
        let new = children.get(pid).into_iter().flatten().filter(|child| seen.insert(**child));
        let new: Vec<u32> = new.copied().collect();
        doomed.extend(new);
        next += 1;
    }
    for pid in doomed {
        if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
            // It may have ended meanwhile.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// Whether a process exists and is no zombie.
pub(super) fn is_alive(pid: u32) -> bool {
    state_and_parent(pid).is_some_and(|(state, _)| !matches!(state, b'Z' | b'X'))
}

fn children_by_parent() -> HashMap<u32, Vec<u32>> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if let Some((_, parent)) = state_and_parent(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    children
}

/// Fields 3 and 4 of `/proc/PID/stat`. Field 2, the name, is in parentheses and may hold anything.
fn state_and_parent(pid: u32) -> Option<(u8, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    Some((state, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_tree_dies_as_a_whole() {
        let mut shell = Command::new("sh")
            .args(["-c", "(sleep 1000 & sleep 1000 & wait); true"])
            .spawn()
            .expect("sh starts");
        let descendants = || {
            let children = children_by_parent();
            let inner = children.get(&shell.id()).cloned().unwrap_or_default();
            let sleeps: Vec<u32> =
                inner.iter().filter_map(|pid| children.get(pid)).flatten().copied().collect();
            (sleeps.len() == 2).then_some(sleeps)
        };
        let sleeps = std::iter::repeat_with(descendants)
            .inspect(|_| std::thread::sleep(std::time::Duration::from_millis(5)))
            .find_map(|found| found)
            .unwrap();
        assert!(sleeps.iter().all(|&pid| is_alive(pid)));
        kill_trees(&[shell.id()]);
        assert!(!shell.wait().unwrap().success());
        while sleeps.iter().any(|&pid| is_alive(pid)) {
            std::thread::yield_now();
        }
    }
}
