//! Tool manifests (ERC-8257), as their authors and as their readers check them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolcrib_core::tool::ToolManifest;

fuzz_target!(|data: &[u8]| toolcrib_fuzz::manifest::<ToolManifest>(data));
