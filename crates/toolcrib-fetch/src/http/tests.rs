//! Tests the response parser on bytes in arbitrary pieces, and on arbitrary bytes.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::fuzzing::Pieces;

/// Parses a response that arrives in pieces of the given sizes, repeatedly.
fn read(bytes: &[u8], sizes: &[usize], max: usize) -> Result<(u16, Vec<u8>), Failure> {
    let mut pieces = VecDeque::new();
    let (mut rest, mut sizes) = (bytes, sizes.iter().cycle());
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.len().min(*sizes.next().unwrap_or(&usize::MAX)));
        pieces.push_back(piece.to_vec());
        rest = after;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let limits = Limits::default();
        let mut wire = Wire::new(Pieces(pieces), Vec::new(), &limits, Instant::now() + limits.total);
        let head = wire.head(limits.head).await?;
        Ok((head.status, wire.body(head.framing, max).await?))
    })
}

/// A response and its body, framed in one of three ways.
fn message() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let body = proptest::collection::vec(any::<u8>(), 0..3000);
    (body, 0..3, 1..500_usize, 0..3_usize).prop_map(|(body, framing, chunk, interim)| {
        let mut bytes = b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n".repeat(interim);
        match framing {
            0 => {
                bytes.extend_from_slice(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes());
                bytes.extend_from_slice(&body);
            }
            1 => {
                bytes.extend_from_slice(b"HTTP/1.1 200 OK\r\n\r\n");
                bytes.extend_from_slice(&body);
            }
            _ => {
                bytes.extend_from_slice(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
                for part in body.chunks(chunk) {
                    bytes.extend_from_slice(format!("{:X}\r\n", part.len()).as_bytes());
                    bytes.extend_from_slice(part);
                    bytes.extend_from_slice(b"\r\n");
                }
                bytes.extend_from_slice(b"0\r\n\r\n");
            }
        }
        (bytes, body)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// The pieces in which a response arrives make no difference.
    #[test]
    fn pieces_make_no_difference((bytes, body) in message(), sizes in proptest::collection::vec(1..2000_usize, 1..5)) {
        prop_assert_eq!(read(&bytes, &sizes, 3000), Ok((200, body)));
    }

    /// A truncated response is never taken for a complete one, unless it ends with the connection.
    #[test]
    fn no_part_is_taken_for_the_whole((bytes, body) in message(), lost in 1..100_usize) {
        let until_close = !bytes.windows(15).any(|part| part == b"Content-Length:" || part == b"Transfer-Encodi");
        let cut = &bytes[..bytes.len().saturating_sub(lost)];
        if let Ok((_, got)) = read(cut, &[64], 3000) {
            prop_assert!(until_close && body.starts_with(&got));
        }
    }

    /// The limit is exact to the byte, with every framing.
    #[test]
    fn the_cap_is_exact((bytes, body) in message()) {
        prop_assume!(!body.is_empty());
        prop_assert!(read(&bytes, &[512], body.len()).is_ok());
        let code = read(&bytes, &[512], body.len() - 1).unwrap_err().code;
        prop_assert!(code == codes::fetch::BODY_TOO_LARGE || code == codes::fetch::LENGTH_TOO_LARGE, "{}", code);
    }

    /// Arbitrary bytes never hang the parser.
    #[test]
    fn any_bytes_end(bytes in proptest::collection::vec(any::<u8>(), 0..600), at in 0..80_usize, (good, _) in message()) {
        let _ = read(&bytes, &[7], 100);
        let mut damaged = good;
        let at = at.min(damaged.len());
        damaged.splice(at..(at + 3).min(damaged.len()), bytes.iter().take(5).copied());
        let _ = read(&damaged, &[13, 1], 3000);
    }
}
