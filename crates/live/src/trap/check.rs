//! Replays the agent's decisions through the array of `setassoc`, the agent's slow twin.

use super::agent::Control;
use super::shared::{NO_PAGE, decision};
use pagewalk_setassoc::SetArray;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often to read the log, so that it never fills.
const PERIOD: Duration = Duration::from_millis(2);

/// The result of a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayReport {
    /// Replayed decisions.
    pub decisions: u64,
    /// The first decision that the twin would not make, in words.
    pub first_difference: Option<String>,
}

/// The twin, with what it has seen.
struct Replay {
    twin: SetArray,
    checked: ReplayReport,
}

impl Replay {
    fn follow(&mut self, what: u64, page: u64, victim: u64) {
        self.checked.decisions += 1;
        let difference = match what {
            decision::MISS => {
                let hit = self.twin.touch(page, page);
                let expected = if hit { None } else { self.twin.insert(page, page) };
                let difference = hit || expected.unwrap_or(NO_PAGE) != victim;
                difference.then(|| {
                    let expected = if hit { "a hit".to_owned() } else { format!("victim {expected:x?}") };
                    format!("miss of page {page:#x} with victim {victim:#x}, where the twin has {expected}")
                })
            }
            decision::FORGET => {
                let held = self.twin.remove(page, page);
                (!held).then(|| format!("page {page:#x} left, which the twin does not hold"))
            }
            other => Some(format!("an entry of kind {other}, which there is not")),
        };
        if self.checked.first_difference.is_none() {
            let position = self.checked.decisions;
            self.checked.first_difference = difference.map(|what| format!("decision {position}: {what}"));
        }
    }
}

/// A replaying thread.
pub struct ReplayChecker {
    thread: JoinHandle<ReplayReport>,
    ended: Arc<AtomicBool>,
}

impl ReplayChecker {
    /// Starts with an empty twin.
    pub fn begin(control: Control, log_entries: u64, twin: SetArray) -> ReplayChecker {
        let ended = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ended);
        let thread = std::thread::spawn(move || {
            let mut replay = Replay { twin, checked: ReplayReport::default() };
            loop {
                let last = seen.load(Ordering::Acquire);
                control.read_log(log_entries, |entry| {
                    let page = entry.what_and_page & ((1 << 60) - 1);
                    replay.follow(entry.what_and_page >> 60, page, entry.victim);
                });
                if last {
                    return replay.checked;
                }
                std::thread::sleep(PERIOD);
            }
        });
        ReplayChecker { thread, ended }
    }

    /// Replays the rest after the agent has ended.
    pub fn end(self) -> ReplayReport {
        self.ended.store(true, Ordering::Release);
        self.thread.join().expect("the replay does not panic")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewalk_setassoc::{Geometry, Replacement};

    #[test]
    fn a_wrong_victim_is_named() {
        let twin = SetArray::new(Geometry::new(2, None).unwrap(), Replacement::Fifo).unwrap();
        let mut replay = Replay { twin, checked: ReplayReport::default() };
        for (page, victim) in [(1, NO_PAGE), (2, NO_PAGE), (3, 1)] {
            replay.follow(decision::MISS, page, victim);
        }
        replay.follow(decision::FORGET, 2, NO_PAGE);
        replay.follow(decision::MISS, 4, NO_PAGE);
        assert_eq!(replay.checked, ReplayReport { decisions: 5, first_difference: None });
        replay.follow(decision::MISS, 5, 4);
        let difference = replay.checked.first_difference.unwrap();
        assert!(difference.starts_with("decision 6: miss of page 0x5 with victim 0x4"), "{difference}");
    }
}
