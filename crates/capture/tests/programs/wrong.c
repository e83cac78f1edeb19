/* Every system call with arguments that are wrong, or little more than zeros, six ways each, in a child of its own; prints
   the error, whether it succeeded, or the signal. Programs try calls so to learn what a kernel has (systemd, libseccomp,
   QEMU, Chromium). With `all`: all but those that end, wait, or change what the rest of the run needs. With `some`: those
   that ended the engine, or that it answered itself, with arguments that are right in part. With `clock` and `segments`:
   what the engine cannot take part in, after which the program goes on without it. */
#define _GNU_SOURCE
#include <asm/ldt.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#define LAST 469
#define SAY(...) (printf(__VA_ARGS__), fflush(stdout))
#define CALL_SET_CPUID 0x1012
#define CALL_XCOMP_SUPPORT 0x1021
#define CALL_XCOMP_PERMITTED 0x1022
#define CALL_RSEQ 334
#define CALL_CLONE3 435
#define CALL_URETPROBE 335   /* ends who calls it */
#define CALL_URING_SETUP 425

static int is_left_out(int number)
{
    static const int numbers[] = {
        SYS_exit, SYS_exit_group, SYS_pause, SYS_reboot, SYS_kill, SYS_tkill, SYS_tgkill, SYS_rt_sigreturn,
        SYS_rt_sigsuspend, SYS_vhangup, SYS_sync, SYS_getpid, SYS_gettid, SYS_getppid, SYS_fork, SYS_vfork, SYS_clone,
        SYS_times, SYS_time, SYS_brk, SYS_setsid, SYS_pivot_root, SYS_swapoff, SYS_swapon, SYS_umask, SYS_restart_syscall,
        SYS_alarm, SYS_select, SYS_pselect6, SYS_poll, SYS_ppoll, SYS_seccomp, SYS_userfaultfd, CALL_URETPROBE,
        SYS_sethostname, SYS_setdomainname, SYS_settimeofday, SYS_clock_settime, SYS_unshare, SYS_vmsplice, SYS_tee,
        SYS_close_range, SYS_write, SYS_fallocate, SYS_ftruncate, SYS_sendfile, SYS_pkey_alloc,
        /* These act on what others have made, or leave something behind. */
        SYS_shmctl, SYS_msgctl, SYS_semctl, SYS_msgget, SYS_semget, SYS_shmget, SYS_msgrcv, SYS_acct, SYS_kexec_load,
        SYS_kexec_file_load, SYS_syslog, SYS_adjtimex, SYS_clock_adjtime, SYS_init_module, SYS_delete_module,
    };
    for (unsigned i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (numbers[i] == number)
            return 1;
    return 0;
}

static void call(int number, const long *given)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        /* A file of its own: root changes what descriptor 0 is. */
        close(0);
        memfd_create("own", 0);
        signal(SIGALRM, SIG_DFL);
        alarm(20);
        errno = 0;
        long result = syscall(number, given[0], given[1], given[2], given[3], given[4], given[5]);
        if (result == -1)
            SAY("%s\n", strerrorname_np(errno));
        else
            SAY("%s\n", result == 0 ? "0" : "a number");
        _exit(0);
    }
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status))
        SAY("signal %d\n", WTERMSIG(status));
}

static void all(void)
{
    static const long ways[6][6] = { { 0 }, { -1, -1, -1, -1, -1, -1 }, { -1 }, { 0, -1 },
                                     { 1L << 40 | 1, 16, 16, 16, 16, 16 }, { 0, 0, 8 } };
    for (int number = 0; number <= LAST; number++)
        for (int way = 0; way < 6 && !is_left_out(number); way++) {
            SAY("%d, way %d: ", number, way);
            call(number, ways[way]);
        }
}

