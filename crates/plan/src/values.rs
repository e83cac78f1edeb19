//! Checks of single values.

use crate::PlanError;
use pagewalk_units::PAGE_BYTES;

/// Whether a text is a build-id: hexadecimal digits of whole bytes.
pub fn is_build_id(text: &str) -> bool {
    !text.is_empty() && text.len().is_multiple_of(2) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Checks the build-id of `of`, if there is one.
pub fn build_id(build_id: Option<&str>, of: &str) -> Result<(), PlanError> {
    match build_id {
        Some(text) if !is_build_id(text) => {
            Err(PlanError::BuildId { text: text.to_owned(), of: of.to_owned() })
        }
        _ => Ok(()),
    }
}

/// Checks that `value` is a multiple of a page.
pub fn aligned(key: &'static str, value: u64, of: &str) -> Result<(), PlanError> {
    if value.is_multiple_of(PAGE_BYTES) {
        return Ok(());
    }
    Err(PlanError::Unaligned { key, value, of: of.to_owned() })
}

/// Checks that a path is absolute.
pub fn absolute(file: &str, of: &str) -> Result<(), PlanError> {
    if file.starts_with('/') {
        return Ok(());
    }
    Err(PlanError::Relative { file: file.to_owned(), of: of.to_owned() })
}
