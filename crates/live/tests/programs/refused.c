/* What happens where the agent's system calls fail, and when it is killed. Runs under it only. Exits 0 if memory was
 * what it should be. */
#include "check.h"
#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>

static int all(const char *at, size_t pages, char byte) {
    for (size_t i = 0; i < pages * PAGE; i++)
        if (at[i] != byte)
            return 0;
    return 1;
}

/* The agent runs the same program, as another process. */
static pid_t agent(void) {
    char own[256] = {0}, other[256], path[300];
    CHECK(readlink("/proc/self/exe", own, sizeof own - 1) > 0);
    DIR *processes = opendir("/proc");
    pid_t found = 0;
    for (struct dirent *entry; !found && (entry = readdir(processes));) {
        memset(other, 0, sizeof other);
        snprintf(path, sizeof path, "/proc/%s/exe", entry->d_name);
        if (atoi(entry->d_name) > 0 && atoi(entry->d_name) != getpid() && readlink(path, other, sizeof other - 1) > 0
            && !strcmp(own, other))
            found = atoi(entry->d_name);
    }
    closedir(processes);
    CHECK(found);
    return found;
}

static void no_room_for_the_agent(void) {
    char *at = map(64);
    memset(at, 7, 64 * PAGE);
    pid_t pid = agent();
    struct rlimit before, none = {0, 0};
    CHECK(prlimit(pid, RLIMIT_AS, 0, &before) == 0);
    none.rlim_max = before.rlim_max;
    CHECK(prlimit(pid, RLIMIT_AS, &none, 0) == 0);
    errno = 0;
    CHECK(madvise(at, 16 * PAGE, MADV_WIPEONFORK) == -1 && errno == ENOMEM);
    errno = 0;
    CHECK(mremap(at, 64 * PAGE, 128 * PAGE, MREMAP_MAYMOVE) == MAP_FAILED && errno == ENOMEM);
    CHECK(all(at, 64, 7));
    CHECK(prlimit(pid, RLIMIT_AS, &before, 0) == 0);
    CHECK(madvise(at, 16 * PAGE, MADV_WIPEONFORK) == 0 && all(at, 64, 7));
    errno = 0;
    CHECK(madvise(at + 32 * PAGE, PAGE, 25 /* MADV_COLLAPSE */) == -1 && errno == EINVAL);
}

/* A fork needs room for its agent, or for private memory. */
static void no_room_for_a_child(void) {
    struct rlimit before, none = {0, 0};
    CHECK(getrlimit(RLIMIT_AS, &before) == 0);
    none.rlim_max = before.rlim_max;
    CHECK(setrlimit(RLIMIT_AS, &none) == 0);
    volatile int own = 1;
    pid_t child = fork();
    if (child == 0) {
        own = 2;
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && own == 1);
    CHECK(setrlimit(RLIMIT_AS, &before) == 0);
}

/* Pages of a file that is shorter stay as they are. */
static void nothing_to_copy(void) {
    FILE *file = tmpfile();
    CHECK(file && ftruncate(fileno(file), PAGE) == 0);
    char *at = mmap(0, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fileno(file), 0);
    CHECK(at != MAP_FAILED && all(at, 1, 0));
    at[5] = 1;
}

static void a_killed_agent(void) {
    char *at = map(64), *other = map(64);
    memset(at, 1, 64 * PAGE);
    memset(other, 2, 64 * PAGE);
    CHECK(kill(agent(), SIGKILL) == 0);
    CHECK(all(at, 64, 1) && all(other, 64, 2));
    CHECK(madvise(at, 16 * PAGE, MADV_DONTNEED) == 0);
    CHECK(all(at, 16, 0) && all(at + 16 * PAGE, 48, 1));
    /* What grows must not find what lies behind it in the file. */
    char *grown = mremap(other, 64 * PAGE, 256 * PAGE, MREMAP_MAYMOVE);
    CHECK(grown == MAP_FAILED ? all(other, 64, 2) : all(grown, 64, 2) && all(grown + 64 * PAGE, 192, 0));
    pid_t child = fork();
    if (child == 0) {
        memset(at, 9, 64 * PAGE);
        _exit(all(at, 64, 9) ? 5 : 1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 5);
    CHECK(all(at, 16, 0) && all(at + 16 * PAGE, 48, 1));
}

int main(void) {
    no_room_for_the_agent();
    no_room_for_a_child();
    nothing_to_copy();
    a_killed_agent();
    return 0;
}
