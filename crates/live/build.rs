//! Builds the agent that `pagewalk trap` puts into programs: C without a library, as plain bytes.

use std::env;
use std::path::PathBuf;
use std::process::Command;

const SOURCES: [&str; 5] = ["agent.c", "entry.S", "array.h", "shared.h", "sys.h"];
const FLAGS: [&str; 16] = [
    "-std=gnu11",
    "-O2",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-ffreestanding",
    "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables",
    "-fcf-protection=none",
    "-fno-pic",
    "-mcmodel=large",
    // Registers of the program's arithmetic are nobody's business here.
    "-mgeneral-regs-only",
    "-nostdlib",
    "-static",
    "-no-pie",
    "-Wl,--build-id=none,--oformat=binary,-z,noexecstack",
];

fn main() {
    for name in SOURCES.iter().chain(&["agent.ld"]) {
        println!("cargo::rerun-if-changed=agent/{name}");
    }
    println!("cargo::rerun-if-env-changed=CC");
    let target = |name| env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo")).join("agent.bin");
    if target("ARCH") != "x86_64" || target("OS") != "linux" {
        // `trap` says that it cannot work there.
        std::fs::write(&out, []).expect("OUT_DIR can be written");
        return;
    }
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut command = Command::new(&compiler);
    command.args(FLAGS).args(["-Wl,-T,agent/agent.ld", "agent/entry.S", "agent/agent.c", "-o"]).arg(&out);
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{command:?}: {status}; its messages are above"),
        Err(error) => {
            panic!("{}: {error}; the agent is C: apt-get install gcc libc6-dev", compiler.display())
        }
    }
}
