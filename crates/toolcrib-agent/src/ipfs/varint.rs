//! Unsigned varints of multiformats and protobuf: seven bits in each byte, the lowest first.

/// Maximum length of a varint: the limit of the unsigned-varint specification, 63 bits; nothing here needs more.
const MAX_BYTES: usize = 9;

/// Parses and removes a varint at the start of `bytes`. Returns `None` if it is truncated, not minimal, or exceeds 63 bits.
pub(super) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let input = *bytes;
    let mut value = 0_u64;
    for (index, &byte) in input.iter().enumerate().take(MAX_BYTES) {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            if byte == 0 && index > 0 {
                return None;
            }
            *bytes = input.get(index + 1..)?;
            return Some(value);
        }
    }
    None
}

/// Removes `length` bytes from the start of `bytes`. Returns `None` if there are fewer.
pub(super) fn take_bytes<'a>(bytes: &mut &'a [u8], length: u64) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
    *bytes = rest;
    Some(taken)
}

/// Appends a varint.
pub(super) fn push(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_form_for_each_number() {
        for value in [0, 1, 0x7f, 0x80, 0x3fff, 0x4000, 0xb220, u64::from(u32::MAX), (1 << 63) - 1] {
            let mut bytes = Vec::new();
            push(value, &mut bytes);
            bytes.push(0xaa);
            let mut rest = bytes.as_slice();
            assert_eq!(take(&mut rest), Some(value));
            assert_eq!(rest, [0xaa]);
        }
        for bytes in [&[][..], &[0x80], &[0x80, 0x00], &[0xff, 0x00], &[0xff; 9], &[0xff; 10], &[0x80, 0x80, 0x80]] {
            assert_eq!(take(&mut &*bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn bytes_are_taken_whole_or_not_at_all() {
        let mut bytes = &[1, 2, 3][..];
        assert_eq!(take_bytes(&mut bytes, 4), None);
        assert_eq!(take_bytes(&mut bytes, u64::MAX), None);
        assert_eq!(take_bytes(&mut bytes, 2), Some(&[1, 2][..]));
        assert_eq!(bytes, [3]);
    }
}
