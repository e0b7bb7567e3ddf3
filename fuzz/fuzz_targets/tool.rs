//! Tool manifests (ERC-8257), under producer and consumer rules.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolcrib_core::tool::ToolManifest;

fuzz_target!(|data: &[u8]| toolcrib_fuzz::manifest::<ToolManifest>(data));
