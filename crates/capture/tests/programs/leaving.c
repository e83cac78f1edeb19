/* Three threads, one of which runs an instruction of AVX-512; then vector registers, the break, signals and forks are
   tried. Where the processor lacks AVX-512, SIGILL ends the program, natively and under the engine. */
#include <immintrin.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile int hits, stage;
static __thread int own = 7;
static void on_signal(int number)
{
    (void)number;
    hits += own;
}
static void *sleeper(void *unused)
{
    own = 100;
    while (!stage) usleep(1000);
    pthread_kill(pthread_self(), SIGUSR1);
    return unused;
}
static void *spinner(void *unused)
{
    own = 1000;
    for (volatile double x = 1.5; stage < 2; x = x * 1.0000001) {}
    pthread_kill(pthread_self(), SIGUSR1);
    return unused;
}
__attribute__((noinline, target("avx2"))) static void copy(float *to, const float *from)
{
    __m256 eight = _mm256_loadu_ps(from);
    __asm__ volatile(".byte 0x62, 0xf1, 0x74, 0x48, 0x58, 0xc9" ::: "xmm1");   /* vaddps %zmm1, %zmm1, %zmm1 */
    _mm256_storeu_ps(to, eight);
}
int main(void)
{
    float from[8] = { 1, 2, 3, 4, 5, 6, 7, 8 }, to[8];
    long double extended = 3.25L;
    pthread_t threads[2];
    struct sigaction action;
    int status;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    sigaction(SIGUSR1, &action, 0);
    pthread_create(&threads[0], 0, sleeper, 0);
    pthread_create(&threads[1], 0, spinner, 0);
    usleep(20000);
    char *before = sbrk(0);
    copy(to, from);
    for (int i = 0; i < 8; i++) printf("%g ", to[i]);
    printf("%Lg\n", extended * 2);
    for (int i = 0; i < 2000; i++) memset(malloc(1000 + i), 1, 1000 + i);
    printf("the break %s\n", (char *)sbrk(0) > before ? "grew" : "stayed");
    raise(SIGUSR1);
    stage = 1;
    usleep(20000);
    stage = 2;
    pthread_join(threads[0], 0);
    pthread_join(threads[1], 0);
    printf("signals %d\n", hits);
    fflush(stdout);
    if (!fork()) {
        own = 5;
        raise(SIGUSR1);
        _exit(hits % 256);
    }
    wait(&status);
    printf("a child ended with %d\n", WEXITSTATUS(status));
    fflush(stdout);
    return system("echo a shell; exit 3") >> 8;
}
