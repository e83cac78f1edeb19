//! What a kernel's decisions do to translations.

use crate::Superpage;

/// How pages are mapped otherwise than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remap {
    /// A superpage maps what nothing backed, or is what is left of a larger one.
    Mapped(Superpage),
    /// What was inside is one page now. Translations of its parts are no longer valid.
    Promoted(Superpage),
    /// It is several pages now. Its translation is no longer valid.
    Demoted(Superpage),
    /// It is the same page, on other frames. Its translation is no longer valid.
    Moved(Superpage),
    /// Nothing backs it any more, though the program may touch it again. Its translation is no longer valid.
    Evicted(Superpage),
}

impl Remap {
    /// The block that it is about.
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
