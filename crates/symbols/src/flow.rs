//! Determines the code of a label without size and without an unwind entry: what control flow reaches from it without
//! calls.
//!
//! Some jump targets are unknown: code reached only by a jump through a register or memory is left out. So code may
//! stay without a name, but never gets a wrong one.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};
use std::collections::BTreeMap;
use std::ops::Range;

/// Most instructions to examine for one label.
const INSTRUCTIONS_MAX: usize = 1 << 16;

/// The bytes of `within` that control flow reaches from its start, as ascending, non-adjacent ranges. `code` is their
/// content.
pub(crate) fn reached(code: &[u8], within: Range<u64>) -> Vec<Range<u64>> {
    let mut runs: BTreeMap<u64, u64> = BTreeMap::new();
    let mut open = vec![within.start];
    let mut left = INSTRUCTIONS_MAX;
    while let Some(at) = open.pop() {
        if !within.contains(&at) || holds(&runs, at) {
            continue;
        }
        let skipped = (at - within.start) as usize;
        let Some(bytes) = code.get(skipped..) else { continue };
        let end = follow(bytes, at, within.end, &runs, &mut left, &mut open);
        if end > at {
            runs.insert(at, end);
        }
    }
    joined(runs)
}

/// Follows instructions from `at` until control flow ends or meets known code; returns the end, and adds jump targets
/// to `open`.
fn follow(
    bytes: &[u8],
    at: u64,
    limit: u64,
    known: &BTreeMap<u64, u64>,
    left: &mut usize,
    open: &mut Vec<u64>,
) -> u64 {
    let next_known = known.range(at..).next().map_or(limit, |(&start, _)| start.min(limit));
    let mut decoder = Decoder::with_ip(64, bytes, at, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    let mut end = at;
    while end < next_known && decoder.can_decode() && *left > 0 {
        *left -= 1;
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() || instruction.next_ip() > limit {
            break;
        }
        end = instruction.next_ip();
        match instruction.flow_control() {
            FlowControl::Next
            | FlowControl::Call
            | FlowControl::IndirectCall
            | FlowControl::XbeginXabortXend => {}
            FlowControl::ConditionalBranch => open.push(instruction.near_branch_target()),
            FlowControl::UnconditionalBranch => {
                open.push(instruction.near_branch_target());
                break;
            }
            // System calls return.
            FlowControl::Interrupt if instruction.mnemonic() != iced_x86::Mnemonic::Int3 => {}
            FlowControl::Return
            | FlowControl::IndirectBranch
            | FlowControl::Interrupt
            | FlowControl::Exception => break,
        }
    }
    end
}

fn holds(runs: &BTreeMap<u64, u64>, at: u64) -> bool {
    runs.range(..=at).next_back().is_some_and(|(_, &end)| at < end)
}

/// Joins touching and overlapping runs.
fn joined(runs: BTreeMap<u64, u64>) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for (start, end) in runs {
        match ranges.last_mut() {
            Some(last) if start <= last.end => last.end = last.end.max(end),
            _ => ranges.push(start..end),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As starts and ends.
    fn reached_bytes(code: &[u8], within: Range<u64>) -> Vec<(u64, u64)> {
        reached(code, within).into_iter().map(|range| (range.start, range.end)).collect()
    }

    #[test]
    fn code_after_a_return_is_not_reached() {
        // ret; push %rbx; ret
        assert_eq!(reached_bytes(&[0xc3, 0x53, 0xc3], 0x1000..0x1003), [(0x1000, 0x1001)]);
        // Invalid code.
        assert_eq!(reached_bytes(&[0x06, 0x53], 0x1000..0x1002), []);
        assert_eq!(reached_bytes(&[], 0x1000..0x1000), []);
    }

    #[test]
    fn jumps_are_followed_within_the_limits() {
        // 0: je 5; 2: jmp 7; 4: nop; 5: jmp 0; 7: call 5 below; 12: ret; 13: nop
        let code = [0x74, 3, 0xeb, 3, 0x90, 0xeb, 0xf9, 0xe8, 0, 0, 0, 0, 0xc3, 0x90];
        assert_eq!(reached_bytes(&code, 0x1000..0x100e), [(0x1000, 0x1004), (0x1005, 0x100d)]);
        assert_eq!(reached_bytes(&code, 0x1000..0x1007), [(0x1000, 0x1004), (0x1005, 0x1007)]);
        // The target of a jump through a register is unknown; control flow ends at a trap.
        assert_eq!(reached_bytes(&[0xff, 0xe0, 0x90], 0..3), [(0, 2)]);
        assert_eq!(reached_bytes(&[0x0f, 0x0b, 0x90], 0..3), [(0, 2)]);
        assert_eq!(reached_bytes(&[0xcc, 0x90], 0..2), [(0, 1)]);
        // syscall; ret
        assert_eq!(reached_bytes(&[0x0f, 0x05, 0xc3, 0x90], 0..4), [(0, 3)]);
    }

    #[test]
    fn an_instruction_across_the_limit_is_not_within() {
        assert_eq!(reached_bytes(&[0x90, 0xe8, 0, 0, 0, 0], 0..4), [(0, 1)]);
    }
}
