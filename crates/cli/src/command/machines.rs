//! `pagewalk machines`: list, show, check.

use crate::arguments::{Machines, MachinesCommand};
use crate::exit;
use crate::exit::ExitCode;
use crate::output::{print, say};
use pagewalk::Error;
use pagewalk::machines::{HostCpu, description, load, text, walk_prices};
use pagewalk::report::documents::library::{
    MACHINE_SCHEMA, MACHINES_CHECK_SCHEMA, MACHINES_SCHEMA, MachineCheck, MachineDocument, MachineRow,
    MachinesCheckResult, MachinesResult,
};
use pagewalk::report::schema::MachineDescription;
use pagewalk::report::{bytes, documents};
use pagewalk::sim::Library;
use pagewalk::translate::{DataSideSpec, MachineSpec, RangeTlbSpec, ReplacementSource, SourceKind, TlbSpec};
use std::fmt::Write;

pub fn run(arguments: Machines) -> Result<ExitCode, Error> {
    match arguments.command {
        MachinesCommand::List { json } => list(json)?,
        MachinesCommand::Show { toml: true, machine, .. } => {
            load(&machine)?;
            print(&text(&machine)?)?;
        }
        MachinesCommand::Show { machine, json: true, .. } => print(&shown_as_json(&load(&machine)?))?,
        MachinesCommand::Show { machine, .. } => print(&show(&load(&machine)?))?,
        MachinesCommand::Check { machines, json } => return check(&machines, json),
    }
    Ok(ExitCode::SUCCESS)
}

fn list(json: bool) -> Result<(), Error> {
    let (host, known) = HostCpu::detect().machine()?;
    let mut out = String::new();
    let mut rows = Vec::new();
    let width = Library::names().map(str::len).max().unwrap_or(0);
    for name in Library::names() {
        let machine = load(name)?;
        let is_host = known && name == host.name;
        let mark = if is_host { "  (this host)" } else { "" };
        writeln!(out, "{name:<width$}  {}{mark}", machine.title).expect("writing to a string");
        rows.push(MachineRow { name: name.to_owned(), title: machine.title, is_host });
    }
    if json {
        out = documents::text(&MachinesResult { schema: MACHINES_SCHEMA, machines: rows });
    }
    print(&out)
}

/// A machine as JSON: its description, and each TLB's reach by page size.
fn shown_as_json(machine: &MachineSpec) -> String {
    let reach =
        |tlb: &TlbSpec| tlb.page_sizes.iter().map(|size| (size.to_string(), tlb.reach(*size))).collect();
    let described = description(machine);
    let named = described.tlbs.iter().zip(&machine.tlbs);
    let reach_bytes = named.map(|(tlb, spec)| (tlb.name.clone(), reach(spec))).collect();
    let source = |tlb: &TlbSpec| tlb.replacement_source.as_ref().map(ToString::to_string);
    documents::text(&MachineDocument {
        schema: MACHINE_SCHEMA,
        title: machine.title.clone(),
        machine: described,
        reach_bytes,
        replacement_sources: machine.tlbs.iter().map(|tlb| (tlb.name.clone(), source(tlb))).collect(),
    })
}

