/* What a handler is told of faults: the signal, its code and address, the processor's trap and error, the instruction;
   and that all before the fault was done. Of fetches where nothing is mapped, where it is not allowed, past the end of a
   file and outside of the processor's addresses; of data alike; of divisions (HotSpot and .NET make exceptions of them by
   the instruction's address and the registers), instructions that do not exist or are not allowed, and traps. Then how
   children without a handler end, and those whose handler has no stack. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
#define PAGE 4096UL
#define ALL (PROT_READ | PROT_WRITE | PROT_EXEC)
#define TRAP_PAGE 14
#define SAY(...) (printf(__VA_ARGS__), fflush(stdout))
#define TRY(name, ...)              \
    do {                            \
        what = name;                \
        if (sigsetjmp(back, 1) == 0) { \
            __VA_ARGS__;            \
            SAY("%s: none\n", what); \
        }                           \
    } while (0)

typedef void Code(void);

static sigjmp_buf back;
static const char *what;
static char *base, *division;
static volatile int zero, sink;

static void place(const char *name, void *at)
{
    unsigned long distance = (char *)at - base;
    if (distance < 64 * PAGE)
        printf(" %s base+%lx", name, distance);
    else
        printf(" %s %s", name, at == 0 ? "0" : at == division ? "the division" : "elsewhere");
}

static void handle(int signal, siginfo_t *info, void *given)
{
    ucontext_t *context = given;
    greg_t *registers = context->uc_mcontext.gregs;
    printf("%s: signal %d code %d", what, signal, info->si_code);
    if (info->si_code > 0) {
        place("address", info->si_addr);
        place("instruction", (void *)registers[REG_RIP]);
        /* Of a fetch, not whether the page was there already. */
        greg_t error = registers[REG_ERR];
        printf(" trap %lld error %llx", registers[REG_TRAPNO], error & 16 ? error & ~1LL : error);
        if (registers[REG_TRAPNO] == TRAP_PAGE && registers[REG_CR2] != (greg_t)info->si_addr)
            printf(" of another address");
        if (signal == SIGFPE)
            printf(" rbx %lld", registers[REG_RBX]);
    }
    SAY("\n");
    siglongjmp(back, 1);
}

static char *map_all(unsigned pages, int fd)
{
    int kind = fd < 0 ? MAP_ANONYMOUS : 0;
    return mmap(0, pages * PAGE, ALL, MAP_PRIVATE | kind, fd, 0);
}

/* A page of code that stores to where %rdi points and runs into the next page. */
static void run_off(const char *name, int fd, void prepare(char *))
{
    static const unsigned char store[] = { 0xc7, 0x07, 1, 0, 0, 0 };
    static int stored;
    base = map_all(2, fd);
    memset(base, 0x90, PAGE);
    memcpy(base + 4000, store, sizeof store);
    if (prepare != 0)
        prepare(base + PAGE);
    stored = 0;
    TRY(name, ((void (*)(int *))(base + 4000))(&stored));
    SAY("stored %d\n", stored);
}

static void take_away(char *page)
{
    munmap(page, PAGE);
}

static void allow_none(char *page)
{
    mprotect(page, PAGE, PROT_NONE);
}

static void allow_data(char *page)
{
    mprotect(page, PAGE, PROT_READ | PROT_WRITE);
}

/* The last instruction has only its first byte in the page. */
static void cut(char *page)
{
    page[-1] = 0x48;
    munmap(page, PAGE);
}

static void fetches(int fd)
{
    run_off("into nothing", -1, take_away);
    run_off("into what allows nothing", -1, allow_none);
    run_off("into data", -1, allow_data);
    run_off("cut", -1, cut);
    run_off("past the file", fd, 0);
    base = map_all(64, -1);
    munmap(base + 8 * PAGE, PAGE);
    allow_none(base + 16 * PAGE);
    allow_data(base + 24 * PAGE);
    mmap(base + 32 * PAGE, 2 * PAGE, ALL, MAP_PRIVATE | MAP_FIXED, fd, 0);
    TRY("jump to 0", ((Code *)0)());
    TRY("jump to a hole", ((Code *)(base + 8 * PAGE + 16))());
    TRY("jump to what allows nothing", ((Code *)(base + 16 * PAGE + 16))());
    TRY("jump to data", ((Code *)(base + 24 * PAGE + 16))());
    TRY("jump past the file", ((Code *)(base + 33 * PAGE + 16))());
    TRY("jump out of range", ((Code *)0x8000000000000000UL)());
    base[40 * PAGE] = 0xc3;
    ((Code *)(base + 40 * PAGE))();
    allow_data(base + 40 * PAGE);
    TRY("jump to code that was", ((Code *)(base + 40 * PAGE))());
    munmap(base + 40 * PAGE, PAGE);
    TRY("jump to code that is gone", ((Code *)(base + 40 * PAGE))());
}

