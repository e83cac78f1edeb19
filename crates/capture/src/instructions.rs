//! Finds files of a program with instructions that the engine lacks, before it runs.
//!
//! Libraries contain code for many processors and choose by CPUID, which under the engine reports no such instruction.
//! So files that choose are skipped; if one is skipped wrongly, the fault at the instruction is reported. Files are not
//! decoded entirely: only bytes that could begin such an instruction, with the code that leads up to them.

use iced_x86::{CpuidFeature, Decoder, DecoderOptions, Instruction, Mnemonic};
use object::elf::{self, GnuPropertyType};
use object::read::elf::{ElfFile64, FileHeader, SectionHeader};
use object::{Endianness, Object, ObjectSection, ObjectSymbol, RelocationFlags, SectionKind, SymbolFlags};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// An instruction counts if decoding from one of these distances before it arrives at it.
const LEADS: [usize; 3] = [96, 67, 41];
/// Fewer matches are more often data in code than a compiler's output.
const LEAST: usize = 2;
/// Larger files are skipped: reading them takes longer than a late report costs.
const MOST_BYTES: u64 = 256 << 20;
/// Imported symbols with which a file queries the processor.
const CHOOSERS: &[&str] = &[
    "_rtld_global_ro",
    "__cpu_model",
    "__cpu_indicator_init",
    "__cpu_features2",
    "__x86_get_cpuid_feature_leaf",
    "getauxval",
];
/// Property notes: the instruction sets that the file needs, and the bits of x86-64-v4.
const ISA_NEEDED: GnuPropertyType = GnuPropertyType(0xc000_8002);
const ISA_V4: u32 = 8;

/// A file that needs what the engine lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingInstructions {
    /// The program, its loader or a library.
    pub file: PathBuf,
    /// The instruction set.
    pub set: &'static str,
    /// The file address of the first such instruction, and its function; `None` if only notes say so.
    pub first: Option<(u64, Option<String>)>,
}

impl std::fmt::Display for MissingInstructions {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} needs {}", self.file.display(), self.set)?;
        match &self.first {
            Some((at, Some(function))) => write!(out, " (first in `{function}`, at {at:#x})")?,
            Some((at, None)) => write!(out, " (first at {at:#x})")?,
            None => write!(out, " (its notes say so)")?,
        }
        write!(
            out,
            ", which the engine lacks: the program continues natively and untraced from the first such instruction. \
             What works instead: `trap`, `promote` and `advise --pid`, or a build with -march=x86-64-v3"
        )
    }
}

/// Files that the kernel and the loader map for `program` and that need what the engine lacks.
pub fn unmet_needs(program: &Path) -> Vec<MissingInstructions> {
    let files = loaded_files(program);
    files.iter().filter_map(|file| needs_of(file)).collect()
}

/// The program, its loader, and the libraries that the loader lists. Leaves out what cannot be found.
fn loaded_files(program: &Path) -> Vec<PathBuf> {
    let mut files = vec![program.to_owned()];
    let Some(loader) = fs::read(program).ok().and_then(|bytes| loader_of(&bytes)) else { return files };
    let listed = Command::new(&loader).arg("--list").arg(program).stdin(Stdio::null()).output();
    files.push(loader);
    // `NAME => PATH (ADDRESS)`, or `PATH (ADDRESS)` for the loader.
    let text = listed.map(|output| output.stdout).unwrap_or_default();
    let paths = text.split(|&byte| byte == b'\n').filter_map(|line| {
        let (_, path) = line.split_at(line.windows(4).position(|part| part == b" => ")? + 4);
        let end = path.windows(2).rposition(|part| part == b" (")?;
        Some(PathBuf::from(OsStr::from_bytes(&path[..end])))
    });
    files.extend(paths.filter(|path| path.is_absolute()));
    files
}

