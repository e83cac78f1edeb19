/* Begins children in the ways that share something with them, and prints what came of it. The argument:

   `vfork`: the child's variables, its error and its end are there when the parent goes on.
   `spawn`: posix_spawn tells that a program is not there. Rust's Command, Go's and Python's subprocess, make and ninja
   rely on one of the two. Under Valgrind posix_spawn returns 0 for what is missing (COMP1511UNSW/dcc, issue 59).
   `threads`: so it does from a thread, with others at work.
   `flags`: clone with flags that are neither a thread's nor a copy's, as leak checkers and runtimes have them
   (microsoft/WSL, issues 1005 and 2781). Valgrind ends the program ("does not support general clone").
   `copy`: clone3 and clone with a descriptor of the child.
   `name`: what `ps` shows, and killall and pkill look for (acg/psmisc, issue 1).
   `memory`: the same of a program that lies in memory. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#ifndef P_PIDFD
#define P_PIDFD 3
#endif
#define SAY(...) (printf(__VA_ARGS__), fflush(stdout))

extern char **environ;
static char *words[] = { "true", 0 };
static volatile int shared = 1;
static char many[1 << 16];

static void borrow(void)
{
    volatile int local = 1;
    int *heap = calloc(1, sizeof *heap), status;
    pid_t child = vfork();
    if (child == 0) {
        shared = local = *heap = 2;
        memset(many, 3, sizeof many);
        _exit(7);
    }
    waitpid(child, &status, 0);
    SAY("%d %d %d %d, status %d\n", shared, local, *heap, many[60000], WEXITSTATUS(status));
    child = vfork();
    if (child == 0) {
        usleep(50000);
        shared = 9;
        execl("/bin/true", "true", (char *)0);
        _exit(1);
    }
    SAY("after the program began: %d\n", shared);
    waitpid(child, &status, 0);
    child = vfork();
    if (child == 0) {
        execl("/no/such/program", "none", (char *)0);
        shared = errno;
        _exit(127);
    }
    SAY("the child says: %s\n", strerror(shared));
    waitpid(child, &status, 0);
    child = vfork();
    if (child == 0) raise(SIGKILL);
    waitpid(child, &status, 0);
    SAY("killed by %d\n", WTERMSIG(status));
}

static void spawn(void)
{
    pid_t child;
    int status = -1;
    posix_spawn_file_actions_t actions;
    SAY("a path: %s\n", strerror(posix_spawn(&child, "/no/such/program", 0, 0, words, environ)));
    SAY("a name: %s\n", strerror(posix_spawnp(&child, "no-such-program", 0, 0, words, environ)));
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, "/no/such/file", 1, 0);
    SAY("a file: %s\n", strerror(posix_spawn(&child, "/bin/true", &actions, 0, words, environ)));
    SAY("a folder: %s\n", strerror(posix_spawn(&child, "/", 0, 0, words, environ)));
    SAY("true: %s", strerror(posix_spawn(&child, "/bin/true", 0, 0, words, environ)));
    waitpid(child, &status, 0);
    SAY(", status %d; %d children are left\n", status, waitpid(-1, 0, WNOHANG) > 0);
    SAY("system: %d\n", system("exit 3") >> 8);
}

static volatile int over;
static void *work(void *unused)
{
    char read_from[64];
    int ends[2];
    while (!over && pipe(ends) == 0) {
        write(ends[1], "ping", 5);
        if (read(ends[0], read_from, sizeof read_from) != 5 || strcmp(read_from, "ping")) SAY("lost\n");
        close(ends[0]), close(ends[1]);
        usleep(100);
    }
    return unused;
}

static void *spawner(void *unused)
{
    for (int i = 0; i < 5; i++) spawn();
    return unused;
}

static void among_threads(void)
{
    pthread_t threads[3];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, work, 0);
    pthread_create(&threads[2], 0, spawner, 0);
    pthread_join(threads[2], 0);
    over = 1;
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
}

static int set(void *unused)
{
    shared = 42;
    return unused != 0;
}

static void with_flags(void)
{
    static char stack[1 << 16];
    int status;
    pid_t child = clone(set, stack + sizeof stack, CLONE_VM | SIGCHLD, 0);
    SAY("memory: %s", child < 0 ? strerror(errno) : "begun");
    waitpid(child, &status, 0);
    SAY(", %d, status %d\n", shared, status);
    child = clone(set, stack + sizeof stack, CLONE_FILES | CLONE_FS | SIGCHLD, 0);
    waitpid(child, &status, 0);
    SAY("files: status %d\n", status);
}

static void copy(void)
{
    int fd = -1, status;
    siginfo_t end = { 0 };
    struct clone_args about = { .flags = CLONE_PIDFD, .pidfd = (unsigned long)&fd, .exit_signal = SIGCHLD };
    long child = syscall(SYS_clone3, &about, sizeof about);
    if (child == 0) _exit(5);
    SAY("clone3: %s, %d", child < 0 ? strerror(errno) : "begun", fd >= 0);
    waitid(P_PIDFD, fd, &end, WEXITED);
    SAY(", status %d\n", end.si_status);
    child = syscall(SYS_clone, SIGCHLD | CLONE_PIDFD, 0, &fd, 0, 0);
    if (child == 0) _exit(6);
    waitpid(child, &status, 0);
    SAY("clone: %d, status %d\n", fd >= 0, WEXITSTATUS(status));
}

static void say_name(void)
{
    char text[64] = "";
    FILE *file = fopen("/proc/self/comm", "r");
    SAY("%s", fgets(text, sizeof text, file));
}

static void name(char *own)
{
    say_name();
    if (!strcmp(own, "again")) return;
    symlink(own, "a name of more than sixteen bytes");
    if (fork() == 0) execl("a name of more than sixteen bytes", "other", "name", "", (char *)0);
    wait(0);
}

static void from_memory(char *own)
{
    int from = open(own, O_RDONLY), to = memfd_create("mine", MFD_CLOEXEC);
    while (sendfile(to, from, 0, 1 << 20) > 0) {}
    fexecve(to, (char *[]){ own, "named", 0 }, environ);
}

int main(int count, char **arguments)
{
    const char *what = count > 1 ? arguments[1] : "";
    if (!strcmp(what, "vfork")) borrow();
    if (!strcmp(what, "spawn")) spawn();
    if (!strcmp(what, "threads")) among_threads();
    if (!strcmp(what, "flags")) with_flags();
    if (!strcmp(what, "copy")) copy();
    if (!strcmp(what, "memory")) from_memory(arguments[0]);
    if (!strcmp(what, "named")) say_name();
    if (!strcmp(what, "name")) name(count > 2 ? "again" : arguments[0]);
    return 0;
}
