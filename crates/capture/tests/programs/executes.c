/* Executes a program beside it in a child, and by itself. */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char path[4096];
    int status;
    snprintf(path, sizeof path, "./%s", argv[1]);
    if (fork() == 0) {
        execl(path, argv[1], (char *)0);
        _exit(99);
    }
    wait(&status);
    printf("child: %d\n", WEXITSTATUS(status));
    fflush(stdout);
    execl(path, argv[1], (char *)0);
    return 98;
}
