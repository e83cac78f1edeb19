//! Measures how long OFFLINE takes for a trace compared with one pass of its machine, and the memory of both.
//!
//!     offline_bench [--machine NAME|FILE.toml] [--take SHARE|one] T.pwt
//!
//! Reads the trace from its file each time, on one thread: with base pages under the host's kernel, with base pages
//! under a kernel of its own, and as OFFLINE does. Prints every replay, then the quotient of the times and the charges
//! of what was left out. Seconds are those that the processor worked for it, so that other work on the machine counts
//! for little.
//!
//! On `cc1 -O2` (2.9·10⁹ instructions), 11 replays took 98 MB and 13.0 times the processor time of `romer_1998` on base
//! pages.

use pagewalk_mm::promotion::{ChoicesPerReplay, OfflineSettings};
use pagewalk_mm::{OsSpec, ThpMode};
use pagewalk_sim::{Arrangement, DesignSpec, HostKernel, Library, NoObserver, Pass, held_orders, offline};
use pagewalk_trace::pwt::Reader;
use pagewalk_trace::{Analysis, Source, seconds_worked};
use pagewalk_translate::MachineSpec;
use std::error::Error;
use std::fs::File;

const USAGE: &str = "usage: offline_bench [--machine NAME|FILE.toml] [--take SHARE|one] T.pwt";

/// Seconds, data references and misses of one pass.
fn pass(path: &str, design: DesignSpec) -> Result<(f64, u64, u64), Box<dyn Error>> {
    let begun = seconds_worked()?;
    let mut pass = Pass::new(vec![design], NoObserver)?;
    play(path, &mut pass)?;
    let counts = pass.finish().pop().ok_or("one design")?;
    Ok((seconds_worked()? - begun, counts.data_references, counts.walks()))
}

/// Plays the trace from its beginning.
fn play(path: &str, mut to: &mut dyn Analysis) -> Result<(), Box<dyn Error>> {
    let mut source = Reader::new(File::open(path)?)?;
    while let Some(item) = source.next_item()? {
        item.play(&mut to);
    }
    Ok(())
}

/// Peak memory of this process in megabytes.
fn peak_megabytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024 / 1_000_000)
}

fn main() -> Result<(), Box<dyn Error>> {
    let (mut machine, mut settings, mut path) =
        (Library::get("romer_1998")?, OfflineSettings::default(), None);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(USAGE);
        match word.as_str() {
            "--machine" => {
                let name = value()?;
                machine = match name.ends_with(".toml") {
                    true => MachineSpec::from_toml(&name, &std::fs::read_to_string(&name)?)?,
                    false => Library::get(&name)?,
                };
            }
            "--take" => {
                settings.take = match value()?.as_str() {
                    "one" => ChoicesPerReplay::One,
                    share => ChoicesPerReplay::Share(share.parse()?),
                };
            }
            _ if path.is_none() && !word.starts_with('-') => path = Some(word),
            _ => return Err(USAGE.into()),
        }
    }
    let path = path.ok_or(USAGE)?;
    let (seconds, references, walks) = pass(&path, HostKernel::new(ThpMode::Never).design(&machine))?;
    println!("one pass       {seconds:8.1} s, {references} data references, {walks} misses");
    let fixed = OsSpec::from_text("fixed")?.kernel(machine.paging, held_orders(&machine))?;
    let (with_kernel, _, _) = pass(&path, DesignSpec::with_kernel("fixed".to_owned(), &machine, fixed))?;
    println!("with a kernel  {with_kernel:8.1} s");
    println!("before OFFLINE {:8} MB", peak_megabytes().unwrap_or(0));
    let begun = seconds_worked()?;
    let mut last = begun;
    let found = offline(
        |replay| play(&path, replay).map_err(|error| error.to_string()),
        &machine,
        &Arrangement::default(),
        &settings,
        |replay| {
            let now = seconds_worked().unwrap_or(last);
            let seconds = now - std::mem::replace(&mut last, now);
            println!(
                "replay         {seconds:8.1} s, {} superpages, {} misses, {} cycles, {} more chosen",
                replay.superpages, replay.misses, replay.cycles, replay.chosen
            );
        },
    )?;
    let all = seconds_worked()? - begun;
    println!("OFFLINE        {all:8.1} s, {} replays: {:.1} passes", found.replays.len(), all / seconds);
    let left = found.left_out;
    println!(
        "left out       {:8} blocks: 99 of 100 have prefetch charges of {:.3} or less of what pays, capacity of {:.3}",
        left.blocks, left.prefetch, left.capacity
    );
    println!("in all         {:8} MB", peak_megabytes().unwrap_or(0));
    Ok(())
}
