/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The ring: a memfd shared with pagewalk, filled chunk by chunk. WIRE.md describes its layout.

Nothing here may stop the program: without a reader, or after its end, the ring is filled all the same and starts over
when full. */

#include "engine.h"
#include "sys.h"
#include "wire.h"

#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_vki.h"

/* In the core library; no header for tools declares them. */
extern SysRes VG_(am_shared_mmap_file_float_valgrind)(SizeT length, UInt prot, Int fd, Off64T offset);
extern Int VG_(safe_fd)(Int oldfd);

#define PEER_CHECK_MS 100
#define CONNECT_TIMEOUT_S 30

ULong* ring_cursor;
ULong* ring_limit;
const HChar* ring_socket_path;
Long ring_chunk_bytes = 64 * 1024;
Long ring_chunks = 8;

static UChar* ring_base;     /* the header; the chunks follow */
static ULong* chunk_base;    /* first word of the chunk being filled */
static ULong head;           /* number of the chunk being filled */
static Int peer_fd = -1;     /* the connection, or -1: nobody reads */

static ULong* header_word(UInt offset)
{
   return (ULong*)(ring_base + offset);
}

static UInt* header_half(UInt offset)
{
   return (UInt*)(ring_base + offset);
}

static SizeT ring_bytes(void)
{
   return WIRE_HEADER_BYTES + (SizeT)ring_chunk_bytes * (SizeT)ring_chunks;
}

static void enter_chunk(ULong number)
{
   ULong slot = number & ((ULong)ring_chunks - 1);
   head = number;
   chunk_base = (ULong*)(ring_base + WIRE_HEADER_BYTES + slot * (ULong)ring_chunk_bytes);
   ring_cursor = chunk_base;
   ring_limit = chunk_base + (ULong)ring_chunk_bytes / sizeof(ULong) - RING_HEADROOM_WORDS;
}

/* ---- the connection ---- */

static Int socket_connect(void)
{
   Word fd = sys_call3(__NR_socket, VKI_AF_UNIX, SYS_SOCK_SEQPACKET | SYS_SOCK_CLOEXEC, 0);
   if (sys_failed(fd))
      return -1;
   /* A reader that does not accept must not block the program forever. */
   struct vki_timeval patience = { .tv_sec = CONNECT_TIMEOUT_S, .tv_usec = 0 };
   sys_call6(__NR_setsockopt, fd, VKI_SOL_SOCKET, SYS_SO_SNDTIMEO, (UWord)&patience, sizeof patience, 0);
   if (roots_connect(fd, ring_socket_path) < 0) {
      VG_(close)(fd);
      return -1;
   }
   /* Among the descriptors that Valgrind hides from the program, and close-on-exec. */
   return VG_(safe_fd)(fd);
}

static Bool send_ring(Int socket, Int memfd, UInt origin)
{
   ULong hello[5] = { WIRE_MAGIC, WIRE_VERSION, VG_(getpid)(), VG_(getppid)(), origin };
   struct vki_iovec part = { .iov_base = hello, .iov_len = sizeof hello };
   struct {
      struct vki_cmsghdr header;
      Int fd;
      Int padding;
   } control = {
      .header = { .cmsg_len = sizeof(struct vki_cmsghdr) + sizeof(Int), .cmsg_level = VKI_SOL_SOCKET,
                  .cmsg_type = VKI_SCM_RIGHTS },
      .fd = memfd,
   };
   struct vki_msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control,
   };
   return !sys_failed(sys_call3(__NR_sendmsg, socket, (UWord)&message, SYS_MSG_NOSIGNAL));
}

/* Whether the other end is gone. pagewalk never writes to the connection, so readable means closed. */
static Bool peer_is_gone(void)
{
   struct vki_pollfd watch = { .fd = peer_fd, .events = VKI_POLLIN, .revents = 0 };
   SysRes ready = VG_(poll)(&watch, 1, 0);
   return sr_isError(ready) || sr_Res(ready) != 0;
}

static void drop_peer(void)
{
   VG_(close)(peer_fd);
   peer_fd = -1;
   VG_(umsg)("pagewalk is gone: the program goes on untraced\n");
}

/* ---- opening and leaving ---- */

static Bool is_too_long;   /* exceeds the limit on file length */

static Bool size_file(Int memfd)
{
   is_too_long = !limits_begin_file(ring_bytes());
   Bool done = !is_too_long && !sys_failed(sys_call3(__NR_ftruncate, memfd, ring_bytes(), 0));
   limits_end_file();
   return done;
}

/* Reports why nothing is captured. */
static void tell_no_stream(void)
{
   if (is_too_long)
      VG_(umsg)("the limit on the length of files (ulimit -f, RLIMIT_FSIZE) is below the %lu bytes that a stream to pagewalk "
                "needs: the program goes on untraced\n", ring_bytes());
   else
      VG_(umsg)("no stream to pagewalk at %s: the program goes on untraced\n", ring_socket_path);
}

