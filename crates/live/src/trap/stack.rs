//! The first stack of a program that has not begun.
//!
//! The kernel puts the texts of arguments and environment at the top, and the table of pointers to them right below, in
//! the same page as a rule. The texts must stay memory that needs no fault: others read them through `/proc`, which
//! does not wait for one. So the table moves down to pages of its own, where the program's frames follow it.

use super::space::PAGE;
use crate::tracing::maps;
use crate::tracing::sys::{self, Pid, Registers};
use std::io;
use std::os::unix::fs::FileExt;

/// Words of the table that are looked at: more than the kernel lets arguments and environment have.
const WORDS_MAX: u64 = 1 << 21;

/// Moves the table of pointers below the page in which the texts begin. Returns the new stack pointer and the address
/// of that page.
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
        // It lies below by itself.
        return Ok((registers.rsp, texts));
    }
    memory.write_all_at(&table, pointer)?;
    sys::set_registers(pid, &Registers { rsp: pointer, ..registers })?;
    Ok((pointer, texts))
}

/// Words of the table: the number of arguments, these, a zero, the environment, a zero, pairs of the auxiliary vector
/// up to a pair that begins with zero.
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
