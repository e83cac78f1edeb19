//! The table that the code in a program reads and writes under a plan: what to look for, and what was found. It equals
//! `struct table` of `agent/pages.c`.

use pagewalk_plan::{Plan, What};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

/// Words before the sizes: heap start, break, the kernel's break, quiet, the bounds of planned memory, sizes, parts.
const HEAD: usize = 8;
const QUIET: usize = 3;
/// Words per size: its bytes, its mappings so far, the last of them that is planned.
const SIZE: usize = 3;
/// Words per part.
const PART: usize = 10;
const HEAP: u64 = 0;
const ANONYMOUS: u64 = 1;
const FILE: u64 = 2;

/// A plan as the code reads it.
#[derive(Clone, Debug)]
pub struct PlanTable {
    /// The lengths of anonymous mappings to count.
    sizes: Vec<u64>,
    parts: Vec<[u64; 5]>,
}

/// The code's record of one range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableEntry {
    /// The present address of the heap, the mapping or the file's first byte; 0 if absent.
    pub start: u64,
    /// The return address of the call that mapped it, if the calling function has no frame.
    pub caller: u64,
    /// The last error number of a mark; 0 without one.
    pub failure: u64,
    /// Bytes marked in total.
    pub marked_bytes: u64,
    /// How often it was unmapped.
    pub unmapped: u64,
}

/// The table's contents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableContents {
    /// By range of the plan.
    pub entries: Vec<TableEntry>,
    /// By range: mappings of its length so far; 0 for other ranges.
    pub seen: Vec<u64>,
    /// Whether the program put a filter on its system calls, which ended marking.
    pub quiet: bool,
}

impl PlanTable {
    /// The table for a plan.
    ///
    /// # Errors
    /// If a file of the plan is missing: its name.
    pub fn new(plan: &Plan) -> Result<PlanTable, (String, io::Error)> {
        let mut table = PlanTable { sizes: Vec::new(), parts: Vec::new() };
        for range in &plan.ranges {
            let part = range.what.part();
            let [kind, key, number] = match &range.what {
                What::Heap(_) => [HEAP, 0, 0],
                What::Anonymous { bytes, nth, .. } => [ANONYMOUS, table.size(*bytes), (*nth).into()],
                What::File { file, .. } => {
                    let found = fs::metadata(file).map_err(|error| (file.clone(), error))?;
                    [FILE, found.dev(), found.ino()]
                }
            };
            table.parts.push([kind, key, number, part.from, part.to]);
        }
        Ok(table)
    }

    fn size(&mut self, bytes: u64) -> u64 {
        let position = self.sizes.iter().position(|&size| size == bytes).unwrap_or_else(|| {
            self.sizes.push(bytes);
            self.sizes.len() - 1
        });
        position as u64
    }

    /// The number of the last planned mapping of a length.
    fn last(&self, size: u64) -> u64 {
        let of_size = self.parts.iter().filter(|[kind, key, ..]| (*kind, *key) == (ANONYMOUS, size));
        of_size.map(|[_, _, number, ..]| *number).max().unwrap_or(0)
    }

    /// Its length.
    pub fn bytes(&self) -> u64 {
        8 * (HEAD + SIZE * self.sizes.len() + PART * self.parts.len()) as u64
    }

    /// The table for a new program whose heap begins at `heap`.
    pub fn initial(&self, heap: u64) -> Vec<u8> {
        let mut words = vec![heap, 0, 0, 0, 0, 0, self.sizes.len() as u64, self.parts.len() as u64];
        words.extend(self.sizes.iter().zip(0..).flat_map(|(&size, key)| [size, 0, self.last(key)]));
        words.extend(self.parts.iter().flat_map(|&[a, b, c, d, e]| [a, b, c, d, e, 0, 0, 0, 0, 0]));
        words.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    /// Reads the table of a process.
    ///
    /// # Errors
    /// If the process has ended or become another program.
    pub fn read(&self, memory: &File, address: u64) -> io::Result<TableContents> {
        let mut bytes = vec![0; self.bytes() as usize];
        memory.read_exact_at(&mut bytes, address)?;
        let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let sizes = &words[HEAD..];
        let parts = sizes[SIZE * self.sizes.len()..].as_chunks::<PART>().0;
        let entry = |&[_, _, _, _, _, start, caller, failure, marked_bytes, unmapped]: &[u64; PART]| {
            TableEntry { start, caller, failure, marked_bytes, unmapped }
        };
        let seen =
            |part: &[u64; 5]| if part[0] == ANONYMOUS { sizes[SIZE * part[1] as usize + 1] } else { 0 };
        Ok(TableContents {
            entries: parts.iter().map(entry).collect(),
            seen: self.parts.iter().map(seen).collect(),
            quiet: words[QUIET] != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn what_is_written_is_read_where_the_code_has_it() {
        let text = "schema = \"pagewalk.plan/2\"\n[program]\npath = \"/bin/true\"\n\
                    [[range]]\nwhat = \"heap\"\nfrom = \"0x0\"\nto = \"0x1000\"\n\
                    [[range]]\nwhat = \"anonymous\"\nbytes = \"0x4000\"\nnth = 2\n\
                    [[range]]\nwhat = \"anonymous\"\nbytes = \"0x4000\"\nnth = 1\nfrom = \"0x1000\"\nto = \"0x2000\"\n\
                    [[range]]\nwhat = \"file\"\nfile = \"/\"\noffset = \"0x0\"\nbytes = \"0x1000\"\n";
        let plan = Plan::parse(text, "p").unwrap();
        let table = PlanTable::new(&plan).unwrap();
        let mut bytes = table.initial(0x5000);
        assert_eq!(bytes.len() as u64, table.bytes());
        assert_eq!(bytes[8 * (HEAD + 2)], 2, "the second mapping of the length is planned, no later one");
        let mut set =
            |word: usize, value: u64| bytes[8 * word..8 * word + 8].copy_from_slice(&value.to_le_bytes());
        set(QUIET, 1);
        set(HEAD + 1, 7);
        set(HEAD + SIZE + PART + 5, 0xabc000);
        set(HEAD + SIZE + 2 * PART + 9, 3);
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        let found = table.read(&file, 0).unwrap();
        assert_eq!((found.entries[1].start, found.entries[2].unmapped, found.quiet), (0xabc000, 3, true));
        assert_eq!(found.seen, [0, 7, 7, 0]);
        let missing = Plan::parse(&text.replace("\"/\"", "\"/no/such\""), "p").unwrap();
        assert_eq!(PlanTable::new(&missing).unwrap_err().0, "/no/such");
    }
}
