//! Sources of replacement policies in machine files.

use std::fmt;

/// Most characters of a source.
const LONGEST: usize = 300;

/// The source of an array's replacement policy: a kind, and the file's text after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplacementSource {
    kind: SourceKind,
    text: String,
}

/// The kind of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// Experiments on the hardware, by whom and when.
    Measured,
    /// The maker's or builder's word.
    Documented,
    /// A definition: a design on paper or simulated by its source.
    Defined,
    /// An assumption.
    Assumed,
}

impl SourceKind {
    const ALL: [SourceKind; 4] =
        [SourceKind::Measured, SourceKind::Documented, SourceKind::Defined, SourceKind::Assumed];

    /// The first word of such a source.
    pub fn beginning(self) -> &'static str {
        match self {
            SourceKind::Measured => "measured by ",
            SourceKind::Documented => "documented by ",
            SourceKind::Defined => "defined by ",
            SourceKind::Assumed => "assumed: ",
        }
    }
}

/// Why a text is no valid source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplacementSourceError {
    /// Another first word, or nothing after it.
    #[error(
        "replacement_source = {0:?}: let it begin with \"measured by \", \"documented by \", \"defined by \" or \
         \"assumed: \", and say by whom, or why"
    )]
    Kind(String),
    /// Too long for a line.
    #[error("replacement_source: {0} characters: at most {LONGEST} are shown; put the rest into a comment")]
    Long(usize),
    /// Line ends or control characters.
    #[error("replacement_source = {0:?}: expected one line of printable characters")]
    Control(String),
}

impl ReplacementSource {
    /// Reads a source from a machine file.
    ///
    /// # Errors
    /// If the text is not valid.
    pub fn read(text: &str) -> Result<ReplacementSource, ReplacementSourceError> {
        let length = text.chars().count();
        if length > LONGEST {
            return Err(ReplacementSourceError::Long(length));
        }
        if text.chars().any(char::is_control) {
            return Err(ReplacementSourceError::Control(text.to_owned()));
        }
        let kinds = SourceKind::ALL.into_iter();
        let mut read = kinds.filter_map(|kind| Some((kind, text.strip_prefix(kind.beginning())?.trim())));
        match read.next() {
            Some((kind, rest)) if !rest.is_empty() => Ok(ReplacementSource { kind, text: rest.to_owned() }),
            _ => Err(ReplacementSourceError::Kind(text.to_owned())),
        }
    }

    /// Its kind.
    pub fn kind(&self) -> SourceKind {
        self.kind
    }
}

/// The text that [`ReplacementSource::read`] reads.
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
            assert_eq!(ReplacementSource::read(text), Err(ReplacementSourceError::Kind(text.to_owned())));
        }
        let long = format!("measured by {}", "x".repeat(300));
        assert_eq!(ReplacementSource::read(&long), Err(ReplacementSourceError::Long(312)));
        let escape = "measured by \u{1b}[2J";
        assert_eq!(ReplacementSource::read(escape), Err(ReplacementSourceError::Control(escape.to_owned())));
    }
}
