/* Definitions shared by the agent and pagewalk. src/trap/shared.rs has them in Rust; its tests compare the sizes. */
#ifndef PAGEWALK_SHARED_H
#define PAGEWALK_SHARED_H

typedef unsigned char u8;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long u64;
typedef long s64;

/* The agent's place in every program: far from Linux's choices, below the mappings and above the program. */
#define TEXT_BASE 0x6a5000000000ul
#define TEXT_BYTES 0x4000ul
#define STACK_BASE (TEXT_BASE + TEXT_BYTES)
#define STACK_BYTES 0x8000ul
#define CONTROL_BASE (TEXT_BASE + 0x100000ul)
#define ARRAY_BASE (TEXT_BASE + 0x100000000ul)

/* The agent's file descriptors: it has no others. */
enum { FAULTS = 0, MEMORY = 1, CONTROL = 2, COMMANDS = 3, COMMANDS_IN = 4, REPLIES_OUT = 5, REPLIES = 6 };

enum { REPLACE_FIFO = 0, REPLACE_RANDOM = 1 };
enum { INDEX_MODULO = 0, INDEX_XOR_FOLD = 1, INDEX_XOR = 2 };

/* At STACK_BASE, written by pagewalk before the agent starts. */
struct start {
    u64 sets, ways;
    u64 replacement, seed;
    u64 index, index_bits;
    u64 log_entries; /* a power of two; 0: no log */
    u64 reserved;
    /* Written by the agent. */
    s32 agent;    /* its process id */
    u32 ready;    /* 0 not yet, 1 yes, 2 failed */
    s64 failure;  /* the error number of the step that failed */
    s64 step;     /* which one: enum step */
};

enum step { STEP_CLONE = 1, STEP_USERFAULTFD, STEP_API, STEP_MEMORY, STEP_CONTROL, STEP_PIPES, STEP_ARRAY, STEP_KILLED };

/* At the start of the control file; the log follows at CONTROL_HEADER. */
struct control {
    u64 misses;
    u64 evictions;
    u64 refills;  /* faults on pages that the array holds: not misses */
    u64 zeroed;   /* misses that touched their page for the first time */
    u64 foreign;  /* faults on memory that was gone when they were served */
    u64 forgotten;
    u64 log_head; /* entries written */
    u64 log_tail; /* entries read */
};
#define CONTROL_HEADER 4096ul

/* One entry of the log: what was decided. */
struct entry {
    u64 what_and_page; /* enum decision << 60 | page number */
    u64 victim;        /* page number; NO_PAGE */
};
enum decision { LOG_MISS = 1, LOG_FORGET = 2 };
#define NO_PAGE (~0ul)

/* Commands, each answered by a number: a result, or an error number below 0. */
struct command {
    u64 what; /* enum order */
    u64 number;
    u64 arguments[6];
};
enum order {
    ORDER_CALL = 1,     /* the system call `number` */
    ORDER_REGISTER = 2, /* make [0], [0]+[1] fault, and nothing of it present */
    ORDER_FORGET = 3,   /* drop [0], [0]+[1] from the array, and wake who waits there */
    ORDER_FREEZE = 4,   /* make every page absent and serve no fault until the thaw */
    ORDER_THAW = 5,
    ORDER_KEEP = 6,     /* make the page of [0] present, and leave it so, whatever the array says */
    ORDER_RELEASE = 7,  /* undo that */
    ORDER_ATTACHED = 8, /* pagewalk has opened the pipes */
};

/* Most pages kept present at one time. */
#define KEPT_MAX 1024ul

#endif
