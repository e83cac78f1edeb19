//! Functions, files and lines of Go programs, from the table that Go's runtime uses for stack traces (`.gopclntab`).
//!
//! It survives stripping (`go build -ldflags='-s -w'`). Its formats are numbered: of Go 1.2, 1.16, 1.18 and 1.20, the
//! one in use since. Go's `debug/gosym` describes them. Nothing in it is trusted: what leads out of the table yields
//! nothing.

use crate::Svma;
use crate::elf::Elf;
use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget, SectionFlags};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Longest name of a function or a file; the linker has no limit, but none comes near.
const NAME_BYTES_MAX: usize = 1 << 16;
/// Most steps of a search for a line: one for each change of line in a function.
const STEPS_MAX: usize = 1 << 20;
/// Most candidate tables to try.
const PLACES_MAX: usize = 4;
/// Bytes of an address in the table.
const WORD: usize = 8;
/// Word offsets in the runtime's `moduledata`, which begins with the table's address: of the lowest function address,
/// and of the address from which the table counts.
const LOWEST_FUNCTION: u64 = 20;
const TEXT: u64 = 22;

/// The table's formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Form {
    Go12,
    Go116,
    /// From here on, functions are counted from the start of the code.
    Go118,
}

impl Form {
    fn of(header: &[u8]) -> Option<Form> {
        let (magic, rest) = header.split_first_chunk::<4>()?;
        // Two zeros, the instruction alignment, and the address size of x86-64.
        if !rest.starts_with(&[0, 0, 1, WORD as u8]) {
            return None;
        }
        match u32::from_le_bytes(*magic) {
            0xffff_fffb => Some(Form::Go12),
            0xffff_fffa => Some(Form::Go116),
            0xffff_fff0 | 0xffff_fff1 => Some(Form::Go118),
            _ => None,
        }
    }

    /// Bytes of a field in the list of functions, and of a function's first field.
    fn field_bytes(self) -> usize {
        if self == Form::Go118 { 4 } else { WORD }
    }
}

/// The table of one program, copied out of its file.
pub(crate) struct GoTable {
    bytes: Vec<u8>,
    form: Form,
    /// The base of function addresses.
    text: u64,
    functions: usize,
    /// Where parts begin: function names, files of compilation units, file names, value changes, functions.
    names: usize,
    units: usize,
    files: usize,
    values: usize,
    list: usize,
    /// The base of function descriptions.
    about: usize,
}

/// An entry in the list of functions.
struct Entry {
    addresses: Range<u64>,
    /// Where its description begins.
    about: usize,
}

impl GoTable {
    /// A file's table, if it has a readable one.
    pub fn read(elf: &Elf<'_>) -> Option<GoTable> {
        let words = Words::of(elf);
        let (address, mut table) = candidates(elf).into_iter().find_map(|(address, bytes)| {
            let mut bytes = bytes.to_vec();
            words.settle(address, &mut bytes);
            Some((address, GoTable::parse(bytes)?))
        })?;
        if table.form == Form::Go118 {
            table.text = text_start(elf, &words, address, &table)?;
        }
        Some(table)
    }

    fn parse(bytes: Vec<u8>) -> Option<GoTable> {
        let form = Form::of(&bytes)?;
        let word = |number: usize| {
            let word = bytes.get(WORD * (1 + number)..)?.first_chunk()?;
            usize::try_from(u64::from_le_bytes(*word)).ok()
        };
        let functions = word(0)?;
        let table = match form {
            Form::Go12 => {
                let list = 2 * WORD;
                let files = Self::files_of_go12(&bytes, list, functions)?;
                let (names, units, values, about) = (0, 0, 0, 0);
                GoTable { bytes, form, text: 0, functions, names, units, files, values, list, about }
            }
            Form::Go116 | Form::Go118 => {
                let (first, text) = if form == Form::Go116 { (2, 0) } else { (3, word(2)? as u64) };
                let part = |number: usize| word(first + number);
                let (names, units, files, values, list) = (part(0)?, part(1)?, part(2)?, part(3)?, part(4)?);
                GoTable { bytes, form, text, functions, names, units, files, values, list, about: list }
            }
        };
        table.entry(0)?;
        Some(table)
    }

