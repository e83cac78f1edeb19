/* The part of `pagewalk trap` inside the traced program's address space.
 *
 * It is a task of its own that shares only the program's memory: it has its own file descriptors, no signals, and is no
 * child of the program. It serves the program's page faults and changes its mappings, which only a task in the same
 * address space can do. It holds the simulated array: a page is present exactly while it is in the array.
 *
 * It is linked with nothing and loaded as bytes at TEXT_BASE. It must not touch memory that faults, so it uses only its
 * own stack, the array and the control file. When it ends for any reason, its userfaultfd closes, the kernel releases
 * every waiting thread, and the memory becomes plain shared memory. */
#include "array.h"
#include "sys.h"

#define PAGE 4096ul
#define START ((struct start *)STACK_BASE)
#define HEAD ((volatile struct control *)CONTROL_BASE)

struct agent {
    struct array array;
    u64 log_entries;
    int attached; /* pagewalk has opened the pipes: its end is theirs */
    int frozen;   /* no fault is served */
    /* Pages that stay present whatever the array says, because a thread is exiting: the kernel writes a thread's last
     * words without waiting for a fault. */
    u64 kept_count, kept[KEPT_MAX];
};

/* --- pages ---------------------------------------------------------------------------------------------------- */

/* Drops page-table entries; the file keeps the contents. */
static void hide(u64 start, u64 bytes) {
    /* Kernels before 5.18 cannot do this to locked memory. */
    if (call3(NR_madvise, start, bytes, DONTNEED_LOCKED) == -EINVAL_)
        call3(NR_madvise, start, bytes, DONTNEED);
}

static int is_kept(const struct agent *agent, u64 page) {
    for (u64 i = 0; i < agent->kept_count; i++)
        if (agent->kept[i] == page)
            return 1;
    return 0;
}

static void hide_page(const struct agent *agent, u64 page) {
    if (!is_kept(agent, page))
        hide(page * PAGE, PAGE);
}

static void wake(u64 start, u64 bytes) {
    struct uffd_range range = {start, bytes};
    call3(NR_ioctl, FAULTS, UFFDIO_WAKE_, &range);
}

/* Maps the page at `address`, and wakes its waiters. Returns 0 or the error. `minor`: the kernel found the page in the
 * file, which may have changed since. */
static s64 show(u64 address, int minor) {
    s64 result = 0;
    for (int attempt = 0; attempt < 4; attempt++) {
        struct uffd_fill fill = {{address, PAGE}, 0, 0};
        result = call3(NR_ioctl, FAULTS, minor ? UFFDIO_CONTINUE_ : UFFDIO_ZEROPAGE_, &fill);
        if (minor && result == -EFAULT_)
            minor = 0; /* A hole was punched. */
        else if (!minor && result == -EEXIST_)
            minor = 1; /* Another fault filled the hole. */
        else if (result != -EAGAIN_)
            break;
    }
    if (result < 0)
        wake(address, PAGE);
    return result == -EEXIST_ ? 0 : result;
}

/* --- the log --------------------------------------------------------------------------------------------------- */

static void note(struct agent *agent, u64 decision, u64 page, u64 victim) {
    if (!agent->log_entries)
        return;
    while (HEAD->log_head - __atomic_load_n(&HEAD->log_tail, __ATOMIC_ACQUIRE) >= agent->log_entries)
        call0(NR_sched_yield);
    struct entry *entries = (struct entry *)(CONTROL_BASE + CONTROL_HEADER);
    struct entry *entry = &entries[HEAD->log_head & (agent->log_entries - 1)];
    entry->what_and_page = decision << 60 | page;
    entry->victim = victim;
    __atomic_store_n(&HEAD->log_head, HEAD->log_head + 1, __ATOMIC_RELEASE);
}

/* --- faults ------------------------------------------------------------------------------------------------------ */

static void serve(struct agent *agent, const struct uffd_message *message) {
    if (message->event != EVENT_PAGEFAULT)
        return;
    int minor = (message->flags & FAULT_MINOR) != 0;
    u64 address = message->address & ~(PAGE - 1);
    u64 page = address / PAGE;
    struct choice choice = array_choose(&agent->array, page);
    if (choice.held) {
        show(address, minor);
        HEAD->refills++;
        return;
    }
    /* The victim leaves before the program resumes, and the array changes only if the page was really mapped. */
    if (choice.victim != NO_PAGE)
        hide_page(agent, choice.victim);
    if (show(address, minor) < 0) {
        HEAD->foreign++;
        return;
    }
    array_put(&agent->array, page, choice);
    HEAD->misses++;
    HEAD->zeroed += !minor;
    HEAD->evictions += choice.victim != NO_PAGE;
    note(agent, LOG_MISS, page, choice.victim);
}

