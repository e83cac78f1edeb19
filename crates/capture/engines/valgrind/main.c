/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The pagewalk engine: a Valgrind tool that appends every data reference and every executed block of a program to
   a ring in shared memory. This file tells Valgrind's core what the tool wants to know. */

#include "engine.h"
#include "wire.h"

#include "pub_tool_clreq.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_machine.h"
#include "pub_tool_options.h"

#include "include/pagewalk.h"

/* The thread that runs client code now, or NO_THREAD. Only while one does, the cursor and the limit are in its shadow
   guest state, where generated code reaches them with one instruction. */
static ThreadId client_thread = NO_THREAD;

/* ---- threads ---- */

void client_cursor_store(ThreadId thread)
{
   ULong* words[2] = { ring_cursor, ring_limit };
   VG_(set_shadow_regs_area)(thread, 1, SHADOW_CURSOR_AT, sizeof words, (const UChar*)words);
}

void client_cursor_load(ThreadId thread)
{
   VG_(get_shadow_regs_area)(thread, (UChar*)&ring_cursor, 1, SHADOW_CURSOR_AT, sizeof ring_cursor);
}

static void start_client_code(ThreadId thread, ULong blocks_dispatched)
{
   if (native_is_near())
      native_go(thread);
   seen_start(thread);
   waiting_tell_idle();
   event_switch_to(thread);
   client_cursor_store(thread);
   client_thread = thread;
}

static void stop_client_code(ThreadId thread, ULong blocks_dispatched)
{
   client_cursor_load(thread);
   client_thread = NO_THREAD;
   waiting_stopped();
}

static UInt alive;

UInt threads_alive(void)
{
   return alive;
}

static void thread_create(ThreadId parent, ThreadId child)
{
   if (alive++ == 0)
      placement_open_stack(child);
   event_thread_start(child, parent);
}

static void thread_exit(ThreadId thread)
{
   alive--;
   event_thread_end(thread);
}

/* While client code runs, a signal can only be its own fault: all others wait until it has stopped. */
static void pre_deliver_signal(ThreadId thread, Int signal, Bool alternate_stack)
{
   if (client_thread == NO_THREAD)
      return;
   client_cursor_load(thread);
   ring_cursor = blocks_cut_at_fault(ring_cursor, VG_(get_IP)(thread));
   client_cursor_store(thread);
}

/* ---- the beginning and the end of a stream ---- */

static void announce(UInt origin)
{
   ring_open(origin);
   event_forget_thread();
   event_identity();
   maps_announce();
   syscall_announce_thp();
}

static void post_clo_init(void)
{
   limits_after_load();
   roots_hold();
   places_read();
   placement_start();
   waiting_start();
   announce(WIRE_ORIGIN_START);
}

static void fork_child(ThreadId thread)
{
   alive = 1;
   syscall_forget_exits();
   vfork_forget();
   /* Without a reader, the ring is already the child's own. */
   if (ring_socket_path == NULL)
      return;
   ring_leave();
   announce(WIRE_ORIGIN_FORK);
   if (syscall_has_advised())
      maps_announce_advice();
   blocks_replay();
   event_thread_start(thread, NO_THREAD);
}

static void fini(Int status)
{
   event_words(WIRE_EXIT, 1, (ULong[]){ (ULong)(Long)syscall_exit_status() });
   ring_finish();
}

/* ---- requests and options ---- */

static Bool client_request(ThreadId thread, UWord* args, UWord* result)
{
   if (!VG_IS_TOOL_USERREQ('P', 'W', args[0]))
      return False;
   *result = 0;
   if (args[0] != PAGEWALK_REQUEST_MARK)
      return False;
   event_switch_to(thread);
   event_words(WIRE_MARKER, 1, (ULong[]){ args[1] });
   return True;
}

static Bool is_power_of_two(Long value)
{
   return (value & (value - 1)) == 0;
}

static Bool process_option(const HChar* option)
{
   if VG_STR_CLO(option, "--socket", ring_socket_path) {}
   else if VG_STR_CLO(option, "--places", places_path) {}
   else if VG_BINT_CLO(option, "--chunk-bytes", ring_chunk_bytes, 64 * 1024, 16 * 1024 * 1024) {}
   else if VG_BINT_CLO(option, "--chunks", ring_chunks, 2, WIRE_CHUNKS_MAX) {}
   else return False;
   if (!is_power_of_two(ring_chunk_bytes) || !is_power_of_two(ring_chunks))
      VG_(fmsg_bad_option)(option, "must be a power of two\n");
   return True;
}

static void print_usage(void)
{
   VG_(printf)("    --socket=<path>         pagewalk's socket; without it nothing is kept\n"
               "    --places=<path>         where the loader is to map which files [anywhere]\n"
               "    --chunk-bytes=<number>  bytes in a chunk of the ring [65536]\n"
               "    --chunks=<number>       chunks in the ring [8]\n");
}

static void print_debug_usage(void)
{
   VG_(printf)("    (none)\n");
}

static void pre_clo_init(void)
{
   VG_(details_name)("pagewalk");
   VG_(details_version)(NULL);
   VG_(details_description)("the capture engine of pagewalk");
   VG_(details_copyright_author)("the pagewalk authors; GPL-2.0-or-later");
   VG_(details_bug_reports_to)("the pagewalk authors");
   VG_(details_avg_translation_sizeB)(400);

   VG_(basic_tool_funcs)(post_clo_init, instrument, fini);
   VG_(needs_superblock_discards)(blocks_discard);
   VG_(needs_command_line_options)(process_option, print_usage, print_debug_usage);
   VG_(needs_client_requests)(client_request);
   VG_(needs_syscall_wrapper)(syscall_before, syscall_after);

   VG_(track_start_client_code)(start_client_code);
   VG_(track_stop_client_code)(stop_client_code);
   VG_(track_pre_thread_ll_create)(thread_create);
   VG_(track_pre_thread_ll_exit)(thread_exit);
   VG_(track_pre_deliver_signal)(pre_deliver_signal);
   VG_(atfork)(NULL, NULL, fork_child);

   blocks_init();
}

VG_DETERMINE_INTERFACE_VERSION(pre_clo_init)
