//! Where parts are written: on the caller's thread, or on one of their own while the caller goes on.
//!
//! Compressing takes about half as long as encoding, so a thread of its own lets two processors share the work. It
//! gets the parts in order and alone writes to the file: the bytes are those that the caller would have written.

use super::file::{FileWriter, Part, Summary};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};

/// Takes parts, and writes them until something fails.
pub(super) struct Sink<W> {
    target: Arc<Target<W>>,
    thread: Option<Thread>,
}

/// The file, and what became of it.
struct Target<W> {
    file: Mutex<FileWriter<W>>,
    failure: OnceLock<io::Error>,
}

/// Parts that wait to be written, or to be filled, beside the one that is being filled. With one alone the caller waits
/// whenever the thread has to give way to others.
const PARTS: usize = 3;

/// The thread that writes. Few parts go around, so memory is bounded and the caller waits where writing takes longer.
struct Thread {
    full: SyncSender<Part>,
    empty: Receiver<Part>,
    handle: JoinHandle<()>,
}

impl<W: Write> Target<W> {
    /// Writes `part` unless something has failed, and empties it.
    fn write(&self, part: &mut Part) {
        if self.failure.get().is_none() {
            let written = self.file.lock().unwrap_or_else(PoisonError::into_inner).write(part);
            // Whoever writes is alone, so that no other failure can have come first.
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

    /// Takes a part, and answers an empty one in its place.
    pub fn write(&mut self, mut part: Part) -> Part {
        let Some(thread) = &self.thread else {
            self.target.write(&mut part);
            return part;
        };
        // Only a panic ends the thread before its time; `finish` passes it on.
        let empty = thread.empty.recv().unwrap_or_default();
        let _ = thread.full.send(part);
        empty
    }

    /// The failure that stopped the writing, if there was one so far.
    pub fn failure(&self) -> Option<&io::Error> {
        self.target.failure.get()
    }

    /// Waits until all parts are written. Ends the file, whose index counts `events`, unless something has failed
    /// or `failure` says that the caller has: answers the first failure, that of an earlier part.
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
    /// Writes on a thread of its own, if one can be started and there is a second processor for it.
    pub fn with_thread(file: FileWriter<W>) -> Self {
        let mut sink = Sink::new(file);
        if thread::available_parallelism().is_ok_and(|processors| processors.get() > 1) {
            sink.thread = start(Arc::clone(&sink.target)).ok();
        }
        sink
    }
}

fn start<W: Write + Send + 'static>(target: Arc<Target<W>>) -> io::Result<Thread> {
    let (full, parts) = sync_channel::<Part>(PARTS);
    let (give_back, empty) = sync_channel(PARTS);
    let handle = thread::Builder::new().name("write".to_owned()).spawn(move || {
        for _ in 0..PARTS {
            let _ = give_back.send(Part::default());
        }
        for mut part in parts {
            target.write(&mut part);
            // The caller may have ended and want no more.
            let _ = give_back.send(part);
        }
    })?;
    Ok(Thread { full, empty, handle })
}
