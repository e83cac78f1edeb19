//! The reading end of the shared-memory ring.
//!
//! Design constraints: the engine's process, or a wild store of the traced program, may write anything into the ring at
//! any moment, and the process may die at any moment. So sizes are checked against the file once, when it is mapped,
//! and kept here; the file is sealed against shrinking; and every chunk is copied as atomic words to private memory
//! before use. A copied chunk is returned to the engine before it is decoded.

use crate::wire::{Chunk, MAGIC, MAX_CHUNK_BYTES, MAX_CHUNKS, WIRE_VERSION, offset};
use pagewalk_trace::Backlog;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::SealFlags;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::thread::futex;
use std::fmt;
use std::os::fd::OwnedFd;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// How long to sleep before checking that the engine is still there.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Shared memory, accessed as atomic words.
struct SharedMemory {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory belongs to this value alone within the process, and is only reached through atomics.
unsafe impl Send for SharedMemory {}
// SAFETY: atomics may be reached from several threads at once.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// Maps the first `bytes` bytes of `file`, which must be at least that long and sealed against shrinking.
    fn map(file: &OwnedFd, bytes: usize) -> rustix::io::Result<SharedMemory> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at a place of the kernel's choice touches no memory that is in use.
        let base = unsafe { mmap(ptr::null_mut(), bytes, access, MapFlags::SHARED, file, 0) }?;
        let base = NonNull::new(base.cast()).ok_or(Errno::NOMEM)?;
        Ok(SharedMemory { base, bytes })
    }

    /// `count` words at byte offset `at`.
    fn words(&self, at: usize, count: usize) -> &[AtomicU64] {
        assert!(at.is_multiple_of(8) && at <= self.bytes && count <= (self.bytes - at) / 8);
        // SAFETY: the range lies in the mapping, which lives as long as `self`, and is aligned, as the mapping
        // starts at a page. Any bytes are a valid AtomicU64, and no other kind of reference to the memory is
        // ever made.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(at).cast(), count) }
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        &self.words(at, 1)[0]
    }

    /// The 32-bit word at byte offset `at`.
    fn half(&self, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(4) && at <= self.bytes && self.bytes - at >= 4);
        // SAFETY: as in `words`; a word is only ever reached through one width of atomics.
        unsafe { &*self.base.as_ptr().add(at).cast() }
    }
}

impl SharedMemory {
    /// Whether the engine has ended its stream.
    fn is_done(&self) -> bool {
        self.word(offset::DONE).load(Ordering::SeqCst) == 1
    }

    /// Complete unread chunks, according to the ring; the reader itself knows better.
    fn complete(&self) -> u64 {
        let load = |at| self.word(at).load(Ordering::SeqCst);
        load(offset::HEAD).wrapping_sub(load(offset::TAIL))
    }

    /// Wakes a sleeping engine if at most `most` unread chunks are left. Waking pays only if it can work for a while:
    /// it costs both sides more than a chunk, and an engine placed on the reader's processor takes that away.
    fn wake_engine(&self, most: u64) {
        if self.half(offset::WRITER_SLEEPS).load(Ordering::SeqCst) != 0 && self.complete() <= most {
            self.wake(offset::TAIL_WAKE);
        }
    }

    /// Sleeps until `wanted` chunks are complete and unread, the engine has ended, or patience ends; true in the last
    /// case. `wake_at` and `sleeps_at` belong to one sleeper.
    fn await_chunks(&self, wanted: u32, wake_at: usize, sleeps_at: usize) -> bool {
        let (wake, asleep) = (self.half(wake_at), self.half(sleeps_at));
        let seen = wake.load(Ordering::SeqCst);
        asleep.store(wanted, Ordering::SeqCst);
        let result = match self.complete() >= u64::from(wanted) || self.is_done() {
            true => Ok(()),
            false => futex::wait(wake, futex::Flags::empty(), seen, Some(&PATIENCE)),
        };
        asleep.store(0, Ordering::SeqCst);
        result == Err(Errno::TIMEDOUT)
    }

    /// Wakes the sleeper on a futex.
    fn wake(&self, wake_at: usize) {
        let wake = self.half(wake_at);
        wake.fetch_add(1, Ordering::SeqCst);
        // Fails only on a bad address; then the sleeper wakes by timeout.
        let _ = futex::wake(wake, futex::Flags::empty(), 1);
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `map`; references to it borrow `self`, so there are none left.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok());
    }
}

/// The result of [`Ring::next_words`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RingStatus {
    /// The chunk holds new words.
    Words,
    /// The engine is gone, and all its published words have been read.
    Ended {
        /// Whether it ended the stream itself.
        in_order: bool,
    },
}

