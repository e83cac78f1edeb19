//! Identifiers of address spaces, of which a machine has a few.

use pagewalk_translate::Asid;

/// Which spaces have one of a machine's identifiers.
#[derive(Clone, Debug)]
pub(crate) struct Identifiers {
    /// By identifier. A machine without any has room for the space that runs.
    holders: Vec<Option<Asid>>,
    next: usize,
}

impl Identifiers {
    /// `count` identifiers, the first of which the first space has.
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
