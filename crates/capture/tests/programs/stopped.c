/* Processes that are stopped as natively (a job in the background that reads: `cat &` in an interactive shell): by reading
   a terminal, by setting its foreground group, by a signal while they compute, and while they wait. */
#define _GNU_SOURCE
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

static void reads(void)
{
    char byte;
    read(0, &byte, 1);
}

static void reads_by_default(void)
{
    signal(SIGTTIN, SIG_DFL);
    reads();
}

static void takes(void) { tcsetpgrp(0, getpid()); }

static void computes(void)
{
    volatile long sum = 0;
    kill(getppid(), SIGUSR1);
    for (;;) sum++;
}

static void waits(void)
{
    kill(getppid(), SIGUSR1);
    for (;;) pause();
}

/* What becomes of a child, in the background of this terminal. */
static void try(void (*child)(void), int signal)
{
    sigset_t ready;
    int status = 0, number;
    sigemptyset(&ready);
    sigaddset(&ready, SIGUSR1);
    sigprocmask(SIG_BLOCK, &ready, 0);
    pid_t pid = fork();
    if (pid == 0) {
        sigprocmask(SIG_UNBLOCK, &ready, 0);
        setpgid(0, 0);
        child();
        _exit(3);
    }
    if (signal) {
        sigwait(&ready, &number);
        kill(pid, signal);
    }
    waitpid(pid, &status, WUNTRACED);
    printf("%x ", status);
    kill(pid, SIGTERM);
    kill(pid, SIGCONT);
    waitpid(pid, &status, 0);
    printf("%x\n", status);
    fflush(stdout);
}

int main(void)
{
    int terminal, output = dup(1), status;
    pid_t pid = forkpty(&terminal, 0, 0, 0);
    if (pid == 0) {
        dup2(output, 1);
        alarm(60);
        try(reads, 0);
        try(reads_by_default, 0);
        try(takes, 0);
        try(computes, SIGTSTP);
        try(waits, SIGTSTP);
        _exit(0);
    }
    waitpid(pid, &status, 0);
    printf("%x\n", status);
    return 0;
}
