/* Programs under a root of their own, with nothing in it but themselves: no /proc, no loader, no Valgrind (FreeBSD's and
   Debian's builders, OpenSSH's and Postfix's daemons, `docker build`). Built statically. Children change their root and
   then execute a program, a script, what is no program, fork, or make a child by vfork; each must end as natively.
   Prints what came of each; `no root`, and the end 77, if this process may not. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void put(const char *name, const char *text)
{
    int fd = open(name, O_WRONLY | O_CREAT, 0755);
    write(fd, text, strlen(text));
    close(fd);
}

static void copy_self(const char *name)
{
    int from = open("/proc/self/exe", O_RDONLY), to = open(name, O_WRONLY | O_CREAT, 0755);
    while (sendfile(to, from, 0, 1 << 20) > 0)
        ;
    close(from);
    close(to);
}

static void execute(const char *path)
{
    char *arguments[] = { "first", "inner", "last", 0 };
    execv(path, arguments);
    printf("%s: %s\n", path, strerror(errno));
    fflush(stdout);
    _exit(1);
}

static void end(const char *what)
{
    int status;
    wait(&status);
    printf("%s ended with %x\n", what, status);
    fflush(stdout);
}

static void go(const char *what)
{
    if (fork() == 0) {
        chroot("root");
        chdir("/");
        if (strcmp(what, "fork") == 0) {
            if (fork() == 0)
                _exit(3);
            end("a child");
            _exit(4);
        }
        if (strcmp(what, "vfork") == 0) {
            if (vfork() == 0)
                execute("/inner");
            end("a child");
            _exit(5);
        }
        execute(what);
    }
    end(what);
}

int main(int count, char **arguments)
{
    static const char *const ways[] = { "/inner", "inner", "/script", "/lost", "/text", "/none", "/folder", "fork",
                                        "vfork" };
    if (count > 2) {
        for (int i = 0; i < count; i++)
            printf("%s%c", arguments[i], i + 1 < count ? ' ' : '\n');
        return 42;
    }
    if (geteuid() != 0)
        unshare(CLONE_NEWUSER);
    mkdir("root", 0755);
    mkdir("root/folder", 0755);
    int here = open(".", O_RDONLY), all = open("/", O_RDONLY);
    if (chroot("root") < 0) {
        puts("no root");
        return 77;
    }
    fchdir(all);
    chroot(".");
    fchdir(here);
    close(here);
    close(all);
    copy_self("root/inner");
    put("root/script", "#!/inner argument\n");
    put("root/lost", "#!/nowhere\n");
    put("root/text", "text\n");
    for (unsigned i = 0; i < sizeof ways / sizeof ways[0]; i++)
        go(ways[i]);
    return 0;
}
