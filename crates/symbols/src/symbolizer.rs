//! Lookups of code bytes in files.

use crate::debug_file;
use crate::dwarf::Dwarf;
use crate::object_file::{ObjectError, ObjectFile, build_id_of, map_file, read_bytes};
use crate::symbol_table::SymbolTable;
use crate::{FileOffset, Svma};
use addr2line::demangle_auto;
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// What is known about a byte of code; anything may be unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Symbol {
    /// Whether neither its file nor a debug file names its own functions: it was stripped.
    pub stripped: bool,
    /// The file offset of the function around it, if known; not determined if it has a name.
    pub start: Option<FileOffset>,
    /// The function around it, demangled; `name@plt` for a linkage stub.
    pub function: Option<String>,
    /// Its source file, from debug information.
    pub file: Option<String>,
    /// Its line there, from 1.
    pub line: Option<u32>,
}

/// Finds functions, files and lines. Caches what it reads of each object.
pub struct Symbolizer {
    debug_folder: PathBuf,
    objects: FxHashMap<String, Option<Object>>,
    problems: Vec<ObjectError>,
    rebuilt: Vec<String>,
}

impl Symbolizer {
    /// A symbolizer that looks for separate debug information in the usual place.
    pub fn new() -> Symbolizer {
        Symbolizer::with_debug_folder("/usr/lib/debug")
    }

    /// A symbolizer that looks for separate debug information under `folder`.
    pub fn with_debug_folder(folder: impl Into<PathBuf>) -> Symbolizer {
        Symbolizer {
            debug_folder: folder.into(),
            objects: FxHashMap::default(),
            problems: Vec::new(),
            rebuilt: Vec::new(),
        }
    }

    /// Reads the file `path` and its debug information now, so that look-ups are fast.
    pub fn prepare(&mut self, path: &str) {
        self.object(path);
    }

    /// Describes the code byte at `offset` of the file `path`.
    pub fn lookup(&mut self, path: &str, offset: FileOffset) -> Symbol {
        let Some(object) = self.object(path) else { return Symbol::default() };
        match object.file.stated_address(offset) {
            Some(address) => object.lookup(address),
            None => Symbol::default(),
        }
    }

    /// The same for a file that had this build-id when it was mapped, if known: yields nothing for another build, whose
    /// file is then listed as rebuilt.
    pub fn lookup_in_build(&mut self, path: &str, build_id: Option<&str>, offset: FileOffset) -> Symbol {
        let is_other = |object: &Object| build_id.is_some() && object.file.build_id.as_deref() != build_id;
        if self.object(path).is_some_and(is_other) {
            if !self.rebuilt.iter().any(|known| known == path) {
                self.rebuilt.push(path.to_owned());
            }
            return Symbol::default();
        }
        self.lookup(path, offset)
    }

    /// The same, if that file has these bytes at `at`, and there are any: for code that was executed elsewhere and may
    /// be a copy of it.
    pub fn lookup_copy(
        &mut self,
        path: &str,
        build_id: Option<&str>,
        offset: FileOffset,
        (at, bytes): (FileOffset, &[u8]),
    ) -> Option<Symbol> {
        let is_copy =
            !bytes.is_empty() && read_bytes(Path::new(path), at, bytes.len()).is_ok_and(|read| read == bytes);
        is_copy.then(|| self.lookup_in_build(path, build_id, offset))
    }

    /// Unreadable files with reasons, in order of first look-up.
    pub fn problems(&self) -> &[ObjectError] {
        &self.problems
    }

    /// Files that have been rebuilt since, in order of first look-up.
    pub fn rebuilt(&self) -> &[String] {
        &self.rebuilt
    }

    fn object(&mut self, path: &str) -> Option<&Object> {
        if !self.objects.contains_key(path) {
            let object = Object::open(Path::new(path), &self.debug_folder, &mut self.problems);
            self.objects.insert(path.to_owned(), object);
        }
        self.objects[path].as_ref()
    }
}

impl Default for Symbolizer {
    fn default() -> Symbolizer {
        Symbolizer::new()
    }
}

/// The hexadecimal GNU build-id of the file at `path`, if it is an ELF file with one.
pub fn build_id(path: &str) -> Option<String> {
    build_id_of(Path::new(path))
}

