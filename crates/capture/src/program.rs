//! Checks whether a program can be captured, before an engine starts: the engines' own messages describe the engine's
//! problem, not the user's.

use crate::CaptureError;
use object::Endianness;
use object::elf::{self, DataEncoding, FileClass, FileHeader64, FileType, Machine};
use object::read::ReadCache;
use object::read::elf::{FileHeader, ProgramHeader};
use rustix::fs::Access;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The search path if PATH is not set, as in `execvp`.
const DEFAULT_PATH: &str = "/bin:/usr/bin";
/// Most scripts in a chain of `#!` lines: the kernel's limit.
const MAX_SCRIPTS: u32 = 4;
/// Bytes of a `#!` line that the kernel reads.
const MAX_SCRIPT_LINE: usize = 256;
const SET_ID_BITS: u32 = 0o6000;
/// The engine's linked addresses; Valgrind 3.19 ends at 0x797f_5000. Wine's loader lies right after.
pub(crate) const ENGINE_PLACE: std::ops::Range<u64> = 0x7800_0000..0x7a00_0000;

/// Finds the program that a shell would run for `name`, and checks that the engine can run it: an x86-64 ELF program,
/// or a script whose interpreter is one.
pub fn check_program(name: &OsStr) -> Result<PathBuf, CaptureError> {
    let path = find(name, env::var_os("PATH"))?;
    check_file(&path, MAX_SCRIPTS)?;
    Ok(path)
}

/// Checks that a program found by [`check_program`] leaves the engine's addresses free. Position-independent programs
/// do. The engine reports what cannot be read here.
pub fn check_place(program: &Path) -> Result<(), CaptureError> {
    let mut file = program.to_owned();
    for _ in 0..=MAX_SCRIPTS {
        match script_interpreter(&file) {
            Some(interpreter) => file = interpreter,
            None => break,
        }
    }
    match fixed_image(&file) {
        Some(end) => Err(CaptureError::NoPlace { path: file, end, engine: ENGINE_PLACE.start }),
        None => Ok(()),
    }
}

fn script_interpreter(path: &Path) -> Option<PathBuf> {
    let mut start = Vec::with_capacity(MAX_SCRIPT_LINE);
    File::open(path).ok()?.take(MAX_SCRIPT_LINE as u64).read_to_end(&mut start).ok()?;
    interpreter_of(start.strip_prefix(b"#!")?).map(Path::to_owned)
}

/// The end of a segment loaded at a fixed address that overlaps the engine.
fn fixed_image(path: &Path) -> Option<u64> {
    let cache = ReadCache::new(File::open(path).ok()?);
    let header = FileHeader64::<Endianness>::parse(&cache).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, &cache).ok()?;
    if header.e_type(endian) != elf::ET_EXEC {
        return None;
    }
    segments.iter().filter(|segment| segment.p_type(endian) == elf::PT_LOAD).find_map(|segment| {
        let start = segment.p_vaddr(endian);
        let end = start.saturating_add(segment.p_memsz(endian));
        (start < ENGINE_PLACE.end && end > ENGINE_PLACE.start).then_some(end)
    })
}

/// A name with a slash is a path; any other is searched along PATH. A file that is not executable is skipped, but
/// reported if nothing better is found.
fn find(name: &OsStr, search_path: Option<OsString>) -> Result<PathBuf, CaptureError> {
    let not_found = || CaptureError::ProgramNotFound { name: name.to_string_lossy().into_owned() };
    if name.is_empty() {
        return Err(not_found());
    }
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return match executable(&path) {
            None => Err(not_found()),
            Some(Ok(())) => Ok(path),
            Some(Err(why)) => Err(CaptureError::NotExecutable { path, why }),
        };
    }
    let mut refused = None;
    for directory in env::split_paths(&search_path.unwrap_or_else(|| DEFAULT_PATH.into())) {
        // An empty entry means the working directory; the path must keep a slash to count as one.
        let directory = if directory.as_os_str().is_empty() { PathBuf::from(".") } else { directory };
        let path = directory.join(name);
        match executable(&path) {
            None => {}
            Some(Ok(())) => return Ok(path),
            Some(Err(why)) => {
                refused.get_or_insert(CaptureError::NotExecutable { path, why });
            }
        }
    }
    Err(refused.unwrap_or_else(not_found))
}

