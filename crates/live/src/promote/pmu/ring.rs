//! The ring buffer of kernel samples: `linux/perf_event.h`.

use memmap2::{MmapOptions, MmapRaw};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a page; the mapping's first page is the kernel's head.
const PAGE: usize = 4096;
/// Pages of samples; a power of two. 64 KiB hold 4,096 addresses.
const PAGES: usize = 16;
/// Offset in the head of the kernel's write position, followed by our read position.
const HEAD: usize = 1024;
const TAIL: usize = 1032;
const LOST: u32 = 2;
const SAMPLE: u32 = 9;
/// Bytes of a record's head: kind (4), misc (2), length (2).
const RECORD: usize = 8;

/// A ring.
#[derive(Debug)]
pub struct Ring(MmapRaw);

/// The drained contents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Addresses of samples.
    pub addresses: Vec<u64>,
    /// Samples lost for lack of room.
    pub lost: u64,
}

impl Ring {
    /// Maps an event's ring.
    ///
    /// # Errors
    /// As the system call's: `EPERM` beyond the memory that this user may lock.
    pub fn of(event: &File) -> io::Result<Ring> {
        MmapOptions::new().len((1 + PAGES) * PAGE).map_raw(event).map(Ring)
    }

    /// Drains the ring.
    pub fn drain(&mut self, contents: &mut Contents) {
        let first = self.0.as_mut_ptr();
        // SAFETY: both words lie in the head, are aligned, and are shared with the kernel, which asks for accesses in
        // this order: acquire what it wrote, release what it may write again.
        let (head, tail) = unsafe {
            (AtomicU64::from_ptr(first.add(HEAD).cast()), AtomicU64::from_ptr(first.add(TAIL).cast()))
        };
        let (from, to) = (tail.load(Ordering::Relaxed), head.load(Ordering::Acquire));
        // SAFETY: the pages of samples follow the head. The kernel writes none of the bytes from tail to head before
        // the tail moves, and those alone are read.
        let bytes = unsafe { std::slice::from_raw_parts(first.add(PAGE), PAGES * PAGE) };
        read(bytes, from, to, contents);
        tail.store(to, Ordering::Release);
    }
}

/// Reads the records from `from` to `to` of a ring whose size is a power of two; positions count up forever. Stops at
/// an invalid record: what follows cannot be delimited.
fn read(ring: &[u8], from: u64, to: u64, contents: &mut Contents) {
    let byte = |position: u64| ring[position as usize & (ring.len() - 1)];
    let word = |position: u64| u64::from_le_bytes(std::array::from_fn(|i| byte(position + i as u64)));
    let mut at = from;
    while to.wrapping_sub(at) >= RECORD as u64 && to.wrapping_sub(at) <= ring.len() as u64 {
        let head = word(at);
        let (kind, bytes) = (head as u32, head >> 48);
        if bytes < RECORD as u64 || bytes > to - at {
            return;
        }
        match kind {
            SAMPLE if bytes >= 16 => contents.addresses.push(word(at + 8)),
            // The event's number comes first.
            LOST if bytes >= 24 => contents.lost += word(at + 16),
            _ => {}
        }
        at += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, words: &[u64]) -> Vec<u8> {
        let head = u64::from(kind) | (8 + 8 * words.len() as u64) << 48;
        [&[head], words].concat().into_iter().flat_map(u64::to_le_bytes).collect()
    }

    #[test]
    fn samples_are_read_around_the_end() {
        let records = [
            record(SAMPLE, &[0x7f00_1234]),
            record(5, &[1, 2, 3]),
            record(LOST, &[77, 40]),
            record(SAMPLE, &[0x7f00_5678]),
        ];
        let bytes = records.concat();
        let mut ring = vec![0xee; 128];
        let from = 1000 * 128 + 88;
        for (i, &byte) in bytes.iter().enumerate() {
            ring[(from + i) % 128] = byte;
        }
        let mut contents = Contents::default();
        read(&ring, from as u64, (from + bytes.len()) as u64, &mut contents);
        assert_eq!(contents, Contents { addresses: vec![0x7f00_1234, 0x7f00_5678], lost: 40 });
    }

    #[test]
    fn what_is_no_record_ends_it() {
        for head in [0, 4 << 48 | 9, 200 << 48 | 9] {
            let mut ring = record(SAMPLE, &[1]);
            ring.extend(u64::to_le_bytes(head));
            ring.resize(64, 0);
            let mut contents = Contents::default();
            read(&ring, 0, 32, &mut contents);
            assert_eq!(contents.addresses, [1], "{head:#x}");
        }
        let mut contents = Contents::default();
        read(&[0; 64], 0, 1 << 40, &mut contents);
        assert_eq!(contents, Contents::default(), "more than there is");
    }
}
