//! Writes parts, on the caller's thread or on a separate one.
//!
//! Compressing takes about half as long as encoding, so a separate thread lets two processors share the work. It gets
//! the parts in order and alone writes to the file: the bytes are the same.

use super::file::{FileWriter, Part, Summary};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};

/// Writes parts until something fails.
pub(super) struct Sink<W> {
    target: Arc<Target<W>>,
    thread: Option<Thread>,
}

/// The file, and its first failure.
struct Target<W> {
    file: Mutex<FileWriter<W>>,
    failure: OnceLock<io::Error>,
}

/// Parts in circulation, besides the one being filled and those that other threads encode. With just one, the caller
/// would wait whenever the thread is preempted.
const PARTS: usize = 3;

/// The writing thread. Few parts circulate, so memory is bounded, and the caller waits if writing is slower.
struct Thread {
    full: SyncSender<Part>,
    empty: Receiver<Part>,
    handle: JoinHandle<()>,
}

impl<W: Write> Target<W> {
    /// Writes `part` unless something has failed, and empties it.
    fn write(&self, part: &mut Part) {
        if self.failure.get().is_none() {
            let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
            let written = part.wait().and_then(|()| file.write(part));
            // Only one thread writes, so no other failure can have come first.
            written.unwrap_or_else(|error| self.failure.set(error).unwrap_or_default());
        }
        part.clear();
    }
}

impl<W: Write> Sink<W> {
    /// Writes on the caller's thread.
    pub fn new(file: FileWriter<W>) -> Self {
        Sink { target: Arc::new(Target { file: Mutex::new(file), failure: OnceLock::new() }), thread: None }
    }

    /// Takes a part, and returns an empty one.
    pub fn write(&mut self, mut part: Part) -> Part {
        let Some(thread) = &self.thread else {
            self.target.write(&mut part);
            return part;
        };
        // Only a panic ends the thread early; `finish` passes it on.
        let empty = thread.empty.recv().unwrap_or_default();
        let _ = thread.full.send(part);
        empty
    }

    /// The failure that stopped the writing, if any.
    pub fn failure(&self) -> Option<&io::Error> {
        self.target.failure.get()
    }

    /// Waits until all parts are written. Ends the file, whose index has the counts `events`, unless something has
    /// failed or `failure` is the caller's failure: returns the first failure, that of the earliest part.
    pub fn finish(self, failure: Option<io::Error>, events: BTreeMap<String, u64>) -> io::Result<Summary> {
        if let Some(Thread { full, handle, .. }) = self.thread {
            drop(full);
            handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
        let target = Arc::into_inner(self.target).expect("the thread has let go of it");
        match target.failure.into_inner().or(failure) {
            Some(failure) => Err(failure),
            None => target.file.into_inner().unwrap_or_else(PoisonError::into_inner).finish(events),
        }
    }
}

impl<W: Write + Send + 'static> Sink<W> {
    /// Writes on a separate thread, if one can be started and there is a second processor. `encoders`: threads that
    /// encode.
    pub fn with_thread(file: FileWriter<W>, encoders: usize) -> Self {
        let mut sink = Sink::new(file);
        if thread::available_parallelism().is_ok_and(|processors| processors.get() > 1) {
            sink.thread = start(Arc::clone(&sink.target), PARTS + encoders).ok();
        }
        sink
    }
}

fn start<W: Write + Send + 'static>(target: Arc<Target<W>>, circulating: usize) -> io::Result<Thread> {
    let (full, parts) = sync_channel::<Part>(circulating);
    let (give_back, empty) = sync_channel(circulating);
    let handle = thread::Builder::new().name("write".to_owned()).spawn(move || {
        for _ in 0..circulating {
            let _ = give_back.send(Part::default());
        }
        for mut part in parts {
            target.write(&mut part);
            // The caller may have ended.
            let _ = give_back.send(part);
        }
    })?;
    Ok(Thread { full, empty, handle })
}
