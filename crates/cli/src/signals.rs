//! Signals that come to us while programs run.
//!
//! Those that are ignored from the start stay so, here and in the program, which inherits that: `nohup` is to work.

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

/// Set while nobody watches.
static UNWATCHED: LazyLock<Arc<AtomicBool>> = LazyLock::new(|| Arc::new(AtomicBool::new(true)));
/// Signals that do what they do by default while nobody watches.
static DEFAULTS: Mutex<BTreeSet<c_int>> = Mutex::new(BTreeSet::new());

/// Signals are watched until this is dropped. Then they do again what they do by default: without more they would be
/// ignored for good.
pub struct SignalWatch(Handle);

impl Drop for SignalWatch {
    fn drop(&mut self) {
        UNWATCHED.store(true, Ordering::SeqCst);
        self.0.close();
    }
}

/// Who sent a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sender {
    /// The kernel, as for a key of the terminal: then it came to all of its foreground group.
    Kernel,
    /// A process.
    Process,
}

/// Calls `on` for each of these signals that comes, with who sent it, on a thread of its own. One watch at a time.
fn watch(
    signals: &[c_int],
    mut on: impl FnMut(c_int, Sender) + Send + 'static,
) -> Result<SignalWatch, Error> {
    let cannot = |error| Error::new(Fault::Failed, format!("watching signals: {error}"));
    let signals = heeded(signals);
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
            // `SI_USER`, `SI_QUEUE`, `SI_TKILL`: all that processes send are not above 0.
            on(info.si_signo, if info.si_code <= 0 { Sender::Process } else { Sender::Kernel });
        }
    });
    Ok(SignalWatch(handle))
}

/// What is handed on to programs.
const RELAYED: [c_int; 6] = [SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2];

/// Hands signals on to a program, which decides what they do; but not those of the terminal, of a key or of its end:
/// the program has been sent them too. `of_terminal` is called for those.
pub fn relay_by(
    hand_on: impl Fn(c_int) + Send + 'static,
    of_terminal: impl Fn(c_int) + Send + 'static,
) -> Result<SignalWatch, Error> {
    watch(&RELAYED, move |signal, sender| match sender {
        Sender::Kernel if [SIGINT, SIGQUIT, SIGHUP].contains(&signal) => of_terminal(signal),
        _ => hand_on(signal),
    })
}

/// A flag is set by signals until this is dropped.
pub struct SignalFlag(Vec<SigId>);

impl Drop for SignalFlag {
    fn drop(&mut self) {
        self.0.drain(..).for_each(|id| _ = unregister(id));
    }
}

/// Has `flag` set the moment that one of these signals comes: before what it brings about can be seen.
pub fn note(signals: &[c_int], flag: &'static AtomicBool) -> Result<SignalFlag, Error> {
    let mut note = SignalFlag(Vec::new());
    for signal in heeded(signals) {
        let cannot = |error| Error::new(Fault::Failed, format!("watching signals: {error}"));
        note.0.push(register(signal, flag).map_err(cannot)?);
    }
    Ok(note)
}

/// Set when the user asks for an end.
pub fn set_by_signals() -> Result<Arc<AtomicBool>, Error> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in heeded(&[SIGINT, SIGTERM, SIGHUP]) {
        register(signal, Arc::clone(&stop))
            .map_err(|error| Error::new(Fault::Failed, format!("watching signals: {error}")))?;
    }
    Ok(stop)
}

/// Has writing beyond a limit on the length of files (`ulimit -f`) be an error that is told, not our death. Programs
/// that we start meet it as they would without us.
pub fn survive_file_limits() {
    if !heeded(&[SIGXFSZ]).is_empty() {
        // Without it the limit is deadly, as it is by default.
        let _ = register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
    }
}

/// Those of these signals that are not ignored.
fn heeded(signals: &[c_int]) -> Vec<c_int> {
    // Without /proc none is known to be.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    signals.iter().copied().filter(|signal| ignored >> (signal - 1) & 1 == 0).collect()
}
