//! Costs of kernels on one footing. Romer's prices leave out work that all his policies do alike, other kernels' have
//! it, and nobody counts the host's.

use crate::schema::KernelResult;

/// Accounts of work that any kernel does.
const USUAL: [&str; 4] = ["fault", "zero", "file", "flush"];
/// The same for people.
pub const USUAL_WORK: &str = "faults, clearing, files and flushes";

/// What cycles lack where the host's kernel is among others.
pub(crate) const HOSTS_WORK: &str = "The work of the host's kernel is not counted.";
/// What figures of memory lack there.
pub(crate) const HOSTS_MEMORY: &str = "Memory under the host's kernel is not counted.";

/// Cycles per instruction of work that any kernel does.
pub fn usual_work(row: &KernelResult) -> f64 {
    let cycles: f64 = USUAL.iter().map(|account| value(row, &format!("kernel.{account}_cycles"))).sum();
    let instructions = value(row, "instructions");
    if instructions > 0.0 { cycles / instructions } else { 0.0 }
}

/// Whether all of these kernels charge for faults, or none does. Otherwise their sums compare only without
/// [`usual_work`].
pub fn charge_alike<'a>(mut rows: impl Iterator<Item = &'a KernelResult>) -> bool {
    let charges = |row: &KernelResult| value(row, "kernel.fault_cycles") > 0.0;
    rows.next().map(charges).is_none_or(|first| rows.all(|row| charges(row) == first))
}

fn value(row: &KernelResult, name: &str) -> f64 {
    row.metrics.get(name).map_or(0.0, |value| value.as_f64())
}
