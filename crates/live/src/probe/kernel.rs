//! Kernel costs: faults, copies, huge pages and system calls.

use super::clock::Clock;
use super::figure::{Figure, Samples};
use super::memory::{BASE, HUGE, Pages, Space, huge_bytes};
use super::{ProbeError, host};
use crate::timing::thread_time;
use pagewalk_units::Draws;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use std::fs::File;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Base-page faults per repeat. Short repeats are rarely disturbed.
const FAULTS: usize = 256;
/// Huge-page faults per repeat.
const HUGE_FAULTS: usize = 2;
/// Bytes of cold copies, twice: more than caches hold.
const COPIED: usize = 192 << 20;
/// Page copies per repeat.
const COPIES: usize = 256;
/// System calls per repeat.
const CALLS: usize = 200;

/// How to time.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    /// The clock.
    pub clock: Clock,
    /// Repeats.
    pub rounds: usize,
}

const NS: &str = "ns";

impl Stopwatch {
    /// Calls `once` for every repeat.
    fn repeat(self, [name, title]: [&str; 2], mut once: impl FnMut() -> Result<f64, ProbeError>) -> Figure {
        // The first call warms the kernel's own memory.
        let warm = once().map(drop);
        let samples: Result<Samples, ProbeError> =
            warm.and_then(|()| (0..self.rounds).map(|_| once()).collect());
        match samples {
            Ok(samples) => Figure::of(name, title, NS, &samples),
            Err(error) => Figure::refused(name, title, NS, error),
        }
    }

    /// First touch of plain memory in 4 KB pages.
    pub fn anonymous_fault(self) -> Figure {
        let names = ["fault.anonymous_4k", "fault: first touch of plain memory, 4 KB"];
        self.on_space(names, FAULTS * BASE, |space| {
            let ns = self.clock.time(|| space.touch(0, space.bytes(), BASE));
            Ok(ns / FAULTS as f64)
        })
    }

    /// First load of a cached file page, without mapping its neighbours.
    pub fn file_fault(self) -> Figure {
        let names = ["fault.file_4k", "fault: first load of a file in memory, 4 KB"];
        let file = match File::open("/proc/self/exe") {
            Ok(file) => file,
            Err(error) => {
                return Figure::refused(names[0], names[1], NS, format!("our own program: {error}"));
            }
        };
        self.repeat(names, || self.faults_of_file(&file))
    }

    fn faults_of_file(self, file: &File) -> Result<f64, ProbeError> {
        let no_file = |error| ProbeError::File(error);
        let length = file.metadata().map_err(no_file)?.len() as usize;
        let pages = (length / BASE).min(FAULTS);
        let bytes = pages * BASE;
        // SAFETY: the kernel chooses the address, so nothing of ours is replaced; unmapped below.
        let start = unsafe { mmap(null_mut(), bytes, ProtFlags::READ, MapFlags::PRIVATE, file, 0) }
            .map_err(|error| ProbeError::map(bytes, error))?;
        // SAFETY: our own mapping. Disables mapping of pages around a fault.
        let alone = unsafe { madvise(start, bytes, Advice::Random) };
        let touch = || {
            for page in 0..pages {
                // SAFETY: within the mapping, of a file that is as long: a running program cannot be cut.
                unsafe { start.cast::<u8>().add(page * BASE).read_volatile() };
            }
        };
        let ns = self.clock.time(touch);
        // SAFETY: our own mapping, which nothing refers to any more.
        unsafe { munmap(start, bytes) }.map_err(|error| ProbeError::map(bytes, error))?;
        alone.map_err(|error| ProbeError::map(bytes, error))?;
        Ok(ns / pages as f64)
    }

    /// First touch of plain memory in 2 MB pages.
    pub fn huge_fault(self) -> Figure {
        let names = ["fault.anonymous_2m", "fault: first touch of plain memory, 2 MB"];
        self.repeat(names, || {
            let space = Space::memory(HUGE_FAULTS * HUGE, Pages::Huge)?;
            let before = huge_bytes();
            let ns = self.clock.time(|| space.touch(0, space.bytes(), HUGE));
            all_huge(before, HUGE_FAULTS)?;
            Ok(ns / HUGE_FAULTS as f64)
        })
    }

    /// Copying uncached pages one by one, as the kernel copies pages into a huge one.
    pub fn copy(self) -> Figure {
        let names = ["copy.cold_per_kib", "copy of 1 KiB, by cold 4 KB pages"];
        let spaces = Space::memory(COPIED, Pages::Base).and_then(|from| {
            let to = Space::memory(COPIED, Pages::Base)?;
            Ok((from, to))
        });
        let (from, to) = match spaces {
            Ok(spaces) => spaces,
            Err(error) => return Figure::refused(names[0], names[1], NS, error),
        };
        from.touch(0, COPIED, BASE);
        to.touch(0, COPIED, BASE);
        let pages = COPIED / BASE;
        let mut order: Vec<usize> = (0..pages).collect();
        let mut draws = Draws::new(6);
        for last in (1..pages).rev() {
            order.swap(last, draws.below(last as u64 + 1) as usize);
        }
        let mut turn = order.chunks(COPIES).cycle();
        self.repeat(names, || {
            let pages = turn.next().expect("a cycle has no end");
            let ns = self.clock.time(|| {
                for &page in pages {
                    let (from, to) =
                        (from.start().wrapping_add(page * BASE), to.start().wrapping_add(page * BASE));
                    // SAFETY: a page of each space; spaces do not overlap and may be read and written.
                    unsafe { std::ptr::copy_nonoverlapping(from, to, BASE) };
                }
            });
            Ok(ns / (pages.len() * BASE / 1024) as f64)
        })
    }

