//! Names that studies give.

/// Whether a name can be one of a file too.
///
/// # Errors
/// With what it may have.
pub fn name_is_plain(name: &str) -> Result<(), String> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'+');
    if name.is_empty() || name.starts_with('.') || !name.bytes().all(plain) {
        return Err(format!("name = \"{name}\": use letters, digits, `_`, `-`, `+` and `.`"));
    }
    Ok(())
}
