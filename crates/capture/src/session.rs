//! A session: one command run under an engine, and the streams of all its processes.
//!
//! Design constraints: a process that cannot be followed runs on untraced and is named in [`Session::refused`],
//! it never stops the others; what a process image costs here is one thread and one connection while it lives,
//! however many came before it; no process is left a zombie; the terminal's signals are the caller's business.

mod processes;
mod streams;

pub(crate) use streams::Registration;

use crate::error::CaptureError;
use crate::host::Host;
use crate::source::RingSource;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with,
};
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, Signal, getrlimit, pidfd_open, setrlimit};
use std::fs::Permissions;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::thread::{Builder, Scope};
use std::time::{Duration, Instant};
use streams::Streams;
use tempfile::TempDir;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1024;
/// Stack of a stream's thread.
const STREAM_STACK_BYTES: usize = 1 << 20;
/// How often to look for processes that ought to have connected, once nothing else is left to wait for.
const EXPECTED_POLL: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
/// How long to wait for them.
const EXPECTED_PATIENCE: Duration = Duration::from_secs(10);
/// How long to wait for a descriptor that another thread gives back.
const SHORT_OF_DESCRIPTORS: Duration = Duration::from_millis(20);

/// A private place where one command's engines connect.
pub struct Session {
    directory: TempDir,
    listener: OwnedFd,
    streams: Arc<Streams>,
}

/// Interrupts a session from another thread or from a signal handler.
#[derive(Clone)]
pub struct Handle(Arc<Streams>);

impl Handle {
    /// Says that the user wants the run to end. The first time the session only goes on waiting: the terminal has
    /// sent the signal to the program as well, which decides how to end. The second time the session kills the
    /// program and every process that it started. Safe to call in a signal handler.
    pub fn interrupt(&self) {
        self.0.interrupt();
    }

    /// Hands a signal on to the program, which decides what it does. False where it has not begun, or has ended.
    pub fn hand_on(&self, signal: Signal) -> bool {
        self.0.signal(signal)
    }
}

impl Session {
    /// Makes a private directory with a socket in it. `engine` names the engine with its version.
    pub fn new(engine: &str, host: Host) -> Result<Session, CaptureError> {
        let directory = tempfile::Builder::new()
            .prefix("pagewalk-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir()
            .map_err(|source| CaptureError::RunDirectory { path: std::env::temp_dir(), source })?;
        let path = directory.path().join("socket");
        let address =
            SocketAddrUnix::new(&path).map_err(|_| CaptureError::SocketPath { path: path.clone() })?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
            .map_err(CaptureError::system("making a socket"))?;
        bind(&listener, &address).map_err(CaptureError::system("binding the session's socket"))?;
        listen(&listener, BACKLOG).map_err(CaptureError::system("listening on the session's socket"))?;
        let streams = Arc::new(Streams::new(engine, host)?);
        Ok(Session { directory, listener, streams })
    }

    /// Where the engine is to connect.
    pub fn socket_path(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    /// The session's private directory, gone with the session.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// For interrupting [`Session::run`].
    pub fn handle(&self) -> Handle {
        Handle(Arc::clone(&self.streams))
    }

    /// What went wrong with single processes, which ran on untraced, since this was last asked.
    pub fn refused(&self) -> Vec<CaptureError> {
        self.streams.take_refused()
    }

    /// Runs the engine's command and hands the stream of each process image to `on_stream`, on a thread of its own.
    /// Returns when the command has exited and every stream has been consumed, also those of processes that
    /// outlive it.
    ///
    /// The caller has to see to it that SIGINT does not end this process while it waits: see [`Handle`].
    pub fn run<F>(&self, mut command: Command, on_stream: F) -> Result<ExitStatus, CaptureError>
    where
        F: Fn(RingSource) + Sync,
    {
        let child = command.spawn().map_err(|source| CaptureError::Spawn {
            program: command.get_program().to_string_lossy().into_owned(),
            source,
        })?;
        let mut root = Root { child, status: None };
        // After the child has started, which must not inherit it: every live process costs descriptors here.
        let _raised = RaisedDescriptorLimit::raise();
        let status = std::thread::scope(|scope| {
            let served = self.serve(scope, &mut root, &on_stream);
            if served.is_err() {
                // Or the threads of the streams, which the scope waits for, might never end.
                self.kill_all(&mut root);
            }
            served
        })?;
        if self.streams.opened() == 0 {
            return Err(self.streams.take_refused().pop().unwrap_or(CaptureError::EngineSilent { status }));
        }
        Ok(status)
    }

    /// Kills the command, all it started, and every process that streams, whoever its parent is by now.
    fn kill_all(&self, root: &mut Root) {
        root.kill();
        processes::kill_trees(&self.streams.live_processes());
    }

    /// Accepts streams until the command has exited and none is left.
    fn serve<'scope, F>(
        &self,
        scope: &'scope Scope<'scope, '_>,
        root: &mut Root,
        on_stream: &'scope F,
    ) -> Result<ExitStatus, CaptureError>
    where
        F: Fn(RingSource) + Sync,
    {
        let exit = root.exit_descriptor()?;
        self.streams.begun(root.exit_descriptor()?);
        let mut spare = spare_descriptor();
        let (mut killed, mut seen) = (false, 0);
        let mut alone_since = None;
        loop {
            let patience = alone_since.map(|_| &EXPECTED_POLL);
            let mut watched = vec![
                PollFd::new(&self.listener, PollFlags::IN),
                PollFd::new(self.streams.wake(), PollFlags::IN),
            ];
            if root.status.is_none() {
                watched.push(PollFd::new(&exit, PollFlags::IN));
            }
            match poll(&mut watched, patience) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(CaptureError::system("waiting for the program")(error)),
            }
            self.streams.clear_wake();
            let accepted = self.accept_all(scope, on_stream, &mut spare)?;
            let interrupts = self.streams.interrupts();
            // Again for what was being forked meanwhile, and each time the user asks.
            if interrupts >= 2 && (accepted || interrupts > seen) {
                (killed, seen) = (true, interrupts);
                self.kill_all(root);
            }
            let Some(status) = root.poll_status()? else { continue };
            if accepted || self.streams.any_live() {
                alone_since = None;
                continue;
            }
            let waiting = !killed && self.streams.any_expected(processes::is_alive);
            if waiting && alone_since.get_or_insert_with(Instant::now).elapsed() < EXPECTED_PATIENCE {
                continue;
            }
            // A process no longer alive may have connected just before it died.
            if !self.accept_all(scope, on_stream, &mut spare)? {
                self.streams.give_up_expected();
                return Ok(status);
            }
        }
    }

