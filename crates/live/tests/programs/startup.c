/* Kills programs, and lets them continue, in the moment in which they begin. Exits 0 if each ended as it should. */
#include "check.h"
#include <signal.h>

static char *own_path;

static pid_t begin(char *word) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        char *arguments[] = {own_path, word, 0};
        execv(own_path, arguments);
        _exit(1);
    }
    return child;
}

static void kills(void) {
    for (int delay = 0; delay < 4000; delay += 50) {
        pid_t child = begin("sleeps");
        usleep(delay);
        CHECK(kill(child, SIGKILL) == 0);
        int status;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
}

static void continues(void) {
    for (int i = 0; i < 20; i++) {
        pid_t child = begin("ends"), found;
        int status;
        while ((found = waitpid(child, &status, WNOHANG | WUNTRACED)) == 0)
            CHECK(kill(child, SIGCONT) == 0);
        CHECK(found == child && WIFEXITED(status) && WEXITSTATUS(status) == 3);
    }
}

int main(int count, char **words) {
    own_path = words[0];
    if (count > 1 && !strcmp(words[1], "sleeps"))
        for (;;)
            pause();
    if (count > 1 && !strcmp(words[1], "ends"))
        return 3;
    kills();
    continues();
    return 0;
}
