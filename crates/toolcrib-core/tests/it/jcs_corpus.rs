//! The test data of RFC 8785: six documents, and 100,000 doubles with their ECMAScript form.

use std::fs;

use toolcrib_core::canon::Canonical;
use toolcrib_core::json::{Limits, read, write_number};

#[track_caller]
fn canonical(bytes: &[u8]) -> Canonical {
    let reading = read(bytes, Limits::default());
    assert!(reading.findings.is_empty(), "{:?}", reading.findings);
    reading.document.as_ref().and_then(Canonical::of).expect("no finding, so canonical bytes")
}

// req: CANON-010
#[test]
fn the_documents_of_the_rfc_have_the_bytes_it_says() {
    let Some(corpus) = toolcrib_testkit::corpus("jcs") else { return };
    let mut names: Vec<_> = fs::read_dir(corpus.join("input"))
        .expect("the corpus has inputs")
        .map(|entry| entry.expect("readable").path().file_stem().expect("a file").to_owned())
        .collect();
    names.sort();
    for name in &names {
        let file = |folder: &str, extension: &str| corpus.join(folder).join(name).with_extension(extension);
        let ours = canonical(&fs::read(file("input", "json")).expect("readable"));
        assert_eq!(ours.as_bytes(), fs::read(file("output", "json")).expect("readable"), "{name:?}");
        let hex: Vec<u8> = fs::read_to_string(file("outhex", "txt"))
            .expect("readable")
            .split_whitespace()
            .map(|byte| u8::from_str_radix(byte, 16).expect("two hex digits"))
            .collect();
        assert_eq!(ours.as_bytes(), hex, "{name:?}");
    }
    assert_eq!(names.len(), 6);
}

// req: CANON-010
#[test]
fn a_hundred_thousand_doubles_are_written_and_read_as_ecmascript_does() {
    let Some(corpus) = toolcrib_testkit::corpus("jcs") else { return };
    let lines = fs::read_to_string(corpus.join("es6testfile100k.txt")).expect("the corpus has the numbers");
    let mut written = String::new();
    let (mut count, mut all) = (0, String::from("["));
    for line in lines.lines() {
        let (bits, expected) = line.split_once(',').expect("bits, then text");
        let number = f64::from_bits(u64::from_str_radix(bits, 16).expect("hex"));
        written.clear();
        write_number(number, &mut written);
        assert_eq!(written, expected, "{line}");
        // Negative zero is written as 0, which parses as positive zero: equal, but with different bits.
        assert_eq!(expected.parse::<f64>().expect("a number"), number, "{line}");
        if count > 0 {
            all.push(',');
        }
        all.push_str(expected);
        count += 1;
    }
    all.push(']');
    assert_eq!(count, 100_000);

    // The reader too: the expected forms are canonical, so a list of them is its own canonical form.
    let limits = Limits { max_bytes: all.len(), ..Limits::default() };
    let document = read(all.as_bytes(), limits).document.expect("a list of numbers");
    assert_eq!(document.root().as_array().map(|numbers| numbers.len()), Some(100_000));
    assert!(Canonical::of(&document).is_some_and(|canonical| canonical.as_str() == all), "the list is its own canonical form");
}
