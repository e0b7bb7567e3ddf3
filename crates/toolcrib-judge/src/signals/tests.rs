use toolcrib_core::registry::{Requirement, RequirementKind};
use toolcrib_core::time::parse_rfc3339;

use super::*;

fn at(day: &str) -> UnixTime {
    parse_rfc3339(&format!("{day}T00:00:00Z")).unwrap()
}

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| (*text).to_owned()).collect()
}

/// Expects these codes and severities.
#[track_caller]
fn check(findings: impl IntoIterator<Item = Finding>, expected: &[(&str, Severity)]) {
    let found: Vec<_> = findings.into_iter().map(|finding| (finding.code.id(), finding.severity)).collect();
    assert_eq!(found, expected);
}

// req: IDX-007
#[test]
fn a_younger_certificate_is_a_hint_until_something_else_changed() {
    use Severity::{Hint, Warning};
    let cert = |day: &str, issuer: &str, names: &[&str]| Certificate {
        not_before: at(day),
        issuer: issuer.to_owned(),
        names: texts(names),
    };
    let registered = at("2025-03-01");
    let (younger, changed) = ("takeover.certificate_younger", "takeover.certificate_changed");
    let now = cert("2026-03-01", "Let's Encrypt", &["a.example", "www.a.example"]);
    check(certificate(registered, &now, None), &[(younger, Hint)]);
    // A renewal: another order, another case, the same issuer.
    let renewed = cert("2025-12-01", "let's encrypt", &["WWW.a.example.", "a.example"]);
    check(certificate(registered, &now, Some(&renewed)), &[(younger, Hint)]);
    let moved = cert("2025-12-01", "Another CA", &["a.example", "www.a.example"]);
    check(certificate(registered, &now, Some(&moved)), &[(younger, Warning), (changed, Warning)]);
    let wider = cert("2025-12-01", "Let's Encrypt", &["a.example"]);
    check(certificate(registered, &now, Some(&wider)), &[(younger, Warning), (changed, Warning)]);
    // The limit: valid from the second of the registration.
    check(certificate(now.not_before, &now, None), &[]);
    check(certificate(now.not_before, &now, Some(&moved)), &[(changed, Warning)]);
    let both_dates = &certificate(registered, &now, None)[0].message;
    assert_eq!(
        both_dates,
        "the certificate is valid from 2026-03-01T00:00:00Z, after the tool was registered at 2025-03-01T00:00:00Z"
    );
}

// req: IDX-007
#[test]
fn name_servers_and_addresses() {
    use Severity::{Hint, Warning};
    let ns = |before: &[&str], after: &[&str]| name_servers(&texts(before), &texts(after));
    check(ns(&["ns1.a.net", "ns2.a.net"], &["NS2.A.net.", "ns1.a.net."]), &[]);
    check(ns(&["ns1.a.net"], &["ns1.b.net"]), &[("takeover.name_servers_changed", Warning)]);
    check(ns(&["ns1.a.net", "ns2.a.net"], &["ns1.a.net", "ns3.a.net"]), &[("takeover.name_servers_changed", Hint)]);
    // An unknown value is not a change.
    check(ns(&[], &["ns1.a.net"]), &[]);
    check(ns(&["ns1.a.net"], &[]), &[]);
    let ip = |text: &str| text.parse::<IpAddr>().unwrap();
    let (a, b, c) = (ip("192.0.2.1"), ip("192.0.2.2"), ip("2001:db8::1"));
    check(addresses(&[a, b], &[b, c]), &[]);
    check(addresses(&[a], &[ip("::ffff:192.0.2.1")]), &[]);
    check(addresses(&[a, b], &[c]), &[("takeover.addresses_changed", Hint)]);
    check(addresses(&[], &[c]), &[]);
}

