//! Who pays in the programs of an arrangement.

use super::functions::{joined, keep_costliest, no_jit_names};
use super::{Detail, MADE_BY_MAX, Namer, PAGES_MAX, heat, mappings, page_rows};
use crate::colors::color_misses;
use crate::makers::made_by;
use crate::waits::{self, MachineWaits};
use pagewalk_report::schema::{Attribution, Heat, MappingRow, PageRow};
use pagewalk_sim::ProgramFindings;
use pagewalk_trace::StreamHeader;
use pagewalk_translate::MachineSpec;
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
    /// Mappings, functions and pages of programs on a machine, costliest first. `headers` are of their streams, by
    /// process; `owners` their names, if several take turns.
    pub fn programs(
        &self,
        machine: &MachineSpec,
        headers: &[StreamHeader],
        programs: Vec<ProgramFindings<'_>>,
        owners: &[String],
        detail: Detail,
    ) -> Payers {
        let mut payers = Payers::default();
        let Attribution { mappings: named, functions, pages, pages_left_out, colors, .. } =
            &mut payers.attribution;
        let is_lone = owners.is_empty() && programs.len() == 1;
        for mut of in programs {
            let number = of.process.index();
            let pid = headers.get(number).map_or(0, |header| header.pid);
            let owner = owners.get(number).cloned();
            let waits = MachineWaits::of(std::mem::take(&mut of.waits), machine);
            let own = self.mappings_of(&mut of, &waits, detail).into_iter();
            named.extend(own.map(|row| MappingRow { process: owner.clone(), ..row }));
            let (rows, jit) = self.functions((pid, number), of.functions, of.space, &waits);
            functions.extend(rows);
            payers.losses.extend(jit.map(|error| no_jit_names(&error)));
            let (own, left_out) = page_rows(of.pages, of.space, &waits, detail);
            *pages_left_out += left_out;
            pages.extend(own.into_iter().map(|row| PageRow { process: owner.clone(), ..row }));
            if is_lone && detail == Detail::Full {
                payers.heat = heat(of.heat, of.space);
                *colors = color_misses(machine, waits.pages(), |id| of.space.info(id).name.clone());
            }
        }
        named.sort_by_key(|row| Reverse(row.walk_cycles));
        *functions = joined(std::mem::take(functions));
        keep_costliest(functions, detail.functions());
        payers.losses.extend(self.unnamed(functions));
        *pages_left_out += keep_costliest_pages(pages);
        payers
    }

    /// A program's mappings, with the makers of the costliest.
    fn mappings_of(
        &self,
        of: &mut ProgramFindings<'_>,
        waits: &MachineWaits,
        detail: Detail,
    ) -> Vec<MappingRow> {
        let mut rows = mappings(std::mem::take(&mut of.mappings), of.space);
        for (id, row) in &mut rows {
            row.waits = waits.of_mapping(*id);
        }
        let mut symbols = self.symbols.lock().unwrap_or_else(PoisonError::into_inner);
        let many = if detail == Detail::Full { MADE_BY_MAX } else { 5 };
        for (id, row) in rows.iter_mut().take(many) {
            row.made_by = made_by(of.makers(*id), of.space, &mut symbols);
        }
        rows.into_iter().map(|(_, row)| row).collect()
    }
}

/// Keeps the pages of several programs that have most walks, and those that wait longest. Returns how many others have
/// walks.
fn keep_costliest_pages(pages: &mut Vec<PageRow>) -> u64 {
    let walks = |page: &PageRow| page.walks_fetch + page.walks_data;
    let waits = |page: &PageRow| page.waits.as_ref().map_or(0, |waits| waits.stall_cycles);
    pages.sort_by_key(|page| Reverse((waits(page), walks(page))));
    let mut rest = pages.split_off(pages.len().min(waits::PAGES_MAX));
    rest.sort_by_key(|page| Reverse(walks(page)));
    let left_out = rest.split_off(rest.len().min(PAGES_MAX));
    pages.append(&mut rest);
    pages.sort_by_key(|page| Reverse(walks(page)));
    left_out.iter().filter(|page| walks(page) > 0).count() as u64
}
