/* Processes and threads, and what they may expect of each other's memory. Exits 0 if all of it held. */
#include "check.h"
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>

extern char **environ;
static char *own_path;
static int pages[64][PAGE / sizeof(int)];

static int status_of(pid_t child) {
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

static void nobody_else(void) {
    errno = 0;
    CHECK(waitpid(-1, 0, __WALL) == -1 && errno == ECHILD);
}

/* Stores of one are not seen by the other. */
static void forks(void) {
    for (int i = 0; i < 64; i++)
        pages[i][0] = i;
    int pipes[2], back[2];
    CHECK(pipe(pipes) == 0 && pipe(back) == 0);
    pid_t before = gettid();
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        char word;
        CHECK(gettid() == getpid() && gettid() != before);
        CHECK(read(pipes[0], &word, 1) == 1);
        for (int i = 0; i < 64; i++) {
            CHECK(pages[i][0] == i);
            pages[i][0] = -1;
        }
        pid_t grandchild = fork();
        if (grandchild == 0)
            _exit(pages[5][0] == -1 ? 9 : 1);
        CHECK(WEXITSTATUS(status_of(grandchild)) == 9);
        CHECK(write(back[1], "x", 1) == 1);
        _exit(7);
    }
    CHECK(gettid() == before);
    for (int i = 0; i < 64; i++)
        pages[i][0] = 1000 + i;
    char word;
    CHECK(write(pipes[1], "x", 1) == 1 && read(back[0], &word, 1) == 1);
    for (int i = 0; i < 64; i++)
        CHECK(pages[i][0] == 1000 + i);
    int status = status_of(child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    close(pipes[0]), close(pipes[1]), close(back[0]), close(back[1]);
    /* Memory that is to be zeros in the child. */
    char *wiped = mmap(0, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(wiped, 3, 2 * PAGE);
    CHECK(madvise(wiped, PAGE, MADV_WIPEONFORK) == 0);
    child = fork();
    if (child == 0)
        _exit(wiped[0] == 0 && wiped[PAGE] == 3 ? 0 : 1);
    CHECK(status_of(child) == 0 && wiped[0] == 3);
    nobody_else();
}

static void spawns(void) {
    char *arguments[] = {own_path, "child", 0};
    pid_t child;
    for (int i = 0; i < 3; i++) {
        CHECK(posix_spawn(&child, own_path, 0, 0, arguments, environ) == 0);
        CHECK(WEXITSTATUS(status_of(child)) == 33);
    }
    pages[0][0] = 5;
    child = vfork();
    if (child == 0) {
        pages[0][0] = 6; /* The same memory. */
        execv(own_path, arguments);
        _exit(1);
    }
    CHECK(WEXITSTATUS(status_of(child)) == 33 && pages[0][0] == 6);
    CHECK(posix_spawn(&child, "/no/such/program", 0, 0, arguments, environ) == ENOENT);
    FILE *pipe = popen("echo through", "r");
    char line[16];
    CHECK(pipe && fgets(line, sizeof line, pipe) && !strcmp(line, "through\n") && pclose(pipe) == 0);
    nobody_else();
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t *robust;
static volatile int stop;
static long sum;

static void *adder(void *number) {
    for (int i = 0; i < 400; i++) {
        pages[(i * 7 + (long)number) % 64][(long)number + 1] += 1;
        pthread_mutex_lock(&mutex);
        sum++;
        pthread_mutex_unlock(&mutex);
    }
    return number;
}

static void *leaves_locked(void *nothing) {
    pthread_mutex_lock(robust);
    return nothing;
}

static void *writes_on(void *nothing) {
    for (int i = 0; !stop; i++)
        pages[i % 64][100] = pages[i % 64][101] = i;
    return nothing;
}

static void threads(void) {
    pthread_t all[16];
    for (int round = 0; round < 5; round++) {
        for (long i = 0; i < 16; i++)
            CHECK(pthread_create(&all[i], 0, adder, (void *)i) == 0);
        for (long i = 0; i < 16; i++) {
            void *result;
            CHECK(pthread_join(all[i], &result) == 0 && result == (void *)i);
        }
    }
    CHECK(sum == 5 * 16 * 400);
    /* The kernel marks the mutex of a thread that ended with it. */
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    robust = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pthread_mutex_init(robust, &attributes) == 0);
    for (int i = 0; i < 10; i++) {
        CHECK(pthread_create(&all[0], 0, leaves_locked, 0) == 0 && pthread_join(all[0], 0) == 0);
        for (int j = 0; j < 64; j++)
            pages[j][3]++;
        CHECK(pthread_mutex_lock(robust) == EOWNERDEAD);
        CHECK(pthread_mutex_consistent(robust) == 0 && pthread_mutex_unlock(robust) == 0);
    }
    /* A fork while others write: the copy is of one moment. */
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&all[i], 0, writes_on, 0) == 0);
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) {
            int seen[64];
            for (int j = 0; j < 64; j++)
                seen[j] = pages[j][100];
            for (int k = 0; k < 50; k++) {
                for (int j = 0; j < 64; j++)
                    if (pages[j][100] != seen[j])
                        _exit(1);
            }
            _exit(0);
        }
        CHECK(status_of(child) == 0);
    }
    stop = 1;
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(all[i], 0) == 0);
    nobody_else();
}

