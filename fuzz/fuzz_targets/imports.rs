//! Fuzzes `imports` of the harness.
#![no_main]
use libfuzzer_sys::fuzz_target;
fuzz_target!(|data: &[u8]| pagewalk_fuzz::imports(data));
