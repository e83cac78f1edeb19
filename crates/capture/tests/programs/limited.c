/* A program that limits itself and then begins itself again, as shells do for `ulimit` and service managers for
   LimitFSIZE= and LimitNOFILE=: what it may write and open is as natively, and no signal comes from what the engine
   writes. The argument says which: `soft` and `hard`, the length of files is 4 KiB at most; `few` and `fewest`, six open
   files, of which the next image finds five open. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#define SAY(...) (printf(__VA_ARGS__), fflush(stdout))

static void write_much(void)
{
    static char bytes[5000];
    int fd = open("written", O_CREAT | O_RDWR | O_TRUNC, 0600);
    signal(SIGXFSZ, SIG_IGN);
    for (int i = 0; i < 2; i++) {
        errno = 0;
        int written = write(fd, bytes, sizeof bytes);
        SAY("%d, %s\n", written, strerror(errno));
    }
    if (fork() == 0) {
        signal(SIGXFSZ, SIG_DFL);
        write(fd, bytes, sizeof bytes);
        _exit(1);
    }
    int status;
    wait(&status);
    SAY("ended with %x\n", status & 0x7f);
}

static void open_many(void)
{
    int count = 0;
    while (open("/dev/null", O_RDONLY) >= 0)
        count++;
    SAY("%d more: %s\n", count, strerror(errno));
    closefrom(3);
}

int main(int count, char **arguments)
{
    int is_few = strncmp(arguments[1], "few", 3) == 0, kind = is_few ? RLIMIT_NOFILE : RLIMIT_FSIZE;
    struct rlimit limit;
    getrlimit(kind, &limit);
    if (count == 2) {
        limit.rlim_cur = is_few ? 6 : 4096;
        if (strcmp(arguments[1], "hard") == 0 || strcmp(arguments[1], "fewest") == 0)
            limit.rlim_max = limit.rlim_cur;
        setrlimit(kind, &limit);
        for (int i = 0; is_few && i < 2; i++)
            dup(2);
        execl("/proc/self/exe", arguments[0], arguments[1], "again", (char *)0);
    }
    SAY("at most %lu\n", (unsigned long)limit.rlim_cur);
    if (is_few)
        open_many();
    else
        write_much();
    system("echo a child");
    return 0;
}
