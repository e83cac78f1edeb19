//! Whole families of least-recently-used designs from one pass over a reference stream, exactly.
//!
//! Design constraints: knows the stream and nothing of machines, policies or cost; memory grows with the pages seen,
//! never with the stream; no approximation but where the name says so.
//!
//! - [`Family`]: the misses of every array of 1 to 4,096 sets and 1 to 64 ways at five page sizes.
//! - [`CacheFamily`]: the misses of every LRU cache of 1 to 4,096 sets and 1 to 32 ways at three line sizes, by kind.
//! - [`StackDistances`]: the LRU stack distance of each reference, hence the misses of a fully associative array of any
//!   size.
//! - [`SampledDistances`]: an estimate of the same from a sample of pages, with its standard error.
//! - [`ReferenceKinds`]: the kinds of references that the analysis includes.
//! - [`gone()`]: the translations that an event invalidates.
//!
//! Why one pass is enough: a least-recently-used set of W ways holds the W pages used last among those that map to
//! it. So one list per set in order of last use, the *stack*, stands for every W at once, and the *depth* at which
//! a reference finds its page there says who misses: the arrays with no more ways than that (Mattson, Gecsei,
//! Slutz, Traiger, "Evaluation techniques for storage hierarchies", IBM Systems Journal 9 (2), 1970). More ways never
//! miss more.
//!
//! Arrays follow changes of the address space: a page whose translation is invalidated leaves a *hole* in its stacks,
//! which stands for an empty way until a miss fills it. All threads of a stream share the arrays, as on one core that
//! flushes nothing when it switches between threads.

mod cache_family;
mod distances;
mod family;
mod feed;
mod invalidations;
mod line_sets;
mod older_pages;
mod pages;
mod recent_pages;
mod shards;
mod stack;
mod timeline;

pub use cache_family::{CacheFamily, MissKinds};
pub use distances::StackDistances;
pub use family::Family;
pub use feed::ReferenceKinds;
pub use invalidations::gone;
pub use shards::{Estimate, SampledDistances, Sampling};
