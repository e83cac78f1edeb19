/* One thread sleeps in io_uring_enter until another writes what it reads: `uring_wait.c` of the cases, without liburing. */
#define _GNU_SOURCE
#include <linux/io_uring.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
static int ends[2];
static void *writer(void *unused)
{
    usleep(300000);
    return write(ends[1], "x", 1) == 1 ? unused : 0;
}
int main(void)
{
    struct io_uring_params about;
    pthread_t thread;
    char byte = 0;
    memset(&about, 0, sizeof about);
    int ring = syscall(SYS_io_uring_setup, 8, &about);
    if (ring < 0 || pipe(ends)) {
        printf("no io_uring\n");
        return 2;
    }
    char *queue = mmap(0, about.sq_off.array + 64, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
    struct io_uring_sqe *entry = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
    pthread_create(&thread, 0, writer, 0);
    memset(entry, 0, sizeof *entry);
    entry->opcode = IORING_OP_READ;
    entry->fd = ends[0];
    entry->addr = (unsigned long)&byte;
    entry->len = 1;
    ((unsigned *)(queue + about.sq_off.array))[0] = 0;
    __atomic_store_n((unsigned *)(queue + about.sq_off.tail), 1, __ATOMIC_RELEASE);
    long submitted = syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, 0, 0);
    printf("submitted %ld, byte %c\n", submitted, byte);
    pthread_join(thread, 0);
    return 0;
}
