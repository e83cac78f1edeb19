//! Organisations of TLB arrays by name: the places where a page may lie.
//!
//! In most arrays the page's number chooses a set ([`SetIndex`]), whatever its size. Others use the size too. To add
//! one, add a file beside this one that implements [`SizeIndexedArray`], and a line below that registers it.

use crate::skewed::Skewed;
use crate::{Geometry, RelevantHits, Replacement, SetArray, SetIndex};
use std::fmt;

/// A translation, for operations of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// log2 of the bytes that it maps.
    pub shift: u32,
    /// The page's number at that size.
    pub number: u64,
    /// Its unique key.
    pub key: u64,
}

/// The shape of an array to build.
#[derive(Clone, Copy, Debug)]
pub struct Shape<'a> {
    /// Entries, and sets or ways.
    pub geometry: Geometry,
    /// log2 of the bytes that entries map, each once, in any order.
    pub shifts: &'a [u32],
    /// The replacement among the places where a page may lie.
    pub replacement: Replacement,
}

/// Why an organisation cannot have a shape: the key, the fault and the choices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrganisationError(pub String);

impl fmt::Display for OrganisationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OrganisationError {}

/// An array whose places depend on the size of a page.
pub trait SizeIndexedArray: Sized {
    /// The name in machine files, as a choice of `index`.
    const NAME: &'static str;
    /// The hits that its replacement needs, with the whole array as one set. [`RelevantHits::LastUse`] is not allowed,
    /// because the array keeps its own state.
    const RELEVANT_HITS: RelevantHits;

