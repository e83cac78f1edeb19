//! Dinero's traditional `din` text, as the importer of that name reads it: a label and a hexadecimal address on each
//! line.
//!
//! An address stands for the word of 4 bytes around it. So a reference that crosses into other pages has a line for
//! each page: TLBs see the same pages.

use super::instructions::{accesses, each_instruction, places};
use super::omissions::Omission;
use super::{Encoder, Exporter, Omissions, Out};
use pagewalk_trace::Batch;
use pagewalk_units::Kind;
use std::io::{self, Write};

/// Bytes of a word.
const WORD_BYTES: u64 = 4;

/// The format, for the registry.
pub(super) const FORMAT: Exporter = Exporter {
    name: "din",
    about: "Dinero's `din` text: `LABEL ADDRESS`",
    begin: |_, out| Ok(Box::new(Din { out })),
};

struct Din {
    out: Out,
}

impl Din {
    /// Writes what moves `bytes` at `address`.
    fn write(&mut self, kind: Kind, address: u64, bytes: u64, omissions: &mut Omissions) -> io::Result<()> {
        let accesses = accesses(kind);
        omissions.add(Omission::Modifies, u64::from(accesses.len() > 1));
        omissions.add(Omission::Crossings, u64::from(places(address, bytes).count() > 1));
        omissions.add(Omission::Sizes, u64::from(bytes != WORD_BYTES || !address.is_multiple_of(WORD_BYTES)));
        for access in accesses {
            let label = match access {
                Kind::Load => 0,
                Kind::Store | Kind::Modify => 1,
                Kind::Fetch => 2,
            };
            places(address, bytes).try_for_each(|place| writeln!(self.out, "{label} {place:x}"))?;
        }
        Ok(())
    }
}

impl Encoder for Din {
    fn batch(&mut self, batch: &Batch<'_>, omissions: &mut Omissions) -> io::Result<()> {
        each_instruction(batch, |executed| {
            if let Some(fetched) = executed.instruction {
                self.write(Kind::Fetch, fetched.address.0, fetched.length.into(), omissions)?;
            }
            executed.references.iter().try_for_each(|reference| {
                let bytes = reference.size().bytes().into();
                self.write(reference.kind(), reference.address().0, bytes, omissions)
            })
        })
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        self.out.finish()
    }
}
