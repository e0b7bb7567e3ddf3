use super::*;
use crate::ipfs::multibase::encode_base32;

/// 41 bytes, whose CIDs were computed by other implementations.
const FILE: &[u8] = br#"{"agt":"1.0","domain":"exampleagent.agt"}"#;
const RAW: &str = "bafkreigerz3nhhy7zonh55srsphplgwzr7ai2lctakkvqvalxxlfuikvk4";

/// A text with these fields and this digest.
fn text(version: u64, codec: u64, hash: u64, digest: &[u8]) -> String {
    let mut bytes = Vec::new();
    for number in [version, codec, hash, digest.len() as u64] {
        varint::push(number, &mut bytes);
    }
    bytes.extend_from_slice(digest);
    encode_base32(&bytes)
}

// req: AGT-002
#[test]
fn accepted_functions_and_codecs() {
    for codec in [Codec::Raw, Codec::DagPb] {
        for hash in HashFunction::ALL {
            let cid = Cid::of(codec, hash, FILE);
            let again = Cid::parse(&cid.to_string()).unwrap();
            assert_eq!(again, cid);
            assert_eq!((again.codec(), again.hash()), (codec, hash));
            assert_eq!(Cid::from_bytes(&cid.to_bytes()), Ok(cid.clone()));
            assert!(cid.matches(FILE) && !cid.matches(&FILE[1..]) && !cid.matches(b""));
            assert_eq!(CidText::parse(&cid.to_string()).map(|text| Cid::try_from(&text)), Ok(Ok(cid)));
        }
    }
    assert_eq!(Cid::of(Codec::Raw, HashFunction::Sha2_256, FILE).to_string(), RAW);
    assert_eq!(
        Cid::of(Codec::Raw, HashFunction::Sha2_512, FILE).to_string(),
        "bafkrgqfz6wokspgmhd66ubscvnxpfgg6h6f23ywezkurkspqrcejnmazevmtquyzejld5moal6tq3qhfxzzf54d3vicf2mmvxaf6dcdqja57y"
    );
}

// req: AGT-017
#[test]
fn every_base_names_the_same_cid() {
    let cid = Cid::parse(RAW).unwrap();
    let hex: String = cid.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    for text in [RAW.to_uppercase(), format!("f{hex}"), format!("F{}", hex.to_uppercase())] {
        assert_eq!(Cid::parse(&text).as_ref(), Ok(&cid), "{text}");
    }
}

