//! CIDs: one text in each base, one binary form, and no input that another parser interprets differently.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolcrib_agent::ipfs::Cid;
use toolcrib_core::agent::txt::CidText;
use toolcrib_core::codes::Code;

fuzz_target!(|data: &[u8]| {
    match Cid::from_bytes(data) {
        Ok(cid) => assert_eq!(cid.to_bytes(), data, "there is one binary form"),
        Err(error) => assert_eq!(Code::find(error.code().id()), Some(error.code()), "every code is in the table"),
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    let _ = Cid::parse_any_version(text);
    let Ok(cid) = Cid::parse(text) else { return };
    assert_eq!(Cid::parse(&cid.to_string()).as_ref(), Ok(&cid), "what is printed reads back as the same");
    assert_eq!(Cid::from_bytes(&cid.to_bytes()).as_ref(), Ok(&cid));
    assert!(CidText::parse(text).is_ok(), "a pointer may hold it");
    // An independent parser, which accepts more.
    let other = cid::Cid::try_from(text).expect("the other reader accepts what we do");
    assert_eq!(other.to_bytes(), cid.to_bytes());
});
