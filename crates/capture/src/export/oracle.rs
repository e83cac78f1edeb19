//! libCacheSim's `oracleGeneral` traces of pages, as the importer `oracle-pages` reads them: a record of 24 bytes for
//! each page of each data reference (`import/oracle.rs` has the layout).
//!
//! A record names its object's next request, which is only known later. So records first go to a temporary file, which
//! is then completed from its end, a piece at a time; what stays in memory is one number for each page. The stream has
//! no clock, and all times are 0.

use super::instructions::places;
use super::omissions::Omission;
use super::{Encoder, Exporter, Omissions, Out};
use pagewalk_trace::Batch;
use pagewalk_units::{Kind, PAGE_BYTES, PAGE_SHIFT};
use rustc_hash::FxHashMap;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};

const RECORD_BYTES: usize = 24;
/// Where a record has its object and the number of the object's next request.
const OBJECT: usize = 4;
const NEXT: usize = 16;
/// There is no next request.
const NEVER: i64 = -1;
/// Records in memory.
const PIECE_RECORDS: u64 = 1 << 16;
/// Most different pages (256 GiB): bounds the memory, to about 2 GB.
const PAGES_MAX: usize = 1 << 26;

/// The format, for the registry.
pub(super) const FORMAT: Exporter = Exporter {
    name: "oracle-pages",
    about: "libCacheSim's oracleGeneral: a request for each 4 KiB page of each data reference",
    begin: |_, out| {
        let records = BufWriter::with_capacity(1 << 18, tempfile::tempfile()?);
        Ok(Box::new(Requests { records, count: 0, out }))
    },
};

struct Requests {
    /// All records so far, without the numbers of next requests.
    records: BufWriter<File>,
    count: u64,
    out: Out,
}

impl Requests {
    fn request(&mut self, page: u64) -> io::Result<()> {
        let mut record = [0; RECORD_BYTES];
        record[OBJECT..OBJECT + 8].copy_from_slice(&page.to_le_bytes());
        record[OBJECT + 8..NEXT].copy_from_slice(&(PAGE_BYTES as u32).to_le_bytes());
        self.count += 1;
        self.records.write_all(&record)
    }
}

impl Encoder for Requests {
    fn batch(&mut self, batch: &Batch<'_>, omissions: &mut Omissions) -> io::Result<()> {
        omissions.add(Omission::Fetches, batch.instructions());
        for reference in batch.refs {
            if reference.kind() == Kind::Fetch {
                omissions.add(Omission::Fetches, 1);
                continue;
            }
            let (first, last) = (reference.vpn(), reference.last_vpn());
            omissions.add(Omission::Crossings, u64::from(first != last));
            for place in places(reference.address().0, reference.size().bytes().into()) {
                self.request(place >> PAGE_SHIFT)?;
            }
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        let Requests { records, count, mut out } = *self;
        let mut records = records.into_inner()?;
        complete(&mut records, count, PAGES_MAX)?;
        records.rewind()?;
        io::copy(&mut records, &mut out)?;
        out.finish()
    }
}

/// Fills in the numbers of next requests, from the last record to the first.
fn complete(records: &mut File, count: u64, pages_max: usize) -> io::Result<()> {
    let mut next_of = FxHashMap::default();
    let mut end = count;
    while end > 0 {
        let first = end.saturating_sub(PIECE_RECORDS);
        let mut piece = vec![0; (end - first) as usize * RECORD_BYTES];
        let place = SeekFrom::Start(first * RECORD_BYTES as u64);
        records.seek(place)?;
        records.read_exact(&mut piece)?;
        let (of_piece, _) = piece.as_chunks_mut::<RECORD_BYTES>();
        for (index, record) in of_piece.iter_mut().enumerate().rev() {
            let mut page = [0; 8];
            page.copy_from_slice(&record[OBJECT..OBJECT + 8]);
            let number = first as i64 + index as i64;
            let next = next_of.insert(page, number).unwrap_or(NEVER);
            record[NEXT..].copy_from_slice(&next.to_le_bytes());
        }
        if next_of.len() > pages_max {
            let why = format!(
                "the trace touches more than {pages_max} pages, and the next request of each is kept"
            );
            return Err(io::Error::other(why));
        }
        records.seek(place)?;
        records.write_all(&piece)?;
        end = first;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_pages_than_memory_is_allowed_for_are_refused() {
        let pages = [1u64, 2, 1, 3].map(|page| [&[0; OBJECT][..], &page.to_le_bytes(), &[0; 12]].concat());
        let mut records = tempfile::tempfile().unwrap();
        records.write_all(&pages.concat()).unwrap();
        complete(&mut records, 4, 3).unwrap();
        let error = complete(&mut records, 4, 2).unwrap_err().to_string();
        assert!(error.starts_with("the trace touches more than 2 pages"), "{error}");
    }
}
