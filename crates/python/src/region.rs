//! The region of interest, from keywords.

use pagewalk::capture::WindowSpec;

/// The region between two markers, from `skip` instructions on, for at most `max_instructions`.
pub fn region(
    from_marker: Option<u64>,
    to_marker: Option<u64>,
    skip: u64,
    max_instructions: Option<u64>,
) -> WindowSpec {
    WindowSpec { from_marker, to_marker, skip, max_instructions }
}
