//! Decodes a source ahead of its consumer, on whichever thread has time.
//!
//! Decoding and simulating cost about the same, and the traced program runs meanwhile. A separate thread decodes while
//! there is much to read: then the program waits for room, and its processor is free. The consumer also decodes when
//! nothing is decoded and nobody is decoding: then the program runs. So two processors stay busy whatever takes
//! longest, and none of the three waits while another's processor is idle.
//!
//! An analysis may have forerunners ([`Analysis::forerunners`]), each of which sees each parcel before the consumer
//! does. They too work on whichever threads have time, while the program refills the ring.
//!
//! Items keep their batches, order and places. Memory is bounded: the thread waits when it is [`PARCELS`] parcels
//! ahead. Large batches move with their room if the source gives it away; others are copied.
//!
//! Left to the kernel, one of two processors idled for 17–30 % of the time: Linux moves no task that ran 0.5 ms ago,
//! and idle virtual processors wake in 30–40 µs. So the simulating thread also decodes, and looks for work for 200 µs
//! before it sleeps; a ring of 0.5 MiB fits the shared cache, and wakes the decoder when it is nearly full
//! (`ring.rs`). The time with this to without (medians of pairs) is 0.81 (gzip), 0.86 (CPython) and 0.92 (sort) on a
//! Xeon with one last-level cache (f87f307b). With caches apart (211 ns a round trip) it is 1.28 and 1.14 (gzip,
//! CPython), so there most of it is off (`processors.rs`).
//!
//! docs/explanation/speed.md tells what was tried without gain.

mod parcel;
#[cfg(test)]
mod tests;

use pagewalk_trace::{Analysis, Backlog, Dictionary, Item, Source, SourceError, StreamHeader};
use parcel::Parcel;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::Scope;
use std::time::{Duration, Instant};

/// Parcels in flight: enough for the consumer to continue while the thread is preempted for a time slice.
const PARCELS: usize = 12;
/// How long the consumer looks for work before it sleeps. While the program runs, work arrives soon, and an idle
/// processor is slow to wake: 30 to 40 us on a virtual machine, part of it at the waker's expense. Between two looks it
/// yields, as other threads may have work for its processor.
const AWAKE: Duration = Duration::from_micros(200);

/// The source, used by one thread at a time.
struct Decoding<S> {
    source: S,
    /// Number of blocks that parcels have contained.
    known: usize,
    ended: bool,
}

/// The queue between the two threads. Locked only briefly, even by the thread that holds the source.
#[derive(Default)]
struct Queue {
    /// Parcels that some forerunner has yet to see, oldest first.
    unseen: VecDeque<Arc<Parcel>>,
    forerunners: Vec<Progress>,
    /// Parcels for the consumer.
    full: VecDeque<Parcel>,
    empty: Vec<Parcel>,
    /// Nobody begins to decode another parcel: the source or the thread has ended, or all is aborted.
    closed: bool,
    /// Nobody begins anything: the consumer is gone, or a forerunner has panicked.
    aborted: bool,
}

/// How far a forerunner came.
#[derive(Default)]
struct Progress {
    /// Parcels among the unseen that it has seen.
    seen: usize,
    /// Whether it sees one now.
    is_seeing: bool,
}

impl Queue {
    fn has_room(&self) -> bool {
        !self.closed && self.unseen.len() + self.full.len() < PARCELS
    }

    /// The next parcel of a forerunner that is free: of the one that has seen least.
    fn take_unseen(&mut self) -> Option<(usize, Arc<Parcel>)> {
        let free = self.forerunners.iter_mut().enumerate().filter(|(_, one)| !one.is_seeing);
        let (number, latest) = free.min_by_key(|(_, one)| one.seen).filter(|_| !self.aborted)?;
        let parcel = Arc::clone(self.unseen.get(latest.seen)?);
        latest.is_seeing = true;
        Some((number, parcel))
    }

    fn is_seeing(&self) -> bool {
        self.forerunners.iter().any(|one| one.is_seeing)
    }

    /// Moves on what all forerunners have seen.
    fn move_seen(&mut self) {
        while self.forerunners.iter().all(|one| one.seen > 0)
            && let Some(seen) = self.unseen.pop_front()
        {
            self.forerunners.iter_mut().for_each(|one| one.seen -= 1);
            self.full.push_back(Arc::into_inner(seen).expect("nobody sees it any more"));
        }
    }

    fn abort(&mut self) {
        (self.closed, self.aborted) = (true, true);
    }

    /// Whether nothing is left but what is full.
    fn has_ended(&self) -> bool {
        self.aborted || self.closed && self.unseen.is_empty()
    }
}

/// An analysis that sees all batches first, and the blocks that it has seen.
struct Forerunner {
    analysis: Box<dyn Analysis>,
    blocks: Dictionary,
}

