/* Visits 256 MiB at random; with `off` it first switches huge pages off for itself, as redis does (src/server.c,
 * `disable-thp`), with `except` for all that it does not mark (Linux 6.18). With `child` a child of a process that
 * switched them off does so, as under systemd and container runtimes: the setting is inherited, by programs too. Says
 * `ready` when all is touched, and goes on. gcc -O2 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    unsigned long bytes = 256UL << 20, i, x = 88172645463325252UL, sum = 0;
    char *at, kind = argc > 1 ? argv[1][0] : 0;
    if (kind == 'o' || kind == 'c') if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)) return 2;
    if (kind == 'e' && prctl(PR_SET_THP_DISABLE, 1, 2, 0, 0)) return 2;
    if (kind == 'c') return execl("/proc/self/exe", argv[0], "again", (char *)0);
    at = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (i = 0; i < bytes; i += 4096) at[i] = 1;
    puts("ready");
    fflush(stdout);
    for (;;) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        sum += at[x % bytes]++;
    }
}
