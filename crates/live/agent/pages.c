/* Code around a program's calls of mmap, munmap, mremap and brk under a plan of huge pages.
 *
 * Jumps from the program's own calls lead here (pages_entry.S). The call is made unchanged; then the planned part of
 * its memory is marked for huge pages. The code runs on the caller's stack, takes no lock and keeps its state in the
 * table, so threads, signal handlers and forked copies may all run it at once. */
#include "sys.h"

enum { NR_fstat = 5, NR_munmap = 11, NR_brk = 12, NR_mremap = 25, NR_mincore = 27, NR_seccomp = 317 };
enum { HEAP = 0, ANONYMOUS = 1, FILE_ = 2 };
enum { MAP_ANONYMOUS_ = 0x20, HUGEPAGE = 14, PR_SET_SECCOMP_ = 22 };
#define PAGE 4096ul
#define HUGE (2ul << 20)
/* The distance from the saved words to the caller's top of stack: nine words, and the red zone. */
#define CALLER (9 + 128 / 8)

struct size {
    u64 bytes;
    u64 seen;           /* mappings of this length until now */
    u64 last;           /* the last of them that is planned */
};

/* One range of the plan. */
struct part {
    u64 kind;
    u64 key;            /* anonymous: which size; file: its device */
    u64 number;         /* anonymous: which mapping; file: its number */
    u64 from, to;       /* bytes from the beginning of heap, mapping or file */
    u64 start;          /* where that beginning is now; 0 if it never appeared */
    u64 caller;         /* anonymous: the word on the caller's stack */
    u64 failure;        /* the last error number of a mark */
    u64 marked;         /* bytes, as far as they were marked */
    u64 unmapped;       /* how often it went */
};

struct table {
    u64 heap;           /* where the heap begins */
    u64 shown;          /* the break that the program sees; 0 if it never asked */
    u64 top;            /* the kernel's, which may be higher */
    u64 quiet;          /* whether the program has put a filter on its system calls */
    u64 low;            /* the complement of the lowest address at which an anonymous part ever began */
    u64 high;           /* behind the highest of them */
    u64 sizes;
    u64 parts;
    struct size size[];
};

static struct part *parts_of(struct table *table) {
    return (struct part *)(table->size + table->sizes);
}

static u64 up(u64 bytes, u64 to) {
    return (bytes + to - 1) & -to;
}

static int failed(s64 result) {
    return result < 0 && result >= -4095;
}

/* Marks a part's share of [start, end). */
static void mark(struct table *table, struct part *part, u64 origin, u64 start, u64 end) {
    u64 from = origin + part->from, to = origin + part->to;
    if (from < start)
        from = start;
    if (to > end)
        to = end;
    if (from >= to || table->quiet)
        return;
    s64 result = call3(NR_madvise, from, to - from, HUGEPAGE);
    if (failed(result))
        part->failure = -result;
    else
        part->marked += to - from;
}

