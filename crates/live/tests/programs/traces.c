/* A program that traces others, in each way that debuggers do; 0 if all is as Linux promises.
 *
 * `traces exec`: PTRACE_TRACEME in a child that becomes another program (gdb, ltrace), after fork and after vfork.
 * `traces stopped`: PTRACE_SEIZE of a child that has stopped itself (strace).
 * `traces attach`, `traces seize`: a process of five threads that writes and maps memory (gdb -p, strace -p), which then
 *   forks and gives memory back: it must be private.
 * `traces parent`: a child traces its parent, which maps memory meanwhile; and one that shares its memory and asks not
 *   to be followed (CLONE_UNTRACED), as LeakSanitizer does at the end of each program.
 * `traces steps`: steps, system calls and forks of a child are told (gdb, strace -f).
 * `traces killed`: children that are killed while they are attached to, at one moment or another.
 * `traces filtered`: a child with a seccomp filter of its own, which `trap` cannot let go: 0 if it could be traced, 3 if
 *   that was refused.
 * `traces halted`: the same for one that has stopped, which stays so until it is continued.
 * `traces unroomed`, `traces full`: children that `trap` cannot let go: their agents have no room for private memory, or
 *   they can open no more files. Then their memory is private all the same; 0 or 3.
 * `traces mutual`: two processes that trace each other at the same moment.
 * `traces interrupted`: children that are stopped at one moment or another while they are attached to; it is told.
 * `traces forks`: leaves a process behind that was traced, and forks.
 * `traces me`: its own parent is asked to trace it (detection of debuggers); the second time that is refused.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(holds) ((holds) ? (void)0 : failed(#holds, __LINE__))

static void failed(const char *what, int line) {
    fprintf(stderr, "traces.c:%d: %s (errno %d)\n", line, what, errno);
    _exit(1);
}

static int next(pid_t pid) {
    int status;
    CHECK(waitpid(pid, &status, __WALL) == pid);
    return status;
}

static void use_memory(void) {
    for (int round = 0; round < 20; round++) {
        char *fresh = mmap(0, 1 << 18, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(fresh != MAP_FAILED);
        memset(fresh, round, 1 << 18);
        CHECK(munmap(fresh, 1 << 18) == 0);
    }
}

static const char *SCRIPT = "x=$(printf '%s\\n' b a | sort | head -n 1); test $x = a && exit 9";

/* Through all signals to the end. */
static int to_end(pid_t pid, int status) {
    while (WIFSTOPPED(status)) {
        int signal = WSTOPSIG(status);
        CHECK(ptrace(PTRACE_CONT, pid, 0, signal == SIGSTOP || signal == SIGTRAP ? 0 : signal) == 0);
        status = next(pid);
    }
    return status;
}

static void exec(void) {
    pid_t pid = fork();
    if (pid == 0) {
        CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
        use_memory();
        raise(SIGSTOP);
        execl("/bin/sh", "sh", "-c", SCRIPT, (char *)0);
        _exit(1);
    }
    int status = next(pid);
    CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    CHECK(to_end(pid, status) == 9 << 8);

    pid = vfork();
    if (pid == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        execl("/bin/sh", "sh", "-c", SCRIPT, (char *)0);
        _exit(1);
    }
    status = next(pid);
    CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
    use_memory();
    CHECK(to_end(pid, status) == 9 << 8);
}

static void stopped(void) {
    pid_t pid = fork();
    if (pid == 0) {
        raise(SIGSTOP);
        execl("/bin/sh", "sh", "-c", SCRIPT, (char *)0);
        _exit(1);
    }
    int status;
    CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
    CHECK(ptrace(PTRACE_SEIZE, pid, 0, PTRACE_O_TRACEEXEC) == 0);
    CHECK(kill(pid, SIGCONT) == 0);
    int execs = 0;
    for (status = next(pid); WIFSTOPPED(status); status = next(pid)) {
        execs += status >> 8 == (SIGTRAP | PTRACE_EVENT_EXEC << 8);
        int event = status >> 16, signal = WSTOPSIG(status);
        CHECK(ptrace(PTRACE_CONT, pid, 0, event ? 0 : signal) == 0);
    }
    CHECK(execs == 1 && status == 9 << 8);
}

