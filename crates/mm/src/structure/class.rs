//! Classes of calls to the kernel: system calls, and the clock.

use pagewalk_trace::all_calls;
use serde::Deserialize;

/// The class of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallClass {
    /// Files, pipes, sockets and devices: what a Unix server serves.
    File,
    /// The program's own memory.
    Memory,
    /// Processes and signals.
    Process,
    /// Anything else: time, identities, waiting.
    Other,
    /// The clock's interrupt.
    Tick,
}

/// A value for each [`CallClass`]; 0 by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClassValues<T> {
    /// For [`CallClass::File`].
    pub file: T,
    /// For [`CallClass::Memory`].
    pub memory: T,
    /// For [`CallClass::Process`].
    pub process: T,
    /// For [`CallClass::Other`].
    pub other: T,
    /// For [`CallClass::Tick`].
    pub tick: T,
}

impl<T: Copy> ClassValues<T> {
    /// The value of a class.
    pub fn of(&self, class: CallClass) -> T {
        match class {
            CallClass::File => self.file,
            CallClass::Memory => self.memory,
            CallClass::Process => self.process,
            CallClass::Other => self.other,
            CallClass::Tick => self.tick,
        }
    }

    /// All values with the names of their keys.
    pub fn named(&self) -> [(&'static str, T); 5] {
        let Self { file, memory, process, other, tick } = *self;
        [("file", file), ("memory", memory), ("process", process), ("other", other), ("tick", tick)]
    }
}

const FILE: &str = "\
    read write open close stat fstat lstat poll lseek ioctl pread64 pwrite64 readv writev access pipe select dup \
    dup2 sendfile socket connect accept sendto recvfrom sendmsg recvmsg shutdown bind listen getsockname \
    getpeername socketpair setsockopt getsockopt fcntl flock fsync fdatasync truncate ftruncate getdents getcwd \
    chdir fchdir rename mkdir rmdir creat link unlink symlink readlink chmod fchmod chown fchown lchown umask \
    utime mknod statfs fstatfs chroot sync mount umount2 setxattr lsetxattr fsetxattr getxattr lgetxattr \
    fgetxattr listxattr llistxattr flistxattr removexattr lremovexattr fremovexattr getdents64 utimes openat \
    mkdirat mknodat fchownat futimesat newfstatat unlinkat renameat linkat symlinkat readlinkat fchmodat \
    faccessat pselect6 ppoll splice tee sync_file_range vmsplice utimensat epoll_create epoll_wait epoll_ctl \
    epoll_pwait eventfd fallocate accept4 eventfd2 epoll_create1 dup3 pipe2 inotify_init inotify_add_watch \
    inotify_rm_watch inotify_init1 preadv pwritev recvmmsg syncfs sendmmsg renameat2 copy_file_range preadv2 \
    pwritev2 statx fadvise64 readahead openat2 faccessat2 close_range epoll_pwait2";

const MEMORY: &str = "\
    mmap mprotect munmap brk mremap msync mincore madvise shmget shmat shmctl shmdt mlock munlock mlockall \
    munlockall remap_file_pages mbind set_mempolicy get_mempolicy migrate_pages move_pages mlock2 pkey_mprotect \
    pkey_alloc pkey_free memfd_create process_madvise";

const PROCESS: &str = "\
    rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigqueueinfo rt_sigsuspend \
    sigaltstack clone fork vfork execve exit wait4 kill ptrace setpgid getpgrp setsid getpgid getsid tkill \
    tgkill exit_group waitid unshare rt_tgsigqueueinfo execveat pidfd_send_signal pidfd_open clone3 signalfd \
    signalfd4";

/// Classes by number of the system call.
#[derive(Clone, Debug)]
pub(super) struct CallClasses(Vec<CallClass>);

impl CallClasses {
    pub fn new() -> CallClasses {
        let among = |names: &str, name: &str| names.split_whitespace().any(|known| known == name);
        let mut classes = Vec::new();
        for (number, name) in all_calls() {
            let class = match name {
                _ if among(FILE, name) => CallClass::File,
                _ if among(MEMORY, name) => CallClass::Memory,
                _ if among(PROCESS, name) => CallClass::Process,
                _ => CallClass::Other,
            };
            classes.resize(number as usize, CallClass::Other);
            classes.push(class);
        }
        CallClasses(classes)
    }

    /// The class of a call; one without a name is [`CallClass::Other`].
    pub fn of(&self, number: u32) -> CallClass {
        self.0.get(number as usize).copied().unwrap_or(CallClass::Other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewalk_trace::call_number;

    #[test]
    fn every_listed_call_exists_and_stands_in_one_list() {
        let all = [FILE, MEMORY, PROCESS].join(" ");
        let mut names: Vec<&str> = all.split_whitespace().collect();
        names.iter().for_each(|name| assert!(call_number(name).is_some(), "{name}"));
        names.sort_unstable();
        names.windows(2).for_each(|pair| assert_ne!(pair[0], pair[1]));
    }

    #[test]
    fn calls_have_their_class() {
        let classes = CallClasses::new();
        let of = |name| classes.of(call_number(name).unwrap());
        assert_eq!((of("read"), of("brk"), of("wait4"), of("futex")), {
            (CallClass::File, CallClass::Memory, CallClass::Process, CallClass::Other)
        });
        assert_eq!((of("openat2"), of("clone3")), (CallClass::File, CallClass::Process));
        assert_eq!((classes.of(400), classes.of(u32::MAX)), (CallClass::Other, CallClass::Other));
    }
}
