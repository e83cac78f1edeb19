//! A plan as TOML.

use crate::{
    Caller, DEFAULT_ARENA, Forecast, ForecastHost, Gain, LAYOUT_SCHEMA, Layout, PAGES, PAGES_SCHEMA, Place,
    Plan, PlanError, PlanRange, Program, RangePart, SCHEMA, What,
};
use pagewalk_units::names::with_closest;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    schema: String,
    program: Program,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<ForecastHost>,
    #[serde(skip_serializing_if = "Option::is_none")]
    forecast: Option<Forecast>,
    #[serde(default, rename = "range", skip_serializing_if = "Vec::is_empty")]
    ranges: Vec<TextRange>,
    #[serde(skip_serializing_if = "Option::is_none")]
    layout: Option<TextLayout>,
    #[serde(default, rename = "place", skip_serializing_if = "Vec::is_empty")]
    places: Vec<TextPlace>,
}

/// All keys that any range has.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TextRange {
    what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    made_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nth: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pages: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds_saved: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    low: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    high: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_mib: Option<f64>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TextLayout {
    planner: String,
    #[serde(default)]
    machines: Vec<String>,
    arena: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TextPlace {
    file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    build_id: Option<String>,
    offset: String,
    size: String,
}

/// A plan of [`LAYOUT_SCHEMA`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OldLayout {
    schema: String,
    planner: String,
    #[serde(default)]
    machines: Vec<String>,
    arena: Option<String>,
    program: Program,
    #[serde(default, rename = "place")]
    places: Vec<TextPlace>,
}

impl From<OldLayout> for Text {
    fn from(old: OldLayout) -> Text {
        let OldLayout { schema, planner, machines, arena, program, places } = old;
        let layout = Some(TextLayout { planner, machines, arena });
        Text { schema, program, host: None, forecast: None, ranges: Vec::new(), layout, places }
    }
}

pub fn parsed(text: &str) -> Result<Plan, PlanError> {
    let text = read(text)?;
    let ranges = text.ranges.into_iter().zip(1..).map(|(text, number)| Reader { text, number }.range());
    Ok(Plan {
        program: text.program,
        host: text.host,
        forecast: text.forecast,
        ranges: ranges.collect::<Result<_, _>>()?,
        layout: layout(text.layout, text.places)?,
    })
}

/// A plan's text in any known version.
fn read(text: &str) -> Result<Text, PlanError> {
    // The schema first: a plan of another version has other keys.
    let table: toml::Table = text.parse().map_err(syntax)?;
    match table.get("schema").and_then(toml::Value::as_str) {
        None | Some(SCHEMA | PAGES_SCHEMA) => toml::from_str(text).map_err(syntax),
        Some(LAYOUT_SCHEMA) => toml::from_str::<OldLayout>(text).map(Text::from).map_err(syntax),
        Some(other) => Err(PlanError::Schema(other.to_owned())),
    }
}

fn layout(layout: Option<TextLayout>, places: Vec<TextPlace>) -> Result<Option<Layout>, PlanError> {
    let Some(TextLayout { planner, machines, arena }) = layout else {
        return if places.is_empty() { Ok(None) } else { Err(PlanError::NoLayout) };
    };
    let arena = arena.map_or(Ok(DEFAULT_ARENA), |arena| hexadecimal("arena", &arena, "the layout"))?;
    let place = |place: TextPlace| {
        let offset = hexadecimal("offset", &place.offset, &place.file)?;
        let size = hexadecimal("size", &place.size, &place.file)?;
        Ok(Place { file: place.file, build_id: place.build_id, offset, size })
    };
    let places = places.into_iter().map(place).collect::<Result<_, PlanError>>()?;
    Ok(Some(Layout { planner, machines, arena, places }))
}

fn syntax(error: toml::de::Error) -> PlanError {
    PlanError::Syntax(with_closest(error.to_string().trim_end()))
}

/// The number that plans write as `text`: hexadecimal, such as `0x1e1000`.
pub fn number_of(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x")?;
    digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u64::from_str_radix(digits, 16).ok())?
}

fn hexadecimal(key: &'static str, text: &str, of: &str) -> Result<u64, PlanError> {
    number_of(text).ok_or_else(|| PlanError::Number { key, text: text.to_owned(), of: of.to_owned() })
}

/// A range's text and its number, for errors.
struct Reader {
    text: TextRange,
    number: usize,
}

impl Reader {
    fn range(self) -> Result<PlanRange, PlanError> {
        let text = &self.text;
        if let Some(pages) = text.pages.as_ref().filter(|pages| !PAGES.contains(&pages.as_str())) {
            return Err(PlanError::Pages { text: pages.clone(), range: self.number });
        }
        let what = match text.what.as_str() {
            "heap" => self.heap()?,
            "anonymous" => self.anonymous()?,
            "file" => self.file()?,
            other => return Err(PlanError::What { text: other.to_owned(), range: self.number }),
        };
        let TextRange { made_by, seconds_saved, low, high, memory_mib, .. } = self.text;
        Ok(PlanRange { what, made_by, gain: Gain { seconds_saved, low, high, memory_mib } })
    }

