//! Parts that all pages of studies share: table cells, picture files.

use crate::html::escape;

/// A picture as a file of its own.
pub struct PictureFile {
    /// Its name, such as `family-python-data-4K.svg`.
    pub name: String,
    /// Its content.
    pub svg: String,
}

/// A trace's name as a file name.
pub(super) fn file_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-+".contains(c) { c } else { '_' };
    name.chars().map(plain).collect()
}

pub(crate) fn head(titles: &[(&str, bool)]) -> String {
    let cell = |(title, is_number): &(&str, bool)| {
        let class = if *is_number { " class=\"number\"" } else { "" };
        format!("<th{class} scope=\"col\">{}</th>", escape(title))
    };
    format!("<thead><tr>{}</tr></thead>", titles.iter().map(cell).collect::<String>())
}

pub(crate) fn number(text: &str) -> String {
    format!("<td class=\"number\">{text}</td>")
}
