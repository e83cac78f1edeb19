//! Machines under several kernels: what translation costs, and what the kernel's own work adds.

use super::Page;
use super::paint::{Line, Style};
use super::table::{Narrow, Table, names, numbers};
use crate::figures::{KernelFigures, kernels, killed};
use crate::numbers::{change, count, cycles};
use crate::printable::printable;
use crate::schema::ProcessResult;

pub(super) fn write(page: &mut Page, process: &ProcessResult) {
    let machines = process.machines.len();
    let mut table = Table::new(vec![
        names("Kernel"),
        numbers("walks", Narrow::Keep),
        numbers("change", Narrow::Keep),
        numbers("walk cyc/instr.", Narrow::Drop(2)),
        numbers("kernel cyc/instr.", Narrow::Drop(2)),
        numbers("together", Narrow::Keep),
        numbers("promotions", Narrow::Drop(1)),
        numbers("memory", Narrow::Keep),
        numbers("for nothing", Narrow::Drop(3)),
    ]);
    let name = |row: &KernelFigures<'_>| {
        let name = printable(&row.of.policy);
        if machines > 1 { format!("{name} on {}", printable(&row.of.machine)) } else { name }
    };
    for row in kernels(process) {
        table.row(cells(name(&row), &row));
    }
    page.table(table);
    for row in kernels(process) {
        let Some((at, asked)) = row.killed() else { continue };
        let backed = row.text("kernel.backed_bytes_peak").unwrap_or_default();
        let text =
            format!("{} was {} with {backed} backed. Its figures end there.", name(&row), killed(at, asked));
        page.paragraph(Line::new(Style::Warning, "  killed  "), Style::Plain, &text);
    }
    page.paragraph(
        Line::new(Style::Quiet, "  "),
        Style::Quiet,
        "cycles per instruction are modelled; together: walks, lower-level hits and all of the kernel's work. A \
         perfect TLB with base pages: 0",
    );
}

fn cells(name: String, row: &KernelFigures<'_>) -> Vec<Line> {
    let plain = |text: String| Line::new(Style::Plain, text);
    let dash = || Line::new(Style::Quiet, "–");
    let modelled = |value: Option<f64>| value.map_or_else(dash, |value| plain(cycles(value)));
    let counted = |name| row.text(name).map_or_else(dash, plain);
    vec![
        plain(name),
        plain(count(row.walks)),
        if row.is_host() || row.killed().is_some() {
            dash()
        } else {
            plain(change(row.host_walks, row.walks))
        },
        modelled(row.walk_cycles),
        modelled(row.kernel_cycles),
        modelled(row.together),
        counted("kernel.promotions"),
        counted("kernel.backed_bytes_peak"),
        counted("kernel.untouched_bytes_peak"),
    ]
}