static Bool open_shared(UInt origin)
{
   Word memfd = sys_call3(__NR_memfd_create, (UWord)"pagewalk-ring", SYS_MFD_CLOEXEC | SYS_MFD_ALLOW_SEALING, 0);
   if (sys_failed(memfd))
      return False;
   Bool done = False;
   if (size_file(memfd)) {
      SysRes map = VG_(am_shared_mmap_file_float_valgrind)(ring_bytes(), VKI_PROT_READ | VKI_PROT_WRITE, memfd, 0);
      if (!sr_isError(map)) {
         ring_base = (UChar*)sr_Res(map);
         *header_word(WIRE_MAGIC_AT) = WIRE_MAGIC;
         *header_word(WIRE_VERSION_AT) = WIRE_VERSION;
         *header_word(WIRE_CHUNK_BYTES_AT) = ring_chunk_bytes;
         *header_word(WIRE_CHUNKS_AT) = ring_chunks;
         peer_fd = socket_connect();
         done = peer_fd >= 0 && send_ring(peer_fd, memfd, origin);
         if (!done)
            ring_leave();
      }
   }
   VG_(close)(memfd);
   return done;
}

void ring_open(UInt origin)
{
   if (ring_socket_path == NULL || !open_shared(origin)) {
      if (ring_socket_path != NULL)
         tell_no_stream();
      ring_base = VG_(am_shadow_alloc)(ring_bytes());
      if (ring_base == NULL)
         VG_(out_of_memory_NORETURN)("pagewalk ring", ring_bytes());
   }
   enter_chunk(0);
}

void ring_leave(void)
{
   if (peer_fd >= 0)
      VG_(close)(peer_fd);
   peer_fd = -1;
   VG_(am_munmap_valgrind)((Addr)ring_base, ring_bytes());
   ring_base = NULL;
}

/* ---- filling ---- */

/* Wakes the sleeper on this futex if it waits for at most this many complete chunks. */
static void wake(UInt futex_at, UInt sleeps_at, ULong complete)
{
   __atomic_add_fetch(header_half(futex_at), 1, __ATOMIC_SEQ_CST);
   UInt wanted = __atomic_load_n(header_half(sleeps_at), __ATOMIC_SEQ_CST);
   if (wanted != 0 && complete >= wanted)
      sys_call3(__NR_futex, (UWord)header_half(futex_at), SYS_FUTEX_WAKE, 1);
}

static void wake_readers(ULong complete)
{
   wake(WIRE_HEAD_WAKE_AT, WIRE_READER_SLEEPS_AT, complete);
   wake(WIRE_HELP_WAKE_AT, WIRE_HELPER_SLEEPS_AT, complete);
}

/* Complete unread chunks. */
static ULong chunks_complete(void)
{
   return head - __atomic_load_n(header_word(WIRE_TAIL_AT), __ATOMIC_ACQUIRE);
}

static Bool chunk_is_free(void)
{
   return chunks_complete() < (ULong)ring_chunks;
}

/* Sleeps until the reader advances, or for PEER_CHECK_MS. */
static void await_reader(void)
{
   struct vki_timespec patience = { .tv_sec = 0, .tv_nsec = PEER_CHECK_MS * 1000000 };
   UInt seen = __atomic_load_n(header_half(WIRE_TAIL_WAKE_AT), __ATOMIC_SEQ_CST);
   __atomic_store_n(header_half(WIRE_WRITER_SLEEPS_AT), 1, __ATOMIC_SEQ_CST);
   Word result = 0;
   if (!chunk_is_free())
      result = sys_call6(__NR_futex, (UWord)header_half(WIRE_TAIL_WAKE_AT), SYS_FUTEX_WAIT, seen, (UWord)&patience, 0, 0);
   __atomic_store_n(header_half(WIRE_WRITER_SLEEPS_AT), 0, __ATOMIC_SEQ_CST);
   if (result == -SYS_ETIMEDOUT && peer_is_gone())
      drop_peer();
}

const ULong* ring_chunk_start(void)
{
   return chunk_base;
}

void ring_next_chunk(void)
{
   if (peer_fd >= 0) {
      UInt slot = head & ((ULong)ring_chunks - 1);
      __atomic_store_n(header_word(WIRE_PARTIAL_AT), 0, __ATOMIC_RELEASE);
      header_half(WIRE_CHUNK_SIZES_AT)[slot] = (ring_cursor - chunk_base) * sizeof(ULong);
      __atomic_store_n(header_word(WIRE_HEAD_AT), head + 1, __ATOMIC_RELEASE);
      wake_readers(chunks_complete() + 1);
   }
   enter_chunk(head + 1);
   while (peer_fd >= 0 && !chunk_is_free()) {
      waiting_forget();
      await_reader();
   }
}

void ring_publish(void)
{
   if (peer_fd >= 0)
      __atomic_store_n(header_word(WIRE_PARTIAL_AT), (ring_cursor - chunk_base) * sizeof(ULong), __ATOMIC_RELEASE);
}

void ring_finish(void)
{
   if (peer_fd < 0)
      return;
   ring_publish();
   __atomic_store_n(header_word(WIRE_DONE_AT), 1, __ATOMIC_RELEASE);
   wake_readers(ring_chunks);
}
