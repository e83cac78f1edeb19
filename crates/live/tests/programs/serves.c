/* A program that serves its own page faults from a thread, as QEMU does after a migration (postcopy), CRIU with lazy
 * pages, and Android's collector of garbage (ART). Exits 0 if all of it held, else with the line of the first that did
 * not. It needs what pagewalk needs: root, vm.unprivileged_userfaultfd=1, or rights on
 * /dev/userfaultfd. */
#include "check.h"
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>

#define PAGES 64ul

static int opened(unsigned long features) {
    int faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    if (faults < 0) {
        int device = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
        faults = ioctl(device, 0xaa00 /* USERFAULTFD_IOC_NEW */, O_CLOEXEC | O_NONBLOCK);
    }
    CHECK(faults >= 0);
    struct uffdio_api api = {.api = UFFD_API, .features = features};
    CHECK(ioctl(faults, UFFDIO_API, &api) == 0);
    return faults;
}

static void watch(int faults, void *start, unsigned long bytes, unsigned long mode) {
    struct uffdio_register wanted = {{(unsigned long)start, bytes}, mode, 0};
    CHECK(ioctl(faults, UFFDIO_REGISTER, &wanted) == 0);
}

static volatile int served, removed, unmapped, moved, forked;

/* Gives each page contents that follow from its address, from a page of its own memory. */
static void *serve(void *given) {
    int faults = (int)(long)given;
    char *source = map(1);
    for (;;) {
        struct pollfd waiting = {faults, POLLIN, 0};
        if (poll(&waiting, 1, -1) < 0)
            continue;
        struct uffd_msg message;
        if (read(faults, &message, sizeof message) != sizeof message)
            continue;
        if (message.event == UFFD_EVENT_REMOVE)
            removed++;
        if (message.event == UFFD_EVENT_UNMAP)
            unmapped++;
        if (message.event == UFFD_EVENT_REMAP)
            moved++;
        if (message.event == UFFD_EVENT_FORK) {
            forked++;
            close((int)message.arg.fork.ufd);
        }
        if (message.event != UFFD_EVENT_PAGEFAULT)
            continue;
        unsigned long address = message.arg.pagefault.address & -PAGE;
        if (message.arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WP) {
            struct uffdio_writeprotect off = {{address, PAGE}, 0};
            served++;
            CHECK(ioctl(faults, UFFDIO_WRITEPROTECT, &off) == 0);
            continue;
        }
        memset(source, (int)(address / PAGE % 251) + 1, PAGE);
        struct uffdio_copy copy = {.dst = address, .src = (unsigned long)source, .len = PAGE};
        served++;
        CHECK(ioctl(faults, UFFDIO_COPY, &copy) == 0 || errno == EEXIST || errno == EAGAIN);
    }
    return 0;
}

/* Who is told has been before its counts are. */
static int becomes(volatile int *count, int wanted) {
    for (int i = 0; i < 2000 && *count < wanted; i++)
        usleep(1000);
    return *count == wanted;
}

static int is_served(const char *at) {
    return *at == (char)((unsigned long)at / PAGE % 251 + 1);
}

/* Pages that are missing. */
static void missing(void) {
    int faults = opened(0);
    char *at = map(PAGES);
    pthread_t thread;
    watch(faults, at, PAGES * PAGE, UFFDIO_REGISTER_MODE_MISSING);
    CHECK(pthread_create(&thread, 0, serve, (void *)(long)faults) == 0);
    served = 0;
    for (unsigned long i = 0; i < PAGES; i++)
        CHECK(is_served(at + i * PAGE));
    CHECK(served == (int)PAGES);
    /* By a system call too. */
    CHECK(madvise(at, 8 * PAGE, MADV_DONTNEED) == 0);
    int pipes[2];
    CHECK(pipe(pipes) == 0 && write(pipes[1], at, 8 * PAGE) == 8 * (long)PAGE && served == (int)PAGES + 8);
    /* A part is given up, with memory around it that nobody serves. */
    CHECK(munmap(at + 8 * PAGE, 8 * PAGE) == 0);
    CHECK(is_served(at + 7 * PAGE) && is_served(at + 16 * PAGE) && served == (int)PAGES + 8);
}

