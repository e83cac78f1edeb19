//! Effects of a kernel's decisions on translations.

use crate::Superpage;

/// A change of a page's mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remap {
    /// A superpage maps unbacked memory, or remains of a larger one.
    Mapped(Superpage),
    /// A block becomes one page. Translations of its parts are no longer valid.
    Promoted(Superpage),
    /// A superpage becomes several pages. Its translation is no longer valid.
    Demoted(Superpage),
    /// A page moves to other frames. Its translation is no longer valid.
    Moved(Superpage),
    /// A page is no longer backed, though the program may touch it again. Its translation is no longer valid.
    Evicted(Superpage),
}

impl Remap {
    /// Its block.
    pub fn block(self) -> Superpage {
        match self {
            Remap::Mapped(block)
            | Remap::Promoted(block)
            | Remap::Demoted(block)
            | Remap::Moved(block)
            | Remap::Evicted(block) => block,
        }
    }
}