static int *page_that_left(void) {
    static int *page;
    if (!page)
        page = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 64; i++)
        pages[i][11]++;
    return page;
}

static long lock(int operation, int *second) {
    return syscall(SYS_futex, second ? pages[0] : page_that_left(), operation, 0, 0, second, FUTEX_OP(FUTEX_OP_ADD, 5, FUTEX_OP_CMP_EQ, 0));
}

static void *takes_in_turn(void *shared) {
    for (int i = 0; i < 100; i++) {
        CHECK(pthread_mutex_lock(shared) == 0);
        for (int j = 0; j < 64; j++)
            pages[j][12]++;
        CHECK(pthread_mutex_unlock(shared) == 0);
    }
    return 0;
}

/* Words that the kernel changes itself, and does not wait for a fault. */
static void locks(void) {
    CHECK(lock(FUTEX_LOCK_PI_PRIVATE, 0) == 0);
    int *word = page_that_left();
    CHECK(*word == gettid());
    CHECK(lock(FUTEX_UNLOCK_PI_PRIVATE, 0) == 0 && *word == 0);
    CHECK(lock(FUTEX_TRYLOCK_PI_PRIVATE, 0) == 0 && *word == gettid());
    CHECK(lock(FUTEX_UNLOCK_PI_PRIVATE, 0) == 0 && *word == 0);
    CHECK(lock(FUTEX_WAKE_OP_PRIVATE, page_that_left()) == 0 && *word == 5);
    *word = 0;
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    pthread_mutex_t *shared = (pthread_mutex_t *)word;
    CHECK(pthread_mutex_init(shared, &attributes) == 0);
    pthread_t all[8];
    int before = pages[5][12];
    for (int i = 0; i < 8; i++)
        CHECK(pthread_create(&all[i], 0, takes_in_turn, shared) == 0);
    for (int i = 0; i < 8; i++)
        CHECK(pthread_join(all[i], 0) == 0);
    CHECK(pages[5][12] == before + 800);
}

/* Who adopts orphans has none to wait for. */
static void adopts(void) {
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    pid_t child = fork();
    if (child == 0)
        _exit(3);
    CHECK(WEXITSTATUS(status_of(child)) == 3);
    nobody_else();
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 0) == 0);
}

static volatile int signals, on_other_stack;
static char other_stack[16 * PAGE];

static void on_signal(int number) {
    (void)number;
    char here;
    signals++;
    on_other_stack += &here >= other_stack && &here < other_stack + sizeof other_stack;
    for (int i = 0; i < 64; i++)
        pages[i][7] = signals;
}

static void signals_arrive(void) {
    stack_t stack = {.ss_sp = other_stack, .ss_size = sizeof other_stack};
    CHECK(sigaltstack(&stack, 0) == 0);
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK | SA_RESTART};
    CHECK(sigaction(SIGUSR1, &action, 0) == 0);
    for (int i = 0; i < 100; i++) {
        for (int j = 0; j < 64; j++)
            pages[j][8]++;
        CHECK(raise(SIGUSR1) == 0);
    }
    CHECK(signals == 100 && on_other_stack == 100);
    /* A stop and its end. */
    pid_t child = fork();
    if (child == 0) {
        raise(SIGSTOP);
        _exit(pages[1][7] == 100 ? 4 : 1);
    }
    int status;
    CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
    CHECK(kill(child, SIGCONT) == 0);
    status = status_of(child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 4);
    /* A fault of the child's own making. */
    child = fork();
    if (child == 0)
        *(volatile int *)8 = 1;
    status = status_of(child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    child = fork();
    if (child == 0)
        for (;;)
            pages[rand() % 64][9]++;
    usleep(20000);
    CHECK(kill(child, SIGKILL) == 0);
    status = status_of(child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    nobody_else();
}

static void *execs(void *nothing) {
    char *arguments[] = {own_path, "last", 0};
    execv(own_path, arguments);
    return nothing;
}

int main(int count, char **words) {
    own_path = words[0];
    if (count > 1 && !strcmp(words[1], "child"))
        return 33;
    if (count > 1 && !strcmp(words[1], "last"))
        return 0;
    cpu_set_t allowed, again;
    CHECK(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
    forks();
    spawns();
    threads();
    locks();
    adopts();
    signals_arrive();
    CHECK(sched_getaffinity(0, sizeof again, &again) == 0 && CPU_EQUAL(&allowed, &again));
    /* An exec from a thread that is not the first. */
    pthread_t thread;
    CHECK(pthread_create(&thread, 0, execs, 0) == 0);
    pthread_join(thread, 0);
    return 1;
}