fn loader_of(bytes: &[u8]) -> Option<PathBuf> {
    let file = ElfFile64::<Endianness>::parse(bytes).ok()?;
    let (endian, header) = (file.endian(), file.elf_header());
    let path =
        header.program_headers(endian, bytes).ok()?.iter().find_map(|segment| {
            object::read::elf::ProgramHeader::interpreter(segment, endian, bytes).ok()?
        })?;
    Some(PathBuf::from(OsStr::from_bytes(path)))
}

fn needs_of(path: &Path) -> Option<MissingInstructions> {
    if fs::metadata(path).ok()?.len() > MOST_BYTES {
        return None;
    }
    let bytes = fs::read(path).ok()?;
    let file = ElfFile64::<Endianness>::parse(&*bytes).ok()?;
    let unmet = |set, first| MissingInstructions { file: path.to_owned(), set, first };
    if needs_v4(&file, &bytes) {
        return Some(unmet("x86-64-v4 (AVX-512)", None));
    }
    let code: Vec<(u64, &[u8])> = file
        .sections()
        .filter(|section| section.kind() == SectionKind::Text)
        .filter_map(|section| Some((section.address(), section.data().ok()?)))
        .collect();
    if imports_a_chooser(&file)
        || has_indirect_functions(&file)
        || code.iter().any(|(_, code)| asks_the_processor(code))
    {
        return None;
    }
    let (set, at) = code.iter().find_map(|&(address, code)| first_unmet(address, code))?;
    Some(unmet(set, Some((at, function_at(&file, at)))))
}

// --- whether a file chooses by the processor -----------------------------------------------------------------

fn imports_a_chooser(file: &ElfFile64<'_>) -> bool {
    let imports = file.dynamic_symbols().filter(ObjectSymbol::is_undefined);
    imports.filter_map(|symbol| symbol.name().ok()).any(|name| CHOOSERS.contains(&name))
}

/// Functions that the loader chooses when binding.
fn has_indirect_functions(file: &ElfFile64<'_>) -> bool {
    let is_indirect = |flags: SymbolFlags<_, _>| match flags {
        SymbolFlags::Elf { st_info, .. } => st_info.st_type() == elf::STT_GNU_IFUNC,
        _ => false,
    };
    let is_bound_late = |flags: RelocationFlags| match flags {
        RelocationFlags::Elf { r_type } => r_type == elf::R_X86_64_IRELATIVE,
        _ => false,
    };
    let mut symbols = file.symbols().chain(file.dynamic_symbols());
    symbols.any(|symbol| is_indirect(symbol.flags()))
        || file
            .dynamic_relocations()
            .into_iter()
            .flatten()
            .any(|(_, relocation)| is_bound_late(relocation.flags()))
}

/// Whether the code contains CPUID.
fn asks_the_processor(code: &[u8]) -> bool {
    let places = code.windows(2).enumerate().filter(|(_, bytes)| *bytes == [0x0f, 0xa2]);
    places.map(|(at, _)| at).any(|at| {
        let cpuid = leads_to(code, at);
        cpuid.is_some_and(|instruction| instruction.mnemonic() == Mnemonic::Cpuid)
    })
}

fn needs_v4(file: &ElfFile64<'_>, bytes: &[u8]) -> bool {
    let (endian, sections) = (file.endian(), file.elf_section_table());
    let notes = sections.iter().filter_map(|section| section.notes(endian, bytes).ok().flatten());
    notes.flat_map(|mut notes| std::iter::from_fn(move || notes.next().ok().flatten())).any(|note| {
        let properties = note.gnu_properties(endian).into_iter();
        let mut all = properties.flat_map(|mut all| std::iter::from_fn(move || all.next().ok().flatten()));
        all.any(|property| {
            let needed = property.pr_type() == ISA_NEEDED;
            needed && property.data_u32(endian).is_ok_and(|needed| needed & ISA_V4 != 0)
        })
    })
}

// --- instructions --------------------------------------------------------------------------------------------

