//! Misses of a software-managed TLB by class, and what each costs.

use super::Page;
use super::paint::{Line, Style};
use super::table::{Narrow, Table, names, numbers, texts};
use crate::figures::{miss_classes, per_kilo_instruction};
use crate::numbers::{count, percent, ratio};
use crate::schema::MachineResult;

/// The table, if the machine has such a TLB.
pub(super) fn write(page: &mut Page, machine: &MachineResult) {
    let classes = miss_classes(machine);
    let misses: u64 = classes.iter().map(|class| class.misses).sum();
    let cycles: u64 = classes.iter().map(|class| class.cycles).sum();
    if misses == 0 {
        return;
    }
    let mut table = Table::new(vec![
        names("Misses by class"),
        texts("what misses", Narrow::Drop(1)),
        numbers("misses", Narrow::Keep),
        numbers("of all", Narrow::Keep),
        numbers("per 1000 instr.", Narrow::Drop(2)),
        numbers("cycles each", Narrow::Keep),
        numbers("cycles", Narrow::Keep),
        numbers("of all", Narrow::Keep),
    ]);
    let plain = |text: String| Line::new(Style::Plain, text);
    let share =
        |part: u64, all: u64| plain(if all == 0 { "–".into() } else { percent(part as f64 / all as f64) });
    let mut row = |name: &str, what: &str, its: u64, took: u64| {
        let each = if its == 0 { "–".to_owned() } else { ratio(took as f64 / its as f64) };
        let rate = per_kilo_instruction(machine, its).map_or("–".to_owned(), ratio);
        table.row(vec![
            plain(name.to_owned()),
            Line::new(Style::Quiet, what),
            plain(count(its)),
            share(its, misses),
            plain(rate),
            plain(each),
            plain(count(took)),
            share(took, cycles),
        ]);
    };
    for class in &classes {
        row(class.name, class.what, class.misses, class.cycles);
    }
    row("all", "", misses, cycles);
    page.blank();
    page.table(table);
}