    /// The list of files follows the list of functions and an end address, at the offset stored there.
    fn files_of_go12(bytes: &[u8], list: usize, functions: usize) -> Option<usize> {
        let at = functions.checked_mul(2)?.checked_add(1)?.checked_mul(WORD)?.checked_add(list)?;
        Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?) as usize)
    }

    /// The name of the function around `address`.
    pub fn function(&self, address: Svma) -> Option<&str> {
        let entry = self.around(address)?;
        let name = self.field(&entry, 1)?;
        self.text_at(self.names.checked_add(name as usize)?)
    }

    /// File and line of `address`.
    pub fn location(&self, address: Svma) -> Option<(&str, u32)> {
        let entry = self.around(address)?;
        let line = self.value(self.field(&entry, 6)?, &entry, address)?;
        let file = self.value(self.field(&entry, 5)?, &entry, address)?;
        Some((self.file(&entry, file)?, u32::try_from(line).ok().filter(|&line| line > 0)?))
    }

    fn file(&self, entry: &Entry, number: i32) -> Option<&str> {
        let number = usize::try_from(number).ok()?;
        if self.form == Form::Go12 {
            let name = self.half(self.files.checked_add(number.checked_mul(4)?)?)?;
            return self.text_at(name as usize);
        }
        let number = (self.field(entry, 8)? as usize).checked_add(number)?;
        let name = self.half(self.units.checked_add(number.checked_mul(4)?)?)?;
        self.text_at(self.files.checked_add(name as usize)?)
    }

    /// The list's entry for `address`.
    fn around(&self, address: Svma) -> Option<Entry> {
        let (mut low, mut high) = (0, self.functions);
        while low < high {
            let middle = low + (high - low) / 2;
            // There is none beyond the end of the table.
            match self.entry_start(middle) {
                Some(start) if start <= address.0 => low = middle + 1,
                _ => high = middle,
            }
        }
        self.entry(low.checked_sub(1)?).filter(|entry| entry.addresses.contains(&address.0))
    }

    fn entry(&self, number: usize) -> Option<Entry> {
        let end = self.entry_start(number.checked_add(1)?)?;
        let about = self.list_field(number.checked_mul(2)?.checked_add(1)?)?;
        let about = self.about.checked_add(usize::try_from(about).ok()?)?;
        Some(Entry { addresses: self.entry_start(number)?..end, about })
    }

    fn entry_start(&self, number: usize) -> Option<u64> {
        self.text.checked_add(self.list_field(number.checked_mul(2)?)?)
    }

    fn list_field(&self, number: usize) -> Option<u64> {
        let bytes = self.form.field_bytes();
        let at = self.list.checked_add(number.checked_mul(bytes)?)?;
        if bytes == WORD {
            return Some(u64::from_le_bytes(*self.bytes.get(at..)?.first_chunk()?));
        }
        self.half(at).map(u64::from)
    }

    /// A field of a function's description, which begins with its address; the others have four bytes.
    fn field(&self, entry: &Entry, number: usize) -> Option<u32> {
        self.half(entry.about.checked_add(self.form.field_bytes() + 4 * (number - 1))?)
    }

    fn half(&self, at: usize) -> Option<u32> {
        Some(u32::from_le_bytes(*self.bytes.get(at..)?.first_chunk()?))
    }

    fn text_at(&self, at: usize) -> Option<&str> {
        let bytes = self.bytes.get(at..)?;
        let end = bytes.iter().take(NAME_BYTES_MAX).position(|&byte| byte == 0)?;
        std::str::from_utf8(&bytes[..end]).ok().filter(|text| !text.is_empty())
    }

    /// The value at `address` in the changes that begin at `changes`: pairs of an increment and the bytes of code for
    /// which the value then holds.
    fn value(&self, changes: u32, entry: &Entry, address: Svma) -> Option<i32> {
        let mut rest = self.bytes.get(self.values.checked_add(changes as usize)?..)?;
        let (mut value, mut end) = (-1i32, entry.addresses.start);
        for step in 0..STEPS_MAX {
            let change = variable_length(&mut rest)?;
            if change == 0 && step > 0 {
                return None;
            }
            // Zigzag: the lowest bit is the sign.
            value = value.wrapping_add((change >> 1) as i32 ^ -((change & 1) as i32));
            end = end.checked_add(u64::from(variable_length(&mut rest)?))?;
            if address.0 < end {
                return Some(value);
            }
        }
        None
    }
}

