//! Chain-agnostic identifiers: the printed form parses to the same value.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolcrib_core::caip::{AccountId, AssetId, ChainId, ToolRef};

macro_rules! reads_back {
    ($text:expr, $($kind:ident),+) => {
        $(if let Ok(value) = $kind::parse($text) {
            let printed = value.to_string();
            assert!(printed.eq_ignore_ascii_case($text), "{printed} for {}", $text);
            assert_eq!($kind::parse(&printed).ok().as_ref(), Some(&value), "{printed}");
        })+
    };
}

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    reads_back!(text, ChainId, AccountId, AssetId, ToolRef);
});
