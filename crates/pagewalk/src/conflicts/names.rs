//! Names of pages and functions.

use crate::findings::rebuilt;
use pagewalk_layout::evictions::{ArrayHistory, PageHistory, Row, Side};
use pagewalk_layout::objects::{Owner, Owners};
use pagewalk_symbols::{FileOffset, Symbolizer};
use pagewalk_units::PAGE_BYTES;
use std::collections::HashMap;

/// Functions by file and offset, from this host's files.
pub struct Names {
    symbols: Symbolizer,
    /// Build-ids of the files when they were mapped.
    builds: HashMap<String, String>,
    known: HashMap<(String, u64), Option<String>>,
}

impl Names {
    /// For files as they were mapped.
    pub fn of(owners: &Owners) -> Names {
        let build = |(_, owner): (_, &Owner)| Some((owner.file.clone()?, owner.build_id.clone()?));
        Names {
            symbols: Symbolizer::new(),
            builds: owners.iter().filter_map(build).collect(),
            known: HashMap::new(),
        }
    }

    /// Files whose functions have no names, since the files have been rebuilt.
    pub fn lost(&self) -> impl Iterator<Item = String> {
        self.symbols.rebuilt().iter().map(|file| rebuilt(file))
    }

    /// The function at a file offset.
    pub fn function(&mut self, file: &str, offset: u64) -> Option<String> {
        let (symbols, build) = (&mut self.symbols, self.builds.get(file).map(String::as_str));
        let known = self.known.entry((file.to_owned(), offset));
        known.or_insert_with(|| symbols.lookup_in_build(file, build, FileOffset(offset)).function).clone()
    }

    /// The main cause of a row: a function, or a data address.
    pub fn cause(&mut self, row: &Row, history: &ArrayHistory, owners: &Owners) -> String {
        let page = &history.pages[row.victimiser];
        let file = owners.get(page.owner).file.as_deref();
        let function = match (row.victimiser_side, file, page.file_offset) {
            (Side::Fetch, Some(file), Some(offset)) => self.function(file, offset + row.cause.0 % PAGE_BYTES),
            _ => None,
        };
        function.unwrap_or_else(|| row.cause.to_string())
    }
}

/// The owner of a page, and its place in the file.
pub fn page(page: &PageHistory, owners: &Owners) -> String {
    let owner = owners.get(page.owner).name();
    let short = owner.rsplit('/').next().unwrap_or(&owner);
    match page.file_offset {
        Some(offset) => format!("{short}+{offset:#x}"),
        None => format!("{short} {}", page.page.start()),
    }
}
