//! What a machine's replacement rests on.

use std::fmt;

/// Most characters of a source.
const LONGEST: usize = 300;

/// What is known of an array's replacement, and how: a kind and what follows it in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplacementSource {
    kind: SourceKind,
    text: String,
}

/// How something is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// From experiments on the hardware, by whom and when.
    Measured,
    /// Its maker's word, or that of who built it.
    Documented,
    /// A design on paper or simulated there: it is what its description says.
    Defined,
    /// Not known.
    Assumed,
}

impl SourceKind {
    const ALL: [SourceKind; 4] =
        [SourceKind::Measured, SourceKind::Documented, SourceKind::Defined, SourceKind::Assumed];

    /// How such a source begins.
    pub fn beginning(self) -> &'static str {
        match self {
            SourceKind::Measured => "measured by ",
            SourceKind::Documented => "documented by ",
            SourceKind::Defined => "defined by ",
            SourceKind::Assumed => "assumed: ",
        }
    }
}

/// Why a text is no source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// It begins otherwise, or nothing follows.
    #[error(
        "replacement_source = {0:?}: let it begin with \"measured by \", \"documented by \", \"defined by \" or \
         \"assumed: \", and say by whom, or why"
    )]
    Kind(String),
    /// Too long for a line.
    #[error("replacement_source: {0} characters: at most {LONGEST} are shown; put the rest into a comment")]
    Long(usize),
    /// Line ends or other characters that terminals act on.
    #[error("replacement_source = {0:?}: one line of printable characters, please")]
    Control(String),
}

impl ReplacementSource {
    /// Reads what a machine file says.
    ///
    /// # Errors
    /// If it says nothing, or cannot be shown.
    pub fn read(text: &str) -> Result<ReplacementSource, SourceError> {
        let length = text.chars().count();
        if length > LONGEST {
            return Err(SourceError::Long(length));
        }
        if text.chars().any(char::is_control) {
            return Err(SourceError::Control(text.to_owned()));
        }
        let kinds = SourceKind::ALL.into_iter();
        let mut read = kinds.filter_map(|kind| Some((kind, text.strip_prefix(kind.beginning())?.trim())));
        match read.next() {
            Some((kind, rest)) if !rest.is_empty() => Ok(ReplacementSource { kind, text: rest.to_owned() }),
            _ => Err(SourceError::Kind(text.to_owned())),
        }
    }

    /// How it is known.
    pub fn kind(&self) -> SourceKind {
        self.kind
    }
}

/// As [`ReplacementSource::read`] reads it.
impl fmt::Display for ReplacementSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.kind.beginning(), self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_read_back() {
        for kind in SourceKind::ALL {
            let text = format!("{}A. Author 1999", kind.beginning());
            let source = ReplacementSource::read(&text).unwrap();
            assert_eq!((source.kind(), source.to_string()), (kind, text));
        }
    }

    #[test]
    fn anything_else_is_named() {
        for text in ["", "LRU", "measured", "measured by ", "assumed:", "Measured by me"] {
            assert_eq!(ReplacementSource::read(text), Err(SourceError::Kind(text.to_owned())));
        }
        let long = format!("measured by {}", "x".repeat(300));
        assert_eq!(ReplacementSource::read(&long), Err(SourceError::Long(312)));
        let escape = "measured by \u{1b}[2J";
        assert_eq!(ReplacementSource::read(escape), Err(SourceError::Control(escape.to_owned())));
    }
}
