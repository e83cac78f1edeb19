//! Results whose every text would be markup if a page did not escape it.

use super::page::{views, without_scripts};
use serde_json::Value;

/// Text with an element, and with the end of any attribute.
const EVIL: &str = "<meta http-equiv=refresh content='0;url=x'>\"'&";

/// The result with hostile texts everywhere except in the fields `kept`, which must keep their values.
pub fn hostile(json: &str, kept: &[&str]) -> String {
    let mut result: Value = serde_json::from_str(json).unwrap();
    spoil(&mut result, kept);
    result.to_string()
}

fn spoil(value: &mut Value, kept: &[&str]) {
    match value {
        Value::String(text) => *text = EVIL.to_owned(),
        Value::Array(values) => values.iter_mut().for_each(|value| spoil(value, kept)),
        Value::Object(fields) => {
            let spoilt = fields.iter_mut().filter(|(name, _)| !kept.contains(&name.as_str()));
            spoilt.for_each(|(_, value)| spoil(value, kept));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Checks that the page contains the texts, and that none is markup, there or in the views of other processes.
pub fn assert_harmless(page: &str) {
    let shown = without_scripts(page);
    assert!(shown.contains("&lt;meta http-equiv=refresh content=&#39;0;url=x&#39;&gt;&quot;&#39;&amp;"));
    for text in [page.to_owned(), views(page).concat().concat().concat()] {
        assert!(!text.contains("<meta http-equiv=refresh"), "a text became an element");
        assert!(!without_scripts(&text).contains("url=x'"), "a text could end an attribute");
    }
}
