#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| trunkline_fuzz::feed("passage", input));