/// Whether the file at `path` is executable; `None` if there is none.
fn executable(path: &Path) -> Option<Result<(), &'static str>> {
    let metadata = fs::metadata(path).ok()?;
    Some(if metadata.is_dir() {
        Err("it is a directory")
    } else if !metadata.is_file() {
        Err("it is not a regular file")
    } else if rustix::fs::access(path, Access::EXEC_OK).is_err() {
        Err("its permissions do not allow it (chmod +x makes it so)")
    } else {
        Ok(())
    })
}

fn check_file(path: &Path, scripts_left: u32) -> Result<(), CaptureError> {
    let unreadable = |source| CaptureError::Unreadable { path: path.to_owned(), source };
    let file = File::open(path).map_err(unreadable)?;
    let mode = file.metadata().map_err(unreadable)?.permissions().mode();
    let mut start = Vec::with_capacity(MAX_SCRIPT_LINE);
    file.take(MAX_SCRIPT_LINE as u64).read_to_end(&mut start).map_err(unreadable)?;
    if let Some(line) = start.strip_prefix(b"#!") {
        return check_script(path, line, scripts_left);
    }
    if mode & SET_ID_BITS != 0 || has_capabilities(path) {
        return Err(CaptureError::Privileged { path: path.to_owned() });
    }
    check_elf(path, &start)
}

fn check_script(script: &Path, line: &[u8], scripts_left: u32) -> Result<(), CaptureError> {
    let Some(interpreter) = interpreter_of(line) else {
        return Err(CaptureError::NotAProgram { path: script.to_owned(), why: "its `#!` line is empty" });
    };
    if interpreter.as_os_str().as_bytes().ends_with(b"\r") {
        let why = "its `#!` line ends in a carriage return, as lines of DOS do";
        return Err(CaptureError::NotAProgram { path: script.to_owned(), why });
    }
    let too_deep =
        || CaptureError::NotAProgram { path: script.to_owned(), why: "its `#!` lines go in circles" };
    let checked = match executable(interpreter) {
        None => Err(CaptureError::ProgramNotFound { name: interpreter.display().to_string() }),
        Some(Err(why)) => Err(CaptureError::NotExecutable { path: interpreter.to_owned(), why }),
        Some(Ok(())) if scripts_left == 0 => return Err(too_deep()),
        Some(Ok(())) => check_file(interpreter, scripts_left - 1),
    };
    checked
        .map_err(|source| CaptureError::Interpreter { script: script.to_owned(), source: Box::new(source) })
}

/// The interpreter in a line after `#!`.
fn interpreter_of(line: &[u8]) -> Option<&Path> {
    let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let word = line.split(|byte| matches!(byte, b' ' | b'\t')).find(|word| !word.is_empty())?;
    Some(Path::new(OsStr::from_bytes(word)))
}

fn has_capabilities(path: &Path) -> bool {
    let mut value = [0u8; 64];
    rustix::fs::getxattr(path, "security.capability", &mut value).is_ok_and(|bytes| bytes > 0)
}

fn check_elf(path: &Path, start: &[u8]) -> Result<(), CaptureError> {
    let not_a_program = |why| Err(CaptureError::NotAProgram { path: path.to_owned(), why });
    if !start.starts_with(b"\x7fELF") {
        return not_a_program("it is neither an ELF file nor a script that begins with `#!`");
    }
    // e_ident, then the 16-bit e_type and e_machine, in the file's own byte order.
    let Some(&[_, _, _, _, class, order, ..]) = start.first_chunk::<20>() else {
        return not_a_program("its ELF header is cut off");
    };
    let half = |at: usize| {
        let bytes = [start[at], start[at + 1]];
        if DataEncoding(order) == elf::ELFDATA2MSB {
            u16::from_be_bytes(bytes)
        } else {
            u16::from_le_bytes(bytes)
        }
    };
    let (kind, machine) = (FileType(half(16)), Machine(half(18)));
    if FileClass(class) != elf::ELFCLASS64 || machine != elf::EM_X86_64 {
        let bits = if FileClass(class) == elf::ELFCLASS64 { 64 } else { 32 };
        let found = format!("{bits}-bit {}", machine_name(machine));
        return Err(CaptureError::OtherArchitecture { path: path.to_owned(), found });
    }
    match kind {
        elf::ET_EXEC | elf::ET_DYN => Ok(()),
        elf::ET_REL => not_a_program("it is an object file that has yet to be linked"),
        elf::ET_CORE => not_a_program("it is a core dump"),
        _ => not_a_program("its ELF header names no kind of program"),
    }
}