/// The instruction at `at`, if the preceding code leads to it.
fn leads_to(code: &[u8], at: usize) -> Option<Instruction> {
    LEADS.iter().find_map(|lead| {
        let start = at.saturating_sub(*lead);
        let mut decoder = Decoder::with_ip(64, &code[start..], start as u64, DecoderOptions::NONE);
        loop {
            let instruction = decoder.decode();
            match (instruction.ip() as usize).cmp(&at) {
                std::cmp::Ordering::Less if decoder.can_decode() => {}
                std::cmp::Ordering::Equal => return Some(instruction),
                _ => return None,
            }
        }
    })
}

/// The set and address of the first instruction that the engine lacks, if there are enough.
fn first_unmet(address: u64, code: &[u8]) -> Option<(&'static str, u64)> {
    let mut found: Option<(&'static str, u64)> = None;
    let mut count = 0;
    for at in 0..code.len() {
        if !may_begin(&code[at..]) {
            continue;
        }
        let alone = Decoder::new(64, &code[at..], DecoderOptions::NONE).decode();
        let Some(set) = lacking_set(&alone) else { continue };
        // A preceding prefix belongs to it: then the code leads to the prefix.
        let starts = [Some(at), at.checked_sub(1)];
        let is_led_to =
            |start: usize| leads_to(code, start).is_some_and(|led| lacking_set(&led) == Some(set));
        if starts.into_iter().flatten().any(is_led_to) {
            found.get_or_insert((set, address + at as u64));
            count += 1;
        }
        if count == LEAST {
            return found;
        }
    }
    None
}

/// Whether these bytes can begin an instruction of a missing set: EVEX, XOP, three-byte VEX, or the two legacy maps
/// with the hash instructions.
fn may_begin(bytes: &[u8]) -> bool {
    match bytes {
        [0x62 | 0xc4, _, _, _, ..] => true,
        [0x8f, next, _, _, ..] => next & 0x1f >= 8,
        [0x0f, 0x38, 0xc8..=0xcf, ..] | [0x0f, 0x3a, 0xcc..=0xcf, ..] => true,
        _ => false,
    }
}

/// The set of an instruction that Valgrind 3.19 lacks.
fn lacking_set(instruction: &Instruction) -> Option<&'static str> {
    if instruction.is_invalid() {
        return None;
    }
    instruction.cpuid_features().iter().find_map(|feature| match feature {
        CpuidFeature::SHA => Some("SHA"),
        CpuidFeature::GFNI => Some("GFNI"),
        CpuidFeature::VAES => Some("VAES"),
        CpuidFeature::VPCLMULQDQ => Some("VPCLMULQDQ"),
        CpuidFeature::XOP => Some("XOP"),
        CpuidFeature::FMA4 => Some("FMA4"),
        CpuidFeature::TBM => Some("TBM"),
        CpuidFeature::AVX_VNNI => Some("AVX-VNNI"),
        feature => {
            let name = format!("{feature:?}");
            match name {
                name if name.starts_with("AVX512") => Some("AVX-512"),
                name if name.starts_with("AVX10") => Some("AVX10"),
                name if name.starts_with("AMX") => Some("AMX"),
                name if name.starts_with("APX") => Some("APX"),
                name if name.starts_with("AVX_") => Some("a later AVX"),
                _ => None,
            }
        }
    })
}

