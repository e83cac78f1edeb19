/* Maps and locks memory, starts threads and children, becomes itself anew; writes what came out to a file. It ends with
 * 42 if all of it was as it should be. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1ul << 20)

static long filled(int seed) {
    char *at = mmap(0, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return -1;
    long sum = mlock(at, MIB);
    memset(at, seed, MIB / 2);
    for (size_t i = 0; i < MIB; i += 512)
        sum += at[i];
    char *moved = mremap(at, MIB, 2 * MIB, MREMAP_MAYMOVE);
    sum += moved == MAP_FAILED ? -1 : moved[512] + moved[MIB];
    return munmap(moved, 2 * MIB) == 0 ? sum : -1;
}

static void *thread(void *nothing) {
    char *block = malloc(100000);
    memset(block, 1, 100000);
    long sum = 0;
    for (int i = 0; i < 100000; i += 64)
        sum += block[i];
    free(block);
    return (void *)(sum + filled(2) + (long)nothing);
}

int main(int count, char **words) {
    (void)count;
    int rounds = atoi(words[2]);
    int log = open(words[1], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    long sum = 0;
    for (int i = 0; i < 4; i++) {
        pthread_t other;
        void *result;
        if (pthread_create(&other, 0, thread, 0) || pthread_join(other, &result))
            return 1;
        sum += (long)result + filled(i);
        pid_t child = fork();
        if (child == 0)
            _exit(filled(7) == filled(7) ? 3 : 1);
        int status = 0;
        if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 3)
            return 2;
    }
    dprintf(log, "%d %ld\n", rounds, sum);
    if (rounds == 0)
        return 42;
    sprintf(words[2], "%d", rounds - 1);
    execv(words[0], words);
    return 4;
}
