//! The keys of an `[os]` table, read one by one.

use super::OsError;
use crate::ORDERS;
use pagewalk_units::names::{choice, closest, meant};
use pagewalk_units::{PageSize, Paging};
use std::ops::RangeInclusive;
use toml::{Table, Value};

/// A table whose keys are taken out as they are read. What is left at the end is unknown.
pub(super) struct Keys {
    pub paging: Paging,
    /// Orders of the pages that TLBs hold: a bit each.
    pub held: u32,
    /// Where the table stands, for messages: `os`, `os.costs`.
    place: String,
    table: Table,
    known: Vec<&'static str>,
}

impl Keys {
    pub fn new(place: &str, table: Table, paging: Paging, held: u32) -> Keys {
        Keys { paging, held, place: place.to_owned(), table, known: Vec::new() }
    }

    /// The order of the largest superpage, under `max_page`: one that TLBs hold. By default the largest of those up to
    /// `usual`.
    pub fn max_page(&mut self, usual: u8) -> Result<u8, OsError> {
        let held = self.held;
        let is_held = |&order: &u8| held >> order & 1 == 1;
        let Some(given) = self.table.get("max_page").cloned() else {
            self.known.push("max_page");
            let largest = (1..=usual).rev().find(is_held);
            return largest.ok_or_else(|| self.not_held(&"too small"));
        };
        Some(self.order("max_page", "", 1)?).filter(is_held).ok_or_else(|| self.not_held(&given))
    }

    fn not_held(&self, given: &dyn std::fmt::Display) -> OsError {
        let size = |order: u32| PageSize::from_shift(self.paging.base().shift() + order);
        let held = (0..ORDERS as u32).filter(|order| self.held >> order & 1 == 1).filter_map(size);
        let held: Vec<String> = held.map(|size| size.to_string()).collect();
        let expected = format!("a superpage that the TLBs hold: they hold {}", held.join(" "));
        self.error("max_page", given, expected)
    }

    fn error(&self, key: &str, given: impl std::fmt::Display, expected: String) -> OsError {
        OsError::Value { key: format!("{}.{key}", self.place), given: given.to_string(), expected }
    }

    /// The value of a key, if it is there.
    pub fn take(&mut self, key: &'static str) -> Option<Value> {
        self.known.push(key);
        self.table.remove(key)
    }

    /// Whether a key is there.
    pub fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// A whole number in a range.
    pub fn count(
        &mut self,
        key: &'static str,
        usual: u64,
        range: RangeInclusive<u64>,
    ) -> Result<u64, OsError> {
        let Some(value) = self.take(key) else { return Ok(usual) };
        let count = value.as_integer().and_then(|count| u64::try_from(count).ok());
        count.filter(|count| range.contains(count)).ok_or_else(|| {
            let end = match *range.end() {
                u64::MAX => "or more".to_owned(),
                end => format!("to {end}"),
            };
            self.error(key, value, format!("a whole number, {} {end}", range.start()))
        })
    }

    /// A whole number that must be there.
    pub fn whole(&mut self, key: &'static str) -> Result<u64, OsError> {
        match self.has(key) {
            true => self.count(key, 0, 0..=u64::MAX),
            false => Err(self.error(key, "missing", "a whole number, 0 or more".to_owned())),
        }
    }

    /// A number in a range.
    pub fn number(
        &mut self,
        key: &'static str,
        usual: f64,
        range: RangeInclusive<f64>,
    ) -> Result<f64, OsError> {
        let Some(value) = self.take(key) else { return Ok(usual) };
        let number = value.as_float().or(value.as_integer().map(|count| count as f64));
        number.filter(|number| range.contains(number)).ok_or_else(|| {
            self.error(key, value, format!("a number from {} to {}", range.start(), range.end()))
        })
    }

    /// A part of a whole: above 0, and up to 1.
    pub fn share(&mut self, key: &'static str, usual: f64) -> Result<f64, OsError> {
        let share = self.number(key, usual, 0.0..=1.0)?;
        if share > 0.0 { Ok(share) } else { Err(self.error(key, share, "a number above 0".to_owned())) }
    }

