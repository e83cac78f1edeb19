//! ELF files of this host's kind.

use object::Endianness;
use object::read::elf::ElfFile64;

pub(crate) type Elf<'data> = ElfFile64<'data, Endianness>;