    /// Collapsing 512 pages of 4 KB into a huge page, in processor time: the kernel first waits until all processors
    /// have drained their page lists, which on a busy host takes long but costs nothing.
    pub fn collapse(self) -> Figure {
        let names = ["collapse.2m", "collapse of 2 MB of 4 KB pages (MADV_COLLAPSE)"];
        self.repeat(names, || {
            let space = Space::memory(HUGE_FAULTS * HUGE, Pages::Base)?;
            space.touch(0, space.bytes(), BASE);
            let before = huge_bytes();
            space
                .advise(0, space.bytes(), Advice::LinuxHugepage)
                .map_err(|error| ProbeError::NoHugePages(format!("madvise(MADV_HUGEPAGE): {error}")))?;
            let begun = thread_time();
            let mut blocks = (0..space.bytes()).step_by(HUGE);
            let result = blocks.try_for_each(|offset| space.collapse(offset, HUGE));
            let ns = (thread_time() - begun).as_secs_f64() * 1e9;
            result.map_err(ProbeError::Collapse)?;
            all_huge(before, HUGE_FAULTS)?;
            Ok(ns / HUGE_FAULTS as f64)
        })
    }

    /// A call of `madvise` that changes nothing.
    pub fn advise(self) -> Figure {
        let names = ["call.madvise", "call of madvise that finds nothing to do"];
        self.on_space(names, BASE, |space| {
            let mut result = Ok(());
            let ns = self.clock.time(|| result = (0..CALLS).try_for_each(|_| space.forget()));
            result.map_err(|error| ProbeError::map(BASE, error))?;
            Ok(ns / CALLS as f64)
        })
    }

    /// Extra time to drop a page while another processor runs a thread of this process.
    pub fn shootdown(self, place: &host::CpuPin) -> Figure {
        let names = ["shootdown.4k", "shootdown of a page, beyond dropping it here"];
        let refused = |reason: String| Figure::refused(names[0], names[1], NS, reason);
        let other = place.allowed.iter().copied().find(|&other| other != place.cpu);
        let Some(other) = other else {
            return refused("this process may run on one processor alone".to_owned());
        };
        let (stop, ready) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let spinner = scope.spawn(|| {
                let pinned = host::keep_on(other);
                ready.store(true, Ordering::Release);
                while pinned.is_ok() && !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
                pinned
            });
            while !ready.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            let beside = self.drops();
            stop.store(true, Ordering::Relaxed);
            let pinned = spinner.join().expect("the thread spins and nothing else");
            // Let another task run there, so that the kernel forgets that the thread ran there.
            std::thread::sleep(Duration::from_millis(5));
            match (pinned, beside, self.drops()) {
                (Ok(()), Ok(beside), Ok(alone)) => Figure::of(names[0], names[1], NS, &beside.less(&alone)),
                (Err(error), ..) => refused(error.to_string()),
                (_, Err(error), _) | (.., Err(error)) => refused(error.to_string()),
            }
        })
    }

    /// Times touching and dropping a page.
    fn drops(self) -> Result<Samples, ProbeError> {
        let space = Space::memory(BASE, Pages::Base)?;
        let once = || {
            let mut result = Ok(());
            let ns = self.clock.time(|| {
                result = (0..CALLS).try_for_each(|_| {
                    space.touch(0, BASE, BASE);
                    space.forget()
                });
            });
            result.map_err(|error| ProbeError::map(BASE, error))?;
            Ok(ns / CALLS as f64)
        };
        (0..=self.rounds).map(|_| once()).skip(1).collect()
    }

    /// Repeats over the same memory, dropped before each.
    fn on_space(
        self,
        names: [&str; 2],
        bytes: usize,
        once: impl Fn(&Space) -> Result<f64, ProbeError>,
    ) -> Figure {
        match Space::memory(bytes, Pages::Base) {
            Err(error) => Figure::refused(names[0], names[1], NS, error),
            Ok(space) => self.repeat(names, || {
                space.forget().map_err(|error| ProbeError::map(bytes, error))?;
                once(&space)
            }),
        }
    }
}

/// Checks that the kernel gave as many huge pages as requested.
fn all_huge(before: u64, wanted: usize) -> Result<(), ProbeError> {
    let got = huge_bytes().saturating_sub(before) / HUGE as u64;
    if got < wanted as u64 {
        return Err(ProbeError::NoHugePages(format!("the kernel gave {got} of {wanted} asked for")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cost_is_told_or_refused_with_a_reason() {
        let measure = Stopwatch { clock: Clock::calibrate(), rounds: 5 };
        let all = [
            measure.anonymous_fault(),
            measure.file_fault(),
            measure.huge_fault(),
            measure.collapse(),
            measure.advise(),
        ];
        for figure in all {
            assert_eq!(figure.value.is_none(), figure.refused.is_some(), "{figure:?}");
            assert!(figure.value.is_none_or(|value| value > 10.0), "{figure:?}");
        }
    }
}