    fn heap(&self) -> Result<What, PlanError> {
        let text = &self.text;
        let others = [
            ("file", text.file.is_some()),
            ("offset", text.offset.is_some()),
            ("bytes", text.bytes.is_some()),
            ("nth", text.nth.is_some()),
            ("by", text.by.is_some()),
        ];
        self.refuse(&others, "from and to")?;
        let from = self.number("from", self.needed("from", text.from.as_deref())?)?;
        let to = self.number("to", self.needed("to", text.to.as_deref())?)?;
        Ok(What::Heap(RangePart { from, to }))
    }

    fn anonymous(&self) -> Result<What, PlanError> {
        let text = &self.text;
        let others = [("file", text.file.is_some()), ("offset", text.offset.is_some())];
        self.refuse(&others, "bytes, nth, by, from and to")?;
        let bytes = self.number("bytes", self.needed("bytes", text.bytes.as_deref())?)?;
        let nth = self.needed("nth", text.nth)?;
        let by = text.by.as_deref().map(|by| self.caller(by)).transpose()?;
        let part = match (text.from.as_deref(), text.to.as_deref()) {
            (None, None) => None,
            (from, to) => Some(RangePart {
                from: self.number("from", self.needed("from", from)?)?,
                to: self.number("to", self.needed("to", to)?)?,
            }),
        };
        Ok(What::Anonymous { bytes, nth, by, part })
    }

    fn file(&self) -> Result<What, PlanError> {
        let text = &self.text;
        let others = [
            ("nth", text.nth.is_some()),
            ("by", text.by.is_some()),
            ("from", text.from.is_some()),
            ("to", text.to.is_some()),
        ];
        self.refuse(&others, "file, offset and bytes")?;
        let file = self.needed("file", text.file.clone())?;
        let offset = self.number("offset", self.needed("offset", text.offset.as_deref())?)?;
        let bytes = self.number("bytes", self.needed("bytes", text.bytes.as_deref())?)?;
        Ok(What::File { file, offset, bytes })
    }

    fn refuse(&self, keys: &[(&'static str, bool)], has: &'static str) -> Result<(), PlanError> {
        match keys.iter().find(|(_, is_given)| *is_given) {
            Some(&(key, _)) => {
                Err(PlanError::Needless { key, what: self.text.what.clone(), has, range: self.number })
            }
            None => Ok(()),
        }
    }

    fn needed<T>(&self, key: &'static str, value: Option<T>) -> Result<T, PlanError> {
        let missing = || PlanError::Missing { key, what: self.text.what.clone(), range: self.number };
        value.ok_or_else(missing)
    }

    fn number(&self, key: &'static str, text: &str) -> Result<u64, PlanError> {
        hexadecimal(key, text, &format!("range {}", self.number))
    }

    fn caller(&self, text: &str) -> Result<Caller, PlanError> {
        text.rsplit_once('+')
            .filter(|(file, _)| !file.is_empty() && !file.contains('/'))
            .and_then(|(file, offset)| Some(Caller { file: file.to_owned(), offset: number_of(offset)? }))
            .ok_or_else(|| PlanError::Caller { text: text.to_owned(), range: self.number })
    }
}

pub fn written(plan: &Plan) -> String {
    let text = Text {
        schema: SCHEMA.to_owned(),
        program: plan.program.clone(),
        host: plan.host.clone(),
        forecast: plan.forecast,
        ranges: plan.ranges.iter().map(range_text).collect(),
        layout: plan.layout.as_ref().map(layout_text),
        places: plan.layout.as_ref().map_or_else(Vec::new, place_texts),
    };
    toml::to_string(&text).expect("a plan's text is strings, numbers and tables, which TOML has")
}

fn layout_text(layout: &Layout) -> TextLayout {
    let Layout { planner, machines, arena, .. } = layout.clone();
    TextLayout { planner, machines, arena: Some(format!("{arena:#x}")) }
}

/// Sorted by file.
fn place_texts(layout: &Layout) -> Vec<TextPlace> {
    let text = |place: &Place| TextPlace {
        file: place.file.clone(),
        build_id: place.build_id.clone(),
        offset: format!("{:#x}", place.offset),
        size: format!("{:#x}", place.size),
    };
    let mut places: Vec<TextPlace> = layout.places.iter().map(text).collect();
    places.sort_by(|a, b| a.file.cmp(&b.file));
    places
}

fn range_text(range: &PlanRange) -> TextRange {
    let text = |number: u64| Some(format!("{number:#x}"));
    let Gain { seconds_saved, low, high, memory_mib } = range.gain;
    let made_by = range.made_by.clone();
    let rest = TextRange { made_by, seconds_saved, low, high, memory_mib, ..TextRange::default() };
    match &range.what {
        What::Heap(RangePart { from, to }) => {
            TextRange { what: "heap".to_owned(), from: text(*from), to: text(*to), ..rest }
        }
        What::Anonymous { bytes, nth, by, part } => TextRange {
            what: "anonymous".to_owned(),
            bytes: text(*bytes),
            nth: Some(*nth),
            by: by.as_ref().map(|by| format!("{}+{:#x}", by.file, by.offset)),
            from: part.and_then(|part| text(part.from)),
            to: part.and_then(|part| text(part.to)),
            ..rest
        },
        What::File { file, offset, bytes } => TextRange {
            what: "file".to_owned(),
            file: Some(file.clone()),
            offset: text(*offset),
            bytes: text(*bytes),
            ..rest
        },
    }
}
