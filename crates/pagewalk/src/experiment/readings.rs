//! What readings of traces before the last one found.

use crate::findings::short;
use pagewalk_mm::ProcessMapping;
use pagewalk_report::schema::MappingRow;
use pagewalk_sim::DesignCounts;

/// What readings before the last one found.
#[derive(Default)]
pub struct EarlierReadings {
    /// The counts under each kernel that knows the future, in order of the kernels.
    pub replayed: Vec<DesignCounts>,
    /// Mappings to try on huge pages.
    pub to_try: Vec<MappingToTry>,
    /// Instructions of each reading.
    pub instructions: Vec<u64>,
}

/// A mapping to try.
#[derive(Clone)]
pub struct MappingToTry {
    /// Whose, and which.
    pub mapping: ProcessMapping,
    /// Its name.
    pub name: String,
    /// Its program's name, if several take turns.
    pub program: Option<String>,
}

impl MappingToTry {
    /// Its name for people: that of its row, which tells its maker too.
    pub fn label(&self, rows: &[MappingRow]) -> String {
        let is_it = |row: &&MappingRow| row.name == self.name && row.process == self.program;
        let tells_more = |row: &&MappingRow| is_it(row) && (row.made_by.is_some() || row.process.is_some());
        rows.iter().find(tells_more).map_or_else(|| short(&self.name).to_owned(), MappingRow::label)
    }
}
