//! Server responses: any bytes, in any chunks, give a response within the limits or an error.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tokio::runtime::{Builder, Runtime};
use toolcrib_fetch::fuzzing::read_answer;
use toolcrib_fetch::{Limits, MAX_HEADERS};

/// Smaller than the fuzzer's inputs, so that both sides of the limit are tested.
const MAX_BODY: usize = 512;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Builder::new_current_thread().enable_time().build().expect("a runtime"));

fuzz_target!(|data: &[u8]| {
    // Chunk boundaries must not make a difference.
    let whole = RUNTIME.block_on(read_answer(data, usize::MAX, MAX_BODY)).map_err(|failure| failure.code);
    for size in [1, 7, 64] {
        let pieces = RUNTIME.block_on(read_answer(data, size, MAX_BODY)).map_err(|failure| failure.code);
        // Bytes after the end of the response are only seen if they have arrived: with small chunks they may come later.
        if pieces != whole {
            assert_eq!(whole.as_ref().err().map(|code| code.id()), Some("fetch.length_mismatch"), "{size}: {whole:?} and {pieces:?}");
        }
    }
    let Ok((status, headers, body)) = whole else { return };
    assert!((200..=999).contains(&status), "interim answers are passed over: {status}");
    assert!(body.len() <= MAX_BODY && headers.len() <= MAX_HEADERS);
    let bytes: usize = headers.iter().map(|(name, _)| name.len()).sum();
    assert!(bytes <= Limits::default().head);
    for (name, value) in &headers {
        assert!(!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && !byte.is_ascii_uppercase()), "{name:?}");
        assert!(!value.contains(['\r', '\n', '\0']), "{value:?}");
    }
    // A content length, or chunked encoding, never both.
    let count = |wanted: &str| headers.iter().filter(|(name, _)| name == wanted).count();
    assert!(count("content-length") + count("transfer-encoding") <= 1, "{headers:?}");
});