fn machine_name(machine: Machine) -> String {
    let name = match machine {
        elf::EM_386 => "x86",
        elf::EM_X86_64 => "x86-64",
        elf::EM_ARM => "ARM",
        elf::EM_AARCH64 => "AArch64",
        elf::EM_RISCV => "RISC-V",
        elf::EM_PPC | elf::EM_PPC64 => "PowerPC",
        elf::EM_S390 => "s390",
        elf::EM_MIPS => "MIPS",
        elf::EM_SPARC | elf::EM_SPARCV9 => "SPARC",
        elf::EM_LOONGARCH => "LoongArch",
        Machine(other) => return format!("ELF machine {other}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    struct Folder(tempfile::TempDir);

    impl Folder {
        fn new() -> Folder {
            Folder(tempfile::tempdir().unwrap())
        }

        fn file(&self, name: &str, mode: u32, bytes: &[u8]) -> PathBuf {
            let path = self.0.path().join(name);
            fs::write(&path, bytes).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        }

        fn message(&self, name: &str, mode: u32, bytes: &[u8]) -> String {
            let path = self.file(name, mode, bytes);
            let error = check_program(path.as_os_str()).unwrap_err().to_string();
            error.replace(self.0.path().to_str().unwrap(), "DIR")
        }
    }

    /// An ELF header with only the relevant fields filled in.
    fn header(class: u8, order: u8, kind: u16, machine: u16) -> Vec<u8> {
        let mut bytes = b"\x7fELF".to_vec();
        bytes.extend([class, order]);
        bytes.resize(16, 0);
        for half in [kind, machine] {
            bytes.extend(if order == 2 { half.to_be_bytes() } else { half.to_le_bytes() });
        }
        bytes
    }

    #[test]
    fn good_programs_pass() {
        let folder = Folder::new();
        let shell = fs::canonicalize("/bin/sh").unwrap();
        for good in [
            folder.file("elf", 0o755, &header(2, 1, 3, 62)),
            folder.file("script", 0o755, b"#! /bin/sh -e\necho\n"),
            folder.file("no-newline", 0o755, b"#!/bin/sh"),
            shell,
        ] {
            assert_eq!(check_program(good.as_os_str()).unwrap(), good);
        }
        let path = check_program("true".as_ref()).unwrap();
        assert!(path.is_absolute() && path.ends_with("true"));
    }

    #[test]
    fn each_refusal_says_what_the_file_is() {
        let folder = Folder::new();
        let only = "only 64-bit x86-64 programs can be captured";
        for (name, mode, bytes, message) in [
            ("a", 0o755, header(1, 1, 2, 3), format!("DIR/a is a 32-bit x86 program; {only}")),
            ("b", 0o755, header(2, 1, 2, 183), format!("DIR/b is a 64-bit AArch64 program; {only}")),
            ("c", 0o755, header(2, 2, 2, 22), format!("DIR/c is a 64-bit s390 program; {only}")),
            ("d", 0o755, header(1, 1, 2, 62), format!("DIR/d is a 32-bit x86-64 program; {only}")),
            ("e", 0o755, header(2, 1, 2, 999), format!("DIR/e is a 64-bit ELF machine 999 program; {only}")),
        ] {
            assert_eq!(folder.message(name, mode, &bytes), message);
        }
        for (name, mode, bytes, message) in [
            (
                "f",
                0o644,
                &b"#!/bin/sh"[..],
                "DIR/f is not executable: its permissions do not allow it (chmod +x makes it so)",
            ),
            (
                "g",
                0o755,
                b"echo",
                "DIR/g is not a program: it is neither an ELF file nor a script that begins with `#!`",
            ),
            ("h", 0o755, b"\x7fELF\x02", "DIR/h is not a program: its ELF header is cut off"),
            ("i", 0o755, b"#!\n/bin/sh", "DIR/i is not a program: its `#!` line is empty"),
            (
                "m",
                0o755,
                b"#!/bin/sh\r\necho",
                "DIR/m is not a program: its `#!` line ends in a carriage return, as lines of DOS do",
            ),
            (
                "j",
                0o755,
                b"#!/no/such/shell -x\n",
                "the script DIR/j needs the interpreter of its `#!` line: program `/no/such/shell` not found",
            ),
            (
                "k",
                0o755,
                &header(2, 1, 1, 62),
                "DIR/k is not a program: it is an object file that has yet to be linked",
            ),
        ] {
            assert_eq!(folder.message(name, mode, bytes), message);
        }
        assert!(folder.message("l", 0o4755, &header(2, 1, 3, 62)).starts_with("DIR/l gains privileges"));
        let path = folder.0.path().to_owned();
        let error = check_program(path.as_os_str()).unwrap_err();
        assert!(error.to_string().ends_with("is not executable: it is a directory"));
    }

    /// A header with one loaded segment.
    fn image(kind: u16, start: u64, bytes: u64) -> Vec<u8> {
        let mut file = header(2, 1, kind, 62);
        file[6] = 1;
        file.resize(64 + 56, 0);
        file[20] = 1;
        file[32] = 64;
        (file[52], file[54], file[56]) = (64, 56, 1);
        file[64] = 1;
        file[80..88].copy_from_slice(&start.to_le_bytes());
        file[104..112].copy_from_slice(&bytes.to_le_bytes());
        file
    }

    #[test]
    fn an_image_at_the_engines_place_is_refused() {
        let folder = Folder::new();
        for (name, kind, start, bytes, fits) in [
            ("below", 2, 0x40_0000, 0x77c0_0000, true),
            ("reaching", 2, 0x40_0000, 0x77c0_0001, false),
            ("over", 2, 0x40_0000, 6 << 30, false),
            ("behind", 2, 1 << 40, 6 << 30, true),
            ("wine", 2, 0x7d40_0000, 0x1000, true),
            ("movable", 3, 0, 6 << 30, true),
        ] {
            let path = folder.file(name, 0o755, &image(kind, start, bytes));
            let script = folder.file("script", 0o755, format!("#!{}\n", path.display()).as_bytes());
            for program in [&path, &script] {
                let checked = check_place(program);
                assert_eq!(checked.is_ok(), fits, "{name}");
                let Err(error) = checked else { continue };
                let message = error.to_string().replace(folder.0.path().to_str().unwrap(), "DIR");
                let end = start + bytes;
                assert!(message.starts_with(&format!("DIR/{name} is not position independent")), "{message}");
                assert!(message.contains(&format!("up to {end:#x}, but the engine lies at 0x78000000")));
            }
        }
    }

    #[test]
    fn scripts_that_run_each_other_end() {
        let folder = Folder::new();
        let path = folder.0.path().join("loop");
        folder.file("loop", 0o755, format!("#!{}\n", path.display()).as_bytes());
        let error = check_program(path.as_os_str()).unwrap_err().to_string();
        assert!(error.ends_with("its `#!` lines go in circles"), "{error}");
    }

    #[test]
    fn path_is_searched_as_a_shell_does() {
        let (first, second) = (Folder::new(), Folder::new());
        first.file("tool", 0o644, b"");
        first.file("only-here", 0o644, b"");
        let tool = second.file("tool", 0o755, b"");
        let search = env::join_paths([first.0.path(), second.0.path()]).unwrap();
        assert_eq!(find("tool".as_ref(), Some(search.clone())).unwrap(), tool);
        let refused = find("only-here".as_ref(), Some(search.clone())).unwrap_err();
        assert!(matches!(refused, CaptureError::NotExecutable { .. }));
        let missing = find("no-such".as_ref(), Some(search.clone())).unwrap_err();
        assert_eq!(missing.to_string(), "program `no-such` not found in PATH");
        assert!(find("".as_ref(), Some(search.clone())).is_err());
        symlink(&tool, second.0.path().join("link")).unwrap();
        assert_eq!(find("link".as_ref(), Some(search)).unwrap(), second.0.path().join("link"));
        assert_eq!(find("sh".as_ref(), None).unwrap(), Path::new("/bin/sh"));
        let gone = check_program("./no/such".as_ref()).unwrap_err();
        assert_eq!(gone.to_string(), "program `./no/such` not found");
    }
}
