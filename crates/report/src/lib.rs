//! Results as data, and their renderers. Runs no simulation and reads no trace.
//!
//! [`schema`] is the result of a run, [`metrics`] the registry of its counters, [`groups`] that of its parts with
//! counters of their own. [`json`] writes and reads it; [`text`] prints it on a terminal; [`html`] makes the
//! self-contained page; [`viewers`] writes profiles for other tools; [`advice`] gives the advice, and [`kernel_costs`]
//! compares kernels. [`sweep`] does the
//! same for results of studies, [`contiguity`] for a live process's memory, [`conflicts`] for a TLB's sets, [`probe`]
//! for a host's translation costs. [`classes()`] classifies figures; [`documents`] holds results of one command each;
//! [`kinds`] lists all kinds with their JSON Schemas. Renderers compute nothing: each figure is in the result or is a
//! sum or quotient of some that are.

pub mod advice;
pub mod classes;
mod color_misses;
pub mod conflicts;
pub mod contiguity;
pub mod documents;
mod figures;
pub mod groups;
pub mod html;
pub mod huge_pages;
pub mod json;
pub mod kernel_costs;
pub mod kinds;
pub mod layout_plan;
mod machine_description;
pub mod metrics;
mod numbers;
mod printable;
pub mod probe;
pub mod schema;
mod sections;
pub mod sweep;
pub mod text;
mod upgrade;
mod values;
pub mod viewers;

pub use advice::advise;
pub use classes::{Class, Classes, classes};
pub use html::{ReportedRun, render_html, render_runs_html};
pub use json::{ReadError, from_json, schema_of, to_json};
pub use numbers::{TimeUnit, bytes, count, page_name};
pub use printable::{printable, shortened};
pub use schema::{NO_SYMBOL, STRIPPED};
pub use text::{TextOptions, render_text, render_verification_text};
