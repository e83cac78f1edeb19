//! Writes results as JSON and reads them back.
//!
//! Keys have the order of the schema's fields and metrics the order of their names, so equal results are equal bytes.
//! Lists of plain values stay on one line: the heat map has thousands of numbers.

use crate::schema::{RESULT_SCHEMA, RESULT_SCHEMA_1, RunResult};
use crate::upgrade;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::ser::Formatter;
use std::io::{self, Write};

/// Why a saved result could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The text is not JSON, or not one JSON object.
    #[error("not a pagewalk result: {0}")]
    NotJson(serde_json::Error),
    /// The JSON names no schema.
    #[error("not a pagewalk result: no \"schema\" field; expected \"{expected}\"")]
    NoSchema {
        /// The schema expected.
        expected: &'static str,
    },
    /// The result has another schema.
    #[error("the result has schema \"{found}\"; this version of pagewalk reads \"{expected}\"")]
    OtherSchema {
        /// The schema expected.
        expected: &'static str,
        /// The schema found.
        found: String,
    },
    /// The fields do not match the schema.
    #[error("the result does not fit schema \"{expected}\": {error}")]
    Shape {
        /// The schema.
        expected: &'static str,
        /// What does not fit.
        error: serde_json::Error,
    },
}

/// A result of any kind as JSON in this module's layout, with a newline at its end.
pub fn to_json(result: &impl Serialize) -> String {
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, Layout::default());
    result.serialize(&mut serializer).expect("a result has string keys and writes to memory succeed");
    bytes.push(b'\n');
    String::from_utf8(bytes).expect("serde_json writes UTF-8")
}

/// Reads what [`to_json`] wrote; upgrades results of older versions.
///
/// # Errors
/// When the text is not JSON, names another schema, or lacks fields of this one.
pub fn from_json(text: &str) -> Result<RunResult, ReadError> {
    match named(text)? {
        Some(schema) if schema == RESULT_SCHEMA_1 => read(text, RESULT_SCHEMA_1).map(upgrade::from_1),
        _ => read(text, RESULT_SCHEMA),
    }
}

/// The schema of a saved result of any kind.
///
/// # Errors
/// When the text is not JSON, or names none.
pub fn schema_of(text: &str) -> Result<String, ReadError> {
    named(text)?.ok_or(ReadError::NoSchema { expected: RESULT_SCHEMA })
}

/// The schema's name alone, so that a result of another version is not taken for a broken one.
fn named(text: &str) -> Result<Option<String>, ReadError> {
    #[derive(Deserialize)]
    struct Named {
        schema: Option<String>,
    }
    serde_json::from_str(text).map(|Named { schema }| schema).map_err(ReadError::NotJson)
}

/// Reads a result of the schema `expected`.
pub(crate) fn read<R: DeserializeOwned>(text: &str, expected: &'static str) -> Result<R, ReadError> {
    match named(text)? {
        None => Err(ReadError::NoSchema { expected }),
        Some(found) if found != expected => Err(ReadError::OtherSchema { found, expected }),
        Some(_) => serde_json::from_str(text).map_err(|error| ReadError::Shape { expected, error }),
    }
}

/// Two-space indentation, except that a list of plain values stays on one line.
///
/// The kind of a list is unknown until its first value, so the line break before a value waits until the value turns
/// out to be an object or a list.
#[derive(Default)]
struct Layout {
    depth: usize,
    /// Set inside a list before a value of unknown kind; true for the list's first value.
    awaited: Option<bool>,
    /// Whether the last value in a list ended on a line of its own.
    broken: bool,
    /// Whether the last output is an object's opening brace.
    empty: bool,
}

impl Layout {
    fn new_line<W: ?Sized + Write>(&self, out: &mut W) -> io::Result<()> {
        out.write_all(b"\n")?;
        (0..self.depth).try_for_each(|_| out.write_all(b"  "))
    }

    fn before_plain<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        match self.awaited.take() {
            Some(false) => out.write_all(b" "),
            _ => Ok(()),
        }
    }

    fn before_nested<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        if self.awaited.take().is_some() { self.new_line(out) } else { Ok(()) }
    }
}

impl Formatter for Layout {
    fn write_null<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.before_plain(out)?;
        out.write_all(b"null")
    }

    fn write_bool<W: ?Sized + Write>(&mut self, out: &mut W, value: bool) -> io::Result<()> {
        self.before_plain(out)?;
        out.write_all(if value { b"true" } else { b"false" })
    }

    fn write_u32<W: ?Sized + Write>(&mut self, out: &mut W, value: u32) -> io::Result<()> {
        self.write_u64(out, u64::from(value))
    }

    fn write_u64<W: ?Sized + Write>(&mut self, out: &mut W, value: u64) -> io::Result<()> {
        self.before_plain(out)?;
        write!(out, "{value}")
    }

    fn write_f64<W: ?Sized + Write>(&mut self, out: &mut W, value: f64) -> io::Result<()> {
        self.before_plain(out)?;
        // Debug keeps the ".0" that distinguishes a ratio from a count, and reads back as the same number.
        write!(out, "{value:?}")
    }

    fn begin_string<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.before_plain(out)?;
        out.write_all(b"\"")
    }

    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.before_nested(out)?;
        self.depth += 1;
        self.broken = false;
        out.write_all(b"[")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.awaited = Some(first);
        if first { Ok(()) } else { out.write_all(b",") }
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth -= 1;
        if self.broken {
            self.new_line(out)?;
        }
        self.broken = true;
        out.write_all(b"]")
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.before_nested(out)?;
        self.depth += 1;
        self.empty = true;
        out.write_all(b"{")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.empty = false;
        if !first {
            out.write_all(b",")?;
        }
        self.new_line(out)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth -= 1;
        if !std::mem::take(&mut self.empty) {
            self.new_line(out)?;
        }
        self.broken = true;
        out.write_all(b"}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn laid_out(value: &impl Serialize) -> String {
        let mut bytes = Vec::new();
        value.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, Layout::default())).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn lists_of_plain_values_stay_on_one_line() {
        #[derive(Serialize)]
        struct Row {
            name: &'static str,
            walks: Vec<u64>,
        }
        let rows = vec![Row { name: "a", walks: vec![1, 2] }, Row { name: "b", walks: vec![] }];
        let expected = [
            "[",
            "  {",
            "    \"name\": \"a\",",
            "    \"walks\": [1, 2]",
            "  },",
            "  {",
            "    \"name\": \"b\",",
            "    \"walks\": []",
            "  }",
            "]",
        ];
        assert_eq!(laid_out(&rows), expected.join("\n"));
        assert_eq!(laid_out(&vec![vec![1u64], vec![]]), "[\n  [1],\n  []\n]");
        assert_eq!(laid_out(&[std::collections::BTreeMap::<String, u64>::new()]), "[\n  {}\n]");
        assert_eq!(laid_out(&(0.5f64, 1.0f64, true, "x\"", None::<u32>)), r#"[0.5, 1.0, true, "x\"", null]"#);
    }
}
