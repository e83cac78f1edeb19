/* Executes programs in every way that there is, each in a child of its own, and prints what the new image finds: its
   arguments, its names, its environment, its signals, its descriptors. Prints the error where there is none.

   Ways that are in daily use: /proc/self/exe with another first argument (BusyBox, Chromium's zygote, Docker's reexec
   package), a sealed memfd (runc since CVE-2019-5736, `crun`), a descriptor that only leads to the file (systemd's
   executor, 254 and later), the program's file deleted or replaced (upgrades of running daemons, nginx), no arguments
   (CVE-2021-4034), a script of a script, a script by a descriptor (fexecve's manual has it under "bugs"). */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;
static char* again[] = { "another name", "show", "an argument", "", 0 };
static char* variables[] = { "ONE=1", "TWO=", "LD_BIND_NOW=1", 0 };

static void show(int argc, char** argv)
{
    char exe[4096] = "", line[4096] = "";
    sigset_t blocked;
    struct sigaction hup, usr;
    for (int i = 0; i < argc; i++) printf("<%s>", argv[i]);
    for (char** at = environ; at && *at; at++) printf(" {%s}", *at);
    readlink("/proc/self/exe", exe, sizeof exe - 1);
    printf(" exe %s execfn %s", exe, (char*)getauxval(AT_EXECFN));
    int fd = open("/proc/self/cmdline", O_RDONLY);
    int got = read(fd, line, sizeof line);
    printf(" descriptor %d cmdline", fd);
    for (int i = 0; i < got; i++) putchar(line[i] ? line[i] : '|');
    sigprocmask(SIG_BLOCK, 0, &blocked);
    sigaction(SIGHUP, 0, &hup);
    sigaction(SIGUSR1, 0, &usr);
    printf(" signals %d%d%d%d\n", sigismember(&blocked, SIGUSR2), sigismember(&blocked, SIGTERM),
           hup.sa_handler == SIG_IGN, usr.sa_handler == SIG_DFL);
}

static int execute_at(int folder, const char* path, char** arguments, char** environment, int flags)
{
    return syscall(SYS_execveat, folder, path, arguments, environment, flags);
}

static int copy(const char* from, int to)
{
    int fd = open(from, O_RDONLY);
    while (sendfile(to, fd, 0, 1 << 20) > 0)
        ;
    close(fd);
    return to;
}

static int write_file(const char* name, const char* text)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0755);
    write(fd, text, strlen(text));
    return close(fd);
}

static void handler(int signal) { (void)signal; }

static void* from_a_thread(void* path)
{
    execve(path, again, variables);
    return 0;
}

static char own[4096], folder[4096];

