/* What benches/faults disturbs: memory, system calls, and what MODE says, for some tenths of a second.

   storm MODE FOLDER: `memory` maps and sorts; `forks` has 200 children that end at once, `threads` 60 threads, `writes` a
   file of 200 pieces, `exec` begins itself anew once. Leaves its process number in FOLDER/pid when it starts and its
   result in FOLDER/result when it ends, whoever else is gone, and ends with 7. gcc -O2 -pthread */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 200, THREADS = 60, PIECES = 200, ELEMENTS = 60000, RESULT = 7 };

static void leave_text(const char *folder, const char *name, unsigned long number) {
    char path[4096], beside[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    snprintf(beside, sizeof beside, "%s/%s.part", folder, name);
    FILE *file = fopen(beside, "w");
    if (!file || fprintf(file, "%lu\n", number) < 0 || fclose(file) || rename(beside, path)) {
        perror(path);
        exit(1);
    }
}

static int by_value(const void *left, const void *right) {
    unsigned long a = *(const unsigned long *)left, b = *(const unsigned long *)right;
    return (a > b) - (a < b);
}

static unsigned long sorted(unsigned long seed) {
    unsigned long bytes = ELEMENTS * sizeof(unsigned long), x = 88172645463325252UL + seed;
    unsigned long *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) exit(1);
    for (int i = 0; i < ELEMENTS; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        at[i] = x;
    }
    qsort(at, ELEMENTS, sizeof *at, by_value);
    unsigned long middle = at[ELEMENTS / 2];
    munmap(at, bytes);
    return middle;
}

static unsigned long forks(void) {
    unsigned long sum = 0;
    for (int n = 0; n < CHILDREN; n++) {
        pid_t child = fork();
        if (child < 0) exit(1);
        if (child == 0) _exit(n % 100);
        int status;
        /* Eight live together. */
        if (n >= 8 && wait(&status) > 0) sum += WIFEXITED(status) ? WEXITSTATUS(status) : 100000;
    }
    for (int status; wait(&status) > 0;) sum += WIFEXITED(status) ? WEXITSTATUS(status) : 100000;
    return sum;
}

static void *work(void *number) {
    unsigned long sum = 0;
    for (unsigned long n = 0; n < 20000; n++) sum += n * (unsigned long)number;
    return (void *)sum;
}

static unsigned long threads(void) {
    pthread_t all[THREADS];
    unsigned long sum = 0;
    for (unsigned long n = 0; n < THREADS; n++)
        if (pthread_create(&all[n], NULL, work, (void *)n)) exit(1);
    for (int n = 0; n < THREADS; n++) {
        void *part;
        pthread_join(all[n], &part);
        sum += (unsigned long)part;
    }
    return sum;
}

static unsigned long writes(const char *folder) {
    char path[4096], piece[512];
    unsigned long sum = 0;
    snprintf(path, sizeof path, "%s/written", folder);
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666);
    for (int n = 0; n < PIECES; n++) {
        memset(piece, n, sizeof piece);
        if (write(file, piece, sizeof piece) != sizeof piece) exit(1);
    }
    for (int n = 0; n < PIECES; n++) {
        if (pread(file, piece, sizeof piece, n * (long)sizeof piece) != sizeof piece) exit(1);
        sum += (unsigned char)piece[n];
    }
    close(file);
    return sum;
}

int main(int count, char **arguments) {
    if (count < 3) return 2;
    const char *mode = arguments[1], *folder = arguments[2];
    unsigned long result = 0;
    leave_text(folder, "pid", getpid());
    for (unsigned long n = 0; n < 4; n++) result += sorted(n);
    if (strcmp(mode, "forks") == 0) result += forks();
    if (strcmp(mode, "threads") == 0) result += threads();
    if (strcmp(mode, "writes") == 0) result += writes(folder);
    if (strcmp(mode, "exec") == 0) {
        execl("/proc/self/exe", arguments[0], "memory", folder, (char *)NULL);
        return 1;
    }
    leave_text(folder, "result", result);
    return RESULT;
}
