//! Manifests of local tools, under producer and consumer rules.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolcrib_core::local::LocalManifest;

fuzz_target!(|data: &[u8]| toolcrib_fuzz::manifest::<LocalManifest>(data));
