/* Situations in which users of other tools reported that their programs became others. Prints what came of each; all of
   it is what the kernel promises. The argument says which:

   `views`: one heap mapped three times at fixed addresses, as ZGC does (AutoMQ/automq-for-rocketmq, issue 722).
   `guards`: stacks of coroutines that are changed, seals, guard pages, wiping at a fork, a mapping that grows down,
   the least stack for signals.
   `advice`: MADV_POPULATE_WRITE, process_madvise on oneself, names of mappings (golang/go, issue 63334: what runtimes
   ask the kernel for and how it may fail).
   `waiting`: calls that block while another thread completes what they wait for: futex_waitv, epoll_pwait2, signalfd, a
   timer of a thread's own (axboe/liburing, issue 657: all threads stood still under Valgrind).
   `tickets`: four threads that take turns by a ticket lock and never yield (leapmotion/autowiring, pull request 765;
   atomvm/AtomVM, pull request 2331; form-dev/form, issue 600: starved or livelocked under Valgrind).
   `closing`: all descriptors closed, by number and as a range, as daemons do.
   `masks`: what is blocked in handlers of all kinds, as SBCL asserts when it stops its threads (Debian's sbcl 2.2.9 ends
   itself under Valgrind 3.19 with "blockables unblocked"). */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#define PAGE 4096UL
#define READ_WRITE (PROT_READ | PROT_WRITE)
#define PRIVATE (MAP_PRIVATE | MAP_ANONYMOUS)
#define SAY(...) (printf(__VA_ARGS__), fflush(stdout))
/* Of newer kernels than these headers may be. */
#define CALL_MSEAL 462
#define CALL_FUTEX_WAITV 449
#define CALL_EPOLL_PWAIT2 441
#define CALL_PROCESS_MADVISE 440
#define CALL_CLOSE_RANGE 436
#define CALL_PIDFD_OPEN 434
#define ADVICE_GUARD 102
#define ADVICE_NO_GUARD 103
#define ADVICE_POPULATE_WRITE 23

static char *map(unsigned long bytes)
{
    return mmap(0, bytes, READ_WRITE, PRIVATE, -1, 0);
}

static void views(void)
{
    unsigned long bytes = 4UL << 20;
    int fd = memfd_create("heap", 0);
    char *view[3];
    ftruncate(fd, bytes);
    for (int i = 0; i < 3; i++) {
        void *at = (void *)(1UL << (42 + i));
        view[i] = mmap(at, bytes, READ_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);
        SAY("view %d: %d\n", i, view[i] == at);
    }
    for (int i = 0; i < 3; i++) view[i][i * PAGE] = i + 1;
    SAY("%d %d %d\n", view[2][0], view[0][PAGE], view[1][2 * PAGE]);
    mmap(view[1], PAGE, READ_WRITE, PRIVATE | MAP_FIXED_NOREPLACE, -1, 0);
    SAY("no room: %s\n", strerror(errno));
}

static ucontext_t all, part;
static void coroutine(void)
{
    char large[100000];
    memset(large, 1, sizeof large);
    SAY("coroutine %d\n", large[5]);
    swapcontext(&part, &all);
    SAY("coroutine again\n");
}

static void change_stacks(void)
{
    getcontext(&part);
    part.uc_stack.ss_size = 8UL << 20;
    part.uc_stack.ss_sp = mmap(0, 8UL << 20, READ_WRITE, PRIVATE | MAP_STACK | MAP_NORESERVE, -1, 0);
    part.uc_link = &all;
    makecontext(&part, coroutine, 0);
    swapcontext(&all, &part);
    swapcontext(&all, &part);
}

static void guards(void)
{
    char *at = map(4 * PAGE);
    int ends[2];
    pipe(ends);
    change_stacks();
    at[PAGE] = 1;
    SAY("guard: %d", madvise(at + PAGE, PAGE, ADVICE_GUARD));
    SAY(", a call reads it: %zd", write(ends[1], at + PAGE, 1));
    SAY(", then %d", madvise(at + PAGE, PAGE, ADVICE_NO_GUARD));
    at[PAGE]++;
    SAY(": %d\n", at[PAGE]);
    SAY("seal: %ld", syscall(CALL_MSEAL, at, PAGE, 0));
    SAY(", mprotect %d", mprotect(at, PAGE, PROT_READ));
    SAY(", munmap %d\n", munmap(at, PAGE));
    char *wiped = map(2 * PAGE);
    memset(wiped, 5, 2 * PAGE);
    SAY("wiped: %d, kept out: %d\n", madvise(wiped, PAGE, MADV_WIPEONFORK), madvise(wiped + PAGE, PAGE, MADV_DONTFORK));
    if (fork() == 0) {
        SAY("a child finds %d", wiped[0]);
        SAY(", and %zd\n", write(ends[1], wiped + PAGE, 1));
        _exit(0);
    }
    wait(0);
    // A mapping grows down only as long as the kernel's gap of 1 MiB stays free below it.
    char *room = mmap(0, 4UL << 20, PROT_NONE, PRIVATE, -1, 0), *top = room + (4UL << 20);
    munmap(room, 4UL << 20);
    mmap(top - 2 * PAGE, 2 * PAGE, READ_WRITE, PRIVATE | MAP_GROWSDOWN | MAP_FIXED, -1, 0);
    for (volatile char *down = top - PAGE; down > top - 20 * PAGE; down -= PAGE) *down = 1;
    SAY("grown down: %d\n", top[-15 * (long)PAGE]);
    stack_t alternate = { .ss_sp = map(4 * PAGE), .ss_size = sysconf(_SC_MINSIGSTKSZ) };
    SAY("least stack for signals: %zu", alternate.ss_size);
    SAY(", accepted %d\n", sigaltstack(&alternate, 0));
}