/// A ring, and the connection that shows whether its engine lives.
pub(crate) struct Ring {
    memory: Arc<SharedMemory>,
    connection: OwnedFd,
    chunk_bytes: u64,
    chunks: u64,
    /// Number of the chunk to read next, or read in part.
    tail: u64,
    /// Words of that chunk already read.
    words_read: usize,
}

impl Ring {
    /// Maps the ring in `file`. An error's text says what is wrong with it.
    pub fn map(file: &OwnedFd, connection: OwnedFd) -> Result<Ring, String> {
        let wanted = SealFlags::SHRINK;
        let sealed =
            rustix::fs::fcntl_add_seals(file, wanted).and_then(|()| rustix::fs::fcntl_get_seals(file));
        if !sealed.is_ok_and(|seals| seals.contains(wanted)) {
            return Err("its ring cannot be sealed against shrinking".to_owned());
        }
        let stat = rustix::fs::fstat(file).map_err(|error| format!("its ring has no size: {error}"))?;
        let file_bytes = u64::try_from(stat.st_size).unwrap_or(0);
        if file_bytes < offset::DATA as u64 {
            return Err(format!("its ring has only {file_bytes} bytes"));
        }
        let failed = |error| format!("its ring cannot be mapped: {error}");
        let header = SharedMemory::map(file, offset::DATA).map_err(failed)?;
        let read = |at| header.word(at).load(Ordering::Acquire);
        if read(offset::MAGIC) != MAGIC {
            return Err("its ring does not begin with the magic number".to_owned());
        }
        if read(offset::VERSION) != WIRE_VERSION {
            return Err(format!("its ring has version {}, not {WIRE_VERSION}", read(offset::VERSION)));
        }
        let (chunk_bytes, chunks) = (read(offset::CHUNK_BYTES), read(offset::CHUNKS));
        let sound = chunk_bytes.is_power_of_two()
            && (8..=MAX_CHUNK_BYTES).contains(&chunk_bytes)
            && chunks.is_power_of_two()
            && chunks <= MAX_CHUNKS;
        if !sound || chunk_bytes * chunks > file_bytes - offset::DATA as u64 {
            return Err(format!(
                "its ring of {file_bytes} bytes claims {chunks} chunks of {chunk_bytes} bytes"
            ));
        }
        let bytes = offset::DATA + (chunk_bytes * chunks) as usize;
        let memory = Arc::new(SharedMemory::map(file, bytes).map_err(failed)?);
        Ok(Ring { memory, connection, chunk_bytes, chunks, tail: 0, words_read: 0 })
    }

    /// Waits for words, copies them to `chunk` and returns their room.
    pub fn next_words(&mut self, chunk: &mut Chunk) -> Result<RingStatus, RingFault> {
        let mut idle = false;
        loop {
            // Read first: everything published before the end was signalled is then visible.
            let done = self.memory.word(offset::DONE).load(Ordering::Acquire) == 1;
            let over = done || idle && self.engine_is_gone();
            match self.completed()? {
                0 => {}
                _ if self.copy_completed(chunk)? => return Ok(RingStatus::Words),
                _ => continue,
            }
            if (over || idle) && self.copy_partial(chunk)? {
                return Ok(RingStatus::Words);
            }
            if over {
                return Ok(RingStatus::Ended { in_order: done });
            }
            idle = self.sleep();
        }
    }

    /// Complete unread chunks.
    fn completed(&self) -> Result<u64, RingFault> {
        let head = self.memory.word(offset::HEAD).load(Ordering::SeqCst);
        let completed = head.wrapping_sub(self.tail);
        if completed > self.chunks {
            return Err(RingFault::Head { head, tail: self.tail });
        }
        Ok(completed)
    }

    /// Copies the rest of the complete chunk at the tail and returns its room; false if nothing was left.
    fn copy_completed(&mut self, chunk: &mut Chunk) -> Result<bool, RingFault> {
        let slot = (self.tail & (self.chunks - 1)) as usize;
        let used = self.memory.half(offset::CHUNK_USED + slot * 4).load(Ordering::Relaxed);
        let copied = self.copy(chunk, u64::from(used))?;
        self.tail += 1;
        self.words_read = 0;
        self.memory.word(offset::TAIL).store(self.tail, Ordering::SeqCst);
        self.memory.half(offset::TAIL_WAKE).fetch_add(1, Ordering::SeqCst);
        self.memory.wake_engine(self.low());
        Ok(copied)
    }

    /// At this many chunks the reader may soon have to wait.
    fn low(&self) -> u64 {
        self.chunks / 4
    }

    /// Whether there are enough words for a batch, or all that will come.
    pub fn is_ready(&self) -> bool {
        self.memory.is_done() || self.completed().is_ok_and(|complete| complete > self.low() + 1)
    }

