//! Fuzzes `import_files` of the harness.
#![no_main]
use libfuzzer_sys::fuzz_target;
fuzz_target!(|data: &[u8]| pagewalk_fuzz::import_files(data));
