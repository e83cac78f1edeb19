//! Kernels of one machine against its first: time saved and memory added.

use super::schema::MachineCell;
use crate::figures;
use crate::schema::Number;
use std::collections::HashMap;

/// For each cell of one trace, the one under the first kernel with all else the same.
pub(crate) fn bases<'a>(cells: &[&'a MachineCell]) -> Vec<&'a MachineCell> {
    let mut first: HashMap<String, &'a MachineCell> = HashMap::new();
    cells.iter().map(|cell| *first.entry(cell.title("os")).or_insert(cell)).collect()
}

/// A counter as a real number; 0 if there is none.
pub(crate) fn real(cell: &MachineCell, name: &str) -> f64 {
    cell.metrics.get(name).map_or(0.0, |number| number.as_f64())
}

/// Cycles of translation, of the kernel and, with caches, of memory, per instruction.
pub(crate) fn mcpi(cell: &MachineCell) -> f64 {
    real(cell, if cell.metrics.contains_key("mcpi") { "mcpi" } else { "tlb_mcpi" })
}

/// All modelled cycles, the kernel's included.
fn cycles(cell: &MachineCell) -> f64 {
    real(cell, "total_cycles") + real(cell, "kernel.cycles")
}

/// Where the program was killed for lack of memory, if it was. Its figures end there and compare with no others.
pub(crate) fn killed(cell: &MachineCell) -> Option<String> {
    let counted = |name: &str| match cell.metrics.get(name)? {
        Number::Count(count) => Some(*count),
        _ => None,
    };
    Some(figures::killed(counted("kernel.killed_at")?, counted("kernel.killed_for_bytes")?))
}

/// Whether it is under the host's kernel, whose own work is not modelled.
fn is_host(cell: &MachineCell) -> bool {
    cell.os.is_some() && !cell.metrics.contains_key("kernel.cycles")
}

/// Whether some cells, but not all, are under the host's kernel.
pub(crate) fn host_is_among<'a>(mut cells: impl Iterator<Item = &'a MachineCell>) -> bool {
    let first = cells.next().map(is_host);
    cells.any(|cell| Some(is_host(cell)) != first)
}

/// The share of the base's time saved; negative if the kernel takes longer. `None` if no time is modelled, if either
/// is the host's kernel, or if the program was killed.
pub(crate) fn time_saved(cell: &MachineCell, base: &MachineCell) -> Option<f64> {
    let is_comparable = |cell: &MachineCell| !cell.was_killed() && !is_host(cell);
    let comparable = is_comparable(cell) && is_comparable(base) && cycles(base) > 0.0;
    comparable.then(|| 1.0 - cycles(cell) / cycles(base))
}

/// The peak memory beyond the base's, as a share of the base's. `None` if unknown or if the program was killed.
pub(crate) fn memory_added(cell: &MachineCell, base: &MachineCell) -> Option<f64> {
    if cell.was_killed() || base.was_killed() {
        return None;
    }
    let most = |cell: &MachineCell| cell.metrics.get("kernel.backed_bytes_peak").map(|bytes| bytes.as_f64());
    Some(most(cell)? / most(base).filter(|&bytes| bytes > 0.0)? - 1.0)
}

/// A share as a percentage with its sign.
pub(crate) fn signed(part: f64) -> String {
    let percent = part * 100.0;
    // A change shown as 0 has no sign.
    let percent = if percent.abs() < 0.05 { 0.0 } else { percent };
    let sign = if percent < 0.0 { "−" } else { "" };
    format!("{sign}{:.1} %", percent.abs())
}

/// Cycles per instruction as text.
pub(crate) fn figure(mcpi: f64) -> String {
    if mcpi >= 10.0 { format!("{mcpi:.1}") } else { format!("{mcpi:.3}") }
}
