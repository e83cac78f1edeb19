//! A small deterministic mutator: the usual ways to damage a file.

/// Makes inputs from seeds, deterministically.
pub struct Mutator<'a> {
    seeds: &'a [Vec<u8>],
    state: u64,
}

/// Bytes at the boundaries of integers.
const EDGES: [u8; 6] = [0, 1, 0x7f, 0x80, 0xfe, 0xff];
/// Text that matters to parsers.
const TOKENS: [&str; 8] = ["\n", "\"", "-1", "18446744073709551616", "[[", "]]", " = ", "\u{fffd}"];

impl<'a> Mutator<'a> {
    pub fn new(seeds: &'a [Vec<u8>]) -> Mutator<'a> {
        Mutator { seeds, state: 0x9e37_79b9_7f4a_7c15 }
    }

    /// A number below `end`, which is above 0 (xorshift, Marsaglia 2003).
    fn below(&mut self, end: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state % end as u64) as usize
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// A seed with one to six kinds of damage.
    pub fn next_input(&mut self) -> Vec<u8> {
        let seed = self.below(self.seeds.len());
        let mut input = self.seeds[seed].clone();
        for _ in 0..=self.below(6) {
            self.damage(&mut input);
        }
        input
    }

    fn damage(&mut self, input: &mut Vec<u8>) {
        if input.is_empty() {
            let byte = self.below(256) as u8;
            return input.push(byte);
        }
        let at = self.below(input.len());
        let end = (at + 1 + self.below(16)).min(input.len());
        match self.below(9) {
            0 => input[at] ^= 1 << self.below(8),
            1 => input[at] = self.below(256) as u8,
            2 => {
                let edge = self.pick(&EDGES);
                input[at..end].fill(edge);
            }
            3 => drop(input.drain(at..end)),
            4 => input.truncate(at),
            5 => {
                let piece = input[at..end].to_vec();
                let to = self.below(input.len() + 1);
                input.splice(to..to, piece);
            }
            6 => {
                let token = self.pick(&TOKENS);
                input.splice(at..at, token.bytes());
            }
            7 => {
                let token = self.pick(&TOKENS);
                input.splice(at..end, token.bytes());
            }
            _ => {
                let other = self.below(self.seeds.len());
                let from = self.below(self.seeds[other].len() + 1);
                input.truncate(at);
                input.extend_from_slice(&self.seeds[other][from..]);
            }
        }
    }
}
