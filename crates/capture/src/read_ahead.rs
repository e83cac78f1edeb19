//! Reading ahead: a source decoded while its items are consumed, by whoever has time for it.
//!
//! Decoding and simulating cost about the same, and the traced program runs meanwhile. A thread of its own decodes
//! while there is much to read: then the program waits for room, and its processor is free. The consumer decodes too,
//! when nothing is decoded and nobody is at it: then the program runs. So two processors are kept busy whatever takes
//! longest, and none of the three waits for a turn while another's processor is idle.
//!
//! Items come out as they went in: same batches, same order, same places. Memory is bounded: the thread waits when it
//! is [`PARCELS`] parcels ahead. Batches worth it move with their room, if the source gives it away; others are copied.

mod parcel;
#[cfg(test)]
mod tests;

use pagewalk_trace::{Backlog, Dictionary, Item, Source, SourceError, StreamHeader};
use parcel::Parcel;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::Scope;
use std::time::{Duration, Instant};

/// Parcels under way at one time: so many that a thread which has to give way for a time slice of the kernel's leaves
/// the consumer enough to do.
const PARCELS: usize = 12;
/// How long the consumer looks for work before it sleeps. Work is there a moment later as long as the program runs, and
/// an idle processor takes long to wake: a virtual machine's 30 to 40 us, and some of whoever wakes it.
const AWAKE: Duration = Duration::from_micros(200);
/// Pauses of the processor between two looks.
const PAUSES: u32 = 32;

/// The source, for one thread at a time.
struct Decoding<S> {
    source: S,
    /// Blocks that parcels have named.
    known: usize,
    ended: bool,
}

/// What lies between the two threads. Locked for moments only, also by who has the source.
#[derive(Default)]
struct Queue {
    full: VecDeque<Parcel>,
    empty: Vec<Parcel>,
    /// Nothing more is decoded: the source has ended, or the consumer is gone.
    closed: bool,
}

struct Shared<S> {
    decoding: Mutex<Decoding<S>>,
    line: Mutex<Queue>,
    /// Told when `line` has changed, and when the source is free.
    changed: Condvar,
    backlog: Option<Arc<dyn Backlog>>,
}

/// The consuming end.
pub struct ReadAhead<S> {
    header: StreamHeader,
    shared: Arc<Shared<S>>,
    parcel: Parcel,
    next: usize,
    blocks: Dictionary,
}

/// Decodes `source` on a thread of `scope`, too, from now on.
pub fn read_ahead<'scope, S: Source + Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    source: S,
) -> std::io::Result<ReadAhead<S>> {
    let header = source.header().clone();
    let backlog = source.backlog();
    let shared = Arc::new(Shared {
        decoding: Mutex::new(Decoding { source, known: 0, ended: false }),
        line: Mutex::default(),
        changed: Condvar::new(),
        backlog,
    });
    let ours = Arc::clone(&shared);
    std::thread::Builder::new().name("decode".to_owned()).spawn_scoped(scope, move || ours.decode_ahead())?;
    Ok(ReadAhead { header, shared, parcel: Parcel::default(), next: 0, blocks: Dictionary::default() })
}

impl<S: Source> Shared<S> {
    /// Plain facts, none half-changed by a thread that panicked.
    fn line(&self) -> MutexGuard<'_, Queue> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, line: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        self.changed.wait(line).unwrap_or_else(PoisonError::into_inner)
    }

    /// After the source was read. Who is woken may be put on this processor at once, so nothing may be held.
    fn done(&self) {
        // Whoever found the source taken has begun to wait by now.
        drop(self.line());
        self.changed.notify_all();
        self.backlog.iter().for_each(|backlog| backlog.go_on());
    }

    /// The thread's part.
    fn decode_ahead(&self) {
        let _closing = CloseOnDrop(self);
        loop {
            let mut line = self.line();
            while !line.closed && line.full.len() >= PARCELS {
                line = self.wait(line);
            }
            if line.closed {
                return;
            }
            let mut parcel = line.empty.pop().unwrap_or_default();
            drop(line);
            self.backlog.iter().for_each(|backlog| backlog.wait());
            // The consumer panicked in the midst of it.
            let Ok(mut decoding) = self.decoding.lock() else { return };
            decoding.fill(&mut parcel, false);
            let mut line = self.line();
            line.closed |= decoding.ended;
            match parcel.is_empty() {
                true => line.empty.push(parcel),
                false => line.full.push_back(parcel),
            }
            // Not before: parcels lie in the line in the order of the source.
            drop((line, decoding));
            self.done();
        }
    }

    /// The next parcel, in exchange for one that is used up; `None` at the end.
    fn next_parcel(&self, used: Parcel) -> Option<Parcel> {
        self.line().empty.push(used);
        let awake_until = Instant::now() + AWAKE;
        loop {
            let mut line = self.line();
            if let Some(parcel) = line.full.pop_front() {
                self.changed.notify_all();
                return Some(parcel);
            }
            if line.closed {
                return None;
            }
            let sleeps = Instant::now() >= awake_until;
            match self.decoding.try_lock() {
                Ok(decoding) if sleeps || decoding.source.is_ready() => {
                    let parcel = line.empty.pop().unwrap_or_default();
                    // Who has the source waits for the line, if only for a moment.
                    drop(line);
                    let parcel = self.decode_here(decoding, parcel, sleeps);
                    if !parcel.is_empty() {
                        return Some(parcel);
                    }
                    self.line().empty.push(parcel);
                    continue;
                }
                Err(TryLockError::WouldBlock) if sleeps => {
                    drop(self.wait(line));
                    continue;
                }
                // The thread panicked: its scope tells.
                Err(TryLockError::Poisoned(_)) => return None,
                // Let go of at once, if it was free: here ends what the look holds.
                Ok(_) | Err(TryLockError::WouldBlock) => drop(line),
            }
            (0..PAUSES).for_each(|_| std::hint::spin_loop());
        }
    }

    /// The consumer's part.
    fn decode_here(
        &self,
        mut decoding: MutexGuard<'_, Decoding<S>>,
        mut parcel: Parcel,
        waits: bool,
    ) -> Parcel {
        decoding.fill(&mut parcel, waits);
        self.line().closed |= decoding.ended;
        drop(decoding);
        self.done();
        parcel
    }
}

/// Closes the line when it is dropped, however that comes.
struct CloseOnDrop<'a, S: Source>(&'a Shared<S>);

impl<S: Source> Drop for CloseOnDrop<'_, S> {
    fn drop(&mut self) {
        self.0.line().closed = true;
        self.0.changed.notify_all();
    }
}

impl<S: Source> Decoding<S> {
    /// Fills a parcel until it is full or the source has ended, or would have to wait; if `waits`, only after the first
    /// items.
    fn fill(&mut self, parcel: &mut Parcel, waits: bool) {
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
            for block in self.parcel.take_blocks() {
                self.blocks.intern(block);
            }
        }
        self.next += 1;
        self.parcel.item(self.next - 1, &self.blocks).map(Some)
    }
}

impl<S> Drop for ReadAhead<S> {
    fn drop(&mut self) {
        self.shared.line.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.shared.changed.notify_all();
        self.shared.backlog.iter().for_each(|backlog| backlog.stir());
    }
}