/// Possible tables: in a section of its own, or, from linkers other than Go's, in data that the loader writes, as for
/// position-independent programs.
fn candidates<'data>(elf: &Elf<'data>) -> Vec<(u64, &'data [u8])> {
    let section = |name: &str| {
        let section = elf.section_by_name(name)?;
        Some((section.address(), section.data().ok()?))
    };
    let own = section(".gopclntab").or_else(|| section(".data.rel.ro.gopclntab"));
    if own.is_some() || elf.section_by_name(".go.buildinfo").is_none() {
        return own.into_iter().collect();
    }
    let Some((address, bytes)) = section(".data.rel.ro") else { return Vec::new() };
    let is_table = |&at: &usize| Form::of(&bytes[at..]).is_some();
    let places = (0..bytes.len()).step_by(WORD).filter(is_table).take(PLACES_MAX);
    places.map(|at| (address + at as u64, &bytes[at..])).collect()
}

/// A variable-length number: seven bits a byte, lowest first, the eighth set in all but the last.
fn variable_length(bytes: &mut &[u8]) -> Option<u32> {
    let mut value = 0u32;
    for shift in (0..u32::BITS).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u32::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// The words of a file after relocation.
struct Words<'a, 'data> {
    elf: &'a Elf<'data>,
    /// Relocated words, before adding the load address.
    written: FxHashMap<u64, u64>,
}

impl<'a, 'data> Words<'a, 'data> {
    fn of(elf: &'a Elf<'data>) -> Words<'a, 'data> {
        let relocations = elf.dynamic_relocations().into_iter().flatten();
        let written = relocations
            .filter(|(_, relocation)| relocation.target() == RelocationTarget::Absolute)
            .map(|(at, relocation)| (at, relocation.addend() as u64));
        Words { elf, written: written.collect() }
    }

    /// Applies the relocations to the bytes at `address`.
    fn settle(&self, address: u64, bytes: &mut [u8]) {
        for (&at, &word) in &self.written {
            let place = at.checked_sub(address).and_then(|place| usize::try_from(place).ok());
            let place = place.and_then(|place| bytes.get_mut(place..)?.first_chunk_mut());
            if let Some(place) = place {
                *place = word.to_le_bytes();
            }
        }
    }

    fn at(&self, address: u64) -> Option<u64> {
        let of_file = || {
            let holds = |start: u64, bytes: u64| address.checked_sub(start).is_some_and(|into| into < bytes);
            let section = self.elf.sections().find(|section| holds(section.address(), section.size()))?;
            let into = usize::try_from(address - section.address()).ok()?;
            Some(u64::from_le_bytes(*section.data().ok()?.get(into..)?.first_chunk()?))
        };
        self.written.get(&address).copied().or_else(of_file)
    }

    /// Where this word occurs in the program's data.
    fn places_of(&self, word: u64) -> Vec<u64> {
        let mut places: Vec<u64> =
            self.written.iter().filter(|(_, written)| **written == word).map(|(&at, _)| at).collect();
        let of_data = |name: &str| matches!(name, ".go.module" | ".noptrdata" | ".data");
        for section in self.elf.sections().filter(|section| section.name().is_ok_and(of_data)) {
            let words = section.data().unwrap_or_default().chunks_exact(WORD);
            let found = words.enumerate().filter(|(_, bytes)| **bytes == word.to_le_bytes());
            places.extend(found.map(|(number, _)| section.address() + (number * WORD) as u64));
        }
        places.sort_unstable();
        places
    }
}

/// The base of function addresses. Tables before Go 1.26 contain it; later the runtime's `moduledata` does, recognised
/// by the table's address at its start and the lowest function address at its offset.
fn text_start(elf: &Elf<'_>, words: &Words<'_, '_>, address: u64, table: &GoTable) -> Option<u64> {
    let is_code = |text: &u64| {
        elf.sections().any(|section| {
            let executable = matches!(section.flags(), SectionFlags::Elf { sh_flags, .. }
                if sh_flags.contains(object::elf::SHF_EXECINSTR));
            executable && text.checked_sub(section.address()).is_some_and(|into| into < section.size())
        })
    };
    let first = table.list_field(0)?;
    let of_module = |module: u64| {
        let text = words.at(module.checked_add(TEXT * WORD as u64)?)?;
        let lowest = words.at(module.checked_add(LOWEST_FUNCTION * WORD as u64)?)?;
        (text.checked_add(first) == Some(lowest)).then_some(text).filter(is_code)
    };
    let stated = Some(table.text).filter(|&text| text != 0).filter(is_code);
    let by_module = || words.places_of(address).into_iter().find_map(of_module);
    let by_symbol =
        || elf.symbols().find(|symbol| symbol.name() == Ok("runtime.text")).map(|symbol| symbol.address());
    let by_section = || elf.section_by_name(".text").map(|section| section.address());
    stated.or_else(by_module).or_else(by_symbol).or_else(by_section)
}
