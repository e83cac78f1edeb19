//! Names in studies.

/// Checks that a name is also a valid file name.
///
/// # Errors
/// The permitted characters.
pub fn name_is_plain(name: &str) -> Result<(), String> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'+');
    if name.is_empty() || name.starts_with('.') || !name.bytes().all(plain) {
        return Err(format!("name = \"{name}\": use letters, digits, `_`, `-`, `+` and `.`"));
    }
    Ok(())
}
