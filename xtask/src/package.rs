//! Packages: a `.deb` for Debian and Ubuntu, and an archive of a static build for other systems.
//!
//! The same commit gives the same bytes in any folder: every time stamp in a package is the commit's, every owner is
//! root, files are sorted by name, and the build contains no paths of its source folders.

mod contents;
mod control;
mod libraries;
mod notices;

use contents::{Contents, Pages};
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How `cargo xtask package` is called.
pub const USAGE: &str = "cargo xtask package [--static] [--binary FILE] [--output FOLDER]";

const TRIPLE: &str = "x86_64-unknown-linux-gnu";

/// Licence texts that Debian provides and other systems may not.
const LICENCES: [(&str, &str); 3] = [
    ("LICENSE-APACHE", "LICENSE-APACHE"),
    ("LICENSE-MIT", "LICENSE-MIT"),
    ("crates/capture/engines/valgrind/COPYING", "COPYING.GPL-2"),
];

/// What to package, and where to put the package.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether to make an archive of a static build.
    is_static: bool,
    /// An existing `pagewalk` binary to use.
    binary: Option<PathBuf>,
    /// The folder for the package; by default `package` in the target folder.
    output: Option<PathBuf>,
}

impl Options {
    /// Reads the arguments after `package`. The error names the argument that is wrong.
    pub fn parse(arguments: &[&str]) -> Result<Options, String> {
        let mut options = Options::default();
        let mut rest = arguments.iter();
        while let Some(&argument) = rest.next() {
            let mut value = || rest.next().map(PathBuf::from).ok_or(format!("{argument} takes a path"));
            match argument {
                "--static" => options.is_static = true,
                "--binary" => options.binary = Some(value()?),
                "--output" => options.output = Some(value()?),
                _ => return Err(format!("unknown argument `{argument}`; usage: {USAGE}")),
            }
        }
        Ok(options)
    }
}

/// Data that several parts of a package contain.
struct Release {
    version: String,
    /// The commit's time, in seconds since 1970.
    date: u64,
    /// Name and e-mail address of the maintainer.
    maintainer: String,
}

/// Makes the package of the repository at `root`, and returns its path. Errors are for people and name the remedy.
pub fn make(root: &Path, options: &Options) -> Result<PathBuf, String> {
    let release = Release { version: version(root)?, date: date(root)?, maintainer: maintainer() };
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let target = std::path::absolute(&target).map_err(|e| format!("{}: {e}", target.display()))?;
    let output = options.output.clone().unwrap_or_else(|| target.join("package"));
    fs::create_dir_all(&output).map_err(|e| format!("cannot make the folder {}: {e}", output.display()))?;
    let binary = match &options.binary {
        Some(binary) => binary.clone(),
        None => build(root, &target.join("package/build"), options.is_static)?,
    };
    let pages = Pages::of(&binary)?;
    if pages.version != release.version {
        return Err(format!(
            "{} is version {}, and Cargo.toml says {}; build it again",
            binary.display(),
            pages.version,
            release.version
        ));
    }
    let work = output.join(".work");
    let _ = fs::remove_dir_all(&work);
    fs::create_dir_all(&work).map_err(|e| format!("cannot make the folder {}: {e}", work.display()))?;
    let contents = Contents::gather(root, &release, stripped(&binary, &work)?, pages)?;
    let made = if options.is_static {
        archive(root, &contents, &release, &work, &output)
    } else {
        debian(contents, &release, &work, &output)
    };
    let _ = fs::remove_dir_all(&work);
    made
}

/// Writes `pagewalk_VERSION_amd64.deb`.
fn debian(contents: Contents, release: &Release, work: &Path, output: &Path) -> Result<PathBuf, String> {
    let needed = libraries::needed(contents.binary())?;
    let mut tree = contents;
    tree.add("DEBIAN/md5sums", 0o644, control::sums(&tree)?);
    tree.add("DEBIAN/control", 0o644, control::control(release, &needed, tree.kibibytes()).into_bytes());
    let folder = work.join("tree");
    tree.write(&folder, release.date)?;
    let package = output.join(format!("pagewalk_{}_amd64.deb", release.version));
    let mut dpkg = Command::new("dpkg-deb");
    // xz is Debian's default, which every dpkg unpacks. One thread, so that the output does not depend on the machine.
    dpkg.args(["--root-owner-group", "-Zxz", "--build"]).arg(&folder).arg(&package);
    dpkg.env("SOURCE_DATE_EPOCH", release.date.to_string()).env("DPKG_DEB_THREADS_MAX", "1");
    capture(&mut dpkg)?;
    Ok(package)
}

