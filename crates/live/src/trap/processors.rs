//! Sets of processors, and the least used among them.

use crate::tracing::sys::{self, Pid, number};
use std::io;

/// A set of up to 8,192 processors.
#[derive(Clone, PartialEq, Eq)]
pub struct Processors([u64; WORDS]);

const WORDS: usize = 128;

impl Processors {
    /// One processor.
    pub fn one(processor: usize) -> Processors {
        let mut words = [0; WORDS];
        words[processor / 64] = 1 << (processor % 64);
        Processors(words)
    }

    /// Those that a thread may run on.
    pub fn of(pid: Pid) -> io::Result<Processors> {
        let mut words = [0u64; WORDS];
        let bytes = size_of_val(&words) as u64;
        // SAFETY: up to `bytes` bytes are written to a local of that size.
        unsafe {
            sys::call(number::SCHED_GETAFFINITY, [pid as u64, bytes, words.as_mut_ptr() as u64, 0, 0, 0])
        }?;
        Ok(Processors(words))
    }

    /// Restricts a thread to these.
    pub fn set(&self, pid: Pid) -> io::Result<()> {
        let bytes = size_of_val(&self.0) as u64;
        // SAFETY: `bytes` bytes are read from an array of that size.
        unsafe { sys::call(number::SCHED_SETAFFINITY, [pid as u64, bytes, self.0.as_ptr() as u64, 0, 0, 0]) }
            .map(drop)
    }

    /// Their numbers.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..64 * self.0.len()).filter(|&cpu| self.0[cpu / 64] >> (cpu % 64) & 1 == 1)
    }
}

/// The number of images on each processor.
pub struct Balance {
    all: Processors,
    images: Vec<(usize, usize)>,
}

impl Balance {
    /// For the processors that this process may use; none if unknown.
    pub fn new() -> Balance {
        let all = Processors::of(0).unwrap_or(Processors([0; WORDS]));
        let images = all.iter().map(|processor| (processor, 0)).collect();
        Balance { all, images }
    }

    /// Takes the processor with the fewest images among `allowed`.
    pub fn take(&mut self, allowed: &Processors) -> Option<usize> {
        let allowed: Vec<usize> = allowed.iter().collect();
        let mut free = self.images.iter_mut().filter(|(processor, _)| allowed.contains(processor));
        let first = free.next()?;
        let least = free.fold(first, |least, other| if other.1 < least.1 { other } else { least });
        least.1 += 1;
        Some(least.0)
    }

    /// An image leaves its processor.
    pub fn leave(&mut self, processor: usize) {
        if let Some((_, images)) = self.images.iter_mut().find(|(number, _)| *number == processor) {
            *images = images.saturating_sub(1);
        }
    }

    /// All of them.
    pub fn all(&self) -> &Processors {
        &self.all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_numbered() {
        assert_eq!(Processors::one(70).iter().collect::<Vec<_>>(), [70]);
    }

    #[test]
    fn the_emptiest_processor_is_taken() {
        let mut balance = Balance { all: Processors::one(0), images: vec![(0, 1), (3, 0)] };
        assert_eq!(balance.take(&Processors::one(0)), Some(0));
        assert_eq!(balance.take(&Processors::one(3)), Some(3));
        assert_eq!(balance.take(&Processors::one(5)), None);
        balance.leave(0);
        balance.leave(0);
        assert_eq!(balance.images, [(0, 0), (3, 1)]);
    }
}
