//! Who pays in the programs of an arrangement.

use super::functions::{joined, keep_costliest, no_jit_names};
use super::{Detail, MADE_BY_MAX, Namer, PAGES_MAX, heat, mappings};
use crate::makers::made_by;
use crate::waits::MachineWaits;
use pagewalk_report::schema::{Attribution, Heat, MappingRow, PageRow};
use pagewalk_sim::ProgramFindings;
use pagewalk_trace::StreamHeader;
use std::cmp::Reverse;
use std::sync::PoisonError;

/// Who pays, on the first machine.
#[derive(Default)]
pub struct Payers {
    pub attribution: Attribution,
    /// Of a lone program.
    pub heat: Heat,
    /// What is lost of names.
    pub losses: Vec<String>,
}

impl Namer {
    /// Mappings, functions and pages of programs, costliest first. `headers`: of their streams, by process. `owners`:
    /// their names, if several take turns.
    pub fn programs(
        &self,
        headers: &[StreamHeader],
        programs: Vec<ProgramFindings<'_>>,
        owners: &[String],
        detail: Detail,
    ) -> Payers {
        let mut payers = Payers::default();
        let Attribution { mappings: named, functions, pages, pages_left_out, .. } = &mut payers.attribution;
        let is_lone = owners.is_empty() && programs.len() == 1;
        let kept = if detail == Detail::Full { PAGES_MAX } else { 0 };
        for mut of in programs {
            let number = of.process.index();
            let pid = headers.get(number).map_or(0, |header| header.pid);
            let owner = owners.get(number).cloned();
            let own = self.mappings_of(&mut of, detail).into_iter();
            named.extend(own.map(|row| MappingRow { process: owner.clone(), ..row }));
            let (rows, jit) = self.functions((pid, number), of.functions, of.space, &MachineWaits::default());
            functions.extend(rows);
            payers.losses.extend(jit.map(|error| no_jit_names(&error)));
            *pages_left_out += of.pages.len() as u64;
            pages.extend(of.pages.iter().take(kept).map(|page| PageRow {
                address: page.page.0,
                mapping: of.space.info(page.mapping).name.clone(),
                process: owner.clone(),
                walks_fetch: page.walks_fetch,
                walks_data: page.walks_data,
                waits: None,
            }));
            if is_lone && detail == Detail::Full {
                payers.heat = heat(of.heat, of.space);
            }
        }
        named.sort_by_key(|row| Reverse(row.walk_cycles));
        *functions = joined(std::mem::take(functions));
        keep_costliest(functions, detail.functions());
        payers.losses.extend(self.unnamed(functions));
        pages.sort_by_key(|page| Reverse(page.walks_fetch + page.walks_data));
        pages.truncate(kept);
        *pages_left_out -= pages.len() as u64;
        payers
    }

    /// A program's mappings, with the makers of the costliest.
    fn mappings_of(&self, of: &mut ProgramFindings<'_>, detail: Detail) -> Vec<MappingRow> {
        let mut rows = mappings(std::mem::take(&mut of.mappings), of.space);
        let mut symbols = self.symbols.lock().unwrap_or_else(PoisonError::into_inner);
        let many = if detail == Detail::Full { MADE_BY_MAX } else { 5 };
        for (id, row) in rows.iter_mut().take(many) {
            row.made_by = made_by(of.makers(*id), of.space, &mut symbols);
        }
        rows.into_iter().map(|(_, row)| row).collect()
    }
}
