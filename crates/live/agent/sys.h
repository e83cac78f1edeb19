/* System calls without a C library. */
#ifndef PAGEWALK_SYS_H
#define PAGEWALK_SYS_H

#include "shared.h"

static inline s64 call6(u64 number, u64 a, u64 b, u64 c, u64 d, u64 e, u64 f) {
    register u64 r10 __asm__("r10") = d;
    register u64 r8 __asm__("r8") = e;
    register u64 r9 __asm__("r9") = f;
    s64 result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}
#define call0(n) call6(n, 0, 0, 0, 0, 0, 0)
#define call1(n, a) call6(n, (u64)(a), 0, 0, 0, 0, 0)
#define call2(n, a, b) call6(n, (u64)(a), (u64)(b), 0, 0, 0, 0)
#define call3(n, a, b, c) call6(n, (u64)(a), (u64)(b), (u64)(c), 0, 0, 0)
#define call4(n, a, b, c, d) call6(n, (u64)(a), (u64)(b), (u64)(c), (u64)(d), 0, 0)

enum {
    NR_read = 0, NR_write = 1, NR_open = 2, NR_close = 3, NR_poll = 7, NR_mmap = 9, NR_rt_sigprocmask = 14, NR_ioctl = 16,
    NR_sched_yield = 24, NR_madvise = 28, NR_exit_group = 231, NR_ftruncate = 77, NR_setpgid = 109,
    NR_prctl = 157, NR_futex = 202, NR_dup3 = 292, NR_pipe2 = 293, NR_memfd_create = 319, NR_userfaultfd = 323, NR_close_range = 436,
};

enum {
    ENOENT_ = 2, EAGAIN_ = 11, ENOMEM_ = 12, EFAULT_ = 14, EEXIST_ = 17, EINVAL_ = 22,
    PROT_RW = 3, MAP_SHARED_FIXED = 0x11, MAP_PRIVATE_ANONYMOUS_FIXED = 0x32,
    O_CLOEXEC_ = 02000000, O_NONBLOCK_ = 04000, O_RDWR_ = 2, MFD_CLOEXEC_ = 1,
    DONTNEED = 4, DONTNEED_LOCKED = 24, POLLIN_ = 1, FUTEX_WAKE_ = 1, PR_SET_NAME_ = 15, SIG_BLOCK_ = 0,
};

/* The used part of linux/userfaultfd.h: the host's header may be older than its kernel. */
#define UFFD_API_VERSION 0xaaul
#define FEATURE_MISSING_SHMEM (1ul << 5)
#define FEATURE_MINOR_SHMEM (1ul << 10)
#define MODE_MISSING 1ul
#define MODE_MINOR 4ul
#define FAULT_MINOR 4ul
#define EVENT_PAGEFAULT 0x12
struct uffd_api { u64 api, features, ioctls; };
struct uffd_range { u64 start, length; };
struct uffd_register { struct uffd_range range; u64 mode, ioctls; };
struct uffd_fill { struct uffd_range range; u64 mode; s64 done; };
struct uffd_message { u8 event, reserved[7]; u64 flags, address, thread; };
#define UFFDIO_API_ 0xc018aa3ful
#define UFFDIO_REGISTER_ 0xc020aa00ul
#define UFFDIO_WAKE_ 0x8010aa02ul
#define UFFDIO_ZEROPAGE_ 0xc020aa04ul
#define UFFDIO_CONTINUE_ 0xc020aa07ul
#define USERFAULTFD_IOC_NEW_ 0xaa00ul

#endif
