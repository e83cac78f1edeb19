/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Waiting: time without any running thread, and threads that wait by spinning.

Under Valgrind, threads run one at a time, each for a slice of 100,000 blocks. A thread that spins until another one
writes would use up its slice: milliseconds where it waits for nanoseconds natively. So a thread that has only loaded
the same words from memory for a quarter of a chunk yields the rest of its slice, and the spinning is reported. */

#include "engine.h"
#include "sys.h"
#include "wire.h"

#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_machine.h"
#include "pub_tool_vki.h"

/* ---- idle time ---- */

/* Longer than the kernel delays a runnable thread, which is no sleep of the program. */
#define IDLE_NS_MIN 20000000ULL
/* Fewer cycles than IDLE_NS_MIN takes on any processor. */
#define IDLE_CYCLES_MIN 8000000ULL

typedef struct {
   ULong cycles;
   ULong ns;
} Instant;

static Instant origin;
static ULong stopped_at;   /* cycles, when client code last stopped; 0: that does not count */

static ULong cycles(void)
{
   return __builtin_ia32_rdtsc();
}

static Instant now(void)
{
   ULong time[2] = { 0, 0 };
   sys_call3(__NR_clock_gettime, SYS_CLOCK_MONOTONIC, (UWord)time, 0);
   return (Instant){ cycles(), time[0] * 1000000000ULL + time[1] };
}

void waiting_start(void)
{
   origin = now();
}

void waiting_stopped(void)
{
   stopped_at = cycles();
}

void waiting_forget(void)
{
   stopped_at = 0;
}

void waiting_tell_idle(void)
{
   ULong idle = stopped_at == 0 ? 0 : cycles() - stopped_at;
   if (idle < IDLE_CYCLES_MIN)
      return;
   Instant here = now();
   ULong ns = (unsigned __int128)idle * (here.ns - origin.ns) / (here.cycles - origin.cycles);
   if (ns >= IDLE_NS_MIN)
      event_words(WIRE_IDLE, 1, (ULong[]){ ns });
}

/* ---- spinning ---- */

#define PERIOD_WORDS_MAX 64

static Bool is_header(ULong word)
{
   return word >> 63 != 0;
}

static Bool is_block(ULong word)
{
   return (word & WIRE_BLOCK_HEADER) == WIRE_BLOCK_HEADER;
}

/* The length, in words, of the shortest sequence at the end of [start, end) that also precedes itself: one round of a
   loop with the same addresses each time. 0: there is none. */
static UWord find_period(const ULong* start, const ULong* end)
{
   const ULong* last = end;
   while (last > start && !is_header(*--last)) {}
   for (const ULong* before = last - 1; before > start && last - before <= PERIOD_WORDS_MAX; before--)
      if (*before == *last)
         return last - before;
   return 0;
}

/* How many words at the end of [start, end) repeat with this period. */
static UWord repeated_words(const ULong* start, const ULong* end, UWord period)
{
   const ULong* at = end;
   while (at - period > start && at[-1] == at[-1 - (Word)period])
      at--;
   return end - at;
}

/* Whether a round waits for another thread's write: it only loads, and some of it from writable memory. */
static Bool is_wait(const ULong* round, UWord period)
{
   Bool sees_others = False;
   for (UWord i = 0; i < period; i++) {
      if (!is_header(round[i])) {
         const NSegment* segment = VG_(am_find_nsegment)(round[i]);
         sees_others |= segment != NULL && segment->hasW;
         continue;
      }
      UWord slots = 0;
      while (i + slots + 1 < period && !is_header(round[i + slots + 1]))
         slots++;
      if (!is_block(round[i]) || !blocks_only_load(round[i] & WIRE_BLOCK_NUMBER_MASK, slots))
         return False;
   }
   return sees_others;
}

Spin waiting_find_spin(const ULong* start, const ULong* end)
{
   Spin spin = { 0 };
   if (threads_alive() < 2)
      return spin;
   UWord period = find_period(start, end);
   UWord words = period == 0 ? 0 : repeated_words(start, end, period);
   if (words < (UWord)(end - start) / 4 || words < 2 * period)
      return spin;
   /* From a header to the next one like it. */
   const ULong* round = end - words;
   while (!is_header(*round))
      round++;
   if (!is_wait(round, period))
      return spin;
   for (UWord i = 0; i < period && spin.blocks < SPIN_BLOCKS_MAX; i++)
      if (is_header(round[i]))
         spin.numbers[spin.blocks++] = round[i] & WIRE_BLOCK_NUMBER_MASK;
   spin.rounds = words / period;
   return spin;
}

void waiting_tell_spin(ThreadId thread, const Spin* spin)
{
   static const UInt last_block = 0;
   if (spin->rounds == 0)
      return;
   for (UInt i = 0; i < spin->blocks; i++)
      event_words(WIRE_SPIN, 2, (ULong[]){ spin->numbers[i], spin->rounds });
   /* The number of blocks that the core lets it run. */
   VG_(set_shadow_regs_area)(thread, 0, offsetof(VexGuestAMD64State, host_EvC_COUNTER), sizeof last_block,
                             (const UChar*)&last_block);
}
