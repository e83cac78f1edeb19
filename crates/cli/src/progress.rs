//! Progress on stderr, only when that is a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, Read};

/// A bar over the bytes of a file.
pub fn bytes(total: u64, what: &str, quiet: bool) -> ProgressBar {
    if quiet || !std::io::stderr().is_terminal() {
        return ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
    }
    let style = ProgressStyle::with_template("{msg} {wide_bar} {bytes}/{total_bytes}, {eta} left")
        .expect("the template is valid");
    ProgressBar::new(total).with_style(style).with_message(what.to_owned())
}

/// A bar over work whose parts have names, in hundredths.
pub fn shares(what: &str, quiet: bool) -> ProgressBar {
    if quiet || !std::io::stderr().is_terminal() {
        return ProgressBar::with_draw_target(Some(100), ProgressDrawTarget::hidden());
    }
    let style = ProgressStyle::with_template("{prefix} {wide_bar} {percent} %, {msg}")
        .expect("the template is valid");
    ProgressBar::new(100).with_style(style).with_prefix(what.to_owned())
}

/// Some lines of text that change.
pub fn picture(quiet: bool) -> ProgressBar {
    if quiet || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{msg}").expect("the template is valid");
    ProgressBar::new_spinner().with_style(style)
}

/// A reader that moves a bar.
pub struct Counted<R> {
    inner: R,
    bar: ProgressBar,
}

impl<R> Counted<R> {
    /// `inner` with its bytes counted on `bar`.
    pub fn new(inner: R, bar: ProgressBar) -> Counted<R> {
        Counted { inner, bar }
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.bar.inc(read as u64);
        Ok(read)
    }
}
