//! Initial states: a memory with an exact number of free blocks of each order, at random places.
//!
//! From the largest order down, each level has *nodes*, aligned blocks of its order, that are free, mixed or used. The
//! free blocks of an order get different parents, mixed nodes of the order above, so that no two are buddies; of the
//! remaining children some are mixed and the others used. If the memory is no multiple of the largest block, its last
//! frames form nodes without a parent or a buddy.
//!
//! The number of mixed nodes of a level decides how far small free blocks spread. There is a least number, computed
//! from the smallest order up, that gives every smaller block its own parent; if that exceeds the number of nodes, the
//! state is impossible. Above it, the number is what a random spread would occupy: F indistinguishable things in S
//! places, all arrangements equally likely, occupy S·F / (S + F − 1) places on average (Feller, "An Introduction to
//! Probability Theory and Its Applications", vol. 1, 1968, section II.5), in integer arithmetic for equal results on
//! all machines. The seed draws the nodes, all choices equally likely.
//!
//! Used frames are allocated singly. Unmovable ones fill randomly drawn page blocks of 2^`unmovable_order` frames until
//! they reach their share, because Linux keeps them together like that (`MIGRATE_UNMOVABLE` page blocks; Gorman and
//! Whitcroft, Ottawa Linux Symposium 2006). Order 0 scatters them singly.
//!
//! Cost: linear in the number of blocks; up to 8 bytes per mixed node while it runs.

use super::bitmap::Bitmap;
use super::sample::Sample;
use super::{Buddy, MemoryError};
use pagewalk_units::Draws;
use std::ops::Range;

/// A memory of `frames` frames with exactly `wanted[order]` free blocks of each order, up to the largest, and all other
/// frames allocated.
pub(super) fn with_free_blocks(frames: u64, wanted: &[u64], draws: &mut Draws) -> Result<Buddy, MemoryError> {
    let max_order = wanted.len() as u32 - 1;
    let least = least_mixed(frames, wanted);
    let (top, blocks) = (wanted.len() - 1, frames >> max_order);
    let free = wanted
        .iter()
        .zip(0..)
        .fold(0, |sum: u64, (&n, order)| sum.saturating_add(n.saturating_mul(1 << order)));
    let needed = wanted[top].saturating_add(least[top]);
    if needed > blocks {
        return Err(MemoryError::NoRoom { frames, free, needed, blocks, max_order });
    }
    let mut buddy = Buddy::full(frames, max_order);
    let mut mixed = Vec::new();
    let mut below = wanted.iter().sum();
    for order in (0..=max_order).rev() {
        let (at, wanted) = (order as usize, wanted[order as usize]);
        let roots = roots(frames, order, max_order);
        let mut rest = free_some(&mut buddy, order, wanted, &mixed, roots, draws);
        below -= wanted;
        let mixed_nodes = spread(rest.len() as u64, below).max(least[at]);
        let mut sample = Sample { wanted: mixed_nodes, from: rest.len() as u64 };
        rest.retain(|_| sample.takes(draws));
        mixed = rest;
    }
    Ok(buddy)
}

/// For each order, the least number of mixed nodes that gives every smaller free block its own parent.
fn least_mixed(frames: u64, wanted: &[u64]) -> Vec<u64> {
    let top = wanted.len() - 1;
    let mut least = vec![0_u64; wanted.len()];
    for order in 0..top {
        let roots = frames >> order & 1;
        // Each parent and each root has at most one free block; the other children hold the mixed nodes.
        let children = wanted[order].saturating_add(least[order]);
        let holders = wanted[order].saturating_sub(roots);
        least[order + 1] = holders.max(children.saturating_sub(roots).div_ceil(2));
    }
    least
}

/// The nodes of an order without a parent: all of the largest order, and at most one of another, at the end.
fn roots(frames: u64, order: u32, max_order: u32) -> Range<u64> {
    let nodes = frames >> order;
    if order == max_order { 0..nodes } else { nodes - (nodes & 1)..nodes }
}

/// Places that `things` occupy on average, at least 1 and at most `places`.
fn spread(places: u64, things: u64) -> u64 {
    if places == 0 || things == 0 {
        return 0;
    }
    (u128::from(places) * u128::from(things) / (u128::from(places) + u128::from(things) - 1)) as u64
}

/// Frees `wanted` nodes of an order, at most one under each parent; returns the other nodes, ascending.
fn free_some(
    buddy: &mut Buddy,
    order: u32,
    wanted: u64,
    parents: &[u32],
    roots: Range<u64>,
    draws: &mut Draws,
) -> Vec<u32> {
    let mut sample = Sample { wanted, from: parents.len() as u64 + (roots.end - roots.start) };
    let mut rest = Vec::new();
    let mut free = |node: u64| {
        let first = node << order;
        buddy.used[0].remove_range(first..first + (1 << order));
        buddy.put_free(first, order);
    };
    for &parent in parents {
        if sample.takes(draws) {
            let upper = draws.below(2) as u32;
            free(u64::from(2 * parent + upper));
            rest.push(2 * parent + 1 - upper);
        } else {
            rest.extend([2 * parent, 2 * parent + 1]);
        }
    }
    for root in roots {
        if sample.takes(draws) { free(root) } else { rest.push(root as u32) }
    }
    rest
}

/// Makes a share of the singly allocated frames unmovable.
pub(super) fn pin_share(buddy: &mut Buddy, share: f64, order: u32, draws: &mut Draws) {
    let mut missing = (share * buddy.used_frames() as f64).round() as u64;
    let mut page_blocks: Vec<u32> = (0..buddy.frames().div_ceil(1 << order) as u32).collect();
    draws.shuffle(&mut page_blocks);
    let mut unmovable = Bitmap::new(buddy.frames());
    for page_block in page_blocks {
        if missing == 0 {
            break;
        }
        let first = u64::from(page_block) << order;
        let frames = first..buddy.frames().min(first + (1 << order));
        for frame in buddy.used[0].members(frames).take(missing as usize) {
            unmovable.insert(frame);
            missing -= 1;
        }
    }
    buddy.unmovable = unmovable;
}
