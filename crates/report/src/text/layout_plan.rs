//! A planned layout, on the terminal.

use super::paint::{Line, Style, plain};
use super::table::{Table, WhenNarrow, names, numbers};
use super::{Page, TextOptions};
use crate::layout_plan::schema::{LayoutPlanResult, PlannedMachine};
use crate::numbers::{count, percent};
use crate::printable::printable;

/// Objects shown without `--verbose`.
const OBJECTS_SHOWN: usize = 12;

/// The result as text for a terminal.
pub fn render_layout_plan_text(result: &LayoutPlanResult, options: &TextOptions) -> String {
    let mut page = Page::new(*options);
    page.line(Line::new(
        Style::Strong,
        printable(&format!("{}: planned by {}", result.program, result.planner)),
    ));
    page.paragraph(Line::new(Style::Quiet, "  "), Style::Plain, &printable(&result.did));
    for loss in &result.losses {
        page.paragraph(Line::new(Style::Warning, "  ! "), Style::Plain, &printable(loss));
    }
    page.blank();
    machines(&mut page, result);
    page.blank();
    objects(&mut page, result);
    if result.left > 0 {
        let text =
            format!("{} shared objects stay: mapped several times, or moved by the program", result.left);
        page.paragraph(Line::new(Style::Quiet, "  "), Style::Quiet, &text);
    }
    page.end()
}

fn signed(share: f64) -> String {
    let sign = if share < 0.0 { "−" } else { "+" };
    format!("{sign}{}", percent(share.abs()))
}

fn machines(page: &mut Page, result: &LayoutPlanResult) {
    let columns = vec![
        names("machine"),
        numbers("sets", WhenNarrow::Drop(3)),
        numbers("walks recorded", WhenNarrow::Keep),
        numbers("planned", WhenNarrow::Keep),
        numbers("change", WhenNarrow::Keep),
        numbers("fully associative", WhenNarrow::Keep),
        numbers("random (estimate)", WhenNarrow::Drop(1)),
    ];
    let mut table = Table::new(columns);
    for machine in &result.machines {
        let PlannedMachine { name, sets, recorded, planned, fully_associative, random, .. } = machine;
        let spread = match random.count {
            0 => "–".to_owned(),
            _ => format!("{} to {}", signed(random.least - 1.0), signed(random.most - 1.0)),
        };
        table.row(vec![
            plain(printable(name)),
            plain(count(*sets)),
            plain(count(*recorded)),
            plain(count(*planned)),
            plain(signed(machine.change())),
            plain(count(*fully_associative)),
            plain(spread),
        ]);
    }
    page.table(table);
    let classes = "walks are modelled, for base pages; those of random layouts are estimated from a sample";
    page.paragraph(Line::new(Style::Quiet, "  "), Style::Quiet, classes);
}

fn objects(page: &mut Page, result: &LayoutPlanResult) {
    let columns = vec![
        names("object"),
        numbers("pages", WhenNarrow::Keep),
        numbers("references", WhenNarrow::Drop(1)),
        numbers("moves by", WhenNarrow::Keep),
        names("base"),
    ];
    let mut table = Table::new(columns);
    let mut order: Vec<_> = result.objects.iter().collect();
    order.sort_by(|a, b| b.references.cmp(&a.references).then(a.file.cmp(&b.file)));
    let shown = if page.verbose { order.len() } else { OBJECTS_SHOWN.min(order.len()) };
    for object in &order[..shown] {
        table.row(vec![
            plain(printable(&object.file)),
            plain(count(object.pages)),
            plain(count(object.references)),
            plain(object.shift.to_string()),
            plain(object.base.clone()),
        ]);
    }
    page.table(table);
    if shown < order.len() {
        let text = format!("and {} more: -v shows all", order.len() - shown);
        page.paragraph(Line::new(Style::Quiet, "  "), Style::Quiet, &text);
    }
}