    /// `true` or `false`.
    pub fn flag(&mut self, key: &'static str, usual: bool) -> Result<bool, OsError> {
        let Some(value) = self.take(key) else { return Ok(usual) };
        value.as_bool().ok_or_else(|| self.error(key, value, "true or false".to_owned()))
    }

    /// One of several names.
    pub fn name<T>(
        &mut self,
        key: &'static str,
        usual: T,
        from_name: impl Fn(&str) -> Option<T>,
        names: &str,
    ) -> Result<T, OsError> {
        let Some(value) = self.take(key) else { return Ok(usual) };
        value.as_str().and_then(from_name).ok_or_else(|| {
            let meant = meant(&closest(value.as_str().unwrap_or_default(), names.split(", ")));
            let meant = meant.map_or(String::new(), |meant| format!(" ({meant})"));
            self.error(key, value, format!("one of {names}{meant}"))
        })
    }

    /// A page size, as its order.
    pub fn order(&mut self, key: &'static str, usual: &str, least: u8) -> Result<u8, OsError> {
        let value = self.take(key).unwrap_or_else(|| Value::String(usual.to_owned()));
        let size = value.as_str().and_then(|text| text.parse::<PageSize>().ok());
        let order = size.and_then(|size| self.order_of(size)).filter(|&order| order >= least);
        order.ok_or_else(|| self.error(key, value, self.sizes(least)))
    }

    /// The order of a page size, if it is one of a superpage or of a base page.
    pub fn order_of(&self, size: PageSize) -> Option<u8> {
        let order = size.shift().checked_sub(self.paging.base().shift())?;
        u8::try_from(order).ok().filter(|&order| usize::from(order) < ORDERS)
    }

    /// What sizes there are.
    pub fn sizes(&self, least: u8) -> String {
        let size = |order: u8| PageSize::from_shift(self.paging.base().shift() + u32::from(order));
        let name = |order: u8| size(order).map_or_else(String::new, |size| size.to_string());
        format!("a page size, a power of two from {} to {}", name(least), name(ORDERS as u8 - 1))
    }

    /// The table under a key; `true` stands for an empty one, `false` for none.
    pub fn table(&mut self, key: &'static str, usual: bool) -> Result<Option<Keys>, OsError> {
        let place = format!("{}.{key}", self.place);
        match self.take(key) {
            Some(Value::Table(table)) => Ok(Some(Keys::new(&place, table, self.paging, self.held))),
            Some(Value::Boolean(is_on)) => {
                Ok(is_on.then(|| Keys::new(&place, Table::new(), self.paging, self.held)))
            }
            None => Ok(usual.then(|| Keys::new(&place, Table::new(), self.paging, self.held))),
            Some(other) => Err(self.error(key, other, "true, false or a table".to_owned())),
        }
    }

    /// The tables under a key: one, a list of them, or none.
    pub fn tables(&mut self, key: &'static str) -> Result<Vec<Keys>, OsError> {
        let place = format!("{}.{key}", self.place);
        let values = match self.take(key) {
            None => Vec::new(),
            Some(Value::Array(values)) => values,
            Some(value) => vec![value],
        };
        let table = |value: Value| match value {
            Value::Table(table) => Ok(Keys::new(&place, table, self.paging, self.held)),
            other => Err(self.error(key, other, "a table, or a list of tables".to_owned())),
        };
        values.into_iter().map(table).collect()
    }

    /// What is left: keys that nobody knows, each with a value.
    pub fn rest(&mut self) -> Table {
        std::mem::take(&mut self.table)
    }

    /// Checks that nothing is left.
    pub fn finish(self) -> Result<(), OsError> {
        match self.table.keys().next() {
            None => Ok(()),
            Some(key) => {
                Err(OsError::Key { key: format!("{}.{key}", self.place), choice: choice(key, &self.known) })
            }
        }
    }
}
