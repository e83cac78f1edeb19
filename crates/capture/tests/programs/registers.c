/* The registers that hold a call's arguments, which the kernel leaves as they are: compilers keep values in them over a
   call (musl's and Go's calls are inline; GCC loads the second of two calls' arguments only where they differ). Calls on
   the program's own file, which leads elsewhere under the engine, and batches of more messages than the kernel takes at
   once. Then one that a signal interrupts, and one that is begun again after the handler: what the handler finds in the
   registers, and what there is in them afterwards. Prints which differ. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>
#define MESSAGES 2000
#define CALL_OPENAT2 437
#define CALL_FACCESSAT2 439
#define SAY(...) (printf(__VA_ARGS__), fflush(stdout))
#define OWN "/proc/self/exe"

typedef unsigned long Word;

static const char *const names[] = { "rdi", "rsi", "rdx", "r10", "r8", "r9" };
static const int places[] = { REG_RDI, REG_RSI, REG_RDX, REG_R10, REG_R8, REG_R9 };
static const struct itimerval often = { { 0, 30000 }, { 0, 30000 } }, never;

/* Leaves what is in the registers after the call where they came from. */
long call(long number, Word *arguments);
extern char call_at[], call_end[];
__asm__(".text\n"
        "call: push %rbx; mov %rsi, %rbx; mov %rdi, %rax;"
        "mov (%rbx), %rdi; mov 8(%rbx), %rsi; mov 16(%rbx), %rdx; mov 24(%rbx), %r10; mov 32(%rbx), %r8;"
        "mov 40(%rbx), %r9\n"
        "call_at: syscall\n"
        "call_end: mov %rdi, (%rbx); mov %rsi, 8(%rbx); mov %rdx, 16(%rbx); mov %r10, 24(%rbx); mov %r8, 32(%rbx);"
        "mov %r9, 40(%rbx); pop %rbx; ret\n");

static int ends[2];
static char room[MESSAGES];
static struct iovec parts[MESSAGES];
static struct mmsghdr messages[MESSAGES];
static Word in_handler[6];

static void compare(const char *when, const Word *given, const Word *found)
{
    for (int i = 0; i < 6; i++)
        if (given[i] != found[i])
            SAY("  %s %s differs\n", names[i], when);
}

static void try(const char *name, long number, Word a, Word b, Word c, Word d, Word e, Word f)
{
    Word given[6] = { a, b, c, d, e, f }, found[6];
    memcpy(found, given, sizeof found);
    long result = call(number, found);
    SAY("%s: %s\n", name, result < 0 ? strerror(-result) : "done");
    compare("afterwards", given, found);
}

/* Of a signal within the call: it is over with EINTR, or about to be begun again. */
static void handle(int signal, siginfo_t *info, void *given)
{
    greg_t *registers = ((ucontext_t *)given)->uc_mcontext.gregs;
    int is_over = registers[REG_RIP] == (greg_t)call_end && registers[REG_RAX] == -4;
    int is_again = registers[REG_RIP] == (greg_t)call_at && registers[REG_RAX] == SYS_recvmmsg;
    if (!is_over && !is_again)
        return;
    setitimer(ITIMER_REAL, &never, 0);
    for (int i = 0; i < 6; i++)
        in_handler[i] = registers[places[i]];
    if (is_again)
        send(ends[1], "x", 1, 0);
}

static void interrupt(const char *name, int flags)
{
    Word given[6] = { ends[0], (Word)messages, MESSAGES, MSG_WAITFORONE, 0, 6 };
    sigaction(SIGALRM, &(struct sigaction){ .sa_sigaction = handle, .sa_flags = SA_SIGINFO | flags }, 0);
    setitimer(ITIMER_REAL, &often, 0);
    try(name, SYS_recvmmsg, given[0], given[1], given[2], given[3], given[4], given[5]);
    setitimer(ITIMER_REAL, &never, 0);
    compare("in the handler", given, in_handler);
}

int main(void)
{
    struct statx about;
    struct stat older;
    char target[512];
    Word how[3] = { O_RDONLY };
    socketpair(AF_UNIX, SOCK_DGRAM, 0, ends);
    for (int i = 0; i < MESSAGES; i++) {
        parts[i] = (struct iovec){ room + i, 1 };
        messages[i].msg_hdr = (struct msghdr){ .msg_iov = &parts[i], .msg_iovlen = 1 };
    }
    try("statx", SYS_statx, AT_FDCWD, (Word)OWN, 0, STATX_BASIC_STATS, (Word)&about, 6);
    try("openat2", CALL_OPENAT2, AT_FDCWD, (Word)OWN, (Word)how, sizeof how, 5, 6);
    try("faccessat2", CALL_FACCESSAT2, AT_FDCWD, (Word)OWN, X_OK, 0, 5, 6);
    try("faccessat", SYS_faccessat, AT_FDCWD, (Word)OWN, X_OK, 4, 5, 6);
    try("newfstatat", SYS_newfstatat, AT_FDCWD, (Word)OWN, (Word)&older, 0, 5, 6);
    try("stat", SYS_stat, (Word)OWN, (Word)&older, 3, 4, 5, 6);
    try("access", SYS_access, (Word)OWN, R_OK, 3, 4, 5, 6);
    try("readlink", SYS_readlink, (Word)OWN, (Word)target, sizeof target, 4, 5, 6);
    try("readlinkat", SYS_readlinkat, AT_FDCWD, (Word)OWN, (Word)target, sizeof target, 5, 6);
    try("openat2 of none", CALL_OPENAT2, AT_FDCWD, (Word)OWN, 0, sizeof how, 5, 6);
    try("sendmmsg", SYS_sendmmsg, ends[1], (Word)messages, MESSAGES, MSG_DONTWAIT, 5, 6);
    try("recvmmsg", SYS_recvmmsg, ends[0], (Word)messages, MESSAGES, MSG_DONTWAIT, 0, 6);
    try("recvmmsg of none", SYS_recvmmsg, ends[0], (Word)messages, MESSAGES, MSG_DONTWAIT, 0, 6);
    interrupt("recvmmsg, interrupted", 0);
    interrupt("recvmmsg, begun again", SA_RESTART);
    return 0;
}