/// Writes `pagewalk-VERSION-x86_64-linux.tar.gz`, which can be unpacked in `/usr/local` or anywhere else.
fn archive(
    root: &Path,
    contents: &Contents,
    release: &Release,
    work: &Path,
    output: &Path,
) -> Result<PathBuf, String> {
    let needed = libraries::needed(contents.binary())?;
    if !needed.is_empty() {
        return Err(format!("the binary is not static: it needs {}", needed.join(", ")));
    }
    let name = format!("pagewalk-{}-x86_64-linux", release.version);
    let mut tree = contents.relocated();
    for (text, place) in LICENCES {
        tree.add(format!("share/doc/pagewalk/{place}"), 0o644, read(&root.join(text))?);
    }
    tree.write(&work.join(&name), release.date)?;
    let mut tar = Command::new("tar");
    tar.args(["--create", "--format=gnu", "--sort=name", "--owner=root:0", "--group=root:0"]);
    tar.arg(format!("--mtime=@{}", release.date)).arg("--directory").arg(work).arg(&name);
    let package = output.join(format!("{name}.tar.gz"));
    fs::write(&package, compressed(&capture(&mut tar)?)?)
        .map_err(|e| format!("cannot write {}: {e}", package.display()))?;
    Ok(package)
}

/// Builds the release in a separate folder, because its flags differ from those of other builds.
fn build(root: &Path, target: &Path, is_static: bool) -> Result<PathBuf, String> {
    let mut flags = remapped(root);
    if is_static {
        flags.push("-Ctarget-feature=+crt-static".into());
    }
    let mut cargo = cargo(root);
    cargo.args(["build", "--release", "--locked", "--package", "pagewalk"]);
    // With an explicit target, the flags do not apply to build scripts and procedural macros, which cannot be static.
    cargo.args(["--target", TRIPLE, "--target-dir"]).arg(target);
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join(&OsString::from("\x1f")));
    match cargo.status() {
        Ok(status) if status.success() => Ok(target.join(TRIPLE).join("release/pagewalk")),
        Ok(_) => Err("the build failed; cargo's messages are above".to_owned()),
        Err(e) => Err(format!("cannot run {cargo:?}: {e}")),
    }
}

/// The cargo that runs this program, started in the repository.
fn cargo(root: &Path) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
    command.current_dir(root);
    command
}

/// Compiler flags that remove the paths of source folders from the output.
fn remapped(root: &Path) -> Vec<OsString> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| env::var_os("HOME").map(|home| Path::new(&home).join(".cargo")));
    let folders = [Some((root.to_owned(), "pagewalk")), home.map(|home| (home, "cargo"))];
    let flag = |(folder, name): (PathBuf, &str)| {
        let mut flag = OsString::from("--remap-path-prefix=");
        flag.push(folder);
        flag.push("=/");
        flag.push(name);
        flag
    };
    folders.into_iter().flatten().map(flag).collect()
}

fn stripped(binary: &Path, work: &Path) -> Result<Vec<u8>, String> {
    let out = work.join("pagewalk");
    let mut strip = Command::new("strip");
    strip.args(["--strip-unneeded", "--remove-section=.comment", "-o"]).arg(&out).arg(binary);
    capture(&mut strip)?;
    read(&out)
}

fn version(root: &Path) -> Result<String, String> {
    let manifest: toml::Table = toml::from_str(&read_text(&root.join("Cargo.toml"))?)
        .map_err(|e| format!("cannot read Cargo.toml: {e}"))?;
    let version = manifest.get("workspace").and_then(|table| table.get("package")?.get("version")?.as_str());
    version.map(str::to_owned).ok_or("Cargo.toml has no workspace.package.version".to_owned())
}