/* Raises a word to at least `value`. */
static void raise_to(u64 *word, u64 value) {
    u64 found = __atomic_load_n(word, __ATOMIC_RELAXED);
    while (found < value && !__atomic_compare_exchange_n(word, &found, value, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

/* A part now begins at `start`. Its bounds quickly exclude most unmappings outside the plan's memory. */
static void remember(struct table *table, struct part *part, u64 start) {
    part->start = start;
    raise_to(&table->low, ~(start + part->from));
    raise_to(&table->high, start + part->from + 1);
}

static int is_beside(struct table *table, u64 start, u64 end) {
    return end <= ~table->low || start >= table->high;
}

static void on_anonymous(struct table *table, u64 start, u64 bytes, u64 caller) {
    struct part *part = parts_of(table);
    for (u64 i = 0; i < table->sizes; i++) {
        if (table->size[i].bytes != bytes)
            continue;
        u64 nth = __atomic_add_fetch(&table->size[i].seen, 1, __ATOMIC_RELAXED);
        if (nth > table->size[i].last)
            return;
        for (u64 k = 0; k < table->parts; k++, part++) {
            if (part->kind == ANONYMOUS && part->key == i && part->number == nth) {
                remember(table, part, start);
                part->caller = caller;
                mark(table, part, start, start, start + bytes);
            }
        }
        return;
    }
}

static void on_file(struct table *table, u64 start, u64 bytes, u64 file, u64 offset) {
    u64 stat[18]; /* struct stat: device and number come first */
    struct part *part = parts_of(table);
    int known = 0;
    for (u64 k = 0; k < table->parts; k++, part++) {
        if (part->kind != FILE_ || table->quiet)
            continue;
        if (!known && call2(NR_fstat, (int)file, stat) != 0)
            return;
        known = 1;
        if (part->key == stat[0] && part->number == stat[1] && part->from < offset + bytes && part->to > offset) {
            part->start = start - offset;
            mark(table, part, start - offset, start, start + bytes);
        }
    }
}

static void on_moved(struct table *table, u64 from, u64 to) {
    struct part *part = parts_of(table);
    for (u64 k = 0; k < table->parts; k++, part++)
        if (part->kind == ANONYMOUS && part->start == from)
            remember(table, part, to);
}

static void on_unmap(struct table *table, u64 start, u64 end) {
    if (is_beside(table, start, end))
        return;
    struct part *part = parts_of(table);
    for (u64 k = 0; k < table->parts; k++, part++)
        if (part->kind == ANONYMOUS && part->start && part->start + part->from >= start
            && part->start + part->from < end) {
            part->unmapped++;
            part->start = 0;
        }
}

/* The new break, so that the program has at least `wanted`: inside the plan, in whole huge pages. A huge page is given
 * only to memory that exists as a whole at its first touch, and allocators move the break in small steps. */
static u64 rounded(struct table *table, u64 wanted) {
    struct part *part = parts_of(table);
    u64 offset = wanted - table->heap;
    for (u64 k = 0; k < table->parts; k++, part++) {
        if (part->kind == HEAP && part->from < offset && offset <= part->to) {
            u64 end = up(wanted, HUGE), limit = table->heap + part->to;
            return end < limit ? end : limit > wanted ? limit : wanted;
        }
    }
    return wanted;
}

/* Whether the kernel populates new memory because of `mlockall`: then memory that the program did not request would be
 * locked too, and count against its limit. */
static int is_filled(u64 address) {
    u8 held = 0;
    return call3(NR_mincore, address & -PAGE, PAGE, &held) == 0 && (held & 1);
}

static u64 on_brk(struct table *table, u64 wanted) {
    if (!table->shown)
        table->shown = table->top = call1(NR_brk, 0);
    if (wanted < table->heap || wanted == table->shown)
        return table->shown;
    if (wanted < table->shown) {
        /* The part between the program's break and the kernel's was never touched, and is unmapped too. */
        if ((u64)call1(NR_brk, wanted) == wanted)
            table->shown = table->top = wanted;
        return table->shown;
    }
    if (wanted > table->top) {
        u64 old = table->top, end = table->quiet ? wanted : rounded(table, wanted);
        if ((u64)call1(NR_brk, end) != end) {
            end = wanted;
            if ((u64)call1(NR_brk, end) != end)
                return table->shown;
        }
        if (end > up(wanted, PAGE) && is_filled(end - 1) && (u64)call1(NR_brk, wanted) == wanted)
            end = wanted;
        table->top = end;
        struct part *part = parts_of(table);
        for (u64 k = 0; k < table->parts; k++, part++)
            if (part->kind == HEAP) {
                part->start = table->heap;
                mark(table, part, table->heap & -PAGE, up(old, PAGE), up(end, PAGE));
            }
    }
    table->shown = wanted;
    return wanted;
}

/* The system call of this number with the saved argument registers: r9, r8, r10, rdx, rsi, rdi. */
s64 pages_call(const u64 *saved, u64 number, struct table *table) {
    u64 a = saved[5], b = saved[4], c = saved[3], d = saved[2], e = saved[1], f = saved[0];
    if (number == NR_brk)
        return on_brk(table, a);
    /* From now on an unexpected call could kill it. A process that shares this memory is quiet, too. */
    if (number == NR_seccomp || (number == NR_prctl && a == PR_SET_SECCOMP_))
        table->quiet = 1;
    if (number == NR_munmap)
        on_unmap(table, a, a + up(b, PAGE));
    s64 result = call6(number, a, b, c, d, e, f);
    if (failed(result))
        return result;
    if (number == NR_mremap && (u64)result != a)
        on_moved(table, a, result);
    if (number == NR_mmap) {
        if (d & MAP_ANONYMOUS_)
            on_anonymous(table, result, up(b, PAGE), saved[CALLER]);
        else
            on_file(table, result, up(b, PAGE), e, f);
    }
    return result;
}
