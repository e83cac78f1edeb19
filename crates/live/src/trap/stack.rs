//! Prepares the first stack of a new program.
//!
//! The kernel puts the texts of arguments and environment at the top, and the table of pointers to them right below,
//! usually in the same page. The texts must stay memory that does not fault: others read them through `/proc`, which
//! does not wait for faults. So the table moves down to pages of its own, followed by the program's frames.

use super::space::PAGE;
use crate::tracing::maps;
use crate::tracing::sys::{self, Pid, Registers};
use std::io;
use std::os::unix::fs::FileExt;

/// Most words of the table: more than the kernel allows for arguments and environment.
const WORDS_MAX: u64 = 1 << 21;

/// Moves the table of pointers below the page where the texts begin. Returns the new stack pointer and that page's
/// address.
pub fn move_down(pid: Pid) -> io::Result<(u64, u64)> {
    let registers = sys::registers(pid)?;
    let texts = maps::arguments_start(pid)? / PAGE * PAGE;
    let memory = maps::memory(pid)?;
    let word = |position: u64| {
        let mut bytes = [0; 8];
        memory.read_exact_at(&mut bytes, registers.rsp + 8 * position).map(|()| u64::from_le_bytes(bytes))
    };
    let mut table = vec![0; 8 * length(word)? as usize];
    memory.read_exact_at(&mut table, registers.rsp)?;
    let pointer = (texts - table.len() as u64) & !15;
    if pointer >= registers.rsp {
        // It already lies below.
        return Ok((registers.rsp, texts));
    }
    memory.write_all_at(&table, pointer)?;
    sys::set_registers(pid, &Registers { rsp: pointer, ..registers })?;
    Ok((pointer, texts))
}

/// Words of the table: the argument count, the arguments, a zero, the environment, a zero, and the auxiliary vector up
/// to a pair that begins with zero.
fn length(word: impl Fn(u64) -> io::Result<u64>) -> io::Result<u64> {
    let mut position = 1 + word(0)?.min(WORDS_MAX) + 1;
    while position < WORDS_MAX && word(position)? != 0 {
        position += 1;
    }
    position += 1;
    while position < WORDS_MAX && word(position)? != 0 {
        position += 2;
    }
    if position < WORDS_MAX { Ok(position + 2) } else { Err(io::Error::other("the stack has no end")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_ends_behind_the_auxiliary_vector() {
        let table = [2, 0x10, 0x20, 0, 0x30, 0, 6, 4096, 25, 0x40, 0, 0, 0x99];
        let found = length(|position| Ok(table[position as usize])).unwrap();
        assert_eq!(found, 12);
        assert_eq!(length(|_| Ok(0)).unwrap(), 5);
        assert!(length(|_| Ok(1)).is_err(), "without an end");
    }
}
