/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Events, written at the place in the stream where they happen. Called only while no client code runs. */

#include "engine.h"
#include "wire.h"

#include "pub_tool_clientstate.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_xarray.h"

/* Longer texts are cut, so that every event fits the smallest chunk. */
#define TEXT_BYTES_MAX 4096
#define ARGUMENTS_BYTES_MAX (32 * 1024)

static ThreadId stream_thread = NO_THREAD;

ULong* event_begin(UInt kind, UInt words)
{
   if (ring_cursor + 1 + words > ring_limit)
      ring_next_chunk();
   ULong* payload = ring_cursor + 1;
   *ring_cursor = WIRE_EVENT_HEADER | (ULong)kind << WIRE_EVENT_KIND_SHIFT | words;
   ring_cursor = payload + words;
   return payload;
}

void event_words(UInt kind, UInt count, const ULong* words)
{
   VG_(memcpy)(event_begin(kind, count), words, count * sizeof *words);
}

/* ---- text: its length in bytes, then its bytes, padded to a word ---- */

static UInt text_bytes(const HChar* text)
{
   return VG_(strnlen)(text, TEXT_BYTES_MAX);
}

static UInt text_words(const HChar* text)
{
   return 1 + VG_ROUNDUP(text_bytes(text), sizeof(ULong)) / sizeof(ULong);
}

static ULong* put_text(ULong* to, const HChar* text)
{
   UInt words = text_words(text);
   to[words - 1] = 0;
   to[0] = text_bytes(text);
   VG_(memcpy)(to + 1, text, text_bytes(text));
   return to + words;
}

/* ---- the events that are more than numbers ---- */

void event_identity(void)
{
   const HChar* program = NULL;
   if (!VG_(resolve_filename)(VG_(cl_exec_fd), &program))
      program = VG_(args_the_exename);
   Word given = VG_(sizeXA)(VG_(args_for_client));
   Word sent = 0;
   UInt words = 1 + text_words(program);
   for (; sent < given; sent++) {
      UInt more = text_words(*(HChar**)VG_(indexXA)(VG_(args_for_client), sent));
      if ((words + more) * sizeof(ULong) > ARGUMENTS_BYTES_MAX)
         break;
      words += more;
   }
   ULong* to = event_begin(WIRE_IDENTITY, words);
   *to++ = 1 + sent;
   to = put_text(to, program);
   for (Word i = 0; i < sent; i++)
      to = put_text(to, *(HChar**)VG_(indexXA)(VG_(args_for_client), i));
   if (sent < given)
      event_lost("the last arguments of the program: together they are too long");
}

static UInt log2_of(ULong power)
{
   return power == 0 ? 0 : 63 - __builtin_clzll(power);
}

void event_map(const MapEvent* map, const HChar* path)
{
   ULong* to = event_begin(WIRE_MAP, 4 + text_words(path));
   to[0] = map->start;
   to[1] = map->bytes;
   to[2] = map->protection | map->kind << 8 | log2_of(map->page_bytes) << 16;
   to[3] = map->offset;
   put_text(to + 4, path);
}

void event_exec(const HChar* path)
{
   put_text(event_begin(WIRE_EXEC, text_words(path)), path);
}

void event_lost(const HChar* text)
{
   put_text(event_begin(WIRE_LOST, text_words(text)), text);
}

/* ---- threads ---- */

void event_thread_start(ThreadId thread, ThreadId parent)
{
   event_words(WIRE_THREAD_START, 2, (ULong[]){ thread, parent });
}

void event_thread_end(ThreadId thread)
{
   event_switch_to(thread);
   event_words(WIRE_THREAD_END, 1, (ULong[]){ thread });
}

void event_switch_to(ThreadId thread)
{
   if (thread == stream_thread)
      return;
   stream_thread = thread;
   event_words(WIRE_SWITCH, 1, (ULong[]){ thread });
}

void event_forget_thread(void)
{
   stream_thread = NO_THREAD;
}