    /// Starts a thread for each connection that waits; true if there was one that is served.
    fn accept_all<'scope, F>(
        &self,
        scope: &'scope Scope<'scope, '_>,
        on_stream: &'scope F,
        spare: &mut Option<OwnedFd>,
    ) -> Result<bool, CaptureError>
    where
        F: Fn(RingSource) + Sync,
    {
        let mut accepted = false;
        loop {
            let connection = match accept_with(&self.listener, SocketFlags::CLOEXEC) {
                Ok(connection) => connection,
                Err(Errno::AGAIN) => return Ok(accepted),
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS)) => {
                    // The last descriptor serves to take the connection and close it, or its process would wait.
                    *spare = None;
                    let turned_away = accept_with(&self.listener, SocketFlags::CLOEXEC);
                    let is_turned_away = turned_away.is_ok();
                    drop(turned_away);
                    *spare = spare_descriptor();
                    if is_turned_away {
                        self.streams.refuse(CaptureError::system("making room for one more process")(error));
                        continue;
                    }
                    // Another thread was quicker, and will give what it took back.
                    std::thread::sleep(SHORT_OF_DESCRIPTORS);
                    return Ok(accepted);
                }
                Err(error) => return Err(CaptureError::system("accepting an engine's connection")(error)),
            };
            let registration = match Streams::register(&self.streams, &connection) {
                Ok(registration) => registration,
                Err(error) => {
                    self.streams.refuse(error);
                    continue;
                }
            };
            // Not of one that was refused: nothing would wake us when it is gone.
            accepted = true;
            let streams = Arc::clone(&self.streams);
            let serve_one = move || match streams.open(connection, registration) {
                Ok(source) => on_stream(source),
                Err(error) => streams.refuse(error),
            };
            let thread = Builder::new().name("stream".to_owned()).stack_size(STREAM_STACK_BYTES);
            // A closure that got no thread is dropped, and the connection with it.
            if let Err(error) = thread.spawn_scoped(scope, serve_one) {
                self.streams.refuse(CaptureError::system("starting a thread for one more process")(error));
            }
        }
    }
}

/// The command's own process. It is never left running or a zombie.
struct Root {
    child: Child,
    status: Option<ExitStatus>,
}

impl Root {
    /// Readable once the process has exited.
    fn exit_descriptor(&self) -> Result<OwnedFd, CaptureError> {
        pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty())
            .map_err(CaptureError::system("watching the program"))
    }

    fn poll_status(&mut self) -> Result<Option<ExitStatus>, CaptureError> {
        if self.status.is_none() {
            self.status = self.child.try_wait().map_err(CaptureError::system("waiting for the program"))?;
        }
        Ok(self.status)
    }

    /// Kills the process and those it started.
    fn kill(&mut self) {
        if self.status.is_none() {
            processes::kill_trees(&[self.child.id()]);
        }
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        if self.status.is_none() {
            self.kill();
            // It has been killed: waiting for it cannot fail, and not take long.
            let _ = self.child.wait();
        }
    }
}

fn spare_descriptor() -> Option<OwnedFd> {
    std::fs::File::open("/dev/null").ok().map(OwnedFd::from)
}

/// The limit of descriptors is as high as it may be until this is dropped: programs that are started later are to have
/// the user's.
struct RaisedDescriptorLimit(Rlimit);

impl RaisedDescriptorLimit {
    fn raise() -> RaisedDescriptorLimit {
        let limit = getrlimit(Resource::Nofile);
        let Rlimit { current, maximum } = limit;
        // Nothing depends on its success.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
        RaisedDescriptorLimit(Rlimit { current, maximum })
    }
}

impl Drop for RaisedDescriptorLimit {
    fn drop(&mut self) {
        let Rlimit { current, maximum } = self.0;
        let _ = setrlimit(Resource::Nofile, Rlimit { current, maximum });
    }
}