enum { WORKERS = 4, PAGES = 256, PAGE = 4096 };
static volatile int ended;
static volatile char *area;

static void *work(void *number) {
    volatile char *own = area + (long)number * PAGES * PAGE;
    unsigned char rounds = 0;
    while (!ended) {
        rounds++;
        for (int page = 0; page < PAGES; page++)
            own[page * PAGE]++;
        if (rounds % 16 == 0)
            use_memory();
    }
    for (int page = 0; page < PAGES; page++)
        CHECK((unsigned char)own[page * PAGE] == rounds);
    return 0;
}

static void end(int signal) {
    ended = 1;
}

/* What is attached to. */
static void target(int ready) {
    pthread_t threads[WORKERS];
    area = mmap(0, WORKERS * PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    signal(SIGUSR1, end);
    for (long number = 0; number < WORKERS; number++)
        CHECK(pthread_create(&threads[number], 0, work, (void *)number) == 0);
    CHECK(write(ready, "r", 1) == 1);
    while (!ended)
        usleep(1000);
    for (int number = 0; number < WORKERS; number++)
        pthread_join(threads[number], 0);
    area[0] = 5;
    pid_t child = fork();
    if (child == 0) {
        area[0] = 6;
        use_memory();
        _exit(0);
    }
    CHECK(next(child) == 0 && area[0] == 5);
    CHECK(madvise((void *)area, PAGE, MADV_DONTNEED) == 0 && area[0] == 0);
    _exit(3);
}

static void attach(int seize) {
    int ready[2];
    char word;
    CHECK(pipe(ready) == 0);
    pid_t pid = fork();
    if (pid == 0)
        target(ready[1]);
    CHECK(read(ready[0], &word, 1) == 1);
    CHECK(ptrace(seize ? PTRACE_SEIZE : PTRACE_ATTACH, pid, 0, 0) == 0);
    if (seize)
        CHECK(ptrace(PTRACE_INTERRUPT, pid, 0, 0) == 0);
    CHECK(WIFSTOPPED(next(pid)));
    errno = 0;
    CHECK((char *)ptrace(PTRACE_PEEKDATA, pid, &area, 0) != area && errno == 0);
    CHECK(ptrace(PTRACE_DETACH, pid, 0, 0) == 0);
    usleep(20000);
    CHECK(kill(pid, SIGUSR1) == 0);
    CHECK(next(pid) == 3 << 8);
}

static pid_t parent_pid;

static int trace_parent(void *unused) {
    if (ptrace(PTRACE_ATTACH, parent_pid, 0, 0) != 0)
        return 1;
    int status;
    if (waitpid(parent_pid, &status, __WALL) != parent_pid || !WIFSTOPPED(status))
        return 2;
    return ptrace(PTRACE_DETACH, parent_pid, 0, 0) == 0 ? 4 : 3;
}

static void parent(void) {
    parent_pid = getpid();
    pid_t child = fork();
    if (child == 0)
        _exit(trace_parent(0));
    use_memory();
    CHECK(next(child) == 4 << 8);
    use_memory();
    static char stack[1 << 16] __attribute__((aligned(16)));
    child = clone(trace_parent, stack + sizeof stack, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_UNTRACED, 0);
    CHECK(child > 0);
    use_memory();
    CHECK(next(child) == 4 << 8);
    child = fork();
    if (child == 0) {
        use_memory();
        _exit(0);
    }
    CHECK(next(child) == 0);
}

static void steps(void) {
    pid_t pid = fork();
    if (pid == 0) {
        CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
        raise(SIGSTOP);
        pid_t child = fork();
        if (child == 0) {
            use_memory();
            _exit(1);
        }
        next(child);
        use_memory();
        _exit(4);
    }
    CHECK(WIFSTOPPED(next(pid)));
    for (int step = 0; step < 20; step++) {
        CHECK(ptrace(PTRACE_SINGLESTEP, pid, 0, 0) == 0);
        CHECK(WIFSTOPPED(next(pid)));
    }
    CHECK(ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACEFORK | PTRACE_O_TRACESYSGOOD) == 0);
    int status, calls = 0, forks = 0;
    for (pid_t at = pid;;) {
        ptrace(PTRACE_SYSCALL, at, 0, 0);
        at = waitpid(-1, &status, __WALL);
        CHECK(at > 0);
        if (WIFEXITED(status) && at == pid)
            break;
        forks += status >> 16 == PTRACE_EVENT_FORK;
        calls += WIFSTOPPED(status) && WSTOPSIG(status) == (SIGTRAP | 0x80);
    }
    CHECK(status == 4 << 8 && forks == 1 && calls > 160);
}