/* --- commands ---------------------------------------------------------------------------------------------------- */

static s64 make_fault(u64 start, u64 bytes) {
    struct uffd_register wanted = {{start, bytes}, MODE_MISSING | MODE_MINOR, 0};
    s64 result = call3(NR_ioctl, FAULTS, UFFDIO_REGISTER_, &wanted);
    if (result >= 0)
        hide(start, bytes);
    return result;
}

static void forget(struct agent *agent, u64 start, u64 bytes) {
    struct array *array = &agent->array;
    for (u64 slot = 0; slot < array->sets * array->ways; slot++) {
        u64 page = array->slots[slot].page;
        if (page != NO_PAGE && page - start / PAGE < bytes / PAGE) {
            array->slots[slot].page = NO_PAGE;
            HEAD->forgotten++;
            note(agent, LOG_FORGET, page, NO_PAGE);
        }
    }
    wake(start, bytes);
}

static void hide_all(struct agent *agent) {
    struct array *array = &agent->array;
    for (u64 slot = 0; slot < array->sets * array->ways; slot++)
        if (array->slots[slot].page != NO_PAGE)
            hide_page(agent, array->slots[slot].page);
}

static s64 keep(struct agent *agent, u64 address) {
    if (agent->kept_count == KEPT_MAX)
        return -EAGAIN_;
    agent->kept[agent->kept_count++] = address / PAGE;
    s64 result = show(address, 1);
    return result == -EAGAIN_ ? -EFAULT_ : result;
}

static void release(struct agent *agent, u64 address) {
    u64 page = address / PAGE;
    for (u64 i = 0; i < agent->kept_count; i++) {
        if (agent->kept[i] == page) {
            agent->kept[i] = agent->kept[--agent->kept_count];
            break;
        }
    }
    if (!array_choose(&agent->array, page).held)
        hide_page(agent, page);
}

static s64 obey(struct agent *agent, const struct command *command) {
    const u64 *a = command->arguments;
    switch (command->what) {
    case ORDER_CALL:
        return call6(command->number, a[0], a[1], a[2], a[3], a[4], a[5]);
    case ORDER_REGISTER:
        return make_fault(a[0], a[1]);
    case ORDER_FORGET:
        forget(agent, a[0], a[1]);
        return 0;
    case ORDER_FREEZE:
        hide_all(agent);
        agent->frozen = 1;
        return 0;
    case ORDER_THAW:
        agent->frozen = 0;
        return 0;
    case ORDER_KEEP:
        return keep(agent, a[0]);
    case ORDER_RELEASE:
        release(agent, a[0]);
        return 0;
    case ORDER_ATTACHED:
        /* From now on, the end of pagewalk shows as the end of the pipe. */
        call1(NR_close, COMMANDS_IN);
        call1(NR_close, REPLIES_OUT);
        agent->attached = 1;
        return 0;
    }
    return -EINVAL_;
}

struct pollfd {
    s32 file;
    short events, found;
};

/* Most consecutive faults before checking for commands. */
#define FAULTS_IN_A_ROW 32

/* Milliseconds for pagewalk to open the pipes. Before that, nothing would tell this task that pagewalk is gone, and the
 * program's memory would stay as long as this task. */
#define ATTACHED_WITHIN 10000

/* Serves faults while there are any, then sleeps until the next fault or command: the program usually resumes as soon
 * as its page is present, so the next fault often arrives before this one is finished. */
static void work(struct agent *agent) {
    u64 served = 0;
    struct pollfd waiting[2] = {{COMMANDS, POLLIN_, 0}, {FAULTS, POLLIN_, 0}};
    for (;;) {
        struct uffd_message message;
        if (!agent->frozen && call3(NR_read, FAULTS, &message, sizeof message) == sizeof message) {
            serve(agent, &message);
            if (++served % FAULTS_IN_A_ROW)
                continue;
        } else {
            served = 0;
        }
        s64 patience = served ? 0 : agent->attached ? -1 : ATTACHED_WITHIN;
        s64 found = call3(NR_poll, waiting, agent->frozen ? 1 : 2, patience);
        if (found == 0 && patience > 0)
            return; /* pagewalk never came. */
        if (found <= 0 || !waiting[0].found)
            continue;
        struct command command;
        if (call3(NR_read, COMMANDS, &command, sizeof command) != sizeof command)
            return; /* pagewalk is gone. */
        s64 result = obey(agent, &command);
        call3(NR_write, REPLIES, &result, sizeof result);
    }
}

