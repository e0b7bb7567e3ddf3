//! A reader for the few shapes of CBOR that attestation documents are made of.
//!
//! Written by hand because so little is needed: unsigned and small negative integers, byte and text strings, arrays,
//! maps, null and one tag. The caller says what it expects next, so nothing recurses and nothing is allocated. Strings
//! in pieces, reserved forms, floats and lengths past the end are refused. Maps alone may be of indefinite length: the
//! security modules of newer Nitro hosts write the document's outer map so.

/// What is wrong, and at which byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// Where the item begins.
    pub(super) at: usize,
    /// What is wrong with it: lowercase, no full stop.
    pub(super) what: &'static str,
}

/// How many entries a map has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entries {
    /// So many.
    Counted(u64),
    /// As many as come before the break.
    UntilBreak,
}

/// Reads one item after another.
#[derive(Clone, Debug)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

const UNSIGNED: u8 = 0;
const NEGATIVE: u8 = 1;
const BYTES: u8 = 2;
const TEXT: u8 = 3;
const ARRAY: u8 = 4;
const MAP: u8 = 5;
const TAG: u8 = 6;
const NULL: u8 = 0xf6;
const BREAK: u8 = 0xff;
const INDEFINITE_MAP: u8 = 0xbf;

impl<'a> Reader<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Where the next item begins.
    pub(super) const fn position(&self) -> usize {
        self.at
    }

    /// An unsigned integer.
    pub(super) fn unsigned(&mut self) -> Result<u64, Fault> {
        self.expect(UNSIGNED, "expected an unsigned integer")
    }

    /// An integer that fits 64 bits with its sign.
    pub(super) fn integer(&mut self) -> Result<i64, Fault> {
        let at = self.at;
        let fault = |what| Fault { at, what };
        let (major, argument) = self.head()?;
        let value = i64::try_from(argument).map_err(|_| fault("the integer is too large"))?;
        match major {
            UNSIGNED => Ok(value),
            NEGATIVE => Ok(-1 - value),
            _ => Err(fault("expected an integer")),
        }
    }

    /// A byte string.
    pub(super) fn bytes(&mut self) -> Result<&'a [u8], Fault> {
        let length = self.expect(BYTES, "expected a byte string")?;
        self.take(length)
    }

    /// A byte string, or `None` for null.
    pub(super) fn bytes_or_null(&mut self) -> Result<Option<&'a [u8]>, Fault> {
        if self.bytes.get(self.at) == Some(&NULL) {
            self.at += 1;
            return Ok(None);
        }
        self.bytes().map(Some)
    }

    /// A text string.
    pub(super) fn text(&mut self) -> Result<&'a str, Fault> {
        let at = self.at;
        let length = self.expect(TEXT, "expected a text string")?;
        std::str::from_utf8(self.take(length)?).map_err(|_| Fault { at, what: "the text is not UTF-8" })
    }

    /// The head of an array: how many items follow.
    pub(super) fn array(&mut self) -> Result<u64, Fault> {
        self.expect(ARRAY, "expected an array of definite length")
    }

    /// The head of a map.
    pub(super) fn map(&mut self) -> Result<Entries, Fault> {
        if self.bytes.get(self.at) == Some(&INDEFINITE_MAP) {
            self.at += 1;
            return Ok(Entries::UntilBreak);
        }
        self.expect(MAP, "expected a map").map(Entries::Counted)
    }

    /// Whether a map has one more entry; counts it, or takes the break that ends the map.
    pub(super) fn next_entry(&mut self, entries: &mut Entries) -> bool {
        match entries {
            Entries::Counted(0) => false,
            Entries::Counted(left) => {
                *left -= 1;
                true
            }
            Entries::UntilBreak => {
                let ended = self.bytes.get(self.at) == Some(&BREAK);
                self.at += usize::from(ended);
                !ended
            }
        }
    }

    /// Takes this tag if it comes next.
    pub(super) fn skip_tag(&mut self, tag: u64) {
        let before = self.at;
        if self.head() != Ok((TAG, tag)) {
            self.at = before;
        }
    }

    /// Nothing may follow.
    pub(super) fn end(&self) -> Result<(), Fault> {
        if self.at == self.bytes.len() {
            Ok(())
        } else {
            Err(Fault { at: self.at, what: "there are bytes after the end of the document" })
        }
    }

    fn expect(&mut self, wanted: u8, what: &'static str) -> Result<u64, Fault> {
        let at = self.at;
        match self.head()? {
            (major, argument) if major == wanted => Ok(argument),
            _ => Err(Fault { at, what }),
        }
    }

    /// Major type and argument of the next item.
    fn head(&mut self) -> Result<(u8, u64), Fault> {
        let at = self.at;
        let [first] = self.array_of::<1>()?;
        let argument = match first & 0x1f {
            small @ 0..24 => u64::from(small),
            24 => u64::from(u8::from_be_bytes(self.array_of()?)),
            25 => u64::from(u16::from_be_bytes(self.array_of()?)),
            26 => u64::from(u32::from_be_bytes(self.array_of()?)),
            27 => u64::from_be_bytes(self.array_of()?),
            31 => return Err(Fault { at, what: "an item of indefinite length is not allowed here" }),
            _ => return Err(Fault { at, what: "the length has a reserved encoding" }),
        };
        Ok((first >> 5, argument))
    }

    fn array_of<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let (found, _) = self.rest().split_first_chunk::<N>().ok_or_else(|| self.cut_off())?;
        self.at += N;
        Ok(*found)
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], Fault> {
        let length = usize::try_from(length).map_err(|_| self.cut_off())?;
        let found = self.rest().get(..length).ok_or_else(|| self.cut_off())?;
        self.at += length;
        Ok(found)
    }

    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    const fn cut_off(&self) -> Fault {
        Fault { at: self.at, what: "the document is truncated" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_every_width() {
        let read = |bytes: &[u8]| Reader::new(bytes).integer();
        for (bytes, value) in [
            (&[0x00][..], 0),
            (&[0x17], 23),
            (&[0x18, 24], 24),
            (&[0x19, 1, 0], 256),
            (&[0x1a, 0, 1, 0, 0], 65_536),
            (&[0x1b, 0, 0, 0, 1, 0, 0, 0, 0], 1 << 32),
            (&[0x20], -1),
            (&[0x38, 34], -35),
            (&[0x3b, 0x7f, 255, 255, 255, 255, 255, 255, 255], i64::MIN),
        ] {
            assert_eq!(read(bytes), Ok(value), "{bytes:?}");
        }
        assert!(read(&[0x1b, 0x80, 0, 0, 0, 0, 0, 0, 0]).is_err(), "2^63 does not fit");
        assert!(read(&[0x3b, 0x80, 0, 0, 0, 0, 0, 0, 0]).is_err());
        assert!(read(&[0xf9, 0, 0]).is_err(), "a float");
        for reserved in [0x1c, 0x1d, 0x1e, 0x1f] {
            assert!(read(&[reserved]).is_err());
        }
    }

    #[test]
    fn strings_end_where_the_bytes_end() {
        assert_eq!(Reader::new(&[0x42, 1, 2]).bytes(), Ok(&[1, 2][..]));
        assert_eq!(Reader::new(&[0x43, 1, 2]).bytes().map_err(|fault| fault.what), Err("the document is truncated"));
        let huge = [0x5b, 255, 255, 255, 255, 255, 255, 255, 255, 0];
        assert!(Reader::new(&huge).bytes().is_err());
        assert!(Reader::new(&[0x5f, 0x41, 1, 0xff]).bytes().is_err(), "in pieces");
        assert!(Reader::new(&[0x61, 0xff]).text().is_err(), "not UTF-8");
        assert_eq!(Reader::new(&[0xf6]).bytes_or_null(), Ok(None));
    }

    #[test]
    fn maps_end_by_count_or_by_break() {
        let count = |bytes: &[u8]| {
            let mut reader = Reader::new(bytes);
            let mut entries = reader.map().ok()?;
            let mut count = 0;
            while reader.next_entry(&mut entries) {
                reader.unsigned().ok()?;
                reader.unsigned().ok()?;
                count += 1;
            }
            reader.end().ok().map(|()| count)
        };
        assert_eq!(count(&[0xa1, 1, 2]), Some(1));
        assert_eq!(count(&[0xbf, 1, 2, 3, 4, 0xff]), Some(2));
        assert_eq!(count(&[0xbf, 1, 2]), None, "no break");
        assert_eq!(count(&[0xbf, 1, 0xff]), None, "a break instead of a value");
        assert_eq!(count(&[0xa1, 1, 2, 0xff]), None, "a break too many");
    }
}
