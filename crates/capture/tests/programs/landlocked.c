/* Programs that keep files from themselves by Landlock, and then execute others (systemd's and OpenSSH's helpers,
   sydbox, landrun, `setpriv --landlock-access`): nothing of it shows in the rights of files. `read`: only /usr may be
   read and executed. `make`: nothing may be created. `execute`: /usr may be read, nothing executed. Prints what came
   of it; `no Landlock`, and the end 77, where the kernel has none. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CREATE_RULESET 444
#define ADD_RULE 445
#define RESTRICT_SELF 446
#define EXECUTE 1ull
#define READ_FILE 4ull
#define REMOVE_FILE 32ull
#define MAKE_REG 256ull

static int restrict_to(unsigned long long handled, const char *folder, unsigned long long allowed)
{
    int rules = syscall(CREATE_RULESET, &handled, sizeof handled, 0);
    struct { unsigned long long allowed; int folder; } __attribute__((packed)) below = { allowed, -1 };
    if (rules < 0)
        return -1;
    if (folder) {
        below.folder = open(folder, O_PATH | O_CLOEXEC);
        if (syscall(ADD_RULE, rules, 1, &below, 0))
            return -1;
        close(below.folder);
    }
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (syscall(RESTRICT_SELF, rules, 0))
        return -1;
    return close(rules);
}

int main(int argc, char **argv)
{
    int failed, status;
    if (!strcmp(argv[1], "read"))
        failed = restrict_to(READ_FILE | EXECUTE, "/usr", READ_FILE | EXECUTE);
    else if (!strcmp(argv[1], "make"))
        failed = restrict_to(MAKE_REG | REMOVE_FILE, NULL, 0);
    else
        failed = restrict_to(EXECUTE, "/usr/lib", EXECUTE);
    if (failed) {
        puts("no Landlock");
        return 77;
    }
    if (fork() == 0) {
        execl("/usr/bin/echo", "echo", "child", (char *)0);
        printf("child: %s\n", strerror(errno));
        fflush(stdout);
        _exit(1);
    }
    wait(&status);
    printf("ended with %d\n", WEXITSTATUS(status));
    fflush(stdout);
    execl("/usr/bin/echo", "echo", "ran", (char *)0);
    printf("%s\n", strerror(errno));
    return 5;
}