/* The ways, by number; 0: there are no more. */
static int attempt(int way)
{
    char text[4200], *volatile nothing = 0, *long_list[] = { "x", 0, 0 };
    int fd;
    switch (way) {
        case 1: return execve("/proc/self/exe", again, variables);
        case 2: return execve("/proc/thread-self/exe", again, variables);
        case 3: sprintf(text, "/proc/%d/exe", getpid()); return execve(text, again, variables);
        case 4: symlink("/proc/self/exe", "link"); return execve("link", again, variables);
        case 5: chdir("/proc/self"); return execve("exe", again, variables);
        case 6: return fexecve(copy(own, memfd_create("copy", MFD_CLOEXEC)), again, variables);
        case 7: return fexecve(copy(own, memfd_create("copy", 0)), again, variables);
        case 8: return fexecve(open(own, O_PATH | O_CLOEXEC), again, variables);
        case 9: return fexecve(open("/proc/self/exe", O_RDONLY | O_CLOEXEC), again, variables);
        case 10: return execute_at(open(folder, O_PATH | O_CLOEXEC), "executions", again, variables, 0);
        case 11: return execute_at(open(folder, O_RDONLY), "executions", again, variables, 0);
        case 12: return execute_at(AT_FDCWD, "executions", again, variables, 0);
        case 13: return execute_at(-7, own, again, variables, 0);
        case 14: return execute_at(-7, "executions", again, variables, 0);
        case 15: return execute_at(open(own, O_RDONLY), "", again, variables, 0);
        case 16: symlink(own, "way"); return execute_at(AT_FDCWD, "way", again, variables, AT_SYMLINK_NOFOLLOW);
        case 17: sprintf(text, "/proc/self/fd/%d", open(own, O_RDONLY)); return execve(text, again, variables);
        case 18: sprintf(text, "/dev/fd/%d", open(own, O_RDONLY | O_CLOEXEC)); return execve(text, again, variables);
        case 19: return execve(own, 0, variables);
        case 20: return execve(own, again, 0);
        case 21: return execve(own, (char**)&nothing, variables);
        case 22: return execve("executions", again, variables);   /* no slash: not along PATH */
        case 23: return execve("script", again, variables);
        case 24: return execve("script2", again, variables);
        case 25: return execve("circle", again, variables);
        case 26: return execve("broken", again, variables);
        case 27: return execve("plain", again, variables);   /* ENOEXEC */
        case 28: return execve("missing", again, variables);
        case 29: return execve(folder, again, variables);
        case 30: return execve((char*)16, again, variables);
        case 31: return execve(own, (char**)16, variables);
        case 32: long_list[1] = (char*)16; return execve(own, long_list, variables);
        case 33: return execve(own, again, (char**)16);
        case 34: fd = open("script", O_RDONLY); return execute_at(fd, "", again, variables, AT_EMPTY_PATH);
        case 35: fd = open("script", O_RDONLY | O_CLOEXEC); return execute_at(fd, "", again, variables, AT_EMPTY_PATH);
        case 36: fd = open("unexecutable", O_RDONLY); return execute_at(fd, "", again, variables, AT_EMPTY_PATH);
        case 37: unlink("deleted"); return execve("/proc/self/exe", again, variables);
        case 38: execve("missing", again, variables); execve("plain", again, variables);
                 return execve(own, again, variables);   /* a failure leaves no trace */
        case 39: {
            pthread_t thread;
            pthread_create(&thread, 0, from_a_thread, own);
            pthread_join(thread, 0);
            return 0;
        }
        case 40: memset(text, 'x', 4100); text[4100] = 0; return execve(text, again, variables);
        case 41: long_list[1] = memset(malloc(140000), 'x', 140000); long_list[1][139999] = 0;
                 return execve(own, long_list, variables);
        case 42: execve("no_loader", again, variables); printf("%s, then ", strerror(errno)); fflush(stdout);
                 return execve(own, again, variables);
        case 43: return execve("", again, variables);
        case 44: return execve("foreign", again, variables);
        case 45: fd = open(own, O_PATH | O_CLOEXEC); return execute_at(fd, "", 0, 0, AT_EMPTY_PATH);
        case 46: copy(own, open("busy", O_RDWR | O_CREAT, 0755)); return execve("busy", again, variables);
        case 47: fd = open(own, O_PATH | O_CLOEXEC); unlink(own); return execute_at(fd, "", again, 0, AT_EMPTY_PATH);
    }
    errno = 0;
    return 0;
}

static void write_files(void)
{
    char text[8300];
    sprintf(text, "#! %s/executions  show \t\n", folder);
    write_file("script", text);
    sprintf(text, "#!%s/script", folder);
    write_file("script2", text);
    sprintf(text, "#!%s/circle\n", folder);
    write_file("circle", text);
    write_file("broken", "#!/no/such/interpreter\n");
    write_file("plain", "echo plain\n");
    write_file("unexecutable", "#!/bin/sh\n");
    chmod("unexecutable", 0644);
    copy(own, open("deleted", O_WRONLY | O_CREAT, 0755));
    /* The same program with a loader that is not there, and one for another processor. */
    int fd = copy(own, open("no_loader", O_RDWR | O_CREAT, 0755));
    char* bytes = mmap(0, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    char* loader = memmem(bytes, 4096, "/lib64/ld-", 10);
    loader[1] = 'x';
    munmap(bytes, 1 << 16);
    close(fd);
    fd = copy("no_loader", open("foreign", O_RDWR | O_CREAT, 0755));
    pwrite(fd, "\2", 1, 18);   /* SPARC */
    close(fd);
}

int main(int argc, char** argv)
{
    if (argc != 2 || strcmp(argv[1], "all")) { show(argc, argv); return argc; }
    realpath("/proc/self/exe", own);
    strcpy(folder, own);
    *strrchr(folder, '/') = 0;
    chdir(folder);
    write_files();
    signal(SIGHUP, SIG_IGN);
    signal(SIGUSR1, handler);
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR2);
    sigprocmask(SIG_BLOCK, &blocked, 0);
    for (int way = 1; way <= 47; way++) {
        printf("%d: ", way);
        fflush(stdout);
        if (fork() == 0) {
            attempt(way);
            printf("%s, signals ", strerror(errno));
            raise(SIGUSR1);
            show(0, argv);
            exit(0);
        }
        int status;
        wait(&status);
        printf("   status %x\n", status);
    }
    return 0;
}