impl Forerunner {
    fn see(&mut self, parcel: &Parcel) {
        self.blocks.extend(parcel.blocks());
        parcel.batches(&self.blocks).for_each(|batch| self.analysis.on_batch(&batch));
    }
}

/// What the decoding thread does next.
enum Work {
    Decode(Parcel),
    /// Shows a forerunner, by number, a parcel.
    See(usize, Arc<Parcel>),
}

struct Shared<S> {
    decoding: Mutex<Decoding<S>>,
    forerunners: Vec<Mutex<Forerunner>>,
    line: Mutex<Queue>,
    /// Signalled when `line` changes, and when the source is free.
    changed: Condvar,
    backlog: Option<Arc<dyn Backlog>>,
    /// Whether only events are of interest.
    wants_events_alone: AtomicBool,
}

/// The consuming end.
pub struct ReadAhead<S> {
    header: StreamHeader,
    shared: Arc<Shared<S>>,
    parcel: Parcel,
    next: usize,
    blocks: Dictionary,
}

/// From now on also decodes `source` on a thread of `scope`. Each of `forerunners` sees all batches before they are
/// read.
pub fn read_ahead<'scope, S: Source + Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    source: S,
    forerunners: Vec<Box<dyn Analysis>>,
) -> std::io::Result<ReadAhead<S>> {
    let header = source.header().clone();
    let backlog = source.backlog();
    let progress = forerunners.iter().map(|_| Progress::default()).collect();
    let forerunner = |analysis| Mutex::new(Forerunner { analysis, blocks: Dictionary::default() });
    let shared = Arc::new(Shared {
        decoding: Mutex::new(Decoding { source, known: 0, ended: false }),
        forerunners: forerunners.into_iter().map(forerunner).collect(),
        line: Mutex::new(Queue { forerunners: progress, ..Queue::default() }),
        changed: Condvar::new(),
        backlog,
        wants_events_alone: AtomicBool::new(false),
    });
    let ours = Arc::clone(&shared);
    std::thread::Builder::new().name("decode".to_owned()).spawn_scoped(scope, move || ours.decode_ahead())?;
    Ok(ReadAhead { header, shared, parcel: Parcel::default(), next: 0, blocks: Dictionary::default() })
}

impl<S: Source> Shared<S> {
    /// The state stays consistent even if a thread panics.
    fn line(&self) -> MutexGuard<'_, Queue> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, line: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        self.changed.wait(line).unwrap_or_else(PoisonError::into_inner)
    }

    /// After reading the source. A woken thread may preempt this one at once, so hold no lock.
    fn done(&self) {
        // Whoever found the source taken is waiting by now.
        drop(self.line());
        self.changed.notify_all();
        self.backlog.iter().for_each(|backlog| backlog.go_on());
    }

    fn wants_events_alone(&self) -> bool {
        // Whatever is decoded before this is seen does no harm.
        self.wants_events_alone.load(Ordering::Relaxed)
    }

    /// The thread's loop.
    fn decode_ahead(&self) {
        let _closing = CloseOnDrop(self);
        while let Some(work) = self.next_work() {
            match work {
                Work::See(forerunner, parcel) => self.see(forerunner, parcel),
                Work::Decode(mut parcel) => {
                    self.backlog.iter().for_each(|backlog| backlog.wait());
                    // The consumer panicked while holding it.
                    let Ok(mut decoding) = self.decoding.lock() else { return };
                    decoding.fill(&mut parcel, false, self.wants_events_alone());
                    self.put(parcel, decoding);
                }
            }
        }
    }

    /// Waits for work of the thread; none if nothing is left.
    fn next_work(&self) -> Option<Work> {
        let mut line = self.line();
        loop {
            if let Some((forerunner, parcel)) = line.take_unseen() {
                return Some(Work::See(forerunner, parcel));
            }
            if line.has_room() {
                return Some(Work::Decode(line.empty.pop().unwrap_or_default()));
            }
            if line.has_ended() {
                return None;
            }
            line = self.wait(line);
        }
    }

    /// Queues a parcel that was filled, or keeps it if it is empty, and releases the source.
    fn put(&self, parcel: Parcel, decoding: MutexGuard<'_, Decoding<S>>) {
        let mut line = self.line();
        line.closed |= decoding.ended;
        match (parcel.is_empty(), self.forerunners.is_empty()) {
            (true, _) => line.empty.push(parcel),
            (false, true) => line.full.push_back(parcel),
            (false, false) => line.unseen.push_back(Arc::new(parcel)),
        }
        // Not before: parcels keep the source's order in the queue.
        drop((line, decoding));
        self.done();
    }

    /// Shows a forerunner its next parcel, which is for the consumer once all have seen it.
    fn see(&self, number: usize, parcel: Arc<Parcel>) {
        let mut seeing = Seeing { shared: self, number, has_seen: false };
        // If the other thread panicked, the stream ends here.
        if let Ok(mut forerunner) = self.forerunners[number].lock() {
            forerunner.see(&parcel);
            seeing.has_seen = true;
        }
        // Before `seeing` ends: whoever moves the parcel on is then its only owner.
        drop(parcel);
    }

    /// The next parcel, in exchange for a used one; `None` at the end.
    fn next_parcel(&self, used: Parcel) -> Option<Parcel> {
        self.line().empty.push(used);
        let awake_until = Instant::now() + AWAKE;
        loop {
            let mut line = self.line();
            if let Some(parcel) = line.full.pop_front() {
                self.changed.notify_all();
                return Some(parcel);
            }
            if let Some((forerunner, parcel)) = line.take_unseen() {
                drop(line);
                self.see(forerunner, parcel);
                continue;
            }
            if line.has_ended() {
                return None;
            }
            // While the other thread sees a parcel this one stays awake: the parcel comes soon, and nobody else reads
            // the source.
            let may_wait = !line.is_seeing() && Instant::now() >= awake_until;
            match self.decoding.try_lock() {
                Ok(mut decoding) if line.has_room() && (may_wait || decoding.source.is_ready()) => {
                    let mut parcel = line.empty.pop().unwrap_or_default();
                    // The thread that holds the source waits for the queue, if only briefly.
                    drop(line);
                    decoding.fill(&mut parcel, may_wait, self.wants_events_alone());
                    self.put(parcel, decoding);
                    continue;
                }
                // The thread panicked: its scope reports that.
                Err(TryLockError::Poisoned(_)) => return None,
                free if may_wait => {
                    drop(free);
                    drop(self.wait(line));
                    continue;
                }
                // If it was free, releases it at once.
                Ok(_) | Err(TryLockError::WouldBlock) => drop(line),
            }
            std::thread::yield_now();
        }
    }
}

