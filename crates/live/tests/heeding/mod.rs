//! Shared by tests of signals: see `programs/heeds.c`.

use pagewalk_live::tracing::Interrupt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Relays a signal once the program has written the file that shows it is ready.
pub fn hand_on_when(ready: &Path, interrupt: &Interrupt, signal: i32) {
    let begun = Instant::now();
    while !ready.exists() {
        assert!(begun.elapsed() < Duration::from_secs(30), "it does not begin");
        std::thread::sleep(Duration::from_millis(2));
    }
    interrupt.hand_on(signal);
}