static void some(void)
{
    static long words[16];
    long at = (long)words;
    const long calls[][7] = {
        { SYS_bpf, 0, 0, 0 },
        { SYS_bpf, 5, at, 8 },
        { SYS_prctl, 26, 2 },
        { SYS_prctl, 26, 3 },
        { SYS_prctl, 22, 2, 0 },
        { SYS_seccomp, 1, 0, 0 },
        { SYS_seccomp, 1, 0, 1 },
        { SYS_seccomp, 2, 0, at },
        { SYS_seccomp, 99, 0, 0 },
        { CALL_RSEQ, 0, 0, 0, 0 },
        { CALL_RSEQ, at + 1, 32, 0, 0 },
        { CALL_RSEQ, at, 31, 0, 0 },
        { CALL_CLONE3, 0, 0 },
        { CALL_CLONE3, 0, 64 },
        { CALL_CLONE3, 1, 88 },
        { CALL_CLONE3, at, 1 << 20 },
        { CALL_CLONE3, at, 8 },
        { SYS_arch_prctl, CALL_SET_CPUID, 1 },
        { SYS_arch_prctl, CALL_XCOMP_SUPPORT, at },
        { SYS_arch_prctl, CALL_XCOMP_PERMITTED, at },
        { SYS_arch_prctl, CALL_XCOMP_PERMITTED, 1 },
        { SYS_arch_prctl, 0x1003, 1 },
        { SYS_arch_prctl, 0x9999, 1 },
        { SYS_poll, at, 0xffffffff, 0 },
        { SYS_poll, 1, 4, 0 },
        { SYS_ppoll, 0, 0xffffffff, at, 0, 0 },
        { SYS_recvmmsg, 0, 0, 0xffffffff, 0, 0 },
        { SYS_sendmmsg, 0, 1, 0xffffffff, 0 },
        { SYS_prlimit64, 0, 7, 1, 0 },
        { SYS_prlimit64, 0, 3, 1, 0 },
        { SYS_io_submit, 1, 4, 8 },
        { SYS_modify_ldt, 0, at, 0 },
        { SYS_modify_ldt, 1, at, 3 },
        { SYS_modify_ldt, 99, 0, 0 },
        { SYS_mlock2, at, 8, 0 },
        { SYS_mlock2, at, 8, 99 },
        { SYS_pkey_mprotect, at & -4096, 4096, 3, 0 },
        { SYS_pkey_mprotect, at & -4096, 4096, 3, 77 },
        { SYS_readv, 0, 1, 4 },
        { SYS_writev, 1, 1, 4 },
        { SYS_sendmsg, 0, 1, 0 },
        { SYS_recvmsg, 0, 1, 0 },
        { SYS_rt_sigaction, 10, 1, 1, 8 },
        { SYS_rt_sigprocmask, 0, 1, 1, 8 },
        { SYS_sigaltstack, 1, 1 },
        { SYS_futex, 1, 0, 0, 0 },
        { SYS_execve, 1, 1, 1 },
        { SYS_execve, at, 1, 0 },
        { SYS_socketpair, 1, 1, 0, 1 },
        { SYS_pipe, 1 },
        { SYS_fcntl, 0, F_SETLK, 1 },
        { SYS_ioctl, 0, 0x5401, 1 },
        { SYS_ioctl, 0, 0x89ff, 1 },
        { SYS_process_vm_readv, 1, 1, 1, 1, 1, 0 },
    };
    for (unsigned i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        SAY("%u, call %ld: ", i, calls[i][0]);
        call(calls[i][0], calls[i] + 1);
    }
}

static void count_no_clock(int signal)
{
    SAY("no clock\n");
    prctl(PR_SET_TSC, PR_TSC_ENABLE);
}

static void clock_of_processor(void)
{
    signal(SIGSEGV, count_no_clock);
    SAY("%d\n", prctl(PR_SET_TSC, PR_TSC_SIGSEGV));
    SAY("%d\n", __builtin_ia32_rdtsc() != 0);
}

static void segments(void)
{
    struct user_desc segment = { .entry_number = 0, .limit = 0xfffff, .seg_32bit = 1, .limit_in_pages = 1, .useable = 1 };
    SAY("%ld\n", syscall(SYS_modify_ldt, 1, &segment, sizeof segment));
    unsigned limit = 0;
    __asm__ volatile("lsl %1, %0" : "=r"(limit) : "r"(7));
    SAY("%x\n", limit);
}

int main(int count, char **arguments)
{
    setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
    if (strcmp(arguments[1], "all") == 0)
        all();
    else if (strcmp(arguments[1], "some") == 0)
        some();
    else if (strcmp(arguments[1], "clock") == 0)
        clock_of_processor();
    else
        segments();
    return 0;
}
