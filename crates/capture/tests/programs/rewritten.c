/* Code of files that is written while it runs, by every way that leaves the right to write apart from the right to
   execute, or gives it for a while. Prints what each version of a function returns; natively it is always the last that
   was written. The argument says which:

   `memfd`, `shm`, `unlinked`: one file mapped twice, as .NET since version 7 (W^X), libffi's closures and Firefox do.
   `private`: the executable mapping is private. `late`: it ran before there was one to write by.
   `call`: written by pwrite. `views`: mapped a second time by mremap. `threads`: another thread writes.
   `child`: another process writes.
   `patch`: the program's own code, made writable while it runs and back, as LLVM's XRay and funchook do. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#define BYTES 8192UL
#define ROUNDS 5

typedef int Function(void);

/* mov $value, %eax; ret */
static void write_code(unsigned char *at, int value)
{
    at[0] = 0xb8;
    memcpy(at + 1, &value, 4);
    at[5] = 0xc3;
}

static int file(const char *way)
{
    char name[] = "code-XXXXXX";
    int fd;
    if (strcmp(way, "shm") == 0) {
        fd = shm_open("/pagewalk-rewritten", O_RDWR | O_CREAT | O_TRUNC, 0700);
        shm_unlink("/pagewalk-rewritten");
    } else if (strcmp(way, "unlinked") == 0 || strcmp(way, "call") == 0) {
        fd = mkstemp(name);
        unlink(name);
    } else
        fd = memfd_create("code", 0);
    ftruncate(fd, BYTES);
    return fd;
}

static void *map(int fd, int protection, int flags)
{
    return mmap(0, BYTES, protection, flags, fd, 0);
}

static void run(const char *way, unsigned char *code, int value)
{
    int (*function)(void) = (Function *)code;
    int first = function(), second = function();
    printf("%s: %d %d%s\n", way, first, second, first == value && second == value ? "" : " STALE");
    fflush(stdout);
}

static void *writer(void *at)
{
    for (int i = 1; i <= ROUNDS; i++) {
        write_code(at, 100 + i);
        usleep(1000);
    }
    return 0;
}

static void threads(unsigned char *code, unsigned char *alias)
{
    pthread_t thread;
    int (*function)(void) = (Function *)code;
    write_code(alias, 100);
    int seen = function();
    pthread_create(&thread, 0, writer, alias);
    while (function() != 100 + ROUNDS)
        ;
    pthread_join(thread, 0);
    printf("threads: from %d to %d\n", seen, function());
}

static void child(unsigned char *code, unsigned char *alias)
{
    for (int i = 0; i < ROUNDS; i++) {
        if (fork() == 0) {
            write_code(alias, i);
            _exit(0);
        }
        wait(0);
        run("child", code, i);
    }
}

__attribute__((noinline, aligned(4096))) static int patched(void)
{
    __asm__ volatile("nop; nop; nop; nop; nop; nop; nop; nop");
    return 7;
}

static void patch(void)
{
    unsigned char *page = (unsigned char *)patched;
    run("patch", page, 7);
    for (int i = 0; i < ROUNDS; i++) {
        mprotect(page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
        write_code(page, i);
        run("patch", page, i);
        write_code(page, i + 50);
        mprotect(page, 4096, PROT_READ | PROT_EXEC);
        run("patch", page, i + 50);
    }
}

static void alias(const char *way)
{
    int fd = file(way), flags = strcmp(way, "private") == 0 ? MAP_PRIVATE : MAP_SHARED;
    unsigned char bytes[8], *write = 0, *code;
    if (strcmp(way, "late") == 0) {
        write_code(bytes, 99);
        pwrite(fd, bytes, sizeof bytes, 0);
        char link[32];
        sprintf(link, "/proc/self/fd/%d", fd);
        code = map(open(link, O_RDONLY), PROT_READ | PROT_EXEC, MAP_PRIVATE);
        run(way, code, 99);
    } else
        code = map(fd, PROT_READ | PROT_EXEC, flags);
    if (strcmp(way, "call") != 0)
        write = map(fd, PROT_READ | PROT_WRITE, MAP_SHARED);
    if (strcmp(way, "views") == 0)
        code = mremap(code, 0, BYTES, MREMAP_MAYMOVE);
    if (strcmp(way, "threads") == 0) {
        threads(code, write);
        return;
    }
    if (strcmp(way, "child") == 0) {
        child(code, write);
        return;
    }
    for (int i = 0; i < ROUNDS; i++) {
        write_code(write == 0 ? bytes : write, i);
        if (write == 0)
            pwrite(fd, bytes, sizeof bytes, 0);
        run(way, code, i);
    }
}

int main(int count, char **arguments)
{
    if (strcmp(arguments[1], "patch") == 0)
        patch();
    else
        alias(arguments[1]);
    return 0;
}
