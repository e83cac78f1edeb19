/* Maps one file in memory of 16 MiB three times, as ZGC maps its heap ("marked0", "marked1", "remapped"; see Per Liden,
 * JEP 333, and the many questions about its resident memory being three times the heap), touches all of it by each, and
 * reads 4 MiB of plain memory that it never wrote, all of which is the kernel's one page of zeros. With `shm` the memory
 * is that of shmget, attached three times, as by PostgreSQL and its extensions; with `dup` one mapping made double by
 * mremap of length 0, as in ring buffers. Waits for its input to end. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>
int main(int count, char **words)
{
    unsigned long bytes = 16ul << 20, sum = 0;
    char kind = count > 1 ? words[1][0] : 'm', *views[3];
    int id = -1;
    if (kind == 's') {
        id = shmget(IPC_PRIVATE, bytes, 0600);
        for (int i = 0; i < 3; i++) views[i] = shmat(id, 0, 0);
        shmctl(id, IPC_RMID, 0);
    } else if (kind == 'd') {
        views[0] = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        for (int i = 1; i < 3; i++) views[i] = mremap(views[0], 0, bytes, MREMAP_MAYMOVE);
    } else {
        id = memfd_create("heap", 0);
        if (ftruncate(id, bytes)) return 1;
        for (int i = 0; i < 3; i++) views[i] = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, id, 0);
    }
    for (int i = 0; i < 3; i++) {
        if (views[i] == MAP_FAILED) return 1;
        memset(views[i], 1, bytes);
    }
    volatile char *zeros = mmap(0, 4 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise((void *)zeros, 4 << 20, MADV_NOHUGEPAGE);
    for (int i = 0; i < 4 << 20; i += 4096) sum += zeros[i];
    printf("ready %lu\n", sum);
    fflush(stdout);
    getchar();
    return 0;
}
