//! What programs that this process starts inherit, beyond what [`Command`] passes on.
//!
//! Rust's runtime ignores SIGPIPE before `main`, and its [`Command`] sets the default action in programs. A program
//! whose parent ignores broken pipes must ignore them under us too.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether SIGPIPE was ignored when this process, or the library in it, was loaded.
static WAS_IGNORED: AtomicBool = AtomicBool::new(false);
/// Whether programs inherit that.
static IS_KEPT: AtomicBool = AtomicBool::new(false);

/// Runs before Rust's runtime.
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE: extern "C" fn() = note;

extern "C" fn note() {
    // SAFETY: all zeros are a `sigaction`; the call only fills it in.
    let action = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGPIPE, std::ptr::null(), &mut action);
        action
    };
    WAS_IGNORED.store(action.sa_sigaction == libc::SIG_IGN, Ordering::Relaxed);
}

/// From now on programs inherit whether SIGPIPE was ignored when this process began. For the `main` of a program: a
/// library has the signals of the program around it, such as Python's, which are not meant for others.
pub fn keep_broken_pipes() {
    IS_KEPT.store(true, Ordering::Relaxed);
}

/// Whether programs are to ignore SIGPIPE from their start on.
pub fn ignores_broken_pipes() -> bool {
    IS_KEPT.load(Ordering::Relaxed) && WAS_IGNORED.load(Ordering::Relaxed)
}

/// Replaces this process with a program. Returns only if that fails.
pub fn execute(command: &[OsString]) -> io::Error {
    pass_on(&mut Command::new(&command[0])).args(&command[1..]).exec()
}

/// Lets a command's program inherit it.
pub fn pass_on(command: &mut Command) -> &mut Command {
    if !ignores_broken_pipes() {
        return command;
    }
    let ignore = || {
        // SAFETY: between fork and exec, this is one system call, and sets no function of ours.
        match unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) } {
            libc::SIG_ERR => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    };
    // SAFETY: see there.
    unsafe { command.pre_exec(ignore) }
}