    /// A view for a thread other than the reader.
    pub fn backlog(&self) -> RingBacklog {
        // More than makes the ring ready, so that nobody is woken in vain.
        let much = (self.chunks - self.chunks / 8).max(self.low() + 2);
        RingBacklog { memory: Arc::clone(&self.memory), much: much as u32, few: self.chunks / 2 }
    }

    /// Copies new words of the chunk being filled; false if there are none.
    fn copy_partial(&mut self, chunk: &mut Chunk) -> Result<bool, RingFault> {
        let partial = self.memory.word(offset::PARTIAL).load(Ordering::Acquire);
        // `partial` belongs to the chunk at the tail only between two equal readings of `head`. It may be 0 again if
        // that chunk has just been completed.
        if self.completed()? > 0 || partial <= self.words_read as u64 * 8 {
            return Ok(false);
        }
        self.copy(chunk, partial)
    }

    /// Copies the words from `words_read` to byte `end` of the chunk at the tail; false if there are none.
    fn copy(&mut self, chunk: &mut Chunk, end: u64) -> Result<bool, RingFault> {
        let end_word = (end / 8) as usize;
        if end > self.chunk_bytes || !end.is_multiple_of(8) || end_word < self.words_read {
            return Err(RingFault::Used { chunk: self.tail, bytes: end });
        }
        let slot = (self.tail & (self.chunks - 1)) * self.chunk_bytes;
        let start = offset::DATA + slot as usize + self.words_read * 8;
        let words = self.memory.words(start, end_word - self.words_read);
        copy_shared(words, &mut chunk.words);
        (chunk.number, chunk.skipped, chunk.at) = (self.tail, self.words_read, 0);
        self.words_read = end_word;
        Ok(!words.is_empty())
    }

    /// Sleeps until there are new words, or until patience ends; true in the latter case.
    fn sleep(&self) -> bool {
        self.memory.wake_engine(self.low());
        let some = (self.chunks / 4).max(1) as u32;
        self.memory.await_chunks(some, offset::HEAD_WAKE, offset::READER_SLEEPS)
    }

    /// Whether the connection is closed. The engine writes nothing to it after its first message.
    fn engine_is_gone(&self) -> bool {
        let mut watched = [PollFd::new(&self.connection, PollFlags::IN)];
        match poll(&mut watched, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
            Ok(ready) => ready > 0,
            Err(error) => error != Errno::INTR,
        }
    }
}

/// Shows another thread how full a ring is.
pub(crate) struct RingBacklog {
    memory: Arc<SharedMemory>,
    much: u32,
    few: u64,
}

impl Backlog for RingBacklog {
    fn wait(&self) {
        self.memory.await_chunks(self.much, offset::HELP_WAKE, offset::HELPER_SLEEPS);
    }

    fn stir(&self) {
        self.memory.wake(offset::HELP_WAKE);
    }

    fn go_on(&self) {
        self.memory.wake_engine(self.few);
    }
}

/// Copies words that another process may be writing. Concurrently written words may be mixtures.
#[cfg(target_arch = "x86_64")]
fn copy_shared(from: &[AtomicU64], to: &mut Vec<u64>) {
    to.clear();
    to.reserve(from.len());
    // SAFETY: `from` is valid for reads of `from.len()` words and `to` has room for as many; they do not overlap, as
    // `to` is private memory. The instruction reads memory as the hardware does, so that a racing write is no
    // data race of the language, and any bytes are valid words. The direction flag is clear, as the ABI says.
    unsafe {
        std::arch::asm!(
            "rep movsb",
            inout("rcx") from.len() * 8 => _,
            inout("rsi") from.as_ptr() => _,
            inout("rdi") to.as_mut_ptr() => _,
            options(nostack, preserves_flags)
        );
        to.set_len(from.len());
    }
}

/// Copies words that another process may be writing.
#[cfg(not(target_arch = "x86_64"))]
fn copy_shared(from: &[AtomicU64], to: &mut Vec<u64>) {
    to.clear();
    to.extend(from.iter().map(|word| word.load(Ordering::Relaxed)));
}

/// Impossible numbers in the ring's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RingFault {
    /// `head` went backwards, or beyond the ring's length.
    Head {
        /// Its value.
        head: u64,
        /// Chunks read so far.
        tail: u64,
    },
    /// The valid bytes of a chunk exceed it, are not whole words, or have decreased.
    Used {
        /// The chunk's number.
        chunk: u64,
        /// The claimed bytes.
        bytes: u64,
    },
}

impl fmt::Display for RingFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RingFault::Head { head, tail } => {
                write!(
                    f,
                    "the engine's ring is malformed: {head} chunks are complete when {tail} have been read"
                )
            }
            RingFault::Used { chunk, bytes } => {
                write!(f, "the engine's ring is malformed: chunk {chunk} claims {bytes} valid bytes")
            }
        }
    }
}
