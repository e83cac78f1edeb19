//! Machines under several kernels, as the page shows them without scripts. `js/kernels.js` writes the same for
//! whichever process is chosen.

use super::escape::escape;
use super::summary::tag;
use crate::figures::{KERNEL_PARTS, KernelFigures, kernels, killed};
use crate::numbers::{change, count, cycles, nice_step, percent, ratio};
use crate::schema::{ProcessResult, RunResult};

/// Columns beside name and bar, by group: the group's title, and for each column its title and its words where it
/// stands alone.
const COLUMNS: [(&str, &[(&str, &str)]); 5] = [
    ("walks", &[("", "walks")]),
    ("change", &[("", "change")]),
    (
        "cycles per instruction",
        &[
            ("walks", "walk cycles"),
            ("hits", "hit cycles"),
            ("kernel", "kernel cycles"),
            ("together", "together"),
        ],
    ),
    ("promotions", &[("", "promotions")]),
    ("memory", &[("peak", "memory"), ("for nothing", "for nothing"), ("price", "price")]),
];

/// What bars are drawn to.
struct Scale {
    /// Cycles per instruction at the right end.
    end: f64,
    /// The dearest price.
    dearest: f64,
}

impl Scale {
    /// One costly kernel may cost a hundred times the others: its bar is cut, so that theirs can be told apart.
    fn new(rows: &[KernelFigures<'_>]) -> Scale {
        let mut together: Vec<f64> = rows.iter().filter_map(|row| row.together).collect();
        together.sort_by(f64::total_cmp);
        let most = together.last().copied().unwrap_or(0.0);
        let median = together.get(together.len() / 2).copied().unwrap_or(0.0);
        let hosts =
            rows.iter().filter(|row| row.is_host()).filter_map(|row| row.together).fold(0.0, f64::max);
        let dearest = rows.iter().filter_map(KernelFigures::price).fold(0.0, f64::max);
        Scale { end: most.min(hosts.max(3.0 * median)), dearest }
    }

    fn percent(&self, cycles: f64) -> f64 {
        if self.end > 0.0 { (cycles / self.end).min(1.0) * 100.0 } else { 0.0 }
    }

    fn is_cut(&self, row: &KernelFigures<'_>) -> bool {
        row.together.is_some_and(|together| together > self.end)
    }
}

pub(super) fn table(_: &RunResult, process: &ProcessResult) -> String {
    let rows: Vec<KernelFigures<'_>> = kernels(process).collect();
    let scale = Scale::new(&rows);
    let mut machines: Vec<&str> = Vec::new();
    for row in &rows {
        if !machines.contains(&row.of.machine.as_str()) {
            machines.push(&row.of.machine);
        }
    }
    let groups: String = machines.iter().map(|machine| group(machine, &rows, &scale)).collect();
    format!(
        "{}<table class=\"what-if kernels\">{}{groups}{}</table>",
        legend(&rows, &scale),
        head(),
        ticks(&scale)
    )
}

/// Only what some bar shows.
fn legend(rows: &[KernelFigures<'_>], scale: &Scale) -> String {
    let key = |look: &str, text: &str| {
        format!("<span class=\"entry\"><span class=\"key {look}\"></span>{text}</span>")
    };
    let named = KERNEL_PARTS.iter().enumerate();
    let occurs = named.filter(|&(part, _)| rows.iter().any(|row| row.parts()[part] > 0.0));
    let mut keys: String = occurs.map(|(_, (look, text))| key(look, text)).collect();
    if rows.iter().any(|row| scale.is_cut(row)) {
        keys.push_str(&key("cut", "longer than drawn"));
    }
    format!("<div class=\"legend\">{keys}</div>")
}

fn head() -> String {
    let mut upper = "<th rowspan=\"2\" scope=\"col\">Kernel</th>\
                     <th rowspan=\"2\" scope=\"col\">Cycles, and what takes them</th>"
        .to_owned();
    let mut lower = String::new();
    for (title, columns) in COLUMNS {
        if let [_] = columns {
            upper.push_str(&format!("<th class=\"number\" rowspan=\"2\" scope=\"col\">{title}</th>"));
            continue;
        }
        let span = columns.len();
        upper.push_str(&format!("<th class=\"over\" colspan=\"{span}\" scope=\"colgroup\">{title}</th>"));
        let below =
            columns.iter().map(|(title, _)| format!("<th class=\"number\" scope=\"col\">{title}</th>"));
        lower.extend(below);
    }
    format!("<thead><tr>{upper}</tr><tr>{lower}</tr></thead>")
}

fn group(machine: &str, rows: &[KernelFigures<'_>], scale: &Scale) -> String {
    let own: Vec<&KernelFigures<'_>> = rows.iter().filter(|row| row.of.machine == machine).collect();
    let host = own.iter().find(|row| row.is_host());
    let mark = host.and_then(|host| host.together).map(|together| scale.percent(together));
    let mark = mark.map_or(String::new(), |at| format!("<b style=\"left:{at:.2}%\"></b>"));
    let kernels: String = own.iter().map(|row| kernel(row, scale, &mark)).collect();
    let walks = host.map_or(0, |host| host.walks);
    format!(
        "<tbody><tr class=\"machine\"><th colspan=\"12\" scope=\"rowgroup\">{} {}</th></tr>{kernels}{}</tbody>",
        escape(machine),
        tag("modelled"),
        perfect(walks, &mark)
    )
}

fn kernel(row: &KernelFigures<'_>, scale: &Scale, mark: &str) -> String {
    let dash = || "–".to_owned();
    let modelled = |value: Option<f64>| value.map_or_else(dash, cycles);
    let counted = |name| row.text(name).unwrap_or_else(dash);
    let mut name = escape(&row.of.policy);
    if row.of.class != "modelled" {
        name.push(' ');
        name.push_str(&tag(&escape(&row.of.class)));
    }
    if let Some((at, bytes)) = row.killed() {
        name.push_str(&format!("<span class=\"sub\">{}</span>", killed(at, bytes)));
    }
    let figures = [
        count(row.walks),
        if row.is_host() || row.killed().is_some() { dash() } else { change(row.host_walks, row.walks) },
        modelled(row.walk_cycles),
        modelled(row.hit_cycles),
        modelled(row.kernel_cycles),
        modelled(row.together),
        counted("kernel.promotions"),
        counted("kernel.backed_bytes_peak"),
        counted("kernel.untouched_bytes_peak"),
        row.price().map_or_else(dash, |part| price(part, scale)),
    ];
    let look = if row.is_host() { " class=\"emphasis\"" } else { "" };
    line(look, &name, &bar(row, scale, mark), &figures)
}

/// What no machine can beat: no walk, no second look.
fn perfect(host_walks: u64, mark: &str) -> String {
    let dash = "–".to_owned();
    let zero = "0".to_owned();
    let figures = [
        zero.clone(),
        change(host_walks, 0),
        zero.clone(),
        zero.clone(),
        dash.clone(),
        zero,
        dash.clone(),
        dash.clone(),
        dash.clone(),
        dash,
    ];
    let bar = format!("<div class=\"bar\"><i class=\"bound\" style=\"width:0\"></i>{mark}</div>");
    line("", &format!("a perfect TLB {}", tag("bound")), &bar, &figures)
}

fn line(look: &str, name: &str, picture: &str, figures: &[String; 10]) -> String {
    let words = COLUMNS.iter().flat_map(|(_, columns)| columns.iter().map(|(_, words)| words));
    let cells: String = words
        .zip(figures)
        .map(|(words, text)| format!("<td class=\"number\" data-word=\"{words}\">{text}</td>"))
        .collect();
    format!("<tr{look}><td class=\"name\">{name}</td><td class=\"picture\">{picture}</td>{cells}</tr>")
}

/// The stacked bar, and the kernel's part of it in words.
fn bar(row: &KernelFigures<'_>, scale: &Scale, mark: &str) -> String {
    let mut from = 0.0;
    let parts = row.parts();
    let pieces: String = parts
        .iter()
        .zip(KERNEL_PARTS)
        .map(|(part, (look, _))| {
            let width = scale.percent(from + part) - scale.percent(from);
            from += part;
            format!("<i class=\"{look}\" style=\"width:{width:.2}%\"></i>")
        })
        .collect();
    let words = parts.iter().zip(KERNEL_PARTS).skip(2).filter(|&(&part, _)| part > 0.0);
    let words: Vec<String> = words.map(|(&part, (look, _))| format!("{look} {}", ratio(part))).collect();
    let words = match words.as_slice() {
        [] => String::new(),
        words => format!("<span class=\"sub\">{}</span>", words.join(", ")),
    };
    let cut = if scale.is_cut(row) { " cut" } else { "" };
    format!("<div class=\"bar{cut}\">{pieces}{mark}</div>{words}")
}

fn price(part: f64, scale: &Scale) -> String {
    let width = if scale.dearest > 0.0 { part / scale.dearest * 100.0 } else { 0.0 };
    format!(
        "<span class=\"price\">{}<span class=\"bar\">\
         <i class=\"memory\" style=\"width:{width:.2}%\"></i></span></span>",
        percent(part)
    )
}

fn ticks(scale: &Scale) -> String {
    if scale.end <= 0.0 {
        return String::new();
    }
    let (step, digits) = nice_step(scale.end, 4.0);
    let at = (0u32..).map(|index| f64::from(index) * step).take_while(|&at| at <= scale.end);
    let labels: String = at
        .map(|at| {
            let text = if at == 0.0 { "0".to_owned() } else { format!("{at:.digits$}") };
            format!("<span style=\"left:{:.2}%\">{text}</span>", scale.percent(at))
        })
        .collect();
    format!(
        "<tfoot><tr><td></td><td class=\"picture\"><div class=\"ticks\">{labels}</div></td>\
         <td colspan=\"10\"></td></tr></tfoot>"
    )
}