struct Object {
    file: ObjectFile,
    symbols: SymbolTable,
    stripped: bool,
    /// Debug information: in the file itself or in its debug file.
    dwarf: Option<Dwarf>,
}

impl Object {
    /// Opens the object at `path` with its debug file; adds what could not be read to `problems`.
    fn open(path: &Path, debug_folder: &Path, problems: &mut Vec<ObjectError>) -> Option<Object> {
        let mut read = |path: &Path| ObjectFile::read(path).map_err(|problem| problems.push(problem)).ok();
        let mut file = read(path)?;
        let mut functions = std::mem::take(&mut file.functions);
        let mut has_symbols = file.has_symbols;
        let mut dwarf = None;
        if file.has_dwarf {
            dwarf = load_dwarf(path, &file);
        } else if let Some(debug_path) = debug_file::find(debug_folder, path, &file)
            && let Some(mut debug) = read(&debug_path)
        {
            functions.append(&mut debug.functions);
            has_symbols |= debug.has_symbols;
            dwarf = load_dwarf(&debug_path, &debug);
        }
        // Without the code's bytes, fewer names without a size can be used.
        let map = map_file(path).ok();
        let symbols = SymbolTable::new(functions, &file.code(map.as_deref().unwrap_or_default()));
        let stripped = !has_symbols && dwarf.is_none() && file.go.is_none();
        Some(Object { file, symbols, stripped, dwarf })
    }

    fn lookup(&self, address: Svma) -> Symbol {
        let go = self.file.go.as_ref();
        let in_dwarf = self.dwarf.as_ref().and_then(|dwarf| dwarf.location(address));
        let (file, line) = match in_dwarf {
            // Line 0 marks code that belongs to no line.
            Some(location) => (location.file.map(str::to_owned), location.line.filter(|&line| line != 0)),
            None => {
                let location = go.and_then(|go| go.location(address));
                (location.map(|(file, _)| file.to_owned()), location.map(|(_, line)| line))
            }
        };
        let function = self.function(address);
        let start = if function.is_none() { self.file.function_start(address) } else { None };
        Symbol { stripped: self.stripped, start, function, file, line }
    }

    /// The function around `address`. A symbol without a size may only come before it, so Go's table and debug
    /// information take precedence.
    fn function(&self, address: Svma) -> Option<String> {
        let symbol = self.symbols.find(address);
        if let Some(symbol) = symbol.filter(|symbol| symbol.stated) {
            return Some(demangled(symbol.name));
        }
        let in_go = || self.file.go.as_ref()?.function(address).map(str::to_owned);
        let in_dwarf = || self.dwarf.as_ref()?.function(address);
        in_go().or_else(in_dwarf).or_else(|| Some(demangled(symbol?.name)))
    }
}

fn load_dwarf(path: &Path, file: &ObjectFile) -> Option<Dwarf> {
    Dwarf::load(path, debug_file::shared_part(path, file.debug_alt_link.as_ref()))
}

/// A name for people. The demangler also reads types, such as `f` for `float`: only mangled names are for it.
pub(crate) fn demangled(name: &str) -> String {
    let is_mangled = ["_Z", "__Z", "_R", "__R", "_GLOBAL_"].iter().any(|start| name.starts_with(start));
    match name.strip_suffix("@plt") {
        _ if !is_mangled => name.to_owned(),
        Some(target) => format!("{}@plt", demangle_auto(Cow::Borrowed(target), None)),
        None => demangle_auto(Cow::Borrowed(name), None).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_demangled() {
        assert_eq!(demangled("main"), "main");
        assert_eq!(demangled("_ZN5store3getEi"), "store::get(int)");
        assert_eq!(demangled("_ZN5store3getEi@plt"), "store::get(int)@plt");
        assert_eq!(demangled("_ZN4core3fmt5write17h0123456789abcdefE"), "core::fmt::write");
        assert_eq!(demangled("_RNvC6_123foo3bar"), "123foo::bar");
        assert_eq!(demangled("_Z"), "_Z");
        for plain in ["f", "i", "w", "Pc", "St", "pp", "w@plt", "Z", "_start"] {
            assert_eq!(demangled(plain), plain);
        }
    }
}
