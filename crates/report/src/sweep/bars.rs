//! Cycles of translation by kernel, as bars split by cause (like figure 3-3 of Romer 1998).

use super::comparison::{figure, killed, mcpi, real};
use super::picture::Picture;
use super::schema::MachineCell;

const LEFT: f64 = 128.0;
const WIDTH: f64 = 250.0;
const TOP: f64 = 26.0;
const ROW: f64 = 20.0;
/// Room for the figure after a bar.
const RIGHT: f64 = 72.0;

/// Causes of cycles: name, class, counters.
const PARTS: [(&str, &str, &[&str]); 6] = [
    ("misses", "p0", &["walk_cycles", "l2_hit_cycles"]),
    (
        "bookkeeping, scans, flushes",
        "p1",
        &["kernel.bookkeeping_cycles", "kernel.scan_cycles", "kernel.flush_cycles"],
    ),
    (
        "copying, remapping",
        "p2",
        &["kernel.copy_cycles", "kernel.map_cycles", "kernel.compaction_cycles", "kernel.recolor_cycles"],
    ),
    ("faults, clearing", "p3", &["kernel.fault_cycles", "kernel.zero_cycles"]),
    ("swap, files", "p4", &["kernel.swap_cycles", "kernel.file_cycles"]),
    ("waits for caches and memory", "p5", &["memory.stall_cycles"]),
];

/// A bar for each kernel of one machine on one trace. Bars that would dwarf the others are cut and marked. A killed
/// program has words instead.
pub(super) fn bars(title: &str, cells: &[&MachineCell]) -> Picture {
    let mut picture = Picture::new(LEFT + WIDTH + RIGHT, TOP + ROW * cells.len() as f64 + 6.0);
    picture.text("strong", [0.0, 14.0], "start", title);
    let all = || cells.iter().filter(|cell| !cell.was_killed()).map(|cell| mcpi(cell));
    let base = all().next().unwrap_or(0.0);
    let most = all().fold(0.0, f64::max);
    let end = if most > 4.0 * base && base > 0.0 { (2.0 * base).max(shown(all().collect())) } else { most };
    let scale = if end > 0.0 { WIDTH / end } else { 0.0 };
    for (row, cell) in cells.iter().enumerate() {
        let y = TOP + ROW * row as f64;
        picture.text("", [LEFT - 8.0, y + 13.5], "end", cell.os.as_deref().unwrap_or(&cell.machine));
        if let Some(killed) = killed(cell) {
            picture.text("", [LEFT + 5.0, y + 13.5], "start", &killed);
            continue;
        }
        let instructions = real(cell, "instructions").max(1.0);
        let mut x = LEFT;
        for (name, class, counters) in PARTS {
            let part = counters.iter().map(|counter| real(cell, counter)).sum::<f64>() / instructions;
            let width = (part * scale).min(LEFT + WIDTH - x);
            if width > 0.0 {
                let about = format!("{name}: {} cycles per instruction", figure(part));
                picture.cell(class, [x, y + 2.0, width, ROW - 5.0], &about);
                x += width;
            }
        }
        let cut = if mcpi(cell) > end * 1.001 { "→ " } else { "" };
        picture.text("", [x + 5.0, y + 13.5], "start", &format!("{cut}{}", figure(mcpi(cell))));
    }
    picture.line("axis", [LEFT, TOP], [LEFT, TOP + ROW * cells.len() as f64]);
    picture
}

/// The full length of bars: the upper quartile.
fn shown(mut all: Vec<f64>) -> f64 {
    all.sort_unstable_by(f64::total_cmp);
    all.get((all.len() * 3).div_ceil(4).saturating_sub(1)).copied().unwrap_or(0.0)
}

/// What the colours of bars mean.
pub(super) fn legend() -> Picture {
    // The colour, its name at an average width per letter, and a gap.
    let place = |name: &str| 46.0 + name.chars().count() as f64 * 6.6;
    let all: f64 = PARTS.iter().map(|(name, ..)| place(name)).sum();
    let mut picture = Picture::new(all, 20.0);
    let mut x = 0.0;
    for (name, class, _) in PARTS {
        picture.cell(class, [x, 4.0, 12.0, 12.0], name);
        picture.text("", [x + 18.0, 14.5], "start", name);
        x += place(name);
    }
    picture
}
