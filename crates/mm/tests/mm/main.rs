//! All tests of this crate in one binary, so that shared code is built once.

mod charges_equal_oracle;
mod colored_memory;
mod common;
mod file_pages;
mod frames_equal_oracle;
mod inferred_areas;
mod initial_states;
mod linux;
mod migration_equals_oracle;
mod physical_memory;
mod placement_equals_oracle;
mod promotion_equals_oracle;
mod reservation_policy;
mod reservations_equal_oracle;
mod shared_memory;
mod sharing_equals_oracle;
mod utilisation_policies;