    /// An empty array.
    ///
    /// # Errors
    /// If it cannot have the shape.
    fn of(shape: Shape<'_>) -> Result<Self, OrganisationError>;

    /// Whether the entry is held; changes nothing.
    fn contains(&self, entry: Entry) -> bool;

    /// Looks up the entry, and records a hit.
    fn touch(&mut self, entry: Entry) -> bool;

    /// Inserts a missing entry; returns the victim's key.
    fn insert(&mut self, entry: Entry) -> Option<u64>;

    /// Drops the entry; false if it is not there.
    fn remove(&mut self, entry: Entry) -> bool;

    /// Drops all keys that satisfy `gone`.
    fn remove_where(&mut self, gone: impl FnMut(u64) -> bool);

    /// The keys held, in no particular order.
    fn keys(&self) -> impl Iterator<Item = u64> + '_;
}

/// Makes a run-time choice of each line: a value of [`Organisation`], and the array in [`TlbArray`].
macro_rules! organisations {
    ($($(#[$about:meta])* $variant:ident = $array:ty),* $(,)?) => {
        /// The organisation of an array.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Organisation {
            /// The page's number chooses a set.
            Sets(SetIndex),
            $($(#[$about])* $variant),*
        }

        impl Organisation {
            /// The names other than [`SetIndex::NAMES`].
            const OTHERS: &'static [&'static str] = &[$(<$array as SizeIndexedArray>::NAME),*];

            /// The organisation of this name.
            pub fn from_name(name: &str) -> Option<Organisation> {
                $(if name == <$array as SizeIndexedArray>::NAME {
                    return Some(Organisation::$variant);
                })*
                SetIndex::from_name(name).map(Organisation::Sets)
            }

            /// The hits that its replacement needs.
            pub fn relevant_hits(self, replacement: Replacement) -> RelevantHits {
                match self {
                    Organisation::Sets(_) => replacement.relevant_hits(),
                    $(Organisation::$variant => <$array as SizeIndexedArray>::RELEVANT_HITS),*
                }
            }

            /// The set index, if it has sets.
            pub fn sets(self) -> Option<SetIndex> {
                match self {
                    Organisation::Sets(index) => Some(index),
                    $(Organisation::$variant => None),*
                }
            }

            /// An empty array.
            ///
            /// # Errors
            /// If it cannot have the shape.
            pub fn array(self, shape: Shape<'_>) -> Result<TlbArray, OrganisationError> {
                Ok(match self {
                    Organisation::Sets(index) => TlbArray::Sets(
                        SetArray::new(shape.geometry, shape.replacement)
                            .map_err(|why| OrganisationError(format!("replacement: {why}")))?
                            .indexed_by(index),
                    ),
                    $(Organisation::$variant => TlbArray::$variant(<$array as SizeIndexedArray>::of(shape)?)),*
                })
            }
        }

        /// The name that [`Organisation::from_name`] reads.
        impl fmt::Display for Organisation {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    Organisation::Sets(index) => index.fmt(f),
                    $(Organisation::$variant => f.write_str(<$array as SizeIndexedArray>::NAME)),*
                }
            }
        }

        /// An array of any organisation.
        // The tag is a separate byte: see `AnyPolicy`.
        #[derive(Clone, Debug)]
        #[repr(u8)]
        pub enum TlbArray {
            /// Sets.
            Sets(SetArray),
            $(
                #[doc = concat!("[`Organisation::", stringify!($variant), "`].")]
                $variant($array)
            ),*
        }

        impl TlbArray {
            /// Whether the entry is held; changes nothing.
            #[inline]
            pub fn contains(&self, entry: Entry) -> bool {
                match self {
                    TlbArray::Sets(array) => array.contains(entry.number, entry.key),
                    $(TlbArray::$variant(array) => array.contains(entry)),*
                }
            }

            /// Looks up the entry, and records a hit.
            #[inline]
            pub fn touch(&mut self, entry: Entry) -> bool {
                match self {
                    TlbArray::Sets(array) => array.touch(entry.number, entry.key),
                    $(TlbArray::$variant(array) => array.touch(entry)),*
                }
            }

            /// Inserts a missing entry; returns the victim's key.
            #[inline]
            pub fn insert(&mut self, entry: Entry) -> Option<u64> {
                match self {
                    TlbArray::Sets(array) => array.insert(entry.number, entry.key),
                    $(TlbArray::$variant(array) => array.insert(entry)),*
                }
            }

            /// Drops the entry; false if it is not there.
            pub fn remove(&mut self, entry: Entry) -> bool {
                match self {
                    TlbArray::Sets(array) => array.remove(entry.number, entry.key),
                    $(TlbArray::$variant(array) => array.remove(entry)),*
                }
            }

            /// Drops all keys that satisfy `gone`.
            pub fn remove_where(&mut self, gone: impl FnMut(u64) -> bool) {
                match self {
                    TlbArray::Sets(array) => array.remove_where(gone),
                    $(TlbArray::$variant(array) => array.remove_where(gone)),*
                }
            }

            /// The keys held, in no particular order.
            pub fn keys(&self) -> Vec<u64> {
                match self {
                    TlbArray::Sets(array) => array.keys().collect(),
                    $(TlbArray::$variant(array) => array.keys().collect()),*
                }
            }

            /// The array, if it has sets.
            pub fn as_sets(&self) -> Option<&SetArray> {
                match self {
                    TlbArray::Sets(array) => Some(array),
                    $(TlbArray::$variant(_) => None),*
                }
            }
        }
    };
}

// One line registers an organisation.
organisations! {
    /// Each way has its own hash, and a page size that depends on the address.
    Skewed = Skewed,
}

impl Default for Organisation {
    fn default() -> Organisation {
        Organisation::Sets(SetIndex::default())
    }
}

impl From<SetIndex> for Organisation {
    fn from(index: SetIndex) -> Organisation {
        Organisation::Sets(index)
    }
}

impl PartialEq<SetIndex> for Organisation {
    fn eq(&self, index: &SetIndex) -> bool {
        self.sets() == Some(*index)
    }
}

impl Organisation {
    /// The names for messages.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SetIndex::NAMES.into_iter().chain(Organisation::OTHERS.iter().copied())
    }
}

impl TlbArray {
    /// Fills an entry; returns the victim's key. A held entry is touched.
    #[inline]
    pub fn fill(&mut self, entry: Entry) -> Option<u64> {
        if self.touch(entry) { None } else { self.insert(entry) }
    }
}
