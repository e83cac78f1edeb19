//! The engine's environment: the program's as it is, and variables behind it.
//!
//! [`Command::env`] would sort it and drop what is not `NAME=VALUE`. The engine hides its own variables from programs.

use std::ffi::{CStr, CString, OsStr, c_char};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

unsafe extern "C" {
    static mut environ: *const *const c_char;
}

/// Adds a variable to the environment that an engine's command inherits; all of that name go. [`Command::env`] must not
/// be used on such a command, before or after: it would replace the environment.
///
/// # Panics
/// If there is a zero byte in it.
pub fn add_variable(command: &mut Command, name: &str, value: &OsStr) {
    let text = [name.as_bytes(), b"=", value.as_bytes()].concat();
    let variable = CString::new(text).expect("no zero byte");
    let start = name.len() + 1;
    // SAFETY: `append` makes only system calls.
    unsafe { command.pre_exec(move || append(&variable, start)) };
}

/// Puts a variable behind all others, and removes those that have the same first `start` bytes. In a process that is to
/// execute a program and has one thread: makes only system calls.
fn append(variable: &CStr, start: usize) -> io::Result<()> {
    let name = &variable.to_bytes()[..start];
    // SAFETY: the C library's environment is a list of C strings that a null pointer ends, or null; there is no other
    // thread. The new list has room for all of them, one more and the end, and lives until exec.
    unsafe {
        let old = environ;
        let is_end = |at: usize| old.is_null() || (*old.add(at)).is_null();
        let many = (0..).take_while(|&at| !is_end(at)).count();
        let bytes = (many + 2) * size_of::<*const c_char>();
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let new = libc::mmap(std::ptr::null_mut(), bytes, access, flags, -1, 0);
        if new == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let new = new.cast::<*const c_char>();
        let others = (0..many).map(|at| *old.add(at));
        let others = others.filter(|&one| !CStr::from_ptr(one).to_bytes().starts_with(name));
        // The rest is zeros, which end the list.
        others.chain([variable.as_ptr()]).zip(0..).for_each(|(one, at)| new.add(at).write(one));
        environ = new;
    }
    Ok(())
}
