//! How a process's frames spread over the colors of a cache: the data, its words, and its part of the page.

use super::schema::ColorSpread;
use crate::html::escape;
use crate::numbers::{bytes, exact, percent, ratio};
use crate::sweep::markup::{head, number};
use std::cmp::Reverse;

/// Colors shown without `--verbose`: those with most pages.
const COLORS_SHOWN: usize = 32;

/// The colors to show, in order, and how many are left out.
pub(crate) fn shown(spread: &ColorSpread, all: bool) -> (Vec<usize>, usize) {
    let colors = spread.base_pages.len().min(spread.huge_pages.len());
    let mut shown: Vec<usize> = (0..colors).collect();
    if !all {
        shown.sort_by_key(|&color| Reverse(pages(spread, color)));
        shown.truncate(COLORS_SHOWN);
        shown.sort_unstable();
    }
    let hidden = colors - shown.len();
    (shown, hidden)
}

/// All pages of a color.
pub(crate) fn pages(spread: &ColorSpread, color: usize) -> u64 {
    spread.base_pages[color].saturating_add(spread.huge_pages[color])
}

/// The cache and its colors.
pub(crate) fn title(spread: &ColorSpread) -> String {
    let cache = &spread.cache;
    format!(
        "{} colors of {} ({}, {} ways, lines of {} bytes)",
        exact(spread.colors),
        cache.name,
        bytes(cache.bytes),
        cache.ways,
        cache.line_bytes
    )
}

/// What the figures say, a sentence each.
pub(crate) fn sentences(spread: &ColorSpread) -> Vec<String> {
    let mut told = vec![format!(
        "Pages per color: {} least, {} median, {} most; {} if even.",
        exact(spread.least_pages),
        ratio(spread.median_pages),
        exact(spread.most_pages),
        ratio(spread.even_pages)
    )];
    if let Some(chi_square) = spread.chi_square {
        told.push(format!(
            "Spread of base pages: {} times what random colors give on average ({} ± {}; 0 is even).",
            ratio(chi_square / spread.chi_square_random.max(1.0)),
            ratio(spread.chi_square_random),
            ratio(spread.chi_square_deviation)
        ));
    }
    told.push(format!(
        "{} of {} colors have more pages than the cache has ways: {} pages must conflict if all are in use, {} if \
         they were spread evenly.",
        exact(spread.colors_beyond_ways),
        exact(spread.colors),
        exact(spread.pages_beyond_ways),
        exact(spread.pages_beyond_ways_if_even)
    ));
    if spread.guest {
        told.push(
            "These are colors of a virtual machine's memory: the host gives each page a frame of its own, and may \
             move it."
                .to_owned(),
        );
    }
    told
}

/// The section of the page; empty without colors.
pub(super) fn section(spread: Option<&ColorSpread>) -> String {
    let Some(spread) = spread else { return String::new() };
    let most = spread.most_pages.max(1) as f64;
    let (colors, hidden) = shown(spread, false);
    let row = |&color: &usize| {
        let part = |pages: u64| (pages as f64 / most).min(1.0);
        let [base, huge] = [spread.base_pages[color], spread.huge_pages[color]];
        format!(
            "<tr>{}{}{}<td><meter value=\"{:.4}\">{}</meter></td></tr>",
            number(&color.to_string()),
            number(&exact(base)),
            number(&exact(huge)),
            part(base.saturating_add(huge)),
            percent(part(base.saturating_add(huge)))
        )
    };
    let rows: String = colors.iter().map(row).collect();
    let told: String = sentences(spread).iter().map(|one| format!("{} ", escape(one))).collect();
    let rest = if hidden > 0 {
        format!("The {hidden} colors with fewest pages are left out. ")
    } else {
        String::new()
    };
    let titles = [("color", true), ("base pages", true), ("pages of huge pages", true), ("", false)];
    format!(
        "<section id=\"colors\"><h2>{}</h2><p class=\"lead\">{told}{rest}</p><div class=\"scroll\"><table>{}\
         <tbody>{rows}</tbody></table></div></section>",
        escape(&title(spread)),
        head(&titles)
    )
}