fn function_at(file: &ElfFile64<'_>, at: u64) -> Option<String> {
    let mut functions = file.symbols().chain(file.dynamic_symbols());
    let holds = |symbol: &object::read::elf::ElfSymbol64<'_, '_>| {
        symbol.kind() == object::SymbolKind::Text
            && (symbol.address()..symbol.address() + symbol.size()).contains(&at)
    };
    functions.find(holds).and_then(|symbol| symbol.name().ok().map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compiles a program that computes with arrays, with these options.
    fn compiled(options: &[&str], more: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let (source, program) = (folder.path().join("p.c"), folder.path().join("p"));
        let text = format!(
            "{more}\nfloat a[4096], b[4096];\n\
             int main(void) {{ for (int i = 0; i < 4096; i++) a[i] = a[i] * 0.5f + b[i]; return a[7] > 1; }}\n"
        );
        fs::write(&source, text).unwrap();
        let status =
            Command::new("gcc").arg("-O3").args(options).arg("-o").arg(&program).arg(&source).status();
        assert!(status.unwrap().success());
        (folder, program)
    }

    #[test]
    fn a_program_for_wider_vectors_is_told_with_its_function() {
        let (_folder, program) = compiled(&["-march=x86-64-v4", "-mprefer-vector-width=512"], "");
        let unmet = unmet_needs(&program);
        let [one] = &unmet[..] else { panic!("{unmet:?}") };
        let (_, function) = one.first.clone().unwrap();
        assert_eq!((&one.file, one.set, function.as_deref()), (&program, "AVX-512", Some("main")));
        let told = one.to_string();
        assert!(
            told.contains("needs AVX-512 (first in `main`, at 0x") && told.contains("-march=x86-64-v3"),
            "{told}"
        );
    }

    /// Including the C library and the loader, which have code for every processor.
    #[test]
    fn what_chooses_by_the_processor_is_not_told() {
        let (_folder, plain) = compiled(&["-march=x86-64-v3"], "");
        assert_eq!(unmet_needs(&plain), []);
        let clones = "#include <cpuid.h>\nunsigned x; __attribute__((constructor)) void ask(void) { \
                      unsigned a, b, c, d; __get_cpuid(1, &a, &b, &c, &d); x = c; }";
        let (_folder, asking) = compiled(&["-march=x86-64-v4", "-mprefer-vector-width=512"], clones);
        assert_eq!(unmet_needs(&asking), []);
        assert_eq!(unmet_needs(Path::new("/usr/bin/python3")), []);
        assert_eq!(unmet_needs(Path::new("/etc/passwd")), []);
    }

    #[test]
    fn a_note_that_asks_for_the_fourth_level_is_told() {
        let (_folder, program) = compiled(&["-march=x86-64-v3", "-Wl,-z,x86-64-v4"], "");
        let unmet = unmet_needs(&program);
        assert!(unmet.len() == 1 && unmet[0].first.is_none(), "{unmet:?}");
        assert!(unmet[0].to_string().contains("needs x86-64-v4"));
    }

    /// SHA instructions have no prefix of their own; builds with `-march=native` may contain them.
    #[test]
    fn legacy_encodings_are_told() {
        let body = "#include <immintrin.h>\n__m128i s[9]; __attribute__((noinline, used)) void h(void) { \
                    for (int i = 0; i < 4; i++) s[i] = _mm_sha256rnds2_epu32(s[i], s[i + 1], s[i + 2]), \
                    s[i] = _mm_sha256msg1_epu32(s[i], s[i + 3]); }";
        let (_folder, program) = compiled(&["-msha", "-msse4.1"], body);
        let unmet = unmet_needs(&program);
        assert!(unmet.len() == 1 && unmet[0].set == "SHA", "{unmet:?}");
    }

    #[test]
    fn a_library_of_a_program_is_found_and_told() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("l.c"), "float a[4096]; void f(void) { for (int i = 0; i < 4096; i++) a[i] *= 0.5f; }")
            .unwrap();
        fs::write(at("m.c"), "void f(void); int main(void) { f(); return 0; }").unwrap();
        let gcc = |arguments: &[&str]| {
            let status = Command::new("gcc").current_dir(folder.path()).args(arguments).status();
            assert!(status.unwrap().success());
        };
        let wide = ["-O3", "-march=x86-64-v4", "-mprefer-vector-width=512"];
        gcc(&[&wide[..], &["-shared", "-fPIC", "-o", "libwide.so", "l.c"]].concat());
        gcc(&["-o", "m", "m.c", "-L.", "-lwide", "-Wl,-rpath,$ORIGIN"]);
        let unmet = unmet_needs(&at("m"));
        assert!(unmet.len() == 1 && unmet[0].file.ends_with("libwide.so"), "{unmet:?}");
    }
}
