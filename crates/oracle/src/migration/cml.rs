//! The CML buffer as plain lists with times of use, and the policy that reads it or another buffer.

use super::{MigrationModel, Target, TargetChoice, Wishes, part};
use pagewalk_units::Draws;

/// A frame that a buffer counts misses of.
#[derive(Clone, Copy, Debug)]
pub struct Tuple {
    /// The frame.
    pub frame: u64,
    /// The page that it holds, as of the last miss.
    pub page: Option<u64>,
    /// Its misses.
    pub count: u64,
    /// When it missed or was demoted last.
    time: u64,
}

impl Tuple {
    /// A frame's misses.
    pub fn new(frame: u64, page: Option<u64>, count: u64) -> Tuple {
        Tuple { frame, page, count, time: 0 }
    }
}

/// A buffer that counts misses.
pub trait MissList {
    /// A miss. Returns the frame's count.
    fn miss(&mut self, frame: u64, page: Option<u64>) -> u64;

    /// Sets all counters to zero.
    fn clear(&mut self);

    /// Removes the tuple of a frame.
    fn remove(&mut self, frame: u64);

    /// All tuples.
    fn tuples(&self) -> Vec<Tuple>;

    /// Frames and their counts.
    fn counts(&self) -> Vec<(u64, u64)> {
        self.tuples().iter().map(|tuple| (tuple.frame, tuple.count)).collect()
    }
}

/// A segment: a list of slots, and their number.
type Segment = (Vec<Tuple>, usize);

/// The buffer.
#[derive(Clone, Debug)]
pub struct CmlList {
    lru: Segment,
    hot: Segment,
    time: u64,
}

impl CmlList {
    /// A buffer of so many LRU and HOT slots.
    pub fn new(lru: usize, hot: usize) -> CmlList {
        CmlList { lru: (Vec::new(), lru), hot: (Vec::new(), hot), time: 0 }
    }

    /// Swaps the LRU tuple that counted most with the HOT one that counted least, if it counted more. An empty slot
    /// counted nothing.
    fn swap(&mut self) -> bool {
        let best = self.lru.0.iter().copied().max_by_key(|tuple| (tuple.count, tuple.time));
        let Some(best) = best else { return false };
        let (hot, slots) = (&mut self.hot.0, self.hot.1);
        if hot.len() < slots {
            if best.count == 0 {
                return false;
            }
            hot.push(best);
            self.lru.0.retain(|tuple| tuple.frame != best.frame);
            return true;
        }
        let least = hot.iter().map(|tuple| tuple.count).min();
        let Some(slot) = hot.iter().position(|tuple| Some(tuple.count) == least) else { return false };
        if best.count <= hot[slot].count {
            return false;
        }
        self.time += 1;
        let demoted = Tuple { time: self.time, ..hot[slot] };
        hot[slot] = best;
        self.lru.0.retain(|tuple| tuple.frame != best.frame);
        self.lru.0.push(demoted);
        true
    }
}

impl MissList for CmlList {
    fn miss(&mut self, frame: u64, page: Option<u64>) -> u64 {
        self.time += 1;
        let (lru, slots) = (&mut self.lru.0, self.lru.1);
        if !lru.iter().chain(&self.hot.0).any(|tuple| tuple.frame == frame) {
            if lru.len() == slots {
                let oldest = lru.iter().map(|tuple| tuple.time).min().unwrap();
                lru.retain(|tuple| tuple.time != oldest);
            }
            lru.push(Tuple::new(frame, page, 0));
        }
        let tuple = lru.iter_mut().chain(&mut self.hot.0).find(|tuple| tuple.frame == frame).unwrap();
        *tuple = Tuple { page, count: tuple.count + 1, time: self.time, ..*tuple };
        let count = tuple.count;
        while self.swap() {}
        count
    }

    fn clear(&mut self) {
        self.hot.0.iter_mut().chain(&mut self.lru.0).for_each(|tuple| tuple.count = 0);
    }

    fn remove(&mut self, frame: u64) {
        self.lru.0.retain(|tuple| tuple.frame != frame);
        self.hot.0.retain(|tuple| tuple.frame != frame);
    }

    /// HOT by slots, then LRU by time.
    fn tuples(&self) -> Vec<Tuple> {
        let mut recent = self.lru.0.clone();
        recent.sort_by_key(|tuple| tuple.time);
        self.hot.0.iter().copied().chain(recent).collect()
    }
}

/// The policy.
pub struct Cml {
    /// The buffer.
    pub buffer: Box<dyn MissList>,
    /// The colors.
    pub colors: u64,
    /// Misses above which a page competes.
    pub recolor_above: u64,
    /// Misses that interrupt.
    pub interrupt_at: u64,
    /// Cycles between clears.
    pub clear_cycles: u64,
    /// Cycles of an interrupt and its analysis.
    pub interrupt_cycles: u64,
    /// Chooses colors.
    pub target: Target,
    /// When the buffer was cleared.
    pub cleared: u64,
}

impl Cml {
    /// A policy with the usual thresholds for pages of so many lines, which is yet to be adapted.
    pub fn new(buffer: Box<dyn MissList>, colors: u64, lines: u64, target: TargetChoice) -> Cml {
        Cml {
            buffer,
            colors,
            recolor_above: lines + 4,
            interrupt_at: lines + 4 + 60,
            clear_cycles: 5_000_000,
            interrupt_cycles: 970,
            target: Target::new(target, Draws::new(0)),
            cleared: 0,
        }
    }
}

impl MigrationModel for Cml {
    fn left_frame(&mut self, page: u64) {
        let stale = self.buffer.tuples().into_iter().filter(|tuple| tuple.page == Some(page));
        stale.for_each(|tuple| self.buffer.remove(tuple.frame));
    }

    fn cache_hit(&mut self, frame: u64) {
        self.target.references.push(frame % self.colors);
    }

    fn cache_missed(&mut self, frame: u64, page: Option<u64>, cycles: u64) -> Wishes {
        self.target.references.push(frame % self.colors);
        if cycles >= self.cleared + self.clear_cycles {
            self.buffer.clear();
            self.target.references.clear();
            self.cleared = cycles;
        }
        if self.buffer.miss(frame, page) != self.interrupt_at {
            return Wishes::default();
        }
        let moves = part(&self.buffer.tuples(), self.recolor_above, self.colors, &mut self.target);
        moves.iter().for_each(|(frame, _)| self.buffer.remove(*frame));
        let moves = moves.into_iter().map(|(_, wish)| wish).collect();
        Wishes { moves, cycles: self.interrupt_cycles, ..Wishes::default() }
    }
}
