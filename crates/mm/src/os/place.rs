//! The place of a wrong key in a file.

use super::OsError;
use toml::de::{DeTable, DeValue};

impl OsError {
    /// The line, from 1, of the key that the error is about in the file `text`: in `os`, or in the `nth` `[[os]]`, from
    /// 0. `None` if the file lacks the key, or the error is not about a key.
    pub fn line(&self, text: &str, nth: usize) -> Option<usize> {
        let (OsError::Key { key, .. } | OsError::Value { key, .. }) = self else { return None };
        let file = DeTable::parse(text).ok()?;
        let mut table = file.get_ref();
        let mut path = key.split('.').peekable();
        loop {
            let name = path.next()?;
            let (key, value) = table.iter().find(|(key, _)| key.get_ref() == name)?;
            if path.peek().is_none() {
                return Some(1 + text[..key.span().start].matches('\n').count());
            }
            table = match value.get_ref() {
                DeValue::Table(table) => table,
                DeValue::Array(tables) => tables.get(nth)?.get_ref().as_table()?,
                _ => return None,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_key_is_found() {
        let text = "schema = 1\n[os]\npolicy = \"linux\"\ncosts = { fault = 1,\n  fork = 2 }\n[os.files]\n\
                    cach = \"warm\"\n";
        let line = |key: &str| OsError::Key { key: key.to_owned(), choice: String::new() }.line(text, 0);
        let keys = ["os.policy", "os.costs", "os.costs.fork", "os.files.cach", "os.gone", "os.policy.x"];
        assert_eq!(keys.map(line), [Some(3), Some(4), Some(5), Some(7), None, None]);
        let several = "[[os]]\npolicy = \"asap\"\n\n[[os]]\npage = 1\n";
        let value =
            OsError::Value { key: "os.page".to_owned(), given: String::new(), expected: String::new() };
        assert_eq!(value.line(several, 1), Some(5));
    }
}
