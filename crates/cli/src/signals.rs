//! Signals that arrive while programs run.
//!
//! Signals ignored from the start stay ignored, here and in the program that inherits this: `nohup` keeps working.

use pagewalk::{Error, Fault};
use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ};
use signal_hook::flag::{register, register_conditional_default};
use signal_hook::iterator::exfiltrator::raw::WithRawSiginfo;
use signal_hook::iterator::{Handle, SignalsInfo};
use signal_hook::low_level::unregister;
use std::collections::BTreeSet;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// True while no watch exists.
static UNWATCHED: LazyLock<Arc<AtomicBool>> = LazyLock::new(|| Arc::new(AtomicBool::new(true)));
/// True while stops are noted.
static NOTED: AtomicBool = AtomicBool::new(false);
/// Signals restored to their default action while no watch exists.
static DEFAULTS: Mutex<BTreeSet<c_int>> = Mutex::new(BTreeSet::new());

/// Watches signals until it is dropped. Dropping it restores their default actions; without that they would stay
/// ignored.
pub struct SignalWatch(Handle);

impl Drop for SignalWatch {
    fn drop(&mut self) {
        UNWATCHED.store(!NOTED.load(Ordering::SeqCst), Ordering::SeqCst);
        self.0.close();
    }
}

/// Who sent a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sender {
    /// The kernel: a terminal key, which reaches the whole foreground group.
    Kernel,
    /// A process.
    Process,
}

/// Calls `on` for each of these signals, with its sender, on a thread of its own. Only one watch exists at a time.
fn watch(
    signals: &[c_int],
    mut on: impl FnMut(c_int, Sender) + Send + 'static,
) -> Result<SignalWatch, Error> {
    let cannot = |error| Error::new(Fault::Failed, format!("watching signals: {error}"));
    let signals = not_ignored(signals);
    let mut defaults = DEFAULTS.lock().unwrap_or_else(PoisonError::into_inner);
    for &signal in &signals {
        if defaults.insert(signal) {
            register_conditional_default(signal, Arc::clone(&UNWATCHED)).map_err(cannot)?;
        }
    }
    let mut come = SignalsInfo::<WithRawSiginfo>::new(&signals).map_err(cannot)?;
    UNWATCHED.store(false, Ordering::SeqCst);
    let handle = come.handle();
    std::thread::spawn(move || {
        for info in come.forever() {
            // `SI_USER`, `SI_QUEUE`, `SI_TKILL`: codes from processes are at most 0.
            on(info.si_signo, if info.si_code <= 0 { Sender::Process } else { Sender::Kernel });
        }
    });
    Ok(SignalWatch(handle))
}

/// Signals passed on to programs.
const RELAYED: [c_int; 6] = [SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2];

/// Passes signals on to a program. Terminal signals (a key, a hangup) have already reached the program: for those
/// `of_terminal` is called instead.
pub fn relay_by(
    hand_on: impl Fn(c_int) + Send + 'static,
    of_terminal: impl Fn(c_int) + Send + 'static,
) -> Result<SignalWatch, Error> {
    watch(&RELAYED, move |signal, sender| match sender {
        Sender::Kernel if [SIGINT, SIGQUIT, SIGHUP].contains(&signal) => of_terminal(signal),
        _ => hand_on(signal),
    })
}

/// Notes stops until it is dropped.
pub struct StopNote(Vec<SigId>);

impl Drop for StopNote {
    fn drop(&mut self) {
        NOTED.store(false, Ordering::SeqCst);
        UNWATCHED.store(true, Ordering::SeqCst);
        self.0.drain(..).for_each(|id| _ = unregister(id));
    }
}

/// Whether the user asked to end long work.
pub static STOPPED: AtomicBool = AtomicBool::new(false);

/// Sets [`STOPPED`] in the handler of such signals itself, before any effect. A second one has its default action.
pub fn note_stops() -> Result<StopNote, Error> {
    let mut note = StopNote(Vec::new());
    NOTED.store(true, Ordering::SeqCst);
    UNWATCHED.store(false, Ordering::SeqCst);
    for signal in not_ignored(&[SIGINT, SIGQUIT, SIGTERM, SIGHUP]) {
        let cannot = |error| Error::new(Fault::Failed, format!("watching signals: {error}"));
        note.0.push(register_conditional_default(signal, &STOPPED).map_err(cannot)?);
        note.0.push(register(signal, &STOPPED).map_err(cannot)?);
    }
    Ok(note)
}

/// Turns exceeding the file size limit (`ulimit -f`) into an error instead of death by SIGXFSZ. Programs that we start
/// keep the default action.
pub fn survive_file_limits() {
    if !not_ignored(&[SIGXFSZ]).is_empty() {
        // If this fails, the default action, death, stays.
        let _ = register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
    }
}

/// Those of these signals that are not ignored.
fn not_ignored(signals: &[c_int]) -> Vec<c_int> {
    // Without /proc, none counts as ignored.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    signals.iter().copied().filter(|signal| ignored >> (signal - 1) & 1 == 0).collect()
}