/* --- the beginning ------------------------------------------------------------------------------------------------ */

static s64 open_faults(void) {
    s64 file = call1(NR_userfaultfd, O_CLOEXEC_ | O_NONBLOCK_);
    if (file >= 0)
        return file;
    static const char device[] = "/dev/userfaultfd";
    s64 opened = call3(NR_open, device, O_RDWR_ | O_CLOEXEC_, 0);
    if (opened < 0)
        return file;
    s64 made = call3(NR_ioctl, opened, USERFAULTFD_IOC_NEW_, O_CLOEXEC_ | O_NONBLOCK_);
    call1(NR_close, opened);
    if (made < 0)
        return made;
    /* The descriptor numbers are fixed; the device had taken the first. */
    call3(NR_dup3, made, FAULTS, O_CLOEXEC_);
    call1(NR_close, made);
    return FAULTS;
}

static s64 prepare(struct agent *agent, s64 *step) {
    struct start *start = START;
    *step = STEP_USERFAULTFD;
    s64 result = open_faults();
    if (result < 0)
        return result;
    *step = STEP_API;
    struct uffd_api api = {UFFD_API_VERSION, FEATURE_MISSING_SHMEM | FEATURE_MINOR_SHMEM, 0};
    if ((result = call3(NR_ioctl, FAULTS, UFFDIO_API_, &api)) < 0)
        return result;
    *step = STEP_MEMORY;
    static const char memory_name[] = "pagewalk", control_name[] = "pagewalk-control";
    if ((result = call2(NR_memfd_create, memory_name, MFD_CLOEXEC_)) < 0)
        return result;
    *step = STEP_CONTROL;
    if ((result = call2(NR_memfd_create, control_name, MFD_CLOEXEC_)) < 0)
        return result;
    u64 control_bytes = CONTROL_HEADER + start->log_entries * sizeof(struct entry);
    if ((result = call2(NR_ftruncate, CONTROL, control_bytes)) < 0)
        return result;
    result = call6(NR_mmap, CONTROL_BASE, control_bytes, PROT_RW, MAP_SHARED_FIXED, CONTROL, 0);
    if (result < 0)
        return result;
    *step = STEP_PIPES;
    s32 pipes[4];
    if ((result = call2(NR_pipe2, pipes, O_CLOEXEC_)) < 0 || (result = call2(NR_pipe2, pipes + 2, O_CLOEXEC_)) < 0)
        return result;
    *step = STEP_ARRAY;
    u64 bytes = start->sets * start->ways * sizeof(struct slot);
    result = call6(NR_mmap, ARRAY_BASE, bytes, PROT_RW, MAP_PRIVATE_ANONYMOUS_FIXED, -1, 0);
    if (result < 0)
        return result;
    array_begin(&agent->array, start);
    agent->log_entries = start->log_entries;
    agent->kept_count = 0;
    agent->attached = agent->frozen = 0;
    return 0;
}

/* Called by entry.S on its own stack. */
__attribute__((noreturn, used)) void agent_main(void) {
    call3(NR_close_range, 0, ~0u, 0);
    u64 every_signal = ~0ul;
    call4(NR_rt_sigprocmask, SIG_BLOCK_, &every_signal, 0, sizeof every_signal);
    /* Leaves the program's process group, to avoid signals sent to it. Stays in its session: the kernel schedules
     * sessions as groups (sched_autogroup), which makes switches between them more expensive. */
    call2(NR_setpgid, 0, 0);
    static const char name[] = "pagewalk-trap";
    call2(NR_prctl, PR_SET_NAME_, name);
    struct agent agent;
    struct start *start = START;
    s64 step = 0, result = prepare(&agent, &step);
    start->failure = -result;
    start->step = step;
    __atomic_store_n(&start->ready, result < 0 ? 2 : 1, __ATOMIC_RELEASE);
    call3(NR_futex, &start->ready, FUTEX_WAKE_, 1);
    if (result >= 0)
        work(&agent);
    call1(NR_exit_group, 0);
    __builtin_unreachable();
}
