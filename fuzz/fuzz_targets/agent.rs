//! Agent manifests, as JSON and as the TXT records of a domain.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolcrib_core::agent::AgentManifest;
use toolcrib_core::agent::txt::{parse_records, records_from_text};

fuzz_target!(|data: &[u8]| {
    toolcrib_fuzz::manifest::<AgentManifest>(data);
    if let Ok(text) = std::str::from_utf8(data) {
        let records = records_from_text(text);
        let _ = parse_records(&records);
    }
});
