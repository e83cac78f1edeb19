//! Reads the keys of an `[os]` table.

use super::OsError;
use super::manual::{Manual, PolicyKey};
use crate::ORDERS;
use pagewalk_units::names::{choice, closest, meant};
use pagewalk_units::{PageSize, Paging};
use std::fmt::Display;
use std::ops::RangeInclusive;
use toml::{Table, Value};

/// What reads the keys of a table, with its name.
pub(super) type KeyReader<T> = (&'static str, fn(&mut Keys) -> Result<T, OsError>);

/// A table whose keys are removed as they are read; keys left at the end are unknown.
///
/// Each read gives the key's meaning in one line, so the manual lists exactly the keys that the code reads.
pub(super) struct Keys {
    pub paging: Paging,
    /// Orders of pages that TLBs hold, one bit each.
    pub held: u32,
    /// The table's path, for messages: `os`, `os.costs`.
    place: String,
    table: Table,
    known: Vec<&'static str>,
    /// The manual, if the keys are read only to document them: then every table exists.
    manual: Option<Manual>,
}

impl Keys {
    pub fn new(place: &str, table: Table, paging: Paging, held: u32) -> Keys {
        Keys { paging, held, place: place.to_owned(), table, known: Vec::new(), manual: None }
    }

    /// Documents the keys as they are read.
    pub fn documented(self, manual: &Manual) -> Keys {
        Keys { manual: Some(manual.clone()), ..self }
    }

    /// Documents the keys that several readers of this table read, each under its name: a key once, with the default of
    /// the first reader, then others. Nothing happens unless the keys are read for the manual.
    pub fn document_each<T>(&self, readers: &[KeyReader<T>]) -> Result<(), OsError> {
        let Some(manual) = &self.manual else { return Ok(()) };
        let mut all: Vec<PolicyKey> = Vec::new();
        for (reader, read) in readers {
            let own = Manual::default();
            let mut keys = Keys::new(&self.place, Table::new(), self.paging, self.held).documented(&own);
            read(&mut keys)?;
            for key in own.take() {
                match all.iter_mut().find(|other| other.name == key.name) {
                    Some(other) if other.usual == key.usual => {}
                    Some(other) => other.usual += &format!("; `{reader}`: {}", key.usual),
                    None => all.push(key),
                }
            }
        }
        manual.borrow_mut().extend(all);
        Ok(())
    }

    /// The table under a key of this one.
    fn under(&self, key: &str, table: Table) -> Keys {
        let place = format!("{}.{key}", self.place);
        Keys { manual: self.manual.clone(), ..Keys::new(&place, table, self.paging, self.held) }
    }

    /// Whether the keys are read for the manual.
    pub fn is_documented(&self) -> bool {
        self.manual.is_some()
    }

    /// Documents a key, if the keys are read for the manual.
    pub fn document(&self, key: &str, meaning: &'static str, usual: impl Display, choices: impl Display) {
        if let Some(manual) = &self.manual {
            let path = format!("{}.{key}", self.place);
            let name = path.split_once('.').map_or(key, |(_, name)| name).to_owned();
            let (usual, choices) = (usual.to_string(), choices.to_string());
            manual.borrow_mut().push(PolicyKey { name, usual, choices, meaning });
        }
    }

    /// The order of the largest superpage, from `max_page`: one that TLBs hold. Default: the largest of those up to
    /// `usual`; if all are larger, the smallest.
    pub fn max_page(&mut self, usual: u8) -> Result<u8, OsError> {
        const MEANING: &str = "the largest superpage";
        let held = self.held;
        let is_held = |&order: &u8| held >> order & 1 == 1;
        let Some(given) = self.table.get("max_page").cloned() else {
            self.known.push("max_page");
            let usually = self.size(usual);
            let most = format!("the largest that TLBs hold up to {usually}, else the smallest above");
            self.document("max_page", MEANING, most, "a superpage that TLBs hold");
            let largest = (1..=usual).rev().chain(usual + 1..ORDERS as u8).find(is_held);
            let none = || {
                let held = self.held();
                format!(
                    "the policy builds superpages, and the machine's TLBs hold only {held} (`linux` runs there)"
                )
            };
            return largest.ok_or_else(|| OsError::Policy(none()));
        };
        Some(self.order("max_page", MEANING, "", 1)?).filter(is_held).ok_or_else(|| self.not_held(&given))
    }

    fn not_held(&self, given: &dyn Display) -> OsError {
        let expected = format!("a superpage that the TLBs hold: they hold {}", self.held());
        self.error("max_page", given, expected)
    }

    /// The pages that TLBs hold.
    fn held(&self) -> String {
        let size = |order: u32| PageSize::from_shift(self.paging.base().shift() + order);
        let held = (0..ORDERS as u32).filter(|order| self.held >> order & 1 == 1).filter_map(size);
        held.map(|size| size.to_string()).collect::<Vec<_>>().join(" ")
    }

    fn error(&self, key: &str, given: impl Display, expected: String) -> OsError {
        OsError::Value { key: format!("{}.{key}", self.place), given: given.to_string(), expected }
    }

    /// Takes the value of a key, if present.
    pub fn take(&mut self, key: &'static str) -> Option<Value> {
        self.known.push(key);
        self.table.remove(key)
    }

    /// Whether a key is present.
    pub fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// An integer in a range.
    pub fn count(
        &mut self,
        key: &'static str,
        meaning: &'static str,
        usual: u64,
        range: RangeInclusive<u64>,
    ) -> Result<u64, OsError> {
        let end = match *range.end() {
            u64::MAX => "or more".to_owned(),
            end => format!("to {end}"),
        };
        let expected = format!("a whole number, {} {end}", range.start());
        self.document(key, meaning, usual, &expected);
        let Some(value) = self.take(key) else { return Ok(usual) };
        let count = value.as_integer().and_then(|count| u64::try_from(count).ok());
        count.filter(|count| range.contains(count)).ok_or_else(|| self.error(key, value, expected))
    }

    /// A required integer.
    pub fn whole(&mut self, key: &'static str, meaning: &'static str) -> Result<u64, OsError> {
        const EXPECTED: &str = "a whole number, 0 or more";
        match (self.has(key), &self.manual) {
            (true, _) => self.count(key, meaning, 0, 0..=u64::MAX),
            (false, None) => Err(self.error(key, "missing", EXPECTED.to_owned())),
            (false, Some(_)) => {
                self.document(key, meaning, "must be given", EXPECTED);
                Ok(0)
            }
        }
    }

    /// A number in a range.
    pub fn number(
        &mut self,
        key: &'static str,
        meaning: &'static str,
        usual: f64,
        range: RangeInclusive<f64>,
    ) -> Result<f64, OsError> {
        let expected = format!("a number from {} to {}", range.start(), range.end());
        self.document(key, meaning, usual, &expected);
        let Some(value) = self.take(key) else { return Ok(usual) };
        real(&value).filter(|number| range.contains(number)).ok_or_else(|| self.error(key, value, expected))
    }

    /// A share: above 0, up to 1.
    pub fn share(&mut self, key: &'static str, meaning: &'static str, usual: f64) -> Result<f64, OsError> {
        const EXPECTED: &str = "a number above 0, up to 1";
        self.document(key, meaning, usual, EXPECTED);
        let Some(value) = self.take(key) else { return Ok(usual) };
        let share = real(&value).filter(|&share| share > 0.0 && share <= 1.0);
        share.ok_or_else(|| self.error(key, value, EXPECTED.to_owned()))
    }

    /// `true` or `false`.
    pub fn flag(&mut self, key: &'static str, meaning: &'static str, usual: bool) -> Result<bool, OsError> {
        self.document(key, meaning, usual, "true or false");
        let Some(value) = self.take(key) else { return Ok(usual) };
        value.as_bool().ok_or_else(|| self.error(key, value, "true or false".to_owned()))
    }

    /// A text, or nothing.
    pub fn text(
        &mut self,
        key: &'static str,
        meaning: &'static str,
        usual: &str,
        expected: &str,
    ) -> Result<Option<String>, OsError> {
        self.document(key, meaning, usual, expected);
        match self.take(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.error(key, other, expected.to_owned())),
        }
    }

    /// One of several comma-separated `names`.
    pub fn name<T: PartialEq>(
        &mut self,
        key: &'static str,
        meaning: &'static str,
        usual: T,
        from_name: impl Fn(&str) -> Option<T>,
        names: &str,
    ) -> Result<T, OsError> {
        let is_usual = |name: &&str| from_name(name).is_some_and(|named| named == usual);
        self.document(key, meaning, names.split(", ").find(is_usual).unwrap_or("none"), names);
        let Some(value) = self.take(key) else { return Ok(usual) };
        let named = value.as_str().and_then(from_name);
        named.ok_or_else(|| self.error(key, &value, one_of(names, &value)))
    }

    /// A page size, as its order.
    pub fn order(
        &mut self,
        key: &'static str,
        meaning: &'static str,
        usual: &str,
        least: u8,
    ) -> Result<u8, OsError> {
        self.document(key, meaning, usual, self.sizes(least));
        let value = self.take(key).unwrap_or_else(|| Value::String(usual.to_owned()));
        let size = value.as_str().and_then(|text| text.parse::<PageSize>().ok());
        let order = size.and_then(|size| self.order_of(size)).filter(|&order| order >= least);
        order.ok_or_else(|| self.error(key, value, self.sizes(least)))
    }

    /// The order of a page size, if it is a base page or a superpage.
    pub fn order_of(&self, size: PageSize) -> Option<u8> {
        let order = size.shift().checked_sub(self.paging.base().shift())?;
        u8::try_from(order).ok().filter(|&order| usize::from(order) < ORDERS)
    }

    /// The available sizes, as text.
    pub fn sizes(&self, least: u8) -> String {
        self.sizes_to(least, ORDERS as u8 - 1)
    }

    /// The sizes of a range of orders, as text.
    pub fn sizes_to(&self, least: u8, most: u8) -> String {
        format!("a page size, a power of two from {} to {}", self.size(least), self.size(most))
    }

    /// The size of an order, as text.
    fn size(&self, order: u8) -> String {
        let size = PageSize::from_shift(self.paging.base().shift() + u32::from(order));
        size.map_or_else(String::new, |size| size.to_string())
    }

    /// The table under a key; `true` stands for an empty one, `false` for none.
    pub fn table(
        &mut self,
        key: &'static str,
        meaning: &'static str,
        usual: bool,
    ) -> Result<Option<Keys>, OsError> {
        self.document(key, meaning, usual, "true, false or a table");
        match self.take(key) {
            Some(Value::Table(table)) => Ok(Some(self.under(key, table))),
            Some(Value::Boolean(is_on)) => Ok(is_on.then(|| self.under(key, Table::new()))),
            None => Ok((usual || self.manual.is_some()).then(|| self.under(key, Table::new()))),
            Some(other) => Err(self.error(key, other, "true, false or a table".to_owned())),
        }
    }

    /// The tables under a key: one, a list of them, or none.
    pub fn tables(&mut self, key: &'static str, meaning: &'static str) -> Result<Vec<Keys>, OsError> {
        self.document(key, meaning, "none", "a table, or a list of tables");
        let values = match self.take(key) {
            None if self.manual.is_some() => vec![Value::Table(Table::new())],
            None => Vec::new(),
            Some(Value::Array(values)) => values,
            Some(value) => vec![value],
        };
        let table = |value: Value| match value {
            Value::Table(table) => Ok(self.under(key, table)),
            other => Err(self.error(key, other, "a table, or a list of tables".to_owned())),
        };
        values.into_iter().map(table).collect()
    }

    /// [`Keys::table`] whose key someone may give the value of one key in it: `inner` names that key.
    pub fn table_of(
        &mut self,
        key: &'static str,
        meaning: &'static str,
        inner: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Keys>, OsError> {
        let meant = self.table.get(key).and_then(|given| match given {
            Value::String(text) => inner(text),
            Value::Integer(count) => inner(&count.to_string()),
            _ => None,
        });
        self.table(key, meaning, false).map_err(|error| match (error, meant) {
            (OsError::Value { key: of, given, expected }, Some(meant)) => OsError::Value {
                key: of,
                given,
                expected: format!("{expected} (did you mean `{key}.{meant}`?)"),
            },
            (error, _) => error,
        })
    }

    /// The error of a key that is none of this table's; `known` are others than those read so far.
    pub fn unknown(&self, key: &str, known: impl IntoIterator<Item = &'static str>) -> OsError {
        let known: Vec<&str> = self.known.iter().copied().chain(known).collect();
        OsError::Key { key: format!("{}.{key}", self.place), choice: choice(key, &known) }
    }

    /// Takes the remaining, unknown keys.
    pub fn rest(&mut self) -> Table {
        std::mem::take(&mut self.table)
    }

    /// Checks that no key is left.
    pub fn finish(self) -> Result<(), OsError> {
        match self.table.keys().next() {
            None => Ok(()),
            Some(key) => Err(self.unknown(key, [])),
        }
    }
}

/// The comma-separated `names`, with those that are closest to what was given.
pub(super) fn one_of(names: &str, given: &Value) -> String {
    let meant = meant(&closest(given.as_str().unwrap_or_default(), names.split(", ")));
    format!("one of {names}{}", meant.map_or(String::new(), |meant| format!(" ({meant})")))
}

/// An integer or float as a float.
fn real(value: &Value) -> Option<f64> {
    value.as_float().or(value.as_integer().map(|count| count as f64))
}