/// A machine as a table with its reach.
fn show(machine: &MachineSpec) -> String {
    let mut out = format!("{}: {}\n\n", machine.name, machine.title);
    let described = description(machine);
    let mut line = |text: String| out.push_str(&(text.trim_end().to_owned() + "\n"));
    table(machine, &described).into_iter().for_each(&mut line);
    if machine.data_side.is_some() {
        line("data references alone".to_owned());
    }
    line(match machine.asids {
        0 => "a switch of address spaces flushes the TLBs and what walkers cache".to_owned(),
        n => format!("entries of {n} address spaces at one time"),
    });
    machine.tlbs.iter().flat_map(notes).for_each(&mut line);
    if let Some(side) = &machine.data_side {
        data_side(machine, side).into_iter().for_each(&mut line);
    }
    line(String::new());
    let pages = if machine.has_huge_pages() {
        machine.paging.to_string()
    } else {
        // TLBs hold no larger pages, whatever the walker maps.
        machine.paging.base().to_string()
    };
    line(format!("pages: {pages}; walker: {}", machine.walker));
    for cache in &described.walk_caches {
        let ways = if cache.ways == cache.entries {
            "fully associative".to_owned()
        } else {
            format!("{} ways", cache.ways)
        };
        line(format!("  {:<11} {:>4} entries, {ways}", cache.name, cache.entries));
    }
    for cache in &machine.caches {
        let serves: Vec<&str> = cache.serves.iter().map(|requester| requester.name()).collect();
        let colors = cache.colors(machine.paging.base().bytes()).ok().filter(|&colors| colors > 1);
        let colors = colors.map(|colors| format!("{colors} colors"));
        let more: String = cache.rules().into_iter().chain(colors).map(|rule| format!(", {rule}")).collect();
        line(format!(
            "cache {}: level {}, {} KiB in lines of {} bytes, {} ways, {}, {} cycles, serves {}{more}",
            cache.name,
            cache.level,
            cache.bytes() as f64 / 1024.0,
            1 << cache.line_shift,
            cache.geometry.ways(),
            cache.replacement.name(),
            cache.latency,
            serves.join(" ")
        ));
    }
    let cost = &machine.cost;
    let walks =
        walk_prices(machine).into_iter().map(|(key, cycles)| format!("{} {cycles}", key.replace('_', " ")));
    line(format!(
        "cost (modelled cycles): level-2 hit {}, {}, instruction {}",
        cost.l2_hit,
        walks.collect::<Vec<_>>().join(", "),
        cost.cycles_per_instruction
    ));
    out
}

/// The TLB arrays, under a heading.
fn table(machine: &MachineSpec, described: &MachineDescription) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = |text: String| lines.push(text);
    // Wide enough for the heading and the longest name.
    let wide = described.tlbs.iter().map(|tlb| tlb.replacement.len()).fold("replacement".len(), usize::max);
    line(format!(
        "{:<12} {:>5} {:>8} {:>6}  {:<wide$} {:<7} {:<18} {:<12} reach",
        "tlb", "level", "entries", "ways", "replacement", "fills", "serves", "page sizes"
    ));
    for (tlb, spec) in described.tlbs.iter().zip(&machine.tlbs) {
        let ways = if tlb.ways == tlb.entries { "full".to_owned() } else { tlb.ways.to_string() };
        let reach = spec.page_sizes.iter().map(|size| format!("{} on {size}", bytes(spec.reach(*size))));
        line(format!(
            "{:<12} {:>5} {:>8} {:>6}  {:<wide$} {:<7} {:<18} {:<12} {}",
            tlb.name,
            tlb.level,
            tlb.entries,
            ways,
            tlb.replacement,
            tlb.fills,
            tlb.serves.join(" "),
            tlb.page_sizes.join(" "),
            reach.collect::<Vec<_>>().join(", ")
        ));
    }
    lines
}

/// Properties without a column in the table.
fn notes(tlb: &TlbSpec) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = |text: String| lines.push(text);
    line(match &tlb.replacement_source {
        Some(source) => format!("{}: replacement {source}", tlb.name),
        None => format!("{}: replacement of unsaid source (`replacement_source`)", tlb.name),
    });
    if tlb.index.sets().is_none() {
        line(format!("{}: {}, each way with a hash and a page size of its own", tlb.name, tlb.index));
    }
    if tlb.shared {
        line(format!("{}: shared by all cores", tlb.name));
    }
    if tlb.reserved > 0 {
        line(format!("{}: {} entries are reserved, and not part of the reach", tlb.name, tlb.reserved));
    }
    if tlb.pages_per_entry > 1 {
        line(format!("{}: each entry maps {} neighbouring pages", tlb.name, tlb.pages_per_entry));
    }
    if let Some(buffer) = tlb.prefetch {
        let (shape, policy) = (buffer.geometry, buffer.replacement.name());
        line(format!("{}: prefetches the next page; buffer of {shape}, {policy}", tlb.name));
    }
    lines
}