// req: IDX-008
#[test]
fn moves_and_late_updates() {
    let moved = |a: &str, b: &str| origin(a, b).map(|finding| finding.code.id());
    assert_eq!(moved("https://a.example/x", "https://A.example:443/y"), None);
    assert_eq!(moved("https://a.example/x", "https://b.example/x"), Some("takeover.origin_changed"));
    assert_eq!(moved("https://a.example/x", "https://a.example:8443/x"), Some("takeover.origin_changed"));
    assert_eq!(moved("ipfs://x", "https://a.example/x"), None);
    let start = at("2026-01-01");
    let after = |seconds: i64| UnixTime::from_seconds(start.seconds() + seconds);
    assert!(update_after_quiet(start, after(QUIET_SECONDS - 1)).is_none());
    assert!(update_after_quiet(start, after(QUIET_SECONDS)).is_some());
    let finding = update_after_quiet(start, after(200 * 86_400)).unwrap();
    assert_eq!(finding.message, "the registration was changed on 2026-07-20T00:00:00Z after 200 days without changes");
    assert!(update_after_quiet(start, after(-1)).is_none());
    assert!(update_after_quiet(UnixTime::from_seconds(i64::MIN), UnixTime::from_seconds(i64::MAX)).is_some());
}

#[test]
fn duplicates_name_who_and_where() {
    let tool = |id: u64, creator: u8, uri: &str, endpoint: Option<&str>| Registered {
        tool: ToolRef { chain: 8453, registry: Address::repeat_byte(0x26), id: alloy_primitives::U256::from(id) },
        creator: Address::repeat_byte(creator),
        metadata_uri: uri.to_owned(),
        endpoint: endpoint.map(str::to_owned),
    };
    let mine = tool(1, 1, "https://a.example/.well-known/ai-tool/x.json", Some("https://a.example/call"));
    check(duplicates(&mine, [&mine]), &[]);
    check(duplicates(&mine, [&tool(2, 2, "https://b.example/x", None)]), &[]);
    // Two tools with unknown endpoints are not the same tool.
    let blind = Registered { endpoint: None, ..mine.clone() };
    check(duplicates(&blind, [&tool(2, 2, "https://b.example/x", None)]), &[]);
    let own = tool(2, 1, "HTTPS://A.example:443/.well-known/ai-tool/x.json", None);
    check(duplicates(&mine, [&own]), &[("tool.duplicate_registration", Severity::Hint)]);
    let thief = tool(3, 3, "https://c.example/x", Some("https://a.example/call"));
    check(duplicates(&mine, [&own, &thief]), &[("tool.duplicate_registration", Severity::Warning)]);
    let message = duplicates(&mine, [&thief]).unwrap().message;
    assert!(message.ends_with(
        "eip155:8453/erc8257:0x2626262626262626262626262626262626262626/3 by 0x0303030303030303030303030303030303030303"
    ));
    for (count, more) in [(MAX_NAMED, false), (MAX_NAMED + 1, true)] {
        let others: Vec<_> = (0..count as u64).map(|n| tool(n + 10, 1, &mine.metadata_uri, None)).collect();
        assert_eq!(duplicates(&mine, &others).unwrap().message.ends_with(" and 1 more"), more);
    }
}

// req: VERIFY-019, IDX-004
#[test]
fn pins() {
    let (a, b) = (B256::repeat_byte(1), B256::repeat_byte(2));
    check(pinned_manifest(a, a), &[]);
    check(pinned_manifest(a, b), &[("pin.manifest_hash_changed", Severity::Error)]);
    check(registry_code(a, Some(a)), &[]);
    check(registry_code(a, Some(b)), &[("chain.registry_code", Severity::Error)]);
    check(registry_code(a, None), &[("chain.not_a_registry", Severity::Error)]);
}