// req: AGT-002
#[test]
fn refused_texts_have_a_named_reason() {
    use codes::agent as c;
    let whole = FILE.to_vec();
    let digest = HashFunction::Sha2_256.digest(&whole);
    for (given, code, said) in [
        (
            "QmTzGrdxq4r9NSuFWjbjD5ghPswhgVT3UVv9NTEGSerAPZ".to_owned(),
            c::POINTER_CID_V0,
            "bafybeict5xf5jzboxrvykthatqdrg7sf3c5n45udt5jrbbq4lnpejpdhha",
        ),
        (text(1, 0x55, 0x00, FILE), c::CID_HASH_WEAK, "identity"),
        (text(1, 0x55, 0x11, &digest[..20]), c::CID_HASH_WEAK, "sha1"),
        (text(1, 0x55, 0xd5, &digest[..16]), c::CID_HASH_WEAK, "md5"),
        (text(1, 0x55, 0x12, &digest[..4]), c::CID_HASH_WEAK, "4 bytes"),
        (text(1, 0x55, 0x12, &digest[..31]), c::CID_HASH_WEAK, "31 bytes"),
        (text(1, 0x55, 0x13, &digest), c::CID_HASH_WEAK, "sha2-512 has 64"),
        (text(1, 0x55, 0x12, &[digest.clone(), vec![0]].concat()), c::CID_HASH_WEAK, "33 bytes"),
        (text(1, 0x55, 0x20, &[7; 48]), c::CID_HASH_UNSUPPORTED, "sha2-384"),
        (text(1, 0x55, 0x9999, &digest), c::CID_HASH_UNSUPPORTED, "0x9999"),
        (text(1, 0x72, 0x12, &digest), c::CID_CODEC, "libp2p-key"),
        (text(1, 0x71, 0x12, &digest), c::CID_CODEC, "dag-cbor"),
        (text(1, 0x0129, 0x12, &digest), c::CID_CODEC, "dag-json"),
        (text(1, 0x7777, 0x12, &digest), c::CID_CODEC, "0x7777"),
        (text(0, 0x55, 0x12, &digest), c::CID_MALFORMED, "version 0"),
        (text(2, 0x55, 0x12, &digest), c::CID_MALFORMED, "version 2"),
        // Bytes of version 0 in a multibase text.
        (encode_base32(&[&[0x12, 0x20][..], &digest].concat()), c::POINTER_CID_V0, "bafybei"),
        (format!("x/ipfs/{RAW}"), c::POINTER_PATH, "path"),
        (format!("{RAW}?a"), c::POINTER_PATH, "query"),
        (format!("b{}", RAW[1..].to_uppercase()), c::CID_MALFORMED, "characters"),
        (format!("B{}", &RAW[1..]), c::CID_MALFORMED, "characters"),
        (format!("{RAW} "), c::CID_MALFORMED, "characters"),
        (RAW[1..].to_owned(), c::CID_MALFORMED, "prefix"),
        (RAW[..RAW.len() - 1].to_owned(), c::CID_NOT_CANONICAL, "canonical"),
        ("b".repeat(MAX_CID_BYTES + 1), c::CID_MALFORMED, "201"),
        (String::new(), c::CID_MALFORMED, "prefix"),
        ("b".to_owned(), c::CID_MALFORMED, "cut off"),
        ("mAVUSIA".to_owned(), c::CID_MALFORMED, "prefix"),
    ] {
        let error = Cid::parse(&given).unwrap_err();
        assert_eq!(error.code(), code, "{given}: {error}");
        assert!(error.to_string().contains(said), "{given}: {error}");
    }
    // Two characters for the last bits: only one has zero bits after the digest.
    let stray = format!("{}5", &RAW[..RAW.len() - 1]);
    assert_eq!(Cid::parse(&stray), Err(CidError::NotCanonical));
}

#[test]
fn nothing_follows_a_cid() {
    let mut bytes = Cid::parse(RAW).unwrap().to_bytes();
    bytes.push(0);
    assert_eq!(Cid::from_bytes(&bytes), Err(CidError::TrailingBytes { count: 1 }));
    assert_eq!(Cid::parse(&encode_base32(&bytes)), Err(CidError::TrailingBytes { count: 1 }));
    for length in 0..bytes.len() - 1 {
        assert_eq!(Cid::from_bytes(&bytes[..length]), Err(CidError::CutOff), "{length}");
    }
    // Numbers with a non-minimal encoding.
    let long = [&[0x81, 0x00][..], &bytes[1..bytes.len() - 1]].concat();
    assert_eq!(Cid::from_bytes(&long), Err(CidError::CutOff));
}

#[test]
fn version_zero_is_read_where_services_answer() {
    let any = Cid::parse_any_version("QmTzGrdxq4r9NSuFWjbjD5ghPswhgVT3UVv9NTEGSerAPZ").unwrap();
    assert_eq!(any.to_string(), "bafybeict5xf5jzboxrvykthatqdrg7sf3c5n45udt5jrbbq4lnpejpdhha");
    assert_eq!(Cid::parse_any_version(RAW).map(|cid| cid.to_string()).as_deref(), Ok(RAW));
    assert!(Cid::parse_any_version("QmTzGrdxq4r9NSuFWjbjD5ghPswhgVT3UVv9NTEGSerAP0").is_err());
    // The form in links.
    assert_eq!(Cid::from_link(&[&[0x12, 0x20][..], any.digest()].concat()), Ok(any));
}
