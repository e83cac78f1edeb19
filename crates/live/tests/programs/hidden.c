/* Children that nobody is to follow (CLONE_UNTRACED), by clone and by clone3, map memory; the flags are as they were,
 * also where the call fails. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void in_child(int holds) {
    char *fresh = malloc(1 << 20);
    if (!fresh || !holds)
        _exit(1);
    memset(fresh, 1, 1 << 20);
    _exit(7);
}

static long clone_with(unsigned long *flags) {
    register long rdi __asm__("rdi") = *flags, rax __asm__("rax") = SYS_clone;
    register long rsi __asm__("rsi") = 0, rdx __asm__("rdx") = 0, r10 __asm__("r10") = 0, r8 __asm__("r8") = 0;
    __asm__ volatile("syscall" : "+r"(rax), "+r"(rdi) : "r"(rsi), "r"(rdx), "r"(r10), "r"(r8) : "rcx", "r11", "memory");
    *flags = rdi;
    return rax;
}

/* Handlers of signals are shared with the memory only. */
static int fails(void) {
    unsigned long asked = CLONE_UNTRACED | CLONE_SIGHAND | SIGCHLD, after = asked;
    struct clone_args how = {.flags = CLONE_UNTRACED | CLONE_SIGHAND, .exit_signal = SIGCHLD};
    return clone_with(&after) == -EINVAL && after == asked && syscall(SYS_clone3, &how, sizeof how) == -1
        && how.flags == (CLONE_UNTRACED | CLONE_SIGHAND);
}

int main(void) {
    int status;
    if (!fails())
        return 1;
    unsigned long flags = CLONE_UNTRACED | SIGCHLD, after = flags;
    long pid = clone_with(&after);
    if (pid == 0)
        in_child(after == flags);
    if (after != flags || waitpid(pid, &status, 0) != pid || status != 7 << 8)
        return 1;
    struct clone_args how = {.flags = CLONE_UNTRACED, .exit_signal = SIGCHLD};
    pid = syscall(SYS_clone3, &how, sizeof how);
    if (pid == 0)
        in_child(how.flags == CLONE_UNTRACED);
    return how.flags != CLONE_UNTRACED || waitpid(pid, &status, 0) != pid || status != 7 << 8;
}