static void data(int fd)
{
    char *file = mmap(base + 48 * PAGE, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
    mprotect(base + 4 * PAGE, PAGE, PROT_READ);
    TRY("read 0", sink = *(volatile int *)0);
    TRY("write 0", *(volatile int *)0 = 1);
    TRY("read a hole", sink = base[8 * PAGE]);
    TRY("read what allows nothing", sink = base[16 * PAGE]);
    TRY("write what may be read", base[4 * PAGE + 8] = 1);
    TRY("write across", *(volatile long *)(base + 8 * PAGE - 4) = 1);
    TRY("read out of range", sink = *(volatile int *)0x8000000000000000UL);
    TRY("read the kernel's", sink = *(volatile int *)0xffffffff80000000UL);
    TRY("read past the file", sink = file[PAGE]);
    ftruncate(fd, 0);
    TRY("read what is cut off", sink = file[0]);
    TRY("write what is cut off", file[8] = 1);
}

#define DIVIDE(prepare, by)                                                                              \
    __asm__ volatile("lea 1f(%%rip), %%rax; mov %%rax, %0; mov $7, %%eax; cltd; xor %%ecx, %%ecx;"      \
                     "mov $41, %%ebx; inc %%ebx; nop;" prepare "; 1:" by "; mov $1, %%ebx; mov %%eax, -8(%%rsp)" \
                     : "=m"(division)                                                                   \
                     :                                                                                  \
                     : "rax", "rbx", "rcx", "rdx", "memory")

static void instructions(void)
{
    TRY("idiv", DIVIDE("nop", "idiv %%ecx"));
    TRY("div of a byte", DIVIDE("nop", "div %%cl"));
    TRY("overflow", DIVIDE("mov $0x80000000, %%eax; cltd; mov $-1, %%ecx", "idiv %%ecx"));
    TRY("ud2", __asm__ volatile("ud2"));
    TRY("hlt", __asm__ volatile("hlt"));
    TRY("int3", __asm__ volatile("int3"));
    TRY("in", __asm__ volatile("inb $0x80, %%al" : : : "rax"));
    TRY("rdmsr", __asm__ volatile("xor %%ecx, %%ecx; rdmsr" : : : "rax", "rcx", "rdx"));
    TRY("movaps", __asm__ volatile("movaps 8(%0), %%xmm0" : : "r"(base) : "xmm0"));
    TRY("raise", raise(SIGSEGV));
}

static void read_0(void)
{
    sink = *(volatile int *)0;
}

static void divide(void)
{
    sink = 7 / zero;
}

static void undefined(void)
{
    __asm__ volatile("ud2");
}

static void jump_past_file(void)
{
    int fd = memfd_create("file", 0);
    ftruncate(fd, PAGE);
    ((Code *)(map_all(2, fd) + PAGE))();
}

static void run_into_nothing(void)
{
    char *code = map_all(2, -1);
    memset(code, 0x90, PAGE);
    take_away(code + PAGE);
    ((Code *)code)();
}

static void catch(int flags)
{
    struct sigaction action = { .sa_sigaction = handle, .sa_flags = SA_SIGINFO | flags };
    sigaction(SIGSEGV, &action, 0);
    sigaction(SIGILL, &action, 0);
}

#define WITHOUT_STACK(at, instruction) __asm__ volatile("mov %0, %%rsp; " instruction : : "r"(at) : "memory")

static void stack_nowhere(void)
{
    char *top = map_all(4, -1) + 3 * PAGE;
    catch(0);
    munmap(top - 3 * PAGE, 4 * PAGE);
    WITHOUT_STACK(top, "ud2");
}

static void stack_not_allowed(void)
{
    char *top = map_all(4, -1) + 4 * PAGE;
    catch(0);
    mprotect(top - 4 * PAGE, 4 * PAGE, PROT_READ);
    WITHOUT_STACK(top, "hlt");
}

static void alternate_stack_nowhere(void)
{
    stack_t alternate = { .ss_sp = map_all(16, -1), .ss_size = 16 * PAGE };
    catch(SA_ONSTACK);
    sigaltstack(&alternate, 0);
    munmap(alternate.ss_sp, 16 * PAGE);
    ((Code *)0)();
}

static void end(Code *how)
{
    int status;
    if (fork() == 0) {
        for (int signal = 1; signal < 32; signal++)
            sigaction(signal, &(struct sigaction){ .sa_handler = SIG_DFL }, 0);
        how();
        _exit(0);
    }
    wait(&status);
    SAY("ended with %x\n", status & 0x7f);
}

int main(void)
{
    int signals[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP };
    int fd = memfd_create("file", 0);
    ftruncate(fd, PAGE);
    for (int i = 0; i < 5; i++)
        sigaction(signals[i], &(struct sigaction){ .sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_NODEFER }, 0);
    fetches(fd);
    data(fd);
    instructions();
    end(read_0);
    end(divide);
    end(undefined);
    end(jump_past_file);
    end(run_into_nothing);
    end(stack_nowhere);
    end(stack_not_allowed);
    end(alternate_stack_nowhere);
    return 0;
}
