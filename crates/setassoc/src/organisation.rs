//! Organisations of TLB arrays by name: where a page may lie.
//!
//! In most arrays the page's number chooses a set ([`SetIndex`]), whatever its size. Others have to know the size too.
//! A new one is a file beside this one, which implements [`SizeIndexedArray`], and a line below that registers it.

use crate::skewed::Skewed;
use crate::{Geometry, RelevantHits, Replacement, SetArray, SetIndex};
use std::fmt;

/// One translation, as an array is asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// log2 of the bytes that it maps.
    pub shift: u32,
    /// Number of what it maps, at that size.
    pub number: u64,
    /// What tells it from all others.
    pub key: u64,
}

/// What an array is to be.
#[derive(Clone, Copy, Debug)]
pub struct Shape<'a> {
    /// Entries, and sets or ways.
    pub geometry: Geometry,
    /// log2 of the bytes that entries map, each once, in any order.
    pub shifts: &'a [u32],
    /// What leaves first of the places where a page may lie.
    pub replacement: Replacement,
}

/// Why an organisation cannot have a shape: what is wrong with which key, and the choices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrganisationError(pub String);

impl fmt::Display for OrganisationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OrganisationError {}

/// An array that finds places by the size of a page too.
pub trait SizeIndexedArray: Sized {
    /// The name in machine files, as a choice of `index`.
    const NAME: &'static str;
    /// Which hits change what it replaces later, where the whole array is one set. As it keeps its own state,
    /// [`RelevantHits::LastUse`] is no answer.
    const RELEVANT_HITS: RelevantHits;

    /// An empty array.
    ///
    /// # Errors
    /// If it cannot have the shape.
    fn of(shape: Shape<'_>) -> Result<Self, OrganisationError>;

    /// Whether the entry is held; changes nothing.
    fn contains(&self, entry: Entry) -> bool;

    /// Looks the entry up; a hit is noted.
    fn touch(&mut self, entry: Entry) -> bool;

    /// Puts an entry that is not held into the array, in the place of what leaves, whose key is returned.
    fn insert(&mut self, entry: Entry) -> Option<u64>;

    /// Drops the entry; says whether it was there.
    fn remove(&mut self, entry: Entry) -> bool;

    /// Drops all keys for which `gone` holds.
    fn remove_where(&mut self, gone: impl FnMut(u64) -> bool);

    /// The keys held, in no particular order.
    fn keys(&self) -> impl Iterator<Item = u64> + '_;
}

/// Makes of each line a choice at run time: a value of [`Organisation`], and the array itself in [`TlbArray`].
macro_rules! organisations {
    ($($(#[$about:meta])* $variant:ident = $array:ty),* $(,)?) => {
        /// How an array finds the places where a page may lie.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Organisation {
            /// The page's number chooses a set.
            Sets(SetIndex),
            $($(#[$about])* $variant),*
        }

        impl Organisation {
            /// The choices beside [`SetIndex::NAMES`].
            const OTHERS: &'static [&'static str] = &[$(<$array as SizeIndexedArray>::NAME),*];

            /// The organisation of this name: that of a [`SetIndex`], or another.
            pub fn from_name(name: &str) -> Option<Organisation> {
                $(if name == <$array as SizeIndexedArray>::NAME {
                    return Some(Organisation::$variant);
                })*
                SetIndex::from_name(name).map(Organisation::Sets)
            }

            /// Which hits change what it replaces later.
            pub fn relevant_hits(self, replacement: Replacement) -> RelevantHits {
                match self {
                    Organisation::Sets(_) => replacement.relevant_hits(),
                    $(Organisation::$variant => <$array as SizeIndexedArray>::RELEVANT_HITS),*
                }
            }

            /// How sets are chosen, where there are sets.
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
        // The tag is a byte of its own, as that of `AnyPolicy` is.
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

            /// Looks the entry up; a hit is noted.
            #[inline]
            pub fn touch(&mut self, entry: Entry) -> bool {
                match self {
                    TlbArray::Sets(array) => array.touch(entry.number, entry.key),
                    $(TlbArray::$variant(array) => array.touch(entry)),*
                }
            }

            /// Puts an entry that is not held into the array, in the place of what leaves, whose key is returned.
            #[inline]
            pub fn insert(&mut self, entry: Entry) -> Option<u64> {
                match self {
                    TlbArray::Sets(array) => array.insert(entry.number, entry.key),
                    $(TlbArray::$variant(array) => array.insert(entry)),*
                }
            }

            /// Drops the entry; says whether it was there.
            pub fn remove(&mut self, entry: Entry) -> bool {
                match self {
                    TlbArray::Sets(array) => array.remove(entry.number, entry.key),
                    $(TlbArray::$variant(array) => array.remove(entry)),*
                }
            }

            /// Drops all keys for which `gone` holds.
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

            /// The array, where it has sets.
            pub fn as_sets(&self) -> Option<&SetArray> {
                match self {
                    TlbArray::Sets(array) => Some(array),
                    $(TlbArray::$variant(_) => None),*
                }
            }
        }
    };
}

// One line registers an organisation; its file says the rest.
organisations! {
    /// Each way has a hash of its own, and a page size by the address.
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
    /// The choices, as messages show them.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SetIndex::NAMES.into_iter().chain(Organisation::OTHERS.iter().copied())
    }
}

impl TlbArray {
    /// Puts an entry into the array, in the place of what leaves, whose key is returned. One that is held is touched.
    #[inline]
    pub fn fill(&mut self, entry: Entry) -> Option<u64> {
        if self.touch(entry) { None } else { self.insert(entry) }
    }
}
