//! Detects the format of a raster image by its first bytes, and its size by its header.
//!
//! Nothing is decoded. Bytes that are not clearly one of five formats, or whose header does not state a size, are rejected: SVG, HTML, PDF
//! and archives among them. The media type that the server declared is ignored.

/// The maximum side in pixels. Icons have at most 1,024, banners some 2,000; browsers allocate four bytes for each pixel.
const MAX_SIDE: u32 = 4_096;

/// The maximum number of pixels: 32 MiB when a browser decodes them.
const MAX_PIXELS: u64 = 8 * 1024 * 1024;

/// The number of bytes within which an AVIF file must state its size. The boxes before it have some hundreds.
const AVIF_HEAD_BYTES: usize = 4_096;

/// A format that is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Png,
    Jpeg,
    Gif,
    Webp,
    Avif,
}

impl Format {
    /// Returns the media type.
    pub(crate) const fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::Webp => "image/webp",
            Self::Avif => "image/avif",
        }
    }

    /// Returns the format of some bytes, if it is supported and its size is within the limits.
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        let (format, size) = if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
            (Self::Png, png(bytes))
        } else if bytes.starts_with(b"\xff\xd8\xff") {
            (Self::Jpeg, jpeg(bytes))
        } else if bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a") {
            (Self::Gif, gif(bytes))
        } else if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
            (Self::Webp, webp(bytes))
        } else if matches!(bytes.get(4..12), Some(b"ftypavif" | b"ftypavis")) {
            (Self::Avif, avif(bytes))
        } else {
            return None;
        };
        let (width, height) = size?;
        let is_fit = (1..=MAX_SIDE).contains(&width) && (1..=MAX_SIDE).contains(&height);
        (is_fit && u64::from(width) * u64::from(height) <= MAX_PIXELS).then_some(format)
    }
}

type Size = Option<(u32, u32)>;

fn big32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn big16(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?)))
}

fn little16(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?)))
}

fn little24(bytes: &[u8], at: usize) -> Option<u32> {
    let [a, b, c]: [u8; 3] = bytes.get(at..at + 3)?.try_into().ok()?;
    Some(u32::from_le_bytes([a, b, c, 0]))
}

/// PNG 1.2 §11.2.2: the header is the first chunk.
fn png(bytes: &[u8]) -> Size {
    (bytes.get(12..16)? == b"IHDR").then_some(())?;
    Some((big32(bytes, 16)?, big32(bytes, 20)?))
}

/// The size of the canvas.
fn gif(bytes: &[u8]) -> Size {
    Some((little16(bytes, 6)?, little16(bytes, 8)?))
}

/// ITU T.81 §B.2: segments with their lengths until a start of frame.
fn jpeg(bytes: &[u8]) -> Size {
    let mut at = 2;
    loop {
        (*bytes.get(at)? == 0xff).then_some(())?;
        let marker = *bytes.get(at + 1)?;
        match marker {
            // Any number of fill bytes may precede a marker.
            0xff => at += 1,
            0xc0..=0xcf if !matches!(marker, 0xc4 | 0xc8 | 0xcc) => return Some((big16(bytes, at + 7)?, big16(bytes, at + 5)?)),
            // Image data before any frame, the end, or markers that are invalid here.
            0x00 | 0x01 | 0xd0..=0xda => return None,
            _ => {
                let length = usize::try_from(big16(bytes, at + 2)?).ok()?;
                (length >= 2).then_some(())?;
                at += 2 + length;
            }
        }
    }
}

