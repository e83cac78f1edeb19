/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Marks for pagewalk: include this and write PAGEWALK_MARK(1) where a region of interest begins, PAGEWALK_MARK(2)
   where it ends; then `pagewalk profile --from-marker 1 --to-marker 2`. Without pagewalk a mark does nothing and costs
   about a nanosecond. Licensed apart from the engine, so that any program may include it. x86-64, GCC and Clang. */

#ifndef PAGEWALK_H
#define PAGEWALK_H

#define PAGEWALK_REQUEST_MARK 0x50570000u

#if defined(__x86_64__) && defined(__GNUC__)
/* The four rotations add up to 128 bits and leave %rdi as it was; with the exchange they are the sequence by which
   Valgrind knows a request, whose words %rax points to. */
#define PAGEWALK_MARK(id)                                                                                     \
   do {                                                                                                       \
      volatile unsigned long long pagewalk_request_[6] = { PAGEWALK_REQUEST_MARK, (id), 0, 0, 0, 0 };         \
      unsigned long long pagewalk_result_ = 0;                                                                \
      __asm__ volatile("rolq $3, %%rdi; rolq $13, %%rdi; rolq $61, %%rdi; rolq $51, %%rdi; xchgq %%rbx, %%rbx" \
                       : "+d"(pagewalk_result_)                                                               \
                       : "a"(&pagewalk_request_[0])                                                           \
                       : "cc", "memory");                                                                     \
   } while (0)
#else
#define PAGEWALK_MARK(id) ((void)(id))
#endif

#endif