static void killed(void) {
    for (int round = 0; round < 40; round++) {
        pid_t target = fork();
        if (target == 0)
            for (;;)
                use_memory();
        pid_t killer = fork();
        if (killer == 0) {
            usleep(round * 300);
            _exit(kill(target, SIGKILL) != 0);
        }
        usleep(5000);
        ptrace(PTRACE_SEIZE, target, 0, 0);
        CHECK(next(target) == SIGKILL);
        CHECK(next(killer) == 0);
    }
}

static void filter(void) {
    struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {1, all};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static void filtered(void) {
    pid_t pid = fork();
    if (pid == 0) {
        filter();
        _exit(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0 ? 0 : errno == EPERM ? 3 : 1);
    }
    _exit(WEXITSTATUS(next(pid)));
}

static void halted(void) {
    int said[2];
    CHECK(pipe(said) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        filter();
        raise(SIGSTOP);
        CHECK(write(said[1], "w", 1) == 1);
        _exit(3);
    }
    int status;
    CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
    int traced = ptrace(PTRACE_SEIZE, pid, 0, 0) == 0;
    CHECK(traced || errno == EPERM);
    if (traced)
        CHECK(WIFSTOPPED(next(pid)) && ptrace(PTRACE_DETACH, pid, 0, 0) == 0);
    struct pollfd hears = {said[0], POLLIN, 0};
    CHECK(poll(&hears, 1, 200) == 0);
    CHECK(kill(pid, SIGCONT) == 0);
    CHECK(poll(&hears, 1, 20000) == 1 && next(pid) == 3 << 8);
    _exit(traced ? 0 : 3);
}

/* Memory is private: a child's writes stay in the child, and what is given back is empty. */
static void own_memory(char *at) {
    pid_t child = fork();
    if (child == 0) {
        memset(at, 8, 64 * PAGE);
        use_memory();
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    for (int page = 0; page < 64; page++)
        CHECK(at[page * PAGE] == 7);
    CHECK(madvise(at, PAGE, MADV_DONTNEED) == 0 && at[0] == 0);
    char *moved = mremap(at, 64 * PAGE, 128 * PAGE, MREMAP_MAYMOVE);
    CHECK(moved != MAP_FAILED && moved[0] == 0 && moved[PAGE] == 7 && moved[64 * PAGE] == 0);
    CHECK(munmap(moved, 128 * PAGE) == 0);
    use_memory();
}

static char *sevens(void) {
    char *at = mmap(0, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    return memset(at, 7, 64 * PAGE);
}

/* The agents of this program: they run it under another name. */
static int agents(pid_t *found, int room) {
    char own[256] = {0}, path[300];
    int count = 0;
    CHECK(readlink("/proc/self/exe", own, sizeof own - 1) > 0);
    DIR *processes = opendir("/proc");
    for (struct dirent *entry; count < room && (entry = readdir(processes));) {
        char other[256] = {0}, name[32] = {0};
        snprintf(path, sizeof path, "/proc/%s/exe", entry->d_name);
        if (atoi(entry->d_name) == 0 || readlink(path, other, sizeof other - 1) <= 0 || strcmp(own, other))
            continue;
        snprintf(path, sizeof path, "/proc/%s/comm", entry->d_name);
        FILE *file = fopen(path, "r");
        if (file && fgets(name, sizeof name, file) && !strcmp(name, "pagewalk-trap\n"))
            found[count++] = atoi(entry->d_name);
        if (file)
            fclose(file);
    }
    closedir(processes);
    return count;
}

static void unroomed(void) {
    pid_t pid = fork();
    if (pid == 0) {
        char *at = sevens();
        pid_t found[8];
        struct rlimit before[8];
        int count = agents(found, 8);
        for (int i = 0; i < count; i++) {
            CHECK(prlimit(found[i], RLIMIT_AS, 0, &before[i]) == 0);
            struct rlimit none = {0, before[i].rlim_max};
            CHECK(prlimit(found[i], RLIMIT_AS, &none, 0) == 0);
        }
        int traced = ptrace(PTRACE_TRACEME, 0, 0, 0) == 0;
        CHECK(traced || errno == EPERM);
        for (int i = 0; i < count; i++)
            CHECK(prlimit(found[i], RLIMIT_AS, &before[i], 0) == 0);
        own_memory(at);
        _exit(traced ? 0 : 3);
    }
    _exit(WEXITSTATUS(to_end(pid, next(pid))));
}

static void full(void) {
    pid_t pid = fork();
    if (pid == 0) {
        char *at = sevens();
        struct rlimit files;
        int next_file = dup(0);
        CHECK(getrlimit(RLIMIT_NOFILE, &files) == 0);
        files.rlim_cur = next_file;
        CHECK(close(next_file) == 0 && setrlimit(RLIMIT_NOFILE, &files) == 0);
        int traced = ptrace(PTRACE_TRACEME, 0, 0, 0) == 0;
        CHECK(traced || errno == EPERM);
        own_memory(at);
        _exit(traced ? 0 : 3);
    }
    _exit(WEXITSTATUS(to_end(pid, next(pid))));
}

static volatile int *there;

/* Who has been let go cannot trace who has not: that is refused. */
static void meet(pid_t other) {
    __atomic_add_fetch(there, 1, __ATOMIC_SEQ_CST);
    while (*there < 2)
        sched_yield();
    CHECK(ptrace(PTRACE_SEIZE, other, 0, 0) == 0 || errno == EPERM);
    __atomic_add_fetch(there, 1, __ATOMIC_SEQ_CST);
    while (*there < 4)
        sched_yield();
}

static void mutual(void) {
    there = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int round = 0; round < 20; round++) {
        *there = 0;
        pid_t one = fork();
        if (one == 0) {
            alarm(30);
            pid_t other = fork();
            if (other == 0) {
                alarm(30);
                meet(getppid());
                _exit(5);
            }
            meet(other);
            CHECK(next(other) == 5 << 8);
            _exit(6);
        }
        CHECK(next(one) == 6 << 8);
    }
}

static void interrupted(void) {
    for (int round = 0; round < 30; round++) {
        pid_t target = fork();
        if (target == 0) {
            alarm(30);
            for (;;)
                use_memory();
        }
        pid_t stopper = fork();
        if (stopper == 0) {
            usleep(4000 + round * 100);
            _exit(kill(target, SIGSTOP) != 0);
        }
        usleep(5000);
        CHECK(ptrace(PTRACE_SEIZE, target, 0, 0) == 0);
        int status = next(target);
        CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
        CHECK(kill(target, SIGKILL) == 0);
        while (WIFSTOPPED(next(target)))
            ;
        CHECK(next(stopper) == 0);
    }
}

static void forks(void) {
    pid_t pid = fork();
    if (pid == 0) {
        alarm(60);
        CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
        raise(SIGSTOP);
        CHECK(prctl(PR_SET_NAME, "pagewalk-trap") == 0);
        for (int i = 0; i < 1000; i++) {
            if (fork() == 0) {
                alarm(60);
                pause();
            }
            usleep(500);
        }
        pause();
    }
    CHECK(WIFSTOPPED(next(pid)) && ptrace(PTRACE_DETACH, pid, 0, 0) == 0);
}

static void me(void) {
    CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
    CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == -1 && errno == EPERM);
    use_memory();
}

static void attach_to(void) { attach(0); }
static void seize(void) { attach(1); }

static const struct { const char *what; void (*run)(void); } ways[] = {
    { "exec", exec },         { "stopped", stopped },   { "attach", attach_to }, { "seize", seize },
    { "parent", parent },     { "steps", steps },       { "killed", killed },    { "filtered", filtered },
    { "halted", halted },     { "unroomed", unroomed }, { "full", full },        { "mutual", mutual },
    { "forks", forks },       { "me", me },             { "interrupted", interrupted },
};

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "";
    alarm(60);
    for (unsigned i = 0; i < sizeof ways / sizeof ways[0]; i++)
        if (!strcmp(what, ways[i].what)) {
            ways[i].run();
            return 0;
        }
    return 2;
}