/// Extra lines for a data side.
fn data_side(machine: &MachineSpec, side: &DataSideSpec) -> Vec<String> {
    let coalesce = machine.tlbs.iter().filter_map(|tlb| {
        let rule = tlb.coalesce?;
        let (pages, name) = (rule.pages(), rule.name());
        Some(format!("{}: up to {pages} neighbouring base pages in an entry, {name}", tlb.name))
    });
    let ranges = side.range_tlbs.iter().map(|ranges| {
        let latest = if ranges.mru { ", the range used last compared first" } else { "" };
        let RangeTlbSpec { name, level, entries, .. } = ranges;
        format!(
            "{name}: level {level}, {entries} ranges of {} base pages or more{latest}",
            side.range_threshold
        )
    });
    let lite = side.lite.iter().map(|lite| {
        let names: Vec<&str> = lite.tlbs.iter().map(|&at| machine.tlbs[at].name.as_str()).collect();
        let borne = match lite.relative {
            true => format!("{} of the misses there are", lite.threshold),
            false => format!("{} misses in 1000 instructions", lite.threshold),
        };
        format!(
            "{}: ways are switched off where that adds less than {borne}, every {} instructions (history: {})",
            names.join(", "),
            lite.interval,
            lite.history.name()
        )
    });
    let segment = side.segment.iter().map(|alive| {
        format!("an ideal direct segment of areas of fixed size that live for more than {alive} of the run")
    });
    let energy = side.energy.iter().map(|table| format!("energy by the table {table}"));
    coalesce.chain(ranges).chain(lite).chain(segment).chain(energy).collect()
}

/// How many arrays' replacements come from which source: `2 measured, 1 assumed`.
fn sources(machine: &MachineSpec) -> String {
    let known = |tlb: &TlbSpec| match tlb.replacement_source.as_ref().map(ReplacementSource::kind) {
        Some(SourceKind::Measured) => "measured",
        Some(SourceKind::Documented) => "documented",
        Some(SourceKind::Defined) => "defined",
        Some(SourceKind::Assumed) => "assumed",
        None => "of unsaid source",
    };
    let words = ["measured", "documented", "defined", "assumed", "of unsaid source"];
    let counts = words.map(|word| (machine.tlbs.iter().filter(|tlb| known(tlb) == word).count(), word));
    let told = counts.into_iter().filter(|(count, _)| *count > 0);
    told.map(|(count, word)| format!("{count} {word}")).collect::<Vec<_>>().join(", ")
}

/// Reports what is wrong with each machine; without names, checks the whole library.
fn check(names: &[String], json: bool) -> Result<ExitCode, Error> {
    let library: Vec<String> = Library::names().map(str::to_owned).collect();
    let names = if names.is_empty() { &library } else { names };
    let mut code = ExitCode::SUCCESS;
    let mut rows = Vec::new();
    for name in names {
        match load(name) {
            Ok(machine) => {
                let base = machine.paging.base();
                let holding = machine.tlbs.iter().filter(|tlb| tlb.holds(base));
                let entries = holding.map(|tlb| tlb.geometry.entries()).max().unwrap_or(0);
                let arrays = machine.tlbs.len();
                let sources = sources(&machine);
                if !json {
                    print(&format!(
                        "{name}: ok ({arrays} arrays, up to {entries} entries for {base}; replacement: {sources})\n"
                    ))?;
                }
                rows.push(MachineCheck::Right {
                    machine: name.clone(),
                    ok: true,
                    arrays,
                    base_page: base.to_string(),
                    entries_most: entries,
                    replacement: sources,
                });
            }
            Err(error) => {
                say(&error);
                rows.push(MachineCheck::Wrong { machine: name.clone(), ok: false, error: error.to_string() });
                code = exit::by(error.fault);
            }
        }
    }
    if json {
        print(&documents::text(&MachinesCheckResult { schema: MACHINES_CHECK_SCHEMA, machines: rows }))?;
    }
    Ok(code)
}