/// Frees a forerunner when dropped, even by a panic.
struct Seeing<'a, S: Source> {
    shared: &'a Shared<S>,
    number: usize,
    has_seen: bool,
}

impl<S: Source> Drop for Seeing<'_, S> {
    fn drop(&mut self) {
        let mut line = self.shared.line();
        let forerunner = &mut line.forerunners[self.number];
        forerunner.is_seeing = false;
        forerunner.seen += usize::from(self.has_seen);
        if self.has_seen {
            line.move_seen();
        } else {
            line.abort();
        }
        drop(line);
        self.shared.changed.notify_all();
    }
}

/// Closes the queue when dropped, even by a panic.
struct CloseOnDrop<'a, S: Source>(&'a Shared<S>);

impl<S: Source> Drop for CloseOnDrop<'_, S> {
    fn drop(&mut self) {
        self.0.line().closed = true;
        self.0.changed.notify_all();
    }
}

impl<S: Source> Decoding<S> {
    /// Fills a parcel until it is full, the source ends, or reading would wait; with `waits`, may wait for the first
    /// items. `events_alone`: batches may be left out.
    fn fill(&mut self, parcel: &mut Parcel, waits: bool, events_alone: bool) {
        if events_alone {
            self.source.leave_batches_out();
        }
        let gives_rooms = self.source.gives_rooms();
        while !self.ended && !parcel.is_full() && (self.source.is_ready() || waits && parcel.is_empty()) {
            match self.source.next_item() {
                Ok(Some(Item::Batch(batch))) => {
                    if parcel.add(&batch, &mut self.known, gives_rooms) {
                        self.source.give_room(parcel.take_room());
                    }
                }
                Ok(Some(Item::Event { at, event })) => parcel.add_event(at, event),
                Ok(None) => self.ended = true,
                Err(error) => {
                    parcel.add_error(error);
                    self.ended = true;
                }
            }
        }
    }
}

impl<S: Source> Source for ReadAhead<S> {
    fn header(&self) -> &StreamHeader {
        &self.header
    }

    fn next_item(&mut self) -> Result<Option<Item<'_>>, SourceError> {
        while self.next == self.parcel.len() {
            let mut used = std::mem::take(&mut self.parcel);
            used.clear();
            self.next = 0;
            let Some(parcel) = self.shared.next_parcel(used) else { return Ok(None) };
            self.parcel = parcel;
            self.blocks.extend(self.parcel.blocks());
        }
        self.next += 1;
        self.parcel.item(self.next - 1, &self.blocks).map(Some)
    }

    fn leave_batches_out(&mut self) {
        self.shared.wants_events_alone.store(true, Ordering::Relaxed);
    }
}

impl<S> Drop for ReadAhead<S> {
    fn drop(&mut self) {
        let mut line = self.shared.line.lock().unwrap_or_else(PoisonError::into_inner);
        line.abort();
        drop(line);
        self.shared.changed.notify_all();
        self.shared.backlog.iter().for_each(|backlog| backlog.stir());
    }
}
