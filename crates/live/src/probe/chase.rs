//! Chases: dependent loads, each of which yields the next address.

use super::clock::Clock;
use pagewalk_units::Draws;

/// A cycle of pointers through memory, in random order to defeat prefetchers.
#[derive(Debug)]
pub struct Chain {
    nodes: Vec<*mut u8>,
    /// Index of the next node.
    next: usize,
}

impl Chain {
    /// Links nodes into one random cycle: each holds the address of the next.
    ///
    /// # Safety
    /// Each node has 8 writable bytes of its own, and its memory stays mapped while the chain is used.
    pub unsafe fn link(mut nodes: Vec<*mut u8>, draws: &mut Draws) -> Chain {
        for last in (1..nodes.len()).rev() {
            nodes.swap(last, draws.below(last as u64 + 1) as usize);
        }
        // SAFETY: the caller's promise.
        unsafe { Chain::in_order(nodes) }
    }

    /// Links nodes into one cycle in the given order.
    ///
    /// # Safety
    /// As of [`Chain::link`].
    pub unsafe fn in_order(nodes: Vec<*mut u8>) -> Chain {
        for (index, node) in nodes.iter().enumerate() {
            let next = nodes[(index + 1) % nodes.len()];
            // SAFETY: the caller's promise.
            unsafe { node.cast::<u64>().write_volatile(next.expose_provenance() as u64) };
        }
        Chain { nodes, next: 0 }
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Follows the cycle once, to fill caches and TLBs.
    pub fn warm(&self) {
        follow::<1>(&self.places(), self.len().max(8));
    }

    /// Drops every node's line from all caches.
    pub fn flush(&self) {
        for node in &self.nodes {
            // SAFETY: a node, whose memory is mapped; the instruction changes nothing that a program could see.
            unsafe { std::arch::x86_64::_mm_clflush(*node) };
        }
        // SAFETY: waits, and nothing else.
        unsafe { std::arch::x86_64::_mm_mfence() };
    }

    /// Nanoseconds per access: of `steps` dependent loads, with `chains` chains in parallel from distant places of the
    /// cycle. Continues where the last call stopped. `chains` is 1, 2, 4 or 8.
    pub fn time(&mut self, clock: Clock, chains: usize, steps: usize) -> f64 {
        let steps = steps.next_multiple_of(64);
        let elapsed = match chains {
            1 => self.elapsed::<1>(clock, steps),
            2 => self.elapsed::<2>(clock, steps / 2),
            4 => self.elapsed::<4>(clock, steps / 4),
            8 => self.elapsed::<8>(clock, steps / 8),
            other => unreachable!("no figure asks for {other} chains"),
        };
        self.next = (self.next + steps / chains) % self.len();
        elapsed / steps as f64
    }

    fn elapsed<const CHAINS: usize>(&self, clock: Clock, steps: usize) -> f64 {
        let places = self.places::<CHAINS>();
        clock.time(|| follow(&places, steps))
    }

    /// Places spread evenly over the cycle.
    fn places<const CHAINS: usize>(&self) -> [u64; CHAINS] {
        std::array::from_fn(|chain| {
            self.nodes[(self.next + chain * self.len() / CHAINS) % self.len()].addr() as u64
        })
    }
}

/// Follows each chain for `steps` steps.
fn follow<const CHAINS: usize>(places: &[u64; CHAINS], steps: usize) {
    if let [place] = places[..] {
        // SAFETY: a chain's nodes hold addresses of nodes, and stay mapped (`Chain::link`).
        unsafe { follow_one(place, steps) };
        return;
    }
    let mut places = *places;
    for _ in 0..steps {
        for place in &mut places {
            // SAFETY: as above.
            *place = unsafe { std::ptr::with_exposed_provenance::<u64>(*place as usize).read_volatile() };
        }
    }
    std::hint::black_box(places);
}

/// Follows one chain for `steps` steps, rounded up to a multiple of eight, with nothing between the loads.
///
/// # Safety
/// `place` is the address of a node; its memory, and that of all nodes it leads to, is readable.
unsafe fn follow_one(place: u64, steps: usize) {
    // SAFETY: reads nodes alone, as the caller promises.
    unsafe {
        std::arch::asm!(
            "2:",
            "mov {place}, [{place}]", "mov {place}, [{place}]", "mov {place}, [{place}]", "mov {place}, [{place}]",
            "mov {place}, [{place}]", "mov {place}, [{place}]", "mov {place}, [{place}]", "mov {place}, [{place}]",
            "dec {count}",
            "jnz 2b",
            place = inout(reg) place => _,
            count = inout(reg) steps.div_ceil(8).max(1) as u64 => _,
            options(nostack, readonly)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::memory::{BASE, Pages, Space};

    #[test]
    fn a_chain_visits_every_node_once() {
        let space = Space::memory(64 * BASE, Pages::Base).unwrap();
        let nodes: Vec<*mut u8> = (0..64).map(|page| space.start().wrapping_add(page * BASE)).collect();
        // SAFETY: within the space, which outlives the chain.
        let mut chain = unsafe { Chain::link(nodes.clone(), &mut Draws::new(1)) };
        let mut seen = std::collections::HashSet::new();
        let mut at = nodes[0];
        for _ in 0..chain.len() {
            assert!(seen.insert(at.addr()));
            // SAFETY: a node, as the assertion below says of the next one.
            let next = unsafe { at.cast::<u64>().read_volatile() };
            at = *nodes.iter().find(|node| node.addr() as u64 == next).expect("a node");
        }
        assert_eq!((seen.len(), at), (64, nodes[0]));
        let clock = Clock::calibrate();
        for chains in [1, 2, 4, 8] {
            let ns = chain.time(clock, chains, 4096);
            assert!(ns > 0.0 && ns < 1e6, "{chains}: {ns} ns");
        }
    }
}
