//! Space-Saving as a list of slots and a log of all misses.

use super::cml::{MissList, Tuple};

#[derive(Clone, Debug)]
struct Slot {
    frame: u64,
    /// The page that it holds, as of the last miss.
    page: Option<u64>,
    /// Misses in the log when the frame took the slot.
    since: usize,
    /// The rank of the frame that had the slot before.
    inherited: usize,
}

/// The buffer.
#[derive(Clone, Debug)]
pub struct SpaceSavingList {
    slots: Vec<Slot>,
    most: usize,
    /// Frames that missed since the last clear.
    log: Vec<u64>,
}

impl SpaceSavingList {
    /// A buffer of so many slots.
    pub fn new(most: usize) -> SpaceSavingList {
        SpaceSavingList { slots: Vec::new(), most, log: Vec::new() }
    }

    fn count(&self, slot: &Slot) -> usize {
        self.log[slot.since..].iter().filter(|&&frame| frame == slot.frame).count()
    }

    /// Frames in slots, with the most and the fewest misses that they can have had since the last clear.
    pub fn bounds(&self) -> Vec<(u64, usize, usize)> {
        let bounds = |slot: &Slot| (slot.frame, slot.inherited + self.count(slot), self.count(slot));
        self.slots.iter().map(bounds).collect()
    }

    /// Misses of a frame since the last clear.
    pub fn truth(&self, frame: u64) -> usize {
        self.log.iter().filter(|&&of| of == frame).count()
    }

    /// All misses since the last clear.
    pub fn misses(&self) -> usize {
        self.log.len()
    }
}

impl MissList for SpaceSavingList {
    fn miss(&mut self, frame: u64, page: Option<u64>) -> u64 {
        if !self.slots.iter().any(|slot| slot.frame == frame) {
            let mut slot = Slot { frame, page, since: self.log.len(), inherited: 0 };
            if self.slots.len() < self.most {
                self.slots.push(slot);
            } else {
                let ranks: Vec<usize> = self.bounds().into_iter().map(|(_, most, _)| most).collect();
                slot.inherited = *ranks.iter().min().unwrap();
                let least = ranks.iter().position(|&rank| rank == slot.inherited).unwrap();
                self.slots[least] = slot;
            }
        }
        self.log.push(frame);
        let at = self.slots.iter().position(|slot| slot.frame == frame).unwrap();
        self.slots[at].page = page;
        self.count(&self.slots[at]) as u64
    }

    fn clear(&mut self) {
        self.log.clear();
        for slot in &mut self.slots {
            (slot.since, slot.inherited) = (0, 0);
        }
    }

    fn remove(&mut self, frame: u64) {
        self.slots.retain(|slot| slot.frame != frame);
    }

    fn tuples(&self) -> Vec<Tuple> {
        let tuple = |slot: &Slot| Tuple::new(slot.frame, slot.page, self.count(slot) as u64);
        self.slots.iter().map(tuple).collect()
    }
}
