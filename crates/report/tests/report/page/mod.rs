//! Extracts parts of a page.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::io::Read;

/// The page with its scripts, styles and data taken out: what a browser without scripts shows.
pub fn without_scripts(page: &str) -> String {
    let mut text = page.to_owned();
    for (open, close) in [("<style>", "</style>"), ("<script", "</script>")] {
        while let Some((before, after)) = text.split_once(open) {
            let (_, after) = after.split_once(close).expect("it ends");
            text = format!("{before}{after}");
        }
    }
    text
}

/// The content of the data element with this id, decompressed if necessary.
pub fn data(page: &str, id: &str) -> String {
    let (before, after) = page.split_once(&format!(" id=\"{id}\">")).expect("the page has it");
    let (text, _) = after.split_once("</script>").expect("it ends");
    if !before.ends_with("\"application/gzip\"") {
        return text.to_owned();
    }
    let packed = STANDARD.decode(text).expect("base64");
    let mut unpacked = String::new();
    flate2::read::GzDecoder::new(packed.as_slice()).read_to_string(&mut unpacked).expect("gzip");
    unpacked
}

/// Summary and sections of each process of each run; empty if there is only one process.
pub fn views(page: &str) -> Vec<Vec<[String; 2]>> {
    match page.contains(" id=\"pagewalk-views\">") {
        true => serde_json::from_str(&data(page, "pagewalk-views")).expect("views are JSON"),
        false => Vec::new(),
    }
}
