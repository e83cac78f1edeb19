/* Calls on memory that the engine's core does not know or changes. Prints what came of each. The argument: `large`
   reservations, `remap`, `faults` that the program serves itself, `hugetlb`. */
/* Report of `faults`: PRL-PRG/UFOs, issue 16. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>
#define MIB (1UL << 20)
#define GIB (1UL << 30)
#define PRIVATE (MAP_PRIVATE | MAP_ANONYMOUS)
#define READ_WRITE (PROT_READ | PROT_WRITE)
static const char *outcome(void *at)
{
    return at == MAP_FAILED ? strerror(errno) : "done";
}
static void *reserve(void *at, unsigned long bytes, int flags)
{
    return mmap(at, bytes, PROT_NONE, PRIVATE | MAP_NORESERVE | flags, -1, 0);
}
static void large(void)
{
    for (unsigned long bytes = 32 * GIB; bytes <= 32768 * GIB; bytes *= 4) {
        void *at = reserve(0, bytes, 0);
        printf("%lu GiB: %s\n", bytes / GIB, outcome(at));
        if (at != MAP_FAILED) munmap(at, bytes);
    }
    printf("all: %s\n", outcome(reserve(0, 1UL << 47, 0)));
    printf("shadow memory: %s\n", outcome(reserve((void *)0x10007fff8000, 1UL << 40, MAP_FIXED)));
    void *low = mmap(0, MIB, READ_WRITE, PRIVATE | MAP_32BIT, -1, 0);
    printf("low: %s, %d\n", outcome(low), (unsigned long)low < 0x80000000UL);
    void *hint = (void *)0xc000000000;
    printf("hint: %d\n", mmap(hint, 64 * MIB, READ_WRITE, PRIVATE, -1, 0) == hint);
    printf("taken: %s\n", outcome(mmap(hint, 4096, READ_WRITE, PRIVATE | MAP_FIXED_NOREPLACE, -1, 0)));
    char *end = sbrk(0);
    printf("break: %d\n", sbrk(4 * GIB) == end);
    end[0] = end[4 * GIB - 1] = 1;
    printf("and back: %d\n", brk(end) == 0 && sbrk(MIB) == end && end[MIB - 1] == 0);
}
static void remap(void)
{
    char *old = mmap(0, 2 * MIB, READ_WRITE, PRIVATE, -1, 0);
    memset(old, 5, 2 * MIB);
    char *new = mremap(old, 2 * MIB, 2 * MIB, MREMAP_MAYMOVE | MREMAP_DONTUNMAP);
    printf("left behind: %s, %d, %d\n", outcome(new), new[MIB], old[MIB]);
    char *shared = mmap(0, MIB, READ_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared[5] = 9;
    char *twice = mremap(shared, 0, MIB, MREMAP_MAYMOVE);
    printf("twice: %s, %d\n", outcome(twice), twice[5]);
    char *grown = mremap(new, 2 * MIB, 300 * MIB, MREMAP_MAYMOVE);
    printf("grown: %s, %d\n", outcome(grown), grown[MIB]);
}
static int faults_fd;
static void *serve(void *unused)
{
    static char page[4096] __attribute__((aligned(4096)));
    memset(page, 7, sizeof page);
    for (;;) {
        struct pollfd ready = { faults_fd, POLLIN, 0 };
        struct uffd_msg fault;
        poll(&ready, 1, -1);
        if (read(faults_fd, &fault, sizeof fault) != sizeof fault) continue;
        struct uffdio_copy copy = {
            .dst = fault.arg.pagefault.address & ~4095UL, .src = (unsigned long)page, .len = sizeof page };
        ioctl(faults_fd, UFFDIO_COPY, &copy);
    }
    return unused;
}
static void faults(void)
{
    struct uffdio_api api = { .api = UFFD_API };
    char *at = mmap(0, MIB, READ_WRITE, PRIVATE, -1, 0);
    struct uffdio_register range = { { (unsigned long)at, MIB }, UFFDIO_REGISTER_MODE_MISSING, 0 };
    pthread_t server;
    long sum = 0;
    faults_fd = syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
    if (faults_fd < 0 || ioctl(faults_fd, UFFDIO_API, &api) || ioctl(faults_fd, UFFDIO_REGISTER, &range)) {
        printf("no userfaultfd: %s\n", strerror(errno));
        return;
    }
    pthread_create(&server, 0, serve, 0);
    for (unsigned long i = 0; i < MIB; i += 4096) sum += at[i];
    printf("served: %ld\n", sum);
}
static void hugetlb(void)
{
    int id = shmget(IPC_PRIVATE, 4 * MIB, IPC_CREAT | 0600 | SHM_HUGETLB);
    char *shared = id < 0 ? MAP_FAILED : shmat(id, 0, 0);
    printf("shmget: %s, %lu\n", outcome(shared), shared == MAP_FAILED ? 0 : (unsigned long)shared % (2 * MIB));
    if (shared != MAP_FAILED) shared[0] = 1;
    if (id >= 0) shmctl(id, IPC_RMID, 0);
    int fd = memfd_create("huge", MFD_HUGETLB);
    char *file = fd < 0 || ftruncate(fd, 4 * MIB) ? MAP_FAILED : mmap(0, 4 * MIB, READ_WRITE, MAP_SHARED, fd, 0);
    printf("memfd: %s\n", outcome(file));
    char *odd = mmap(0, 3 * MIB, READ_WRITE, PRIVATE | MAP_HUGETLB | 21 << 26, -1, 0);
    char *next = mmap(0, 4096, READ_WRITE, PRIVATE, -1, 0);
    printf("mmap: %s, %d\n", outcome(odd), odd != MAP_FAILED && next >= odd && next < odd + 4 * MIB);
}
int main(int count, char **arguments)
{
    const char *what = count > 1 ? arguments[1] : "";
    if (!strcmp(what, "large")) large();
    if (!strcmp(what, "remap")) remap();
    if (!strcmp(what, "faults")) faults();
    if (!strcmp(what, "hugetlb")) hugetlb();
    return 0;
}
