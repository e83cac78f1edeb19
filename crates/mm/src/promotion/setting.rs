//! Checks of policy settings.

use crate::kernel::ORDERS;
use std::fmt::Display;
use std::ops::RangeInclusive;
use thiserror::Error;

/// A setting out of range.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{policy}: {setting} is {given}: expected {least} to {most}")]
pub struct SettingError {
    /// The policy's name.
    pub policy: &'static str,
    /// The setting's name.
    pub setting: &'static str,
    /// The value given.
    pub given: String,
    /// The least allowed.
    pub least: String,
    /// The most allowed.
    pub most: String,
}

/// Checks for the settings of one policy.
pub(super) struct Settings(pub &'static str);

impl Settings {
    /// Checks that a value is in range.
    pub fn within<T: PartialOrd + Display>(
        &self,
        setting: &'static str,
        given: T,
        possible: RangeInclusive<T>,
    ) -> Result<(), SettingError> {
        if possible.contains(&given) {
            return Ok(());
        }
        let (least, most) = (possible.start().to_string(), possible.end().to_string());
        Err(SettingError { policy: self.0, setting, given: given.to_string(), least, most })
    }

    /// Checks that superpages may have this order.
    pub fn order(&self, order: u8) -> Result<(), SettingError> {
        self.within("order", order, 1..=ORDERS as u8 - 1)
    }

    /// Checks that the clock runs.
    pub fn clock(&self, instructions_per_millisecond: u64) -> Result<(), SettingError> {
        self.within("instructions_per_millisecond", instructions_per_millisecond, 1..=u64::MAX)
    }
}
