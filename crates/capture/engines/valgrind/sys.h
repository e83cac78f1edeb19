/* SPDX-License-Identifier: GPL-2.0-or-later */
/* System calls that Valgrind's tool interface does not offer. A result of -4095 to -1 is a negated errno. */

#ifndef PAGEWALK_SYS_H
#define PAGEWALK_SYS_H

#include "pub_tool_basics.h"
#include "pub_tool_vkiscnums.h"

/* Constants that Valgrind's copies of the kernel headers lack. */
#define SYS_SOCK_SEQPACKET 5
#define SYS_SOCK_CLOEXEC 02000000
#define SYS_SO_SNDTIMEO 21
#define SYS_MSG_NOSIGNAL 0x4000
#define SYS_O_CLOEXEC 02000000
#define SYS_O_PATH 010000000
#define SYS_O_NOFOLLOW 0400000
#define SYS_CLONE_PIDFD 0x1000
#define SYS_PR_SET_NAME 15
#define SYS_MFD_CLOEXEC 1
#define SYS_MFD_ALLOW_SEALING 2
#define SYS_FUTEX_WAIT 0
#define SYS_FUTEX_WAKE 1
#define SYS_ETIMEDOUT 110
#define SYS_SHM_RDONLY 010000
#define SYS_PKEY_MPROTECT 329
#define SYS_PRLIMIT64 302
#define SYS_FACCESSAT2 439
#define SYS_AT_FDCWD (-100)
#define SYS_AT_EACCESS 0x200
#define SYS_AT_EMPTY_PATH 0x1000
#define SYS_EPERM 1
#define SYS_ENOSYS 38
#define SYS_RLIMIT_FSIZE 1
#define SYS_RLIMIT_STACK 3
#define SYS_CAPABILITY_VERSION_3 0x20080522
#define SYS_MAP_STACK 0x20000
#define SYS_MADV_HUGEPAGE 14
#define SYS_MADV_NOHUGEPAGE 15
#define SYS_MAP_POPULATE 0x8000
#define SYS_MAP_LOCKED 0x2000
#define SYS_MAP_32BIT 0x40
#define SYS_MAP_FIXED_NOREPLACE 0x100000
#define SYS_MAP_HUGETLB 0x40000
#define SYS_MAP_HUGE_SHIFT 26
#define SYS_MAP_HUGE_MASK 0x3f
#define SYS_HUGETLBFS_MAGIC 0x958458f6
#define SYS_MREMAP_DONTUNMAP 4
#define SYS_PR_SET_THP_DISABLE 41
#define SYS_PR_GET_THP_DISABLE 42
#define SYS_PR_THP_EXCEPT_ADVISED 2
#define SYS_PR_SET_MM 35
#define SYS_PR_SET_MM_MAP 14
#define SYS_ARCH_SET_GS 0x1001
#define SYS_ARCH_SET_FS 0x1002
#define SYS_ARCH_GET_CPUID 0x1011
#define SYS_ARCH_SET_CPUID 0x1012
#define SYS_ARCH_GET_XCOMP_SUPP 0x1021
#define SYS_ARCH_REQ_XCOMP_GUEST_PERM 0x1025
#define SYS_PR_SET_TSC 26
#define SYS_PR_TSC_SIGSEGV 2
#define SYS_SECCOMP_MODE_FILTER 2
#define SYS_RLIMIT_NOFILE 7
#define SYS_SECCOMP_SET_MODE_FILTER 1
#define SYS_CLOCK_MONOTONIC 1
#define SYS_INSTRUCTION_BYTES 2   /* of `syscall` */

/* Calls that are younger than Valgrind's list, or that it does not know. */
#define SYS_RECVMMSG 299
#define SYS_SENDMMSG 307
#define SYS_SECCOMP 317
#define SYS_MLOCK2 325
#define SYS_PKEY_ALLOC 330
#define SYS_PKEY_FREE 331
#define SYS_IO_PGETEVENTS 333
#define SYS_STATX 332
#define SYS_RSEQ 334
#define SYS_UPROBE 336
#define SYS_USERFAULTFD 323
#define SYS_PIDFD_SEND_SIGNAL 424
#define SYS_IO_URING_ENTER 426
#define SYS_OPEN_TREE 428
#define SYS_PIDFD_OPEN 434
#define SYS_CLONE3 435
#define SYS_OPENAT2 437
#define SYS_PIDFD_GETFD 438
#define SYS_PROCESS_MADVISE 440
#define SYS_FCHMODAT2 452
#define SYS_FUTEX_WAKE_2 454
#define SYS_FILE_SETATTR 469

static inline Word sys_call6(UWord number, UWord a, UWord b, UWord c, UWord d, UWord e, UWord f)
{
   register UWord r10 __asm__("r10") = d;
   register UWord r8 __asm__("r8") = e;
   register UWord r9 __asm__("r9") = f;
   Word result;
   __asm__ volatile("syscall"
                    : "=a"(result)
                    : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                    : "rcx", "r11", "memory");
   return result;
}

static inline Word sys_call3(UWord number, UWord a, UWord b, UWord c)
{
   return sys_call6(number, a, b, c, 0, 0, 0);
}

static inline Bool sys_failed(Word result)
{
   return result < 0 && result >= -4095;
}

#endif
