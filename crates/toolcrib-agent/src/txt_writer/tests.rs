use super::*;

const CID: &str = "bafkreigerz3nhhy7zonh55srsphplgwzr7ai2lctakkvqvalxxlfuikvk4";
const OTHER: &str = "bafybeict5xf5jzboxrvykthatqdrg7sf3c5n45udt5jrbbq4lnpejpdhha";

fn domain() -> AgtDomain {
    AgtDomain::parse("exampleagent.agt").unwrap()
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn pointer(cid: &str) -> Bytes {
    bytes(&format!("agt-manifest=ipfs://{cid}"))
}

fn point_at(existing: &[Bytes], remove_legacy: bool) -> Result<RecordChange, Code> {
    RecordChange::point_at(&domain(), &CidText::parse(CID).unwrap(), existing, remove_legacy).map_err(|error| error.code())
}

// req: AGT-001
#[test]
fn a_new_pointer_takes_the_place_of_the_old_one() {
    let existing = [bytes("v=spf1 -all"), pointer(OTHER), pointer(OTHER), bytes(&format!("\"agt-manifest=ipfs://{CID}\""))];
    let change = point_at(&existing, false).unwrap();
    assert_eq!(change.add, [pointer(CID)]);
    assert_eq!(change.remove, [existing[3].clone(), pointer(OTHER)]);
    assert_eq!(change.applied_to(&existing).unwrap(), [bytes("v=spf1 -all"), pointer(CID)]);
    let same = point_at(&[pointer(CID)], false).unwrap();
    assert!(same.is_empty());
    assert_eq!(describe(&same), "TXT records of exampleagent.agt:\n  no change");
}

// req: AGT-003
#[test]
fn legacy_records_never_stay_beside_a_pointer() {
    let existing = [bytes("agt-version=1"), bytes("\"agt-name=A\""), bytes("other")];
    assert_eq!(point_at(&existing, false), Err(codes::agent::TXT_WRITE_PLAN));
    let change = point_at(&existing, true).unwrap();
    assert_eq!(change.remove, [bytes("\"agt-name=A\""), bytes("agt-version=1")]);
    assert_eq!(change.applied_to(&existing).unwrap(), [bytes("other"), pointer(CID)]);
    // The name has other records than the change was made for.
    let more = [bytes("agt-version=1"), bytes("agt-cap=ocr")];
    assert_eq!(change.applied_to(&more).map_err(|error| error.code()), Err(codes::agent::TXT_WRITE_PLAN));
    let second = [pointer(OTHER)];
    assert_eq!(change.applied_to(&second).map_err(|error| error.code()), Err(codes::agent::TXT_WRITE_PLAN));
}

// req: AGT-027
#[test]
fn legacy_records_are_never_written() {
    for record in ["agt-version=1", "agt-name=A", "\"agt-endpoint-mcp=x\"", "", &"x".repeat(MAX_RECORD_BYTES + 1)] {
        let change = RecordChange { domain: domain(), remove: Vec::new(), add: vec![bytes(record)] };
        assert_eq!(change.applied_to(&[]).map_err(|error| error.code()), Err(codes::agent::TXT_WRITE_PLAN), "{record}");
    }
}

#[test]
fn changes_are_described_without_control_characters() {
    let change = RecordChange {
        domain: domain(),
        remove: vec![bytes("agt-name=\u{1b}[31mred"), Bytes::from_static(b"agt-name=\xff")],
        add: vec![pointer(CID)],
    };
    assert_eq!(
        describe(&change),
        format!(
            "TXT records of exampleagent.agt:\n  remove  agt-name=\\u{{1b}}[31mred\n  remove  agt-name=\u{fffd}\n  add     agt-manifest=ipfs://{CID}"
        )
    );
}
