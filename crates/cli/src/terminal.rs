//! A listener for the terminal: messages on stderr; progress bars only if stderr is a terminal.

use crate::output::{say, write_to_stderr};
use crate::signals::{STOPPED, relay_by};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pagewalk::{Bar, Error, Listener, RelayGuard, SignalRelay};
use std::fmt::Display;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The user's terminal.
pub struct Terminal {
    /// Whether to hide messages that are merely good to know.
    pub quiet: bool,
}

impl Terminal {
    fn bar(&self, total: u64, template: &str) -> Bars {
        if self.quiet || !std::io::stderr().is_terminal() {
            return Bars(ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden()));
        }
        let style = ProgressStyle::with_template(template).expect("the template is valid");
        Bars(ProgressBar::new(total).with_style(style))
    }
}

impl Listener for Terminal {
    fn warn(&self, message: &dyn Display) {
        say(message);
    }

    fn note(&self, message: &dyn Display) {
        if !self.quiet {
            say(message);
        }
    }

    fn text(&self, lines: &str) {
        write_to_stderr(lines);
    }

    fn bytes(&self, total: u64, what: &str) -> Arc<dyn Bar> {
        let bar = self.bar(total, "{msg} {wide_bar} {bytes}/{total_bytes}, {eta} left");
        bar.0.set_message(what.to_owned());
        Arc::new(bar)
    }

    fn shares(&self, what: &str) -> Arc<dyn Bar> {
        let bar = self.bar(100, "{prefix} {wide_bar} {percent} %, {msg}");
        bar.0.set_prefix(what.to_owned());
        Arc::new(bar)
    }

    fn relay(&self, to: SignalRelay) -> Result<RelayGuard, Error> {
        Ok(Box::new(relay_by(to.signal, to.of_terminal)?))
    }
}

/// A bar that disappears when it ends.
struct Bars(ProgressBar);

impl Bar for Bars {
    fn advance(&self, bytes: u64) {
        self.0.inc(bytes);
    }

    fn is_stopped(&self) -> bool {
        STOPPED.load(Ordering::SeqCst)
    }

    fn reach(&self, hundredths: u64, what: &str) {
        self.0.set_message(what.to_owned());
        self.0.set_position(hundredths);
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// A progress bar that shows changing lines of text.
pub fn picture(quiet: bool) -> ProgressBar {
    if quiet || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{msg}").expect("the template is valid");
    ProgressBar::new_spinner().with_style(style)
}
