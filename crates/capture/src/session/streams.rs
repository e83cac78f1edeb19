//! A session's streams: live, expected and refused.

use crate::build_id::BuildIds;
use crate::error::CaptureError;
use crate::host::HostDescription;
use crate::ring::Ring;
use crate::session::processes;
use crate::source::RingSource;
use crate::wire::{HELLO_WORDS, MAGIC, WIRE_VERSION};
use pagewalk_trace::{Origin, StreamHeader};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::IoSliceMut;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{Signal, getuid, pidfd_send_signal};
use std::collections::{HashMap, HashSet};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Time limit for a connected engine's first message.
const HELLO_PATIENCE: Timespec = Timespec { tv_sec: 30, tv_nsec: 0 };

/// Shared by the session, its handles and its streams.
pub(super) struct Streams {
    engine: String,
    host: HostDescription,
    build_ids: Arc<BuildIds>,
    /// Wakes the session's thread.
    wake: OwnedFd,
    interrupts: AtomicU32,
    /// The command's process, once started.
    root: OnceLock<OwnedFd>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Streams registered so far.
    registered: u32,
    /// Streams handed out so far.
    opened: u32,
    /// Process ids of the streams being consumed, by number.
    live: HashMap<u32, u32>,
    /// Processes that a stream announced.
    expected: HashSet<u32>,
    refused: Vec<CaptureError>,
}

impl Streams {
    pub fn new(engine: &str, host: HostDescription) -> Result<Streams, CaptureError> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(CaptureError::system("making an event descriptor"))?;
        Ok(Streams {
            engine: engine.to_owned(),
            host,
            build_ids: Arc::default(),
            wake,
            interrupts: AtomicU32::new(0),
            root: OnceLock::new(),
            state: Mutex::default(),
        })
    }

    /// The state stays consistent even if a thread panics.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn wake(&self) -> &OwnedFd {
        &self.wake
    }

    fn raise_wake(&self) {
        // It fails only if the counter is full, and then the descriptor is readable anyway.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    pub fn clear_wake(&self) {
        // It fails if nothing was raised.
        let _ = rustix::io::read(&self.wake, &mut [0u8; 8]);
    }

    /// Only an atomic addition and a system call: safe in a signal handler.
    pub fn interrupt(&self) {
        self.interrupts.fetch_add(1, Ordering::SeqCst);
        self.raise_wake();
    }

    /// The command has started.
    pub fn begun(&self, root: OwnedFd) {
        // A session has one command.
        let _ = self.root.set(root);
    }

    /// Sends the command's process a signal; false before its start or after its end.
    pub fn signal(&self, signal: Signal) -> bool {
        self.root.get().is_some_and(|root| pidfd_send_signal(root, signal).is_ok())
    }

    pub fn interrupts(&self) -> u32 {
        self.interrupts.load(Ordering::SeqCst)
    }

    pub fn opened(&self) -> u32 {
        self.state().opened
    }

    pub fn any_live(&self) -> bool {
        !self.state().live.is_empty()
    }

    pub fn live_processes(&self) -> Vec<u32> {
        self.state().live.values().copied().collect()
    }

    pub fn refuse(&self, error: CaptureError) {
        self.state().refused.push(error);
    }

    pub fn take_refused(&self) -> Vec<CaptureError> {
        std::mem::take(&mut self.state().refused)
    }

    /// Whether an announced process is alive and has not connected. Forgets the others.
    pub fn any_expected(&self, is_alive: impl Fn(u32) -> bool) -> bool {
        let mut state = self.state();
        state.expected.retain(|&pid| is_alive(pid));
        !state.expected.is_empty()
    }

    pub fn give_up_expected(&self) {
        let mut state = self.state();
        let expected = std::mem::take(&mut state.expected);
        state.refused.extend(expected.into_iter().map(|pid| CaptureError::NeverConnected { pid }));
    }

    /// Registers a new connection, if it comes from a process of this user.
    pub fn register(streams: &Arc<Streams>, connection: &OwnedFd) -> Result<Registration, CaptureError> {
        let peer = socket_peercred(connection).map_err(CaptureError::system("asking who has connected"))?;
        let pid = peer.pid.as_raw_nonzero().get().unsigned_abs();
        if peer.uid != getuid() {
            return Err(CaptureError::Refused {
                pid,
                what: format!("belongs to user {}", peer.uid.as_raw()),
            });
        }
        let mut state = streams.state();
        let number = state.registered;
        state.registered += 1;
        state.live.insert(number, pid);
        state.expected.remove(&pid);
        Ok(Registration { streams: Arc::clone(streams), number, pid })
    }

    /// Receives the engine's first message, maps the ring and reads up to the command line.
    pub fn open(&self, connection: OwnedFd, registration: Registration) -> Result<RingSource, CaptureError> {
        let refused = |what: String| CaptureError::Refused { pid: registration.pid, what };
        let (hello, file) = receive_hello(&connection).map_err(refused)?;
        let ring = Ring::map(&file, connection).map_err(refused)?;
        let [_, _, pid, parent, origin] = hello;
        let header = StreamHeader {
            pid: pid as u32,
            parent: parent as u32,
            origin: if origin == 1 { Origin::Fork } else { registration.start_or_exec() },
            program: String::new(),
            arguments: Vec::new(),
            engine: self.engine.clone(),
            thp: self.host.thp.clone(),
            cpu: self.host.cpu.clone(),
            kernel: self.host.kernel.clone(),
            grain: pagewalk_trace::Grain::Byte,
            inferred_gap: None,
        };
        self.state().opened += 1;
        Ok(RingSource::open(header, ring, Arc::clone(&self.build_ids), registration))
    }
}

