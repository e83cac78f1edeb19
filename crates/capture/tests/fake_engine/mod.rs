//! The writing end of the wire format of `engines/valgrind/WIRE.md`, for tests without Valgrind.

use pagewalk_capture::wire::{MAGIC, WIRE_VERSION, event_header, kind, offset};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::IoSlice;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, connect, sendmsg, socket_with,
};
use rustix::thread::futex;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// An engine's announcement; tests of hostile engines change single fields.
#[derive(Clone)]
pub struct Announcement {
    pub hello: Vec<u64>,
    pub magic: u64,
    pub version: u64,
    pub chunk_bytes: u64,
    pub chunks: u64,
    /// Size of the memfd; `None`: as needed by the ring.
    pub file_bytes: Option<u64>,
    pub sealable: bool,
    pub send_file: bool,
}

impl Announcement {
    pub fn new(origin: u64) -> Announcement {
        let (pid, parent) = (std::process::id(), std::os::unix::process::parent_id());
        Announcement {
            hello: vec![MAGIC, WIRE_VERSION, u64::from(pid), u64::from(parent), origin],
            magic: MAGIC,
            version: WIRE_VERSION,
            chunk_bytes: 4096,
            chunks: 4,
            file_bytes: None,
            sealable: true,
            send_file: true,
        }
    }
}

pub struct Engine {
    base: *const u8,
    connection: OwnedFd,
    chunk_words: usize,
    chunks: u64,
    /// Number of the chunk being filled.
    head: u64,
    /// Words in it.
    used: usize,
}

impl Engine {
    pub fn connect(socket: &Path, announcement: &Announcement) -> Engine {
        let Announcement { chunk_bytes, chunks, .. } = *announcement;
        let file_bytes = announcement.file_bytes.unwrap_or(offset::DATA as u64 + chunk_bytes * chunks);
        let sealing = if announcement.sealable { MemfdFlags::ALLOW_SEALING } else { MemfdFlags::empty() };
        let file = memfd_create("ring", MemfdFlags::CLOEXEC | sealing).unwrap();
        ftruncate(&file, file_bytes).unwrap();
        let mapped = (file_bytes as usize).max(offset::DATA);
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at a place of the kernel's choice; it lives as long as the process.
        let base = unsafe { mmap(std::ptr::null_mut(), mapped, access, MapFlags::SHARED, &file, 0) }.unwrap();
        let flags = SocketFlags::CLOEXEC;
        let connection = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        connect(&connection, &SocketAddrUnix::new(socket).unwrap()).unwrap();
        let chunk_words = chunk_bytes as usize / 8;
        let engine = Engine { base: base.cast(), connection, chunk_words, chunks, head: 0, used: 0 };
        if file_bytes >= offset::DATA as u64 {
            engine.word(offset::MAGIC).store(announcement.magic, Ordering::SeqCst);
            engine.word(offset::VERSION).store(announcement.version, Ordering::SeqCst);
            engine.word(offset::CHUNK_BYTES).store(chunk_bytes, Ordering::SeqCst);
            engine.word(offset::CHUNKS).store(chunks, Ordering::SeqCst);
        }
        engine.say_hello(announcement, &file);
        engine
    }

    fn say_hello(&self, announcement: &Announcement, file: &OwnedFd) {
        let bytes: Vec<u8> = announcement.hello.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let files = [file.as_fd()];
        if announcement.send_file {
            assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
        }
        sendmsg(&self.connection, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL).unwrap();
    }

    pub fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: tests use offsets within the header, or within chunks that they made the file large enough for.
        unsafe { &*self.base.add(at).cast() }
    }

    pub fn half(&self, at: usize) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { &*self.base.add(at).cast() }
    }

    /// Appends words that must stay together; false if the reader is gone.
    pub fn push(&mut self, words: &[u64]) -> bool {
        assert!(words.len() <= self.chunk_words);
        if self.used + words.len() > self.chunk_words && !self.next_chunk() {
            return false;
        }
        let slot = (self.head & (self.chunks - 1)) as usize;
        let start = offset::DATA + (slot * self.chunk_words + self.used) * 8;
        for (index, &word) in words.iter().enumerate() {
            self.word(start + index * 8).store(word, Ordering::Relaxed);
        }
        self.used += words.len();
        true
    }

    pub fn event(&mut self, kind: u8, payload: &[u64]) -> bool {
        self.push(&[&[event_header(kind, payload.len() as u32)], payload].concat())
    }

    pub fn identity(&mut self, arguments: &[&str]) {
        let mut payload = vec![arguments.len() as u64];
        arguments.iter().for_each(|argument| payload.extend(text(argument)));
        self.event(kind::IDENTITY, &payload);
    }

    /// Completes the chunk and waits for room; false if the reader is gone.
    pub fn next_chunk(&mut self) -> bool {
        let slot = (self.head & (self.chunks - 1)) as usize;
        self.half(offset::CHUNK_USED + slot * 4).store(self.used as u32 * 8, Ordering::Relaxed);
        self.word(offset::PARTIAL).store(0, Ordering::Release);
        self.head += 1;
        self.used = 0;
        self.word(offset::HEAD).store(self.head, Ordering::Release);
        self.wake_readers(self.head - self.word(offset::TAIL).load(Ordering::Acquire));
        while self.head - self.word(offset::TAIL).load(Ordering::Acquire) >= self.chunks {
            let seen = self.half(offset::TAIL_WAKE).load(Ordering::SeqCst);
            self.half(offset::WRITER_SLEEPS).store(1, Ordering::SeqCst);
            if self.head - self.word(offset::TAIL).load(Ordering::SeqCst) >= self.chunks {
                let wake = self.half(offset::TAIL_WAKE);
                let waited = futex::wait(wake, futex::Flags::empty(), seen, Some(&PATIENCE));
                if waited == Err(rustix::io::Errno::TIMEDOUT) && self.reader_is_gone() {
                    return false;
                }
            }
            self.half(offset::WRITER_SLEEPS).store(0, Ordering::SeqCst);
        }
        true
    }

    pub fn reader_is_gone(&self) -> bool {
        let mut watched = [PollFd::new(&self.connection, PollFlags::IN)];
        poll(&mut watched, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() > 0
    }

    pub fn publish(&self) {
        self.word(offset::PARTIAL).store(self.used as u64 * 8, Ordering::Release);
    }

    /// Wakes those who wait for at most this many complete chunks.
    pub fn wake_readers(&self, complete: u64) {
        let sleepers =
            [(offset::HEAD_WAKE, offset::READER_SLEEPS), (offset::HELP_WAKE, offset::HELPER_SLEEPS)];
        for (wake_at, sleeps_at) in sleepers {
            self.half(wake_at).fetch_add(1, Ordering::SeqCst);
            let wanted = self.half(sleeps_at).load(Ordering::SeqCst);
            if wanted != 0 && complete >= u64::from(wanted) {
                futex::wake(self.half(wake_at), futex::Flags::empty(), 1).unwrap();
            }
        }
    }

    pub fn finish(self) {
        self.publish();
        self.word(offset::DONE).store(1, Ordering::Release);
        self.wake_readers(self.chunks);
    }
}

/// A text as in events: length in bytes, then the bytes, padded.
pub fn text(text: &str) -> Vec<u64> {
    let mut words = vec![text.len() as u64];
    words.extend(text.as_bytes().chunks(8).map(|bytes| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    }));
    words
}