/// The commit's time, or the value of `SOURCE_DATE_EPOCH`.
fn date(root: &Path) -> Result<u64, String> {
    let remedy = "set SOURCE_DATE_EPOCH to the release's time in seconds since 1970";
    let said = match env::var("SOURCE_DATE_EPOCH") {
        Ok(said) => said,
        Err(_) => {
            let mut git = Command::new("git");
            git.current_dir(root).args(["log", "-1", "--format=%ct"]);
            let out = capture(&mut git)
                .map_err(|e| format!("no commit gives the package's date ({e}); {remedy}"))?;
            String::from_utf8_lossy(&out).into_owned()
        }
    };
    said.trim().parse().map_err(|_| format!("{said:?} is not a time; {remedy}"))
}

/// The maintainer, from the environment variables of Debian's own tools.
fn maintainer() -> String {
    let name = env::var("DEBFULLNAME").unwrap_or("The pagewalk developers".to_owned());
    let address = env::var("DEBEMAIL").unwrap_or("developers@pagewalk.invalid".to_owned());
    format!("{name} <{address}>")
}

/// Compresses like `gzip -9n`: without name and time.
fn compressed(bytes: &[u8]) -> Result<Vec<u8>, String> {
    filtered(Command::new("gzip").args(["-9", "--no-name", "--stdout"]), bytes)
}

/// The output of a command.
fn capture(command: &mut Command) -> Result<Vec<u8>, String> {
    filtered(command, &[])
}

/// The output of a command for `input`. The error contains the command's message, or names the package if the command
/// is missing.
fn filtered(command: &mut Command, input: &[u8]) -> Result<Vec<u8>, String> {
    use std::io::Write;
    let name = command.get_program().to_string_lossy().into_owned();
    let failed = |e: std::io::Error| match e.kind() {
        std::io::ErrorKind::NotFound => format!("no program `{name}`; {}", remedy(&name)),
        _ => format!("cannot run {name}: {e}"),
    };
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let mut stdin = child.stdin.take().expect("a pipe");
    let output = std::thread::scope(|scope| {
        // In parallel with reading, because both pipes may be full. Errors are ignored: the program may read only a
        // part.
        scope.spawn(move || stdin.write_all(input));
        child.wait_with_output()
    })
    .map_err(failed)?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(format!("{command:?}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim()))
}

fn remedy(program: &str) -> String {
    let package = match program {
        "dpkg-deb" => return "a .deb is made on Debian or Ubuntu, whose package `dpkg` has it".to_owned(),
        "strip" => "binutils",
        "md5sum" | "date" => "coreutils",
        other => other,
    };
    format!("on Debian and Ubuntu: apt-get install {package}")
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    fs::read(file).map_err(|e| format!("cannot read {}: {e}", file.display()))
}

fn read_text(file: &Path) -> Result<String, String> {
    fs::read_to_string(file).map_err(|e| format!("cannot read {}: {e}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_taken_in_any_order_and_wrong_ones_named() {
        let options = Options::parse(&["--output", "out", "--static", "--binary", "bin"]).unwrap();
        let expected = Options { is_static: true, binary: Some("bin".into()), output: Some("out".into()) };
        assert_eq!(options, expected);
        assert_eq!(Options::parse(&["--binary"]).unwrap_err(), "--binary takes a path");
        assert!(Options::parse(&["--fast"]).unwrap_err().starts_with("unknown argument `--fast`"));
    }

    #[test]
    fn an_absent_program_is_named_with_its_package() {
        let error = capture(&mut Command::new("/nowhere/strip")).unwrap_err();
        assert!(error.starts_with("no program `/nowhere/strip`"), "{error}");
        assert!(remedy("dpkg-deb").contains("on Debian or Ubuntu"));
        assert!(remedy("strip").ends_with("apt-get install binutils"));
    }

    #[test]
    fn more_than_a_pipe_holds_goes_through_a_filter() {
        let bytes = vec![7; 1 << 20];
        assert!(filtered(&mut Command::new("cat"), &bytes).unwrap() == bytes);
        assert_eq!(compressed(&bytes).unwrap(), compressed(&bytes).unwrap());
    }
}
