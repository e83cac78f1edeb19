//! A session: one command run under an engine, and the streams of all its processes.
//!
//! Design constraints: a process that cannot be followed runs on untraced, is listed in [`Session::refused`], and never
//! stops the others; a process image costs one thread and one connection while it lives, however many came before; no
//! process stays a zombie; terminal signals are the caller's concern.

mod crowd;
mod processes;
mod streams;

pub(crate) use streams::Registration;

use crate::engine::BoundedStack;
use crate::error::CaptureError;
use crate::host::HostDescription;
use crate::source::RingSource;
use crowd::Crowd;
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

/// Most connections waiting to be accepted.
const BACKLOG: i32 = 1024;
/// Stack of a stream's thread.
const STREAM_STACK_BYTES: usize = 1 << 20;
/// How often to check for processes that should have connected, once there is nothing else to wait for.
const EXPECTED_POLL: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
/// How long to wait for them.
const EXPECTED_PATIENCE: Duration = Duration::from_secs(10);
/// How long to wait for a descriptor that another thread will release.
const SHORT_OF_DESCRIPTORS: Duration = Duration::from_millis(20);

/// The private place where one command's engines connect.
pub struct Session {
    directory: TempDir,
    listener: OwnedFd,
    streams: Arc<Streams>,
    crowd: Arc<Crowd>,
}

/// Interrupts a session from another thread or from a signal handler.
#[derive(Clone)]
pub struct SessionHandle(Arc<Streams>);

impl SessionHandle {
    /// The user asks to stop. The first call does nothing: the terminal has sent the signal to the program too, which
    /// decides how to react. The second call kills the program and every process it started. Safe in a signal handler.
    pub fn interrupt(&self) {
        self.0.interrupt();
    }

    /// Relays a signal to the program. False before its start or after its end.
    pub fn hand_on(&self, signal: Signal) -> bool {
        self.0.signal(signal)
    }
}

impl Session {
    /// Creates a private directory with a socket. `engine` is the engine's name and version.
    pub fn new(engine: &str, host: HostDescription) -> Result<Session, CaptureError> {
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
        Ok(Session { directory, listener, streams, crowd: Arc::default() })
    }

    /// The socket's path.
    pub fn socket_path(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    /// The session's private directory, removed with the session.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// A handle to interrupt [`Session::run`].
    pub fn handle(&self) -> SessionHandle {
        SessionHandle(Arc::clone(&self.streams))
    }

    /// Errors of single processes, which ran on untraced, since the last call.
    pub fn refused(&self) -> Vec<CaptureError> {
        self.streams.take_refused()
    }

    /// Runs the engine's command and passes each process image's stream to `on_stream`, on a thread of its own. Returns
    /// when the command has exited and every stream has been consumed, including those of processes that outlive it.
    ///
    /// The caller must ensure that SIGINT does not end this process meanwhile: see [`SessionHandle`].
    pub fn run<F>(&self, mut command: Command, on_stream: F) -> Result<ExitStatus, CaptureError>
    where
        F: Fn(RingSource) + Sync,
    {
        let bounded = BoundedStack::new();
        let child = command.spawn().map_err(|source| CaptureError::Spawn {
            program: command.get_program().to_string_lossy().into_owned(),
            source,
        })?;
        drop(bounded);
        let mut root = Root { child, status: None };
        // After the child's start, which must not inherit it: every live process costs descriptors here.
        let _raised = RaisedDescriptorLimit::raise();
        let status = std::thread::scope(|scope| {
            let served = self.serve(scope, &mut root, &on_stream);
            if served.is_err() {
                // Otherwise the streams' threads, which the scope waits for, might never end.
                self.kill_all(&mut root);
            }
            served
        })?;
        if self.streams.opened() == 0 {
            return Err(self.streams.take_refused().pop().unwrap_or(CaptureError::EngineSilent { status }));
        }
        Ok(status)
    }

    /// Kills the command, everything it started, and every streaming process, whoever its parent is now.
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
            // Repeats for processes forked meanwhile, and whenever the user asks.
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
            // A dead process may have connected just before.
            if !self.accept_all(scope, on_stream, &mut spare)? {
                self.streams.give_up_expected();
                return Ok(status);
            }
        }
    }

    /// Starts a thread for each waiting connection; true if at least one is served.
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
                    // Use the spare descriptor to accept and close the connection; otherwise its process would wait.
                    *spare = None;
                    let turned_away = accept_with(&self.listener, SocketFlags::CLOEXEC);
                    let is_turned_away = turned_away.is_ok();
                    drop(turned_away);
                    *spare = spare_descriptor();
                    if is_turned_away {
                        self.streams.refuse(CaptureError::system("making room for one more process")(error));
                        continue;
                    }
                    // Another thread took it, and will release it.
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
            // Not for a refused one: nothing would wake us when it is gone.
            accepted = true;
            let (streams, crowd) = (Arc::clone(&self.streams), Arc::clone(&self.crowd));
            let serve_one = move || {
                let _place = crowd.enter();
                match streams.open(connection, registration) {
                    Ok(source) => on_stream(source),
                    Err(error) => streams.refuse(error),
                }
            };
            let thread = Builder::new().name("stream".to_owned()).stack_size(STREAM_STACK_BYTES);
            // If the thread cannot start, its closure is dropped, and the connection with it.
            if let Err(error) = thread.spawn_scoped(scope, serve_one) {
                self.streams.refuse(CaptureError::system("starting a thread for one more process")(error));
            }
        }
    }
}

/// The command's own process, never left running or as a zombie.
struct Root {
    child: Child,
    status: Option<ExitStatus>,
}

impl Root {
    /// Readable after the process's exit.
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

    /// Kills the process and its descendants.
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
            // It was killed, so waiting cannot fail or take long.
            let _ = self.child.wait();
        }
    }
}

fn spare_descriptor() -> Option<OwnedFd> {
    std::fs::File::open("/dev/null").ok().map(OwnedFd::from)
}

/// Keeps the limit on descriptors at its maximum until dropped: programs started later get the user's limit.
struct RaisedDescriptorLimit(Rlimit);

impl RaisedDescriptorLimit {
    fn raise() -> RaisedDescriptorLimit {
        let limit = getrlimit(Resource::Nofile);
        let Rlimit { current, maximum } = limit;
        // A failure does not matter.
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
