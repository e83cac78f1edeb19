//! Results of one command each, which `--json` prints and no renderer here shows. The types document the keys;
//! [`crate::kinds`] makes their JSON Schemas.
//!
//! [`text`] prints keys in the order of their names, whatever the order of fields.

pub mod doctor;
pub mod layout_run;
pub mod library;
pub mod plans;
pub mod process;
pub mod samples;
pub mod streams;
pub mod study;
pub mod trap;

use schemars::JsonSchema;
use serde::Serialize;

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// With this exit status.
    Exit(i32),
    /// By this signal.
    Signal(i32),
}

/// A result as text: indented, keys in the order of their names, a newline at its end.
///
/// # Panics
/// Never for the types of this module: their maps have text for keys.
pub fn text(document: &impl Serialize) -> String {
    let value = serde_json::to_value(document).expect("a document has keys of text");
    format!("{value:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use streams::{RECORD_SCHEMA, RecordResult, RecordedFile};

    #[test]
    fn keys_are_in_the_order_of_their_names() {
        let recorded = RecordedFile {
            file: "a.pwt".to_owned(),
            program: "/bin/a".to_owned(),
            references_data: Some(3),
            block_executions: None,
            bytes: Some(7),
            losses: vec!["some".to_owned()],
            error: None,
        };
        let told = text(&RecordResult { schema: RECORD_SCHEMA, files: vec![recorded] });
        let expected = r#"{
  "files": [
    {
      "block_executions": null,
      "bytes": 7,
      "error": null,
      "file": "a.pwt",
      "losses": [
        "some"
      ],
      "program": "/bin/a",
      "references_data": 3
    }
  ],
  "schema": "pagewalk.record/1"
}
"#;
        assert_eq!(told, expected);
        assert_eq!(
            text(&[End::Exit(3), End::Signal(9)]).replace([' ', '\n'], ""),
            r#"[{"exit":3},{"signal":9}]"#
        );
    }
}
