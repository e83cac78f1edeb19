//! Finds free addresses for a plan's places in a stream.

use super::{PlanBinding, RebaseError};
use crate::plan::{LIMIT, Plan, SLIDE_BYTES};
use pagewalk_trace::{Event, StreamHeader};

/// Binds a plan as [`PlanBinding::new`] does, with its arena moved up as little as it takes to free its places.
///
/// # Errors
/// As [`PlanBinding::new`]; if places stay taken however far the arena moves, the original obstacle.
pub fn slide<'a>(
    plan: &mut Plan,
    header: &StreamHeader,
    events: impl Iterator<Item = (bool, &'a Event)> + Clone,
) -> Result<PlanBinding, RebaseError> {
    let taken = match PlanBinding::new(plan, header, events.clone()) {
        Err(error @ RebaseError::Taken { .. }) => error,
        other => return other,
    };
    let end = plan.places.iter().map(|place| plan.base(place).saturating_add(place.size)).max();
    let room = LIMIT.saturating_sub(end.unwrap_or(plan.arena));
    for by in (1..=room / SLIDE_BYTES).map(|times| times * SLIDE_BYTES) {
        let slid = Plan { arena: plan.arena + by, ..plan.clone() };
        if let Ok(bound) = PlanBinding::new(&slid, header, events.clone()) {
            *plan = slid;
            return Ok(bound);
        }
    }
    Err(taken)
}