/* What was there before it is served stays. */
static void later(void) {
    int faults = opened(0);
    char *at = map(PAGES);
    pthread_t thread;
    memset(at, 9, PAGES / 2 * PAGE);
    watch(faults, at, PAGES * PAGE, UFFDIO_REGISTER_MODE_MISSING);
    CHECK(pthread_create(&thread, 0, serve, (void *)(long)faults) == 0);
    served = 0;
    for (unsigned long i = 0; i < PAGES; i++)
        CHECK(i < PAGES / 2 ? at[i * PAGE] == 9 : is_served(at + i * PAGE));
    CHECK(served == (int)PAGES / 2);
}

/* Each first store to a page is told. */
static void protected(void) {
    int faults = opened(UFFD_FEATURE_PAGEFAULT_FLAG_WP);
    char *at = map(PAGES);
    pthread_t thread;
    memset(at, 3, PAGES * PAGE);
    watch(faults, at, PAGES * PAGE, UFFDIO_REGISTER_MODE_WP);
    struct uffdio_writeprotect on = {{(unsigned long)at, PAGES * PAGE}, UFFDIO_WRITEPROTECT_MODE_WP};
    CHECK(ioctl(faults, UFFDIO_WRITEPROTECT, &on) == 0);
    CHECK(pthread_create(&thread, 0, serve, (void *)(long)faults) == 0);
    served = 0;
    for (int round = 0; round < 2; round++)
        for (unsigned long i = 0; i < PAGES; i += 2) {
            CHECK(at[(i + 1) * PAGE] == 3 && at[i * PAGE] == 3 + round);
            at[i * PAGE]++;
        }
    CHECK(served == (int)PAGES / 2);
}

/* Who serves wants to be told of all that becomes of the range; the calls wait until it has heard. */
static void told(void) {
    int faults = opened(UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_EVENT_FORK);
    char *all = map(3 * PAGES), *at = all + PAGES * PAGE;
    memset(all, 7, 3 * PAGES * PAGE);
    CHECK(madvise(at, PAGES * PAGE, MADV_DONTNEED) == 0);
    pthread_t thread;
    watch(faults, at, PAGES * PAGE, UFFDIO_REGISTER_MODE_MISSING);
    CHECK(pthread_create(&thread, 0, serve, (void *)(long)faults) == 0);
    CHECK(is_served(at + PAGE) && all[0] == 7 && all[2 * PAGES * PAGE] == 7);
    /* Over the borders of what is served. */
    CHECK(madvise(at - 2 * PAGE, 4 * PAGE, MADV_DONTNEED) == 0);
    CHECK(becomes(&removed, 1) && at[-PAGE] == 0 && at[-3 * (long)PAGE] == 7 && is_served(at + PAGE));
    CHECK(munmap(at - 4 * PAGE, 6 * PAGE) == 0);
    CHECK(becomes(&unmapped, 1) && is_served(at + 2 * PAGE) && at[-5 * (long)PAGE] == 7);
    CHECK(mmap(at - 4 * PAGE, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at - 4 * PAGE);
    CHECK(becomes(&unmapped, 2) && at[0] == 0 && at[3 * PAGE] == 0 && is_served(at + 4 * PAGE));
    char *elsewhere = map(4);
    CHECK(mremap(at + 8 * PAGE, 4 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere) == elsewhere && becomes(&moved, 1));
    CHECK(is_served(elsewhere) && is_served(at + 7 * PAGE));
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        _exit(all[0] == 7 && at[0] == 0 ? 5 : 1);
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 5 && becomes(&forked, 1));
}

/* The contents go elsewhere, the old range stays and is served: ART's way to move what is alive. */
static void collected(void) {
    int faults = opened(0);
    char *at = map(PAGES);
    for (unsigned long i = 0; i < PAGES; i++)
        memset(at + i * PAGE, (int)i, PAGE);
    char *alive = mremap(at, PAGES * PAGE, PAGES * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, 0);
    CHECK(alive != MAP_FAILED && alive != at);
    pthread_t thread;
    watch(faults, at, PAGES * PAGE, UFFDIO_REGISTER_MODE_MISSING);
    CHECK(pthread_create(&thread, 0, serve, (void *)(long)faults) == 0);
    for (unsigned long i = 0; i < PAGES; i++)
        CHECK(is_served(at + i * PAGE) && alive[i * PAGE] == (char)i);
}

int main(int count, char **words) {
    void (*const all[])(void) = {missing, later, protected, told, collected};
    for (int i = 0; i < 5; i++)
        if (count < 2 || atoi(words[1]) == i)
            all[i]();
    puts("served");
    return 0;
}