// req: IDX-002, IDX-003, IDX-005, PRED-028
#[test]
fn predicates() {
    use Severity::{Error, Warning};
    let good = Predicate {
        address: Address::repeat_byte(1),
        code_hash: Some(B256::repeat_byte(2)),
        implementation: None,
        advertised: Erc165::Predicate,
    };
    let (no_code, changed, proxy) = ("predicate.no_code", "predicate.code_changed", "predicate.is_proxy");
    check(predicate(&good, None), &[]);
    check(predicate(&good, Some(&good)), &[]);
    let empty = Predicate { code_hash: None, advertised: Erc165::NotAdvertised, ..good };
    check(predicate(&empty, None), &[(no_code, Warning)]);
    check(predicate(&good, Some(&empty)), &[(changed, Warning)]);
    check(predicate(&empty, Some(&good)), &[(no_code, Warning), (changed, Warning)]);
    check(predicate(&Predicate { address: Address::ZERO, ..empty }, None), &[]);
    let silent = Predicate { advertised: Erc165::NotAdvertised, ..good };
    check(predicate(&silent, None), &[("predicate.not_advertised", Warning)]);
    assert_eq!(predicate(&silent, None)[0].message, "predicate does not advertise IAccessPredicate");
    check(predicate(&Predicate { advertised: Erc165::Other, ..good }, None), &[("predicate.not_a_predicate", Error)]);
    let first = Predicate { implementation: Some(Address::repeat_byte(8)), ..good };
    let second = Predicate { implementation: Some(Address::repeat_byte(9)), ..good };
    check(predicate(&first, None), &[(proxy, Warning)]);
    check(predicate(&second, Some(&first)), &[(proxy, Warning), ("predicate.upgraded", Warning)]);
    // Another predicate is not an upgrade of this one.
    check(predicate(&good, Some(&Predicate { address: Address::repeat_byte(7), ..empty })), &[]);
}

// req: PRED-004
#[test]
fn access_blocks_and_collections() {
    let entry = |kind: RequirementKind, last: u8| {
        let mut data = vec![0; if kind == RequirementKind::Erc721Holding { 32 } else { 64 }];
        data[31] = last;
        (kind.id(), data)
    };
    let list = |logic: Logic, entries: &[([u8; 4], Vec<u8>)]| {
        let entries = entries.iter().map(|(kind, data)| Requirement {
            kind: kind.into(),
            data: data.clone().into(),
            label: "a label".to_owned(),
        });
        Requirements::Listed { logic, entries: entries.collect() }
    };
    let (a, b) = (entry(RequirementKind::Erc721Holding, 1), entry(RequirementKind::Erc1155Holding, 2));
    let both = list(Logic::And, &[a.clone(), b.clone()]);
    let differs = &[("access.differs_from_chain", Severity::Warning)];
    check(access(None, Some(&both)), &[]);
    check(access(Some(&both), Some(&list(Logic::And, &[b.clone(), a.clone()]))), &[]);
    check(access(Some(&both), Some(&list(Logic::Or, &[a.clone(), b.clone()]))), differs);
    check(access(Some(&list(Logic::And, std::slice::from_ref(&a))), Some(&list(Logic::Or, std::slice::from_ref(&a)))), &[]);
    check(access(Some(&list(Logic::And, std::slice::from_ref(&a))), Some(&both)), differs);
    check(access(Some(&both), Some(&list(Logic::And, &[a.clone(), a.clone()]))), differs);
    check(access(Some(&both), Some(&list(Logic::And, &[]))), differs);
    check(access(Some(&both), None), differs);
    // An incomplete list proves nothing about the missing part.
    check(access(Some(&both), Some(&list(Logic::And, &[a.clone(), ([0; 4], vec![])]))), &[]);

    let strange = ([9; 4], vec![0xff; 32]);
    let dirty = (RequirementKind::Erc721Holding.id(), vec![0xff; 32]);
    let named = list(Logic::And, &[a.clone(), b, a, strange, dirty]).tokens();
    let address = |last: u8| Address::left_padding_from(&[last]);
    assert_eq!(named, [address(1), address(2)].into());
    let found = collections(8453, [(address(1), true), (address(2), false)]);
    assert!(found[0].message.ends_with("0002 on chain 8453"), "{}", found[0].message);
    check(found, &[("predicate.collection_no_code", Severity::Warning)]);
}
