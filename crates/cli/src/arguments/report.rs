//! Arguments of `report`.

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, ValueHint};
use pagewalk::report::viewers::VIEWERS;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct Report {
    /// Write the report here
    #[arg(short, long, value_name = "REPORT.html", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    /// Its format: a page, or of one result of a run, a profile for another tool's viewer (`-o -`: standard output)
    #[arg(long, value_name = "FORMAT", default_value = Report::PAGE, value_parser = Report::formats())]
    pub format: String,
    /// A result saved with `-o RESULT.json` or --json, or results.json of a study. Several results of `profile` and
    /// `simulate` are shown side by side
    #[arg(value_name = "RESULT.json", required = true, value_hint = ValueHint::FilePath)]
    pub results: Vec<PathBuf>,
}

impl Report {
    /// The format that is no profile.
    pub const PAGE: &str = "html";

    fn formats() -> PossibleValuesParser {
        let page = PossibleValue::new(Report::PAGE).help("a self-contained page");
        let profiles = VIEWERS.iter().map(|viewer| PossibleValue::new(viewer.name).help(viewer.about));
        std::iter::once(page).chain(profiles).into()
    }
}
