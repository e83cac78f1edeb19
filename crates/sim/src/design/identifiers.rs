//! A machine's few identifiers of address spaces.

use pagewalk_translate::Asid;

/// The address spaces that have a hardware identifier.
#[derive(Clone, Debug)]
pub(crate) struct Identifiers {
    /// The space of each identifier. A machine without identifiers has one slot, for the running space.
    holders: Vec<Option<Asid>>,
    next: usize,
}

impl Identifiers {
    /// `count` identifiers; the first belongs to the first space.
    pub fn new(count: u32) -> Identifiers {
        let mut holders = vec![None; count.max(1) as usize];
        holders[0] = Some(Asid::default());
        Identifiers { next: 1 % holders.len(), holders }
    }

    /// Gives `asid` an identifier if it has none; returns the space that loses it.
    pub fn assign(&mut self, asid: Asid) -> Option<Asid> {
        if self.holders.contains(&Some(asid)) {
            return None;
        }
        let loser = self.holders[self.next].replace(asid);
        self.next = (self.next + 1) % self.holders.len();
        loser
    }
}