/// A stream's entry among the live ones, removed when dropped.
pub(crate) struct Registration {
    streams: Arc<Streams>,
    number: u32,
    pid: u32,
}

impl Registration {
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The process id in our namespace.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The first to connect is the started program, even if it is opened late.
    fn start_or_exec(&self) -> Origin {
        if self.number == 0 { Origin::Start } else { Origin::Exec }
    }

    /// Process `pid` is about to connect, so the session must not end before.
    pub fn expect(&self, pid: u32) {
        let connected =
            |state: &State| state.live.iter().any(|(&number, &live)| live == pid && number != self.number);
        let mut state = self.streams.state();
        if !connected(&state) && processes::is_alive(pid) {
            state.expected.insert(pid);
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.streams.state().live.remove(&self.number);
        self.streams.raise_wake();
    }
}

/// The engine's first message, and the ring's file. An error's text says what is wrong.
fn receive_hello(connection: &OwnedFd) -> Result<([u64; HELLO_WORDS], OwnedFd), String> {
    let failed = |error: rustix::io::Errno| format!("its message could not be received: {error}");
    let mut watched = [PollFd::new(connection, PollFlags::IN)];
    let ready = loop {
        match poll(&mut watched, Some(&HELLO_PATIENCE)) {
            // The signal may be meant for the program alone.
            Err(rustix::io::Errno::INTR) => {}
            other => break other.map_err(failed)?,
        }
    };
    if ready == 0 {
        return Err("said nothing".to_owned());
    }
    let mut bytes = [0u8; HELLO_WORDS * 8];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received =
        recvmsg(connection, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)
            .map_err(failed)?;
    let file = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    let hello: [u64; HELLO_WORDS] =
        std::array::from_fn(|word| u64::from_le_bytes(std::array::from_fn(|byte| bytes[word * 8 + byte])));
    if received.bytes != bytes.len() || hello[0] != MAGIC {
        return Err("does not speak the engine's protocol".to_owned());
    }
    if hello[1] != WIRE_VERSION {
        return Err(format!("speaks version {} of the engine's protocol, not {WIRE_VERSION}", hello[1]));
    }
    file.map(|file| (hello, file)).ok_or_else(|| "sent no ring".to_owned())
}
