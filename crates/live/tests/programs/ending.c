/* Ends in the way that its argument says, with 32 MB of memory that it never gives back unless told so. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 32 << 20 };

static char *fill(void) {
    char *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) abort();
    return memset(at, 1, BYTES);
}

static void *fill_later(void *unused) {
    (void)unused;
    usleep(50000);
    fill();
    return NULL;
}

static void *sleep_on(void *unused) {
    (void)unused;
    for (;;) pause();
}

int main(int count, char **arguments) {
    const char *how = count > 1 ? arguments[1] : "";
    pthread_t thread;
    if (!strcmp(how, "exit")) {
        fill();
        return 7;
    }
    if (!strcmp(how, "last_thread")) {
        /* The first thread ends before the memory is there. */
        if (pthread_create(&thread, NULL, fill_later, NULL)) abort();
        pthread_exit(NULL);
    }
    if (!strcmp(how, "threads")) {
        for (int i = 0; i < 20; i++)
            if (pthread_create(&thread, NULL, sleep_on, NULL)) abort();
        fill();
        return 0;
    }
    if (!strcmp(how, "exec")) {
        fill();
        usleep(400000);
        execl(arguments[0], arguments[0], "small", (char *)NULL);
        abort();
    }
    if (!strcmp(how, "frees")) {
        char *at = fill();
        usleep(600000);
        munmap(at, BYTES);
        return 0;
    }
    if (!strcmp(how, "signal")) {
        fill();
        raise(SIGTERM);
    }
    if (!strcmp(how, "stop")) {
        fill();
        pid_t child = fork();
        if (child == 0) {
            usleep(200000);
            kill(getppid(), SIGCONT);
            _exit(0);
        }
        raise(SIGSTOP);
        waitpid(child, NULL, 0);
        return 0;
    }
    return 0;
}
