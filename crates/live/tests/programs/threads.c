/* Two threads that miss often, and then seldom. Exits 0 if it was put on one processor meanwhile, and let go
 * again; 3 if it was not put there, 4 if it was not let go. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096
#define PAGES 400
#define SECONDS 20

static char memory[2][PAGES][PAGE];
static volatile int misses = 1;

/* Rests after each round: one processor then suffices for both threads and their agent. */
static void *thrash(void *mine) {
    char(*pages)[PAGE] = mine;
    while (misses) {
        for (int i = 0; i < PAGES && misses; i++)
            pages[i][0]++;
        usleep(20000);
    }
    return 0;
}

/* Processors that the kernel lets this thread use, as text; sched_getaffinity would be answered by pagewalk. */
static int is_on_one(void) {
    char line[256];
    int one = 0;
    FILE *status = fopen("/proc/thread-self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (!strncmp(line, "Cpus_allowed_list:", 18))
            one = !strpbrk(line + 18, ",-");
    if (status)
        fclose(status);
    return one;
}

static int comes(int wanted) {
    for (time_t end = time(0) + SECONDS; time(0) < end; usleep(20000))
        if (is_on_one() == wanted)
            return 1;
    return 0;
}

int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], 0, thrash, memory[i]))
            return 1;
    int came = comes(1);
    misses = 0;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    return !came ? 3 : comes(0) ? 0 : 4;
}
