//! Builds the code that pagewalk injects into programs: C without a library, as raw bytes. The agent of `pagewalk trap`
//! has a fixed address; the code of `pagewalk apply` can lie anywhere.

use std::env;
use std::path::PathBuf;
use std::process::Command;

const FLAGS: [&str; 14] = [
    "-std=gnu11",
    "-O2",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-ffreestanding",
    "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables",
    "-fcf-protection=none",
    // Do not touch the program's floating-point and vector registers.
    "-mgeneral-regs-only",
    "-nostdlib",
    "-static",
    "-no-pie",
    "-Wl,--build-id=none,--oformat=binary,-z,noexecstack",
];

/// A raw binary.
struct Binary {
    name: &'static str,
    flags: &'static [&'static str],
    sources: &'static [&'static str],
    script: &'static str,
}

const BINARIES: [Binary; 2] = [
    Binary {
        name: "agent.bin",
        flags: &["-fno-pic", "-mcmodel=large"],
        sources: &["agent/entry.S", "agent/agent.c"],
        script: "agent/agent.ld",
    },
    Binary {
        name: "pages.bin",
        flags: &["-fPIE", "-fvisibility=hidden", "-fno-jump-tables", "-fno-tree-loop-distribute-patterns"],
        sources: &["agent/pages_entry.S", "agent/pages.c"],
        script: "agent/pages.ld",
    },
];

fn main() {
    println!("cargo::rerun-if-changed=agent");
    println!("cargo::rerun-if-env-changed=CC");
    let target = |name| env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    let can = target("ARCH") == "x86_64" && target("OS") == "linux";
    for binary in BINARIES {
        let out = folder.join(binary.name);
        if can {
            compile(&binary, &out);
        } else {
            // `trap` and `apply` then report that they cannot work here.
            std::fs::write(&out, []).expect("OUT_DIR can be written");
        }
    }
}

fn compile(binary: &Binary, out: &std::path::Path) {
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut command = Command::new(&compiler);
    command.args(FLAGS).args(binary.flags).arg(format!("-Wl,-T,{}", binary.script));
    command.args(binary.sources).arg("-o").arg(out);
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{command:?}: {status}; its messages are above"),
        Err(error) => {
            panic!("{}: {error}; the agent is C: apt-get install gcc libc6-dev", compiler.display())
        }
    }
}
