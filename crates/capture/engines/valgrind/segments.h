/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The segments of a program's file (ELF, 64 bits). */

#ifndef PAGEWALK_SEGMENTS_H
#define PAGEWALK_SEGMENTS_H

#include "sys.h"

#include <elf.h>

/* False: truncated. */
static inline Bool read_at(Int file, void* to, SizeT bytes, ULong offset)
{
   return sys_call6(__NR_pread64, file, (UWord)to, bytes, offset, 0, 0) == (Word)bytes;
}

/* False: the program has no such segment. */
static inline Bool read_segment(Int file, const Elf64_Ehdr* header, UInt number, Elf64_Phdr* segment)
{
   return number < header->e_phnum && header->e_phentsize == sizeof *segment
          && read_at(file, segment, sizeof *segment, header->e_phoff + number * sizeof *segment);
}

#endif