/// RFC 9649: the three kinds of a first chunk.
fn webp(bytes: &[u8]) -> Size {
    match bytes.get(12..16)? {
        b"VP8X" => Some((little24(bytes, 24)? + 1, little24(bytes, 27)? + 1)),
        b"VP8L" => {
            (*bytes.get(20)? == 0x2f).then_some(())?;
            let bits = u32::from_le_bytes(bytes.get(21..25)?.try_into().ok()?);
            Some(((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1))
        }
        b"VP8 " => {
            (bytes.get(23..26)? == b"\x9d\x01\x2a").then_some(())?;
            Some((little16(bytes, 26)? & 0x3fff, little16(bytes, 28)? & 0x3fff))
        }
        _ => None,
    }
}

/// ISO 23008-12 §6.5.3: the largest size of the image items. Tiles are smaller than the image.
fn avif(bytes: &[u8]) -> Size {
    let head = &bytes[..bytes.len().min(AVIF_HEAD_BYTES)];
    let boxes = head.windows(4).enumerate().filter(|(_, name)| *name == b"ispe");
    // After the name come a version with flags, and the size.
    boxes.filter_map(|(at, _)| Some((big32(head, at + 8)?, big32(head, at + 12)?))).reduce(|a, b| (a.0.max(b.0), a.1.max(b.1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the start of a PNG of this size.
    fn png_of(width: u32, height: u32) -> Vec<u8> {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        bytes.extend(width.to_be_bytes());
        bytes.extend(height.to_be_bytes());
        bytes.extend(b"\x08\x06\0\0\0");
        bytes
    }

    #[test]
    fn formats_are_told_by_their_bytes() {
        let gif = |w: u16, h: u16| [b"GIF89a".as_slice(), &w.to_le_bytes(), &h.to_le_bytes(), b"\0\0\0"].concat();
        let jpeg = |w: u16, h: u16| {
            let app = b"\xff\xd8\xff\xe0\0\x04ab\xff\xff\xc2\0\x11\x08".as_slice();
            [app, &h.to_be_bytes(), &w.to_be_bytes(), b"\x03"].concat()
        };
        let riff = |chunk: &[u8]| [b"RIFF\0\0\0\0WEBP".as_slice(), chunk].concat();
        let avif = |w: u32, h: u32| {
            let ftyp = b"\0\0\0\x1cftypavif\0\0\0\0\0\0\0\x14ispe\0\0\0\0".as_slice();
            [ftyp, &w.to_be_bytes(), &h.to_be_bytes()].concat()
        };
        for (bytes, expected) in [
            (png_of(48, 48), Some(Format::Png)),
            (png_of(4_096, 2_048), Some(Format::Png)),
            (png_of(4_096, 2_049), None),
            (png_of(4_097, 1), None),
            (png_of(0, 1), None),
            (png_of(48, 48)[..20].to_vec(), None),
            (gif(16, 16), Some(Format::Gif)),
            (gif(65_535, 65_535), None),
            (jpeg(800, 600), Some(Format::Jpeg)),
            (jpeg(60_000, 60_000), None),
            (b"\xff\xd8\xff\xe0\0\0".to_vec(), None),
            (b"\xff\xd8\xff\xda\0\x02".to_vec(), None),
            (b"\xff\xd8\xff".repeat(9), None),
            (riff(b"VP8X\x0a\0\0\0\0\0\0\0\xff\x01\0\xff\x01\0"), Some(Format::Webp)),
            (riff(b"VP8X\x0a\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff"), None),
            (riff(b"VP8L\0\0\0\0\x2f\x2f\xc0\x0b\0"), Some(Format::Webp)),
            (riff(b"VP8 \0\0\0\0\0\0\0\x9d\x01\x2a\x40\0\x40\0"), Some(Format::Webp)),
            (riff(b"WAVEfmt "), None),
            (avif(64, 64), Some(Format::Avif)),
            (avif(64_000, 64), None),
            (b"\0\0\0\x1cftypavif".to_vec(), None),
            (b"\0\0\0\x1cftypmp42".to_vec(), None),
            (b"<svg xmlns=\"http://www.w3.org/2000/svg\"/>".to_vec(), None),
            (b"<!doctype html><script>".to_vec(), None),
            (b"%PDF-1.7".to_vec(), None),
            (Vec::new(), None),
        ] {
            assert_eq!(Format::of(&bytes), expected, "{bytes:02x?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..64), start in 0_usize..6) {
            let starts: [&[u8]; 6] = [b"", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", b"\xff\xd8\xff", b"GIF89a", b"RIFF\0\0\0\0WEBP", b"\0\0\0\x1cftypavif"];
            let _ = Format::of(&[starts[start], &bytes].concat());
        }
    }
}
