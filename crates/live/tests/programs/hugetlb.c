/* Visits 64 MiB of reserved huge pages at random. sysctl vm.nr_hugepages=40 first. gcc -O2 hugetlb.c
 * By mmap; with `memfd` by memfd_create, as virtual machine monitors share a guest's memory (QEMU's
 * memory-backend-memfd, hugetlb=on); with `shm` by shmget, as Oracle and PostgreSQL (huge_pages) have theirs. Says `ready`
 * when all is touched, and goes on. */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    unsigned long bytes = 64UL << 20, i, x = 88172645463325252UL, sum = 0;
    char kind = argc > 1 ? argv[1][0] : 0, *at;
    if (kind == 's') {
        int id = shmget(IPC_PRIVATE, bytes, 04000 | IPC_CREAT | 0600);
        at = shmat(id, 0, 0);
        shmctl(id, IPC_RMID, 0);
    } else if (kind == 'm') {
        int fd = memfd_create("guest", 4);
        if (ftruncate(fd, bytes)) return 1;
        at = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    } else {
        at = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
    }
    if (at == MAP_FAILED) { perror("no huge pages"); return 1; }
    for (i = 0; i < bytes; i += 4096) at[i] = 1;
    puts("ready");
    fflush(stdout);
    for (;;) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        sum += at[x % bytes]++;
    }
}
