/* What Ousterhout's benchmarks of operating systems do, each many times:
   J. K. Ousterhout, "Why Aren't Operating Systems Getting Faster As Fast as Hardware?", Proceedings of the USENIX Summer
   Conference, 1990; without its Modified Andrew Benchmark, which is many programs, and with two more, `stat` and `fork`.

   ousterhout REPEATS COPY_KB FILE_KB DATA_KB FORKS: each part REPEATS times, those with large data a tenth of it

     getpid         enters the kernel and leaves it
     cswitch        two processes pass a byte to each other through pipes
     select         waits for no pipe, for ten empty ones and for ten full ones
     bcopy          copies a block of COPY_KB
     read           reads a file of FILE_KB, which is cached, in blocks of 16 KiB
     open           opens a file and closes it
     stat           asks for a file's state
     create         a compiler's temporary file: makes it, writes DATA_KB, opens it, reads it and removes it
     fork           makes a process that ends at once, FORKS times

   Files are made in the current folder. Link it with -static. */
#define _DEFAULT_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KB = 1024, BLOCK = 16 * KB, PIPES = 10 };

static const char cached[] = "ousterhout.cached", temporary[] = "ousterhout.temporary";
static char block[BLOCK];

static void die(const char *what) {
    perror(what);
    exit(1);
}

static unsigned long number(const char *text, const char *name, unsigned long most) {
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (*text == 0 || *end != 0 || value < 1 || value > most) {
        fprintf(stderr, "ousterhout: %s = %s: give a number from 1 to %lu\n", name, text, most);
        exit(2);
    }
    return value;
}

static int opened(const char *path, int flags) {
    int file = open(path, flags, 0600);
    if (file < 0) die(path);
    return file;
}

/* Writes so many bytes to a file that is made anew. */
static void fill(const char *path, size_t bytes) {
    int file = opened(path, O_CREAT | O_TRUNC | O_WRONLY);
    for (size_t done = 0; done < bytes; done += BLOCK) {
        size_t part = bytes - done < BLOCK ? bytes - done : BLOCK;
        if (write(file, block, part) != (ssize_t)part) die(path);
    }
    close(file);
}

/* Reads from where the file stands to its end. */
static void drain(int file) {
    ssize_t got;
    while ((got = read(file, block, BLOCK)) > 0) {}
    if (got < 0) die("ousterhout: read");
}

static void make_pipe(int ends[2]) {
    if (pipe(ends) != 0) die("ousterhout: pipe");
}

static void pass(int to) {
    if (write(to, "t", 1) != 1) die("ousterhout: write");
}

static void await(int from) {
    char token;
    if (read(from, &token, 1) != 1) die("ousterhout: read");
}

static pid_t forked(void) {
    pid_t child = fork();
    if (child < 0) die("ousterhout: fork");
    return child;
}

static void reap(pid_t child) {
    int status;
    if (waitpid(child, &status, 0) < 0) die("ousterhout: waitpid");
    if (status != 0) exit(1);
}

static void enter_kernel(unsigned long repeats) {
    /* Not getpid(): a library may know the answer. */
    while (repeats-- > 0) syscall(SYS_getpid);
}

static void switch_context(unsigned long repeats) {
    int there[2], back[2];
    make_pipe(there);
    make_pipe(back);
    pid_t child = forked();
    for (unsigned long round = 0; round < repeats; round++) {
        if (child == 0) {
            await(there[0]);
            pass(back[1]);
        } else {
            pass(there[1]);
            await(back[0]);
        }
    }
    if (child == 0) _exit(0);
    reap(child);
    for (int end = 0; end < 2; end++) {
        close(there[end]);
        close(back[end]);
    }
}

static void select_pipes(unsigned long repeats) {
    int pipes[2][PIPES][2];
    for (int full = 0; full < 2; full++) {
        for (int i = 0; i < PIPES; i++) {
            make_pipe(pipes[full][i]);
            if (full) pass(pipes[full][i][1]);
        }
    }
    for (unsigned long round = 0; round < repeats; round++) {
        for (int kind = 0; kind < 3; kind++) {
            fd_set set;
            FD_ZERO(&set);
            int last = -1;
            for (int i = 0; kind > 0 && i < PIPES; i++) {
                int file = pipes[kind - 1][i][0];
                FD_SET(file, &set);
                if (file > last) last = file;
            }
            struct timeval now = {0, 0};
            if (select(last + 1, &set, NULL, NULL, &now) < 0) die("ousterhout: select");
        }
    }
    for (int full = 0; full < 2; full++) {
        for (int i = 0; i < PIPES; i++) {
            close(pipes[full][i][0]);
            close(pipes[full][i][1]);
        }
    }
}

static void copy_blocks(unsigned long repeats, size_t bytes) {
    char *from = malloc(bytes), *to = malloc(bytes);
    if (from == NULL || to == NULL) die("ousterhout: malloc");
    memset(from, 1, bytes);
    while (repeats-- > 0) {
        memcpy(to, from, bytes);
        /* Each copy is seen, so that no compiler leaves one out. */
        __asm__ volatile("" : : "r"(to) : "memory");
    }
    free(from);
    free(to);
}

static void read_cached(unsigned long repeats) {
    int file = opened(cached, O_RDONLY);
    while (repeats-- > 0) {
        if (lseek(file, 0, SEEK_SET) < 0) die(cached);
        drain(file);
    }
    close(file);
}

static void open_close(unsigned long repeats) {
    while (repeats-- > 0) close(opened(cached, O_RDONLY));
}

static void ask_state(unsigned long repeats) {
    struct stat state;
    while (repeats-- > 0) {
        if (stat(cached, &state) != 0) die(cached);
    }
}

static void create_delete(unsigned long repeats, size_t bytes) {
    while (repeats-- > 0) {
        fill(temporary, bytes);
        int file = opened(temporary, O_RDONLY);
        drain(file);
        close(file);
        if (unlink(temporary) != 0) die(temporary);
    }
}

static void fork_exit(unsigned long repeats) {
    while (repeats-- > 0) {
        pid_t child = forked();
        if (child == 0) _exit(0);
        reap(child);
    }
}

int main(int count, char **arguments) {
    if (count != 6) {
        fprintf(stderr, "usage: ousterhout REPEATS COPY_KB FILE_KB DATA_KB FORKS\n");
        return 2;
    }
    unsigned long repeats = number(arguments[1], "REPEATS", 1000000000);
    size_t copied = number(arguments[2], "COPY_KB", 1 << 20) * KB;
    size_t file = number(arguments[3], "FILE_KB", 1 << 20) * KB;
    size_t data = number(arguments[4], "DATA_KB", 1 << 20) * KB;
    unsigned long forks = number(arguments[5], "FORKS", 1000000);
    unsigned long fewer = (repeats + 9) / 10;
    fill(cached, file);
    enter_kernel(repeats);
    switch_context(repeats);
    select_pipes(repeats);
    copy_blocks(fewer, copied);
    read_cached(fewer);
    open_close(repeats);
    ask_state(repeats);
    create_delete(fewer, data);
    fork_exit(forks);
    if (unlink(cached) != 0) die(cached);
    return 0;
}
