//! OFFLINE: superpages chosen with knowledge of the future (Romer 1998, section 3.4.1).
//!
//! The best set is hard to find (the source reduces Set-Cover to it), so the search is greedy. It replays the stream
//! with the superpages chosen so far in force, charges every miss to the blocks that would prevent it, and chooses the
//! block with the most misses for its price, until none is worth its price.
//!
//! What the source leaves open is a setting: how many blocks to choose after one replay, and the cost of a block that
//! grows out of chosen ones. In the end each superpage pays for a full copy, and the ones inside it pay nothing. A miss
//! that a block would prevent in both of the source's ways counts once. A block whose memory is freed and touched again
//! costs its price each time. A choice may cost more than it saves, so the cheapest replay is the result.

mod choice;
mod margins;

pub use margins::RejectedBlocks;

use crate::attribution::NoObserver;
use crate::counts::DesignCounts;
use crate::error::PassError;
use crate::fit::held_orders;
use crate::pass::Pass;
use crate::spec::DesignSpec;
use crate::system::System;
use choice::Choice;
use pagewalk_mm::promotion::{ChoicesPerReplay, ChosenSuperpages, OfflineSettings, Policy};
use pagewalk_mm::{Account, Kernel, Superpage};
use pagewalk_trace::{Analysis, Item, Source, SourceError};
use pagewalk_translate::{Asid, MachineSpec};

/// The counts of one replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// Superpages in force.
    pub superpages: usize,
    /// Misses with them.
    pub misses: u64,
    /// Cycles of those misses and of building the superpages.
    pub cycles: u64,
    /// Blocks chosen after the replay.
    pub chosen: usize,
}

/// The result of OFFLINE.
#[derive(Clone, Debug)]
pub struct OfflineResult {
    /// The superpages, by ascending address, in base pages of the machine.
    pub blocks: Vec<Superpage>,
    /// Counts with these superpages in force.
    pub counts: DesignCounts,
    /// All replays, in order.
    pub replays: Vec<Replay>,
    /// The blocks rejected after the last replay.
    pub left_out: RejectedBlocks,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError<E> {
    /// The stream could not be opened again.
    #[error("{0}")]
    Open(E),
    /// The stream cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The kernel does not fit the machine.
    #[error(transparent)]
    Pass(#[from] PassError),
    /// `take` is not a share.
    #[error("offline: take is {0}: expected a share from 0 to 1")]
    Share(f64),
    /// The machine holds no superpage of the requested orders.
    #[error("offline: no TLB of `{0}` holds pages larger than its base page for all references")]
    NoSuperpages(String),
}

/// Finds superpages for a stream on a machine. `open` opens the stream from its start, once per replay; `progress` gets
/// every replay.
pub fn offline<S: Source, E>(
    mut open: impl FnMut() -> Result<S, E>,
    machine: &MachineSpec,
    settings: &OfflineSettings,
    mut progress: impl FnMut(&Replay),
) -> Result<OfflineResult, OfflineError<E>> {
    let orders = orders(machine, settings);
    if let ChoicesPerReplay::Share(share) = settings.take
        && !(0.0..=1.0).contains(&share)
    {
        return Err(OfflineError::Share(share));
    }
    if orders >> 1 == 0 {
        return Err(OfflineError::NoSuperpages(machine.name.clone()));
    }
    let mut blocks: Vec<Superpage> = Vec::new();
    let mut replays: Vec<Replay> = Vec::new();
    let mut best: Option<(u64, Vec<Superpage>, DesignCounts)> = None;
    loop {
        let mut replaying = replay(machine, settings, &blocks)?;
        feed(&mut replaying, open().map_err(OfflineError::Open)?)?;
        let counts = replaying.counts();
        let misses = counts.walks();
        let built = counts.kernel.map_or(0, |kernel| kernel.accounts.of(Account::Copy));
        let cycles = misses.saturating_mul(settings.miss_cycles).saturating_add(built);
        let charges = replaying.kernel().and_then(Kernel::charges).expect("the replay's policy charges");
        // Blocks that larger ones replaced are useless.
        blocks.retain(|&block| charges.built_within(block, 0) > 0);
        let (mut next, mut chosen) = (blocks.clone(), 0);
        if replays.len() < settings.replays {
            (next, chosen) = Choice::new(settings, machine.paging.base(), orders, &blocks, charges).made();
        }
        replays.push(Replay { superpages: blocks.len(), misses, cycles, chosen });
        progress(&replays[replays.len() - 1]);
        let left_out = (chosen == 0)
            .then(|| RejectedBlocks::new(settings, machine.paging.base(), orders, &blocks, charges));
        if best.as_ref().is_none_or(|&(least, ..)| cycles < least) {
            best = Some((cycles, blocks, counts));
        }
        if let Some(left_out) = left_out {
            let (_, blocks, counts) = best.expect("at least this replay");
            return Ok(OfflineResult { blocks, counts, replays, left_out });
        }
        blocks = next;
    }
}

/// Whether superpages can be chosen for a machine.
pub fn check_offline(machine: &MachineSpec, settings: &OfflineSettings) -> Result<(), PassError> {
    replay(machine, settings, &[]).map(drop)
}

/// The engine of one replay.
enum ReplayEngine {
    Pass(Box<Pass>),
    System(Box<System>),
}

impl ReplayEngine {
    fn counts(&mut self) -> DesignCounts {
        match self {
            ReplayEngine::Pass(pass) => pass.finish().pop().expect("one design"),
            ReplayEngine::System(system) => system.counts(),
        }
    }

    fn kernel(&self) -> Option<&Kernel> {
        match self {
            ReplayEngine::Pass(pass) => pass.kernel(0),
            ReplayEngine::System(system) => system.kernel(),
        }
    }

    fn analysis(&mut self) -> &mut dyn Analysis {
        match self {
            ReplayEngine::Pass(pass) => pass.as_mut(),
            ReplayEngine::System(system) => system.as_mut(),
        }
    }
}

/// A replay engine with these superpages in force, which charges the remaining misses.
fn replay(
    machine: &MachineSpec,
    settings: &OfflineSettings,
    blocks: &[Superpage],
) -> Result<ReplayEngine, PassError> {
    let given = ChosenSuperpages::new(orders(machine, settings), blocks.iter().copied()).charging();
    let kernel = Kernel::new(machine.paging.base(), given.boxed(), settings.costs);
    let spec = DesignSpec::with_kernel("offline".to_owned(), machine, kernel);
    Ok(match machine.data_side {
        None => ReplayEngine::Pass(Box::new(Pass::new(vec![spec], NoObserver)?)),
        Some(_) => {
            let mut system = System::new(spec, 1)?;
            system.switch_to(Asid::default());
            ReplayEngine::System(Box::new(system))
        }
    })
}

fn orders(machine: &MachineSpec, settings: &OfflineSettings) -> u32 {
    settings.orders.unwrap_or_else(|| held_orders(machine))
}

fn feed(replaying: &mut ReplayEngine, mut source: impl Source) -> Result<(), SourceError> {
    let analysis = replaying.analysis();
    while let Some(item) = source.next_item()? {
        match item {
            Item::Batch(batch) => analysis.on_batch(&batch),
            Item::Event { at, event } => analysis.on_event(at, &event),
        }
    }
    Ok(())
}
