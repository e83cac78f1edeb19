//! Finds free addresses for a layout's places in a stream.

use super::{PlanBinding, RebaseError};
use pagewalk_plan::{ARENA_LIMIT, Layout, SLIDE_BYTES};
use pagewalk_trace::{Event, StreamHeader};

/// Binds a layout as [`PlanBinding::new`] does, with its arena moved up as little as it takes to free its places.
///
/// # Errors
/// As [`PlanBinding::new`]; if places stay taken however far the arena moves, the original obstacle.
pub fn slide<'a>(
    layout: &mut Layout,
    header: &StreamHeader,
    events: impl Iterator<Item = (bool, &'a Event)> + Clone,
) -> Result<PlanBinding, RebaseError> {
    let taken = match PlanBinding::new(layout, header, events.clone()) {
        Err(error @ RebaseError::Taken { .. }) => error,
        other => return other,
    };
    let end = layout.places.iter().map(|place| layout.base(place).saturating_add(place.size)).max();
    let room = ARENA_LIMIT.saturating_sub(end.unwrap_or(layout.arena));
    for by in (1..=room / SLIDE_BYTES).map(|times| times * SLIDE_BYTES) {
        let slid = Layout { arena: layout.arena + by, ..layout.clone() };
        if let Ok(bound) = PlanBinding::new(&slid, header, events.clone()) {
            *layout = slid;
            return Ok(bound);
        }
    }
    Err(taken)
}
