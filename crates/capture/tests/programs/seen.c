/* What a program and its parent see of it in /proc. Shell scripts wait for a child's name so (`pgrep`, `ps -C`, service
   managers' PID files), and programs that close all descriptors but their own list /proc/self/fd. */

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void show(const char* what, int pid)
{
   char path[64], text[4096];
   snprintf(path, sizeof path, "/proc/%d/%s", pid, what);
   int file = open(path, O_RDONLY);
   long bytes = read(file, text, sizeof text);
   close(file);
   for (long i = 0; i < bytes; i++)
      text[i] = text[i] == '\0' || text[i] == '\n' ? ' ' : text[i];
   printf("%s: %.*s\n", what, (int)(bytes > 0 ? bytes : 0), text);
}

static void list(const char* path)
{
   DIR* folder = opendir(path);
   int count = 0;
   while (readdir(folder) != NULL)
      count++;
   closedir(folder);
   printf("%s: %d entries\n", path, count);
}

/* By all paths that lead there (QEMU, Chromium and JVMs look at it by one of these). */
static void own_file(void)
{
   char by_number[64], by_thread[64], numbers[64], target[4096], other[4096];
   sprintf(by_number, "/proc/%d/exe", getpid());
   sprintf(by_thread, "/proc/self/task/%d/exe", getpid());
   sprintf(numbers, "/proc/%d/task/%d/exe", getpid(), getpid());
   const char* paths[] = { "/proc/self/exe", "/proc/thread-self/exe", by_number, by_thread, numbers, "//proc/self//exe",
                           "/proc/self/../self/exe", "/dev/../proc/self/exe" };
   int folder = open("/proc/self", O_RDONLY);
   for (unsigned i = 0; i < sizeof paths / sizeof paths[0]; i++) {
      struct stat about = { 0 }, opened = { 0 };
      int fd = open(paths[i], O_RDONLY);
      target[readlink(paths[i], target, sizeof target - 1)] = 0;
      other[readlinkat(i % 2 == 0 ? folder : AT_FDCWD, i % 2 == 0 ? "exe" : paths[i], other, sizeof other - 1)] = 0;
      printf("own file %u: %s, %s, %d", i, target, other, stat(paths[i], &about));
      printf(" %d %d", fstat(fd, &opened), about.st_ino == opened.st_ino);
      printf(" %ld %d %d\n", (long)opened.st_size, access(paths[i], X_OK), open(paths[i], O_RDWR));
      close(fd);
   }
   close(folder);
}

int main(int count, char** arguments)
{
   if (count > 2) {   /* the child: tells that it is there, and waits */
      close(1);
      pause();
   }
   int pipes[2], pid, byte;
   pipe(pipes);
   if ((pid = fork()) == 0) {
      dup2(pipes[1], 1);
      close(pipes[0]);
      close(pipes[1]);
      char* all[] = { "another name", "and", "an argument", NULL };
      char* variables[] = { "ONE=1", "TWO=two", NULL };
      execve(arguments[0], all, variables);
   }
   close(pipes[1]);
   read(pipes[0], &byte, 1);
   show("comm", pid);
   show("cmdline", pid);
   show("environ", pid);
   kill(pid, SIGTERM);
   waitpid(pid, NULL, 0);
   show("comm", getpid());
   prctl(PR_SET_NAME, "renamed");
   show("comm", getpid());
   memset(arguments[1], 'x', strlen(arguments[1]));
   show("cmdline", getpid());
   own_file();
   list("/proc/self/fd");
   list("/proc/self/fdinfo");
   list("/proc/self/task");
   return 0;
}