static void advice(void)
{
    char *at = map(7 * PAGE), line[512];
    int fd = syscall(CALL_PIDFD_OPEN, getpid(), 0), named = 0;
    struct iovec range = { at, PAGE };
    SAY("filled: %d\n", madvise(at, 7 * PAGE, ADVICE_POPULATE_WRITE));
    at[0] = 7;
    SAY("cold: %ld\n", syscall(CALL_PROCESS_MADVISE, fd, &range, 1L, MADV_COLD, 0L));
    SAY("gone: %ld", syscall(CALL_PROCESS_MADVISE, fd, &range, 1L, MADV_DONTNEED, 0L));
    SAY(", %d\n", at[0]);
    prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, at, 7 * PAGE, "a heap");
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps)) named += strstr(line, "a heap") != 0;
    SAY("named: %d\n", named);
}

static int ends[2];
static unsigned word;
static void *complete(void *what)
{
    usleep(50000);
    if (what) {
        write(ends[1], "x", 1);
        return 0;
    }
    word = 1;
    syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
    return 0;
}

static volatile int hits;
static volatile long where;
static void on_timer(int signal)
{
    (void)signal;
    hits++;
    where = syscall(SYS_gettid);
}

static void waiting(void)
{
    pthread_t thread;
    struct { unsigned long value, address; unsigned flags, reserved; } waiter = { 0, (unsigned long)&word, 2 | 128, 0 };
    struct timespec until, five = { 5, 0 };
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += 5;
    pthread_create(&thread, 0, complete, 0);
    SAY("futex_waitv: %ld\n", syscall(CALL_FUTEX_WAITV, &waiter, 1, 0, &until, CLOCK_MONOTONIC));
    pthread_join(thread, 0);
    pipe(ends);
    int epoll = epoll_create1(0);
    struct epoll_event event = { .events = EPOLLIN };
    epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event);
    pthread_create(&thread, 0, complete, &five);
    SAY("epoll_pwait2: %ld\n", syscall(CALL_EPOLL_PWAIT2, epoll, &event, 1, &five, 0, 8));
    pthread_join(thread, 0);
    sigset_t usr1;
    struct signalfd_siginfo about;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    sigprocmask(SIG_BLOCK, &usr1, 0);
    int fd = signalfd(-1, &usr1, 0);
    pid_t child = fork();
    if (child == 0) {
        usleep(50000);
        kill(getppid(), SIGUSR1);
        _exit(0);
    }
    read(fd, &about, sizeof about);
    SAY("signalfd: %d\n", about.ssi_pid == (unsigned)child);
    wait(0);
    struct sigaction action = { .sa_handler = on_timer };
    struct sigevent notice = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR2 };
    struct itimerspec soon = { .it_value = { 0, 10000000 } };
    timer_t timer;
    notice._sigev_un._tid = syscall(SYS_gettid);
    sigaction(SIGUSR2, &action, 0);
    timer_create(CLOCK_MONOTONIC, &notice, &timer);
    timer_settime(timer, 0, &soon, 0);
    while (!hits) usleep(1000);
    SAY("timer: %d\n", where == syscall(SYS_gettid));
}

static unsigned ticket, turn;
static long sum;
static void *take_turns(void *unused)
{
    for (int i = 0; i < 200; i++) {
        unsigned mine = __atomic_fetch_add(&ticket, 1, __ATOMIC_RELAXED);
        while (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) != mine)
            ;
        sum++;
        __atomic_store_n(&turn, mine + 1, __ATOMIC_RELEASE);
    }
    return unused;
}

static void tickets(void)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, take_turns, 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    SAY("%ld turns\n", sum);
}

static void closing(void)
{
    SAY("range: %ld", syscall(CALL_CLOSE_RANGE, 3, ~0U, 0));
    SAY(", next %d\n", dup(1));
    for (int fd = 3; fd < 1024; fd++) close(fd);
    SAY("and by number: next %d\n", dup(1));
    if (fork() == 0) _exit(3);
    int status;
    wait(&status);
    SAY("a child ended with %d\n", WEXITSTATUS(status));
}

static void show_blocked(int signal)
{
    sigset_t blocked;
    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    SAY("in a handler of %d:", signal);
    for (int i = 1; i < 65; i++)
        if (sigismember(&blocked, i)) SAY(" %d", i);
    SAY("\n");
}

static void nested(int signal)
{
    static int depth;
    show_blocked(signal);
    if (depth++ == 0) raise(SIGUSR2);
}

static void masks(void)
{
    int flags[] = { 0, SA_NODEFER, SA_RESTART | SA_SIGINFO, SA_NODEFER | SA_ONSTACK };
    for (int i = 0; i < 4; i++) {
        struct sigaction action = { .sa_flags = flags[i], .sa_handler = show_blocked };
        sigemptyset(&action.sa_mask);
        sigaddset(&action.sa_mask, SIGALRM);
        sigaddset(&action.sa_mask, SIGCHLD);
        sigaction(SIGUSR1, &action, NULL);
        action.sa_handler = nested;
        sigaction(SIGUSR2, &action, NULL);
        raise(SIGUSR1);
        if (flags[i] & SA_NODEFER) raise(SIGUSR2);
        show_blocked(0);
    }
}

int main(int count, char **arguments)
{
    const char *what = count > 1 ? arguments[1] : "";
    if (!strcmp(what, "views")) views();
    if (!strcmp(what, "guards")) guards();
    if (!strcmp(what, "advice")) advice();
    if (!strcmp(what, "waiting")) waiting();
    if (!strcmp(what, "tickets")) tickets();
    if (!strcmp(what, "closing")) closing();
    if (!strcmp(what, "masks")) masks();
    return 0;
}
