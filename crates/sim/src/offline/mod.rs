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
//!
//! Streams replay in their arrangement, through the same [`Simulation`] as any other design. Each process has blocks of
//! its own, and all of them compete. A block is charged for misses of its own process only: what its freed entries save
//! others shows in the count of the next replay.

mod choice;
mod margins;

pub use margins::RejectedBlocks;

use crate::arrangement::Arrangement;
use crate::counts::DesignCounts;
use crate::error::PassError;
use crate::fit::held_orders;
use crate::player::StructureCounts;
use crate::simulation::Simulation;
use crate::spec::DesignSpec;
use choice::Choice;
use pagewalk_mm::promotion::{Charges, ChoicesPerReplay, ChosenSuperpages, OfflineSettings};
use pagewalk_mm::{Account, Kernel, Superpage};
use pagewalk_translate::{Asid, MachineSpec};
use std::collections::BTreeMap;

/// A superpage that was chosen, or may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChosenBlock {
    /// Its process.
    pub process: Asid,
    /// Its place, in base pages of the machine.
    pub block: Superpage,
}

/// The charges of a replay.
type ChargesByProcess<'a> = BTreeMap<Asid, &'a Charges>;

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
    /// The superpages, by process and ascending address.
    pub blocks: Vec<ChosenBlock>,
    /// Counts with these superpages in force.
    pub counts: DesignCounts,
    /// Activity of the structure around the programs, if there is one.
    pub structure: Option<StructureCounts>,
    /// All replays, in order.
    pub replays: Vec<Replay>,
    /// The blocks rejected after the last replay.
    pub left_out: RejectedBlocks,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError<E> {
    /// The streams could not be played again.
    #[error("{0}")]
    Play(E),
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

/// Finds superpages for streams in an arrangement on a machine. `play` plays the streams from their start, once per
/// replay; `progress` gets every replay.
///
/// # Errors
/// See [`OfflineError`].
pub fn offline<E>(
    mut play: impl FnMut(&mut Simulation) -> Result<(), E>,
    machine: &MachineSpec,
    arrangement: &Arrangement,
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
    let mut blocks: Vec<ChosenBlock> = Vec::new();
    let mut replays: Vec<Replay> = Vec::new();
    let mut best: Option<(u64, Vec<ChosenBlock>, DesignCounts)> = None;
    loop {
        let mut replaying = replay(machine, arrangement, settings, &blocks)?;
        play(&mut replaying).map_err(OfflineError::Play)?;
        let counts = replaying.finish().pop().expect("one design");
        let misses = counts.walks();
        let built = counts.kernel.map_or(0, |kernel| kernel.accounts.of(Account::Copy));
        let cycles = misses.saturating_mul(settings.miss_cycles).saturating_add(built);
        let kernels = replaying.kernels().into_iter();
        let charges: ChargesByProcess<'_> =
            kernels.filter_map(|(process, kernel)| Some((process, kernel.charges()?))).collect();
        // Blocks that larger ones replaced are useless.
        blocks.retain(|of| charges.get(&of.process).is_some_and(|of_it| of_it.built_within(of.block, 0) > 0));
        let (mut next, mut chosen) = (blocks.clone(), 0);
        if replays.len() < settings.replays {
            (next, chosen) = Choice::new(settings, machine.paging.base(), orders, &blocks, &charges).made();
        }
        replays.push(Replay { superpages: blocks.len(), misses, cycles, chosen });
        progress(&replays[replays.len() - 1]);
        let left_out = (chosen == 0)
            .then(|| RejectedBlocks::new(settings, machine.paging.base(), orders, &blocks, &charges));
        if best.as_ref().is_none_or(|&(least, ..)| cycles < least) {
            best = Some((cycles, blocks, counts));
        }
        if let Some(left_out) = left_out {
            let (_, blocks, counts) = best.expect("at least this replay");
            let structure = replaying.counts();
            return Ok(OfflineResult { blocks, counts, structure, replays, left_out });
        }
        blocks = next;
    }
}

/// Checks that superpages can be chosen for a machine.
///
/// # Errors
/// If the machine cannot be simulated in the arrangement.
pub fn check_offline(
    machine: &MachineSpec,
    arrangement: &Arrangement,
    settings: &OfflineSettings,
) -> Result<(), PassError> {
    replay(machine, arrangement, settings, &[]).map(drop)
}

/// A simulation with these superpages in force, which charges the remaining misses.
fn replay(
    machine: &MachineSpec,
    arrangement: &Arrangement,
    settings: &OfflineSettings,
    blocks: &[ChosenBlock],
) -> Result<Simulation, PassError> {
    let blocks = blocks.iter().map(|of| (of.process.index() as u32, of.block));
    let given = ChosenSuperpages::new(orders(machine, settings), blocks).charging();
    let kernel = Kernel::new(machine.paging.base(), Box::new(given.clone()), settings.costs);
    Simulation::new(vec![DesignSpec::with_kernel("offline".to_owned(), machine, kernel)], arrangement)
}

fn orders(machine: &MachineSpec, settings: &OfflineSettings) -> u32 {
    settings.orders.unwrap_or_else(|| held_orders(machine))
}
