//! TXT records as bytes, and JSON responses of services that serve them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolcrib_core::agent::AgtDomain;
use toolcrib_core::agent::txt::answers::{AnswerFault, JsonAnswer, check_size, join_character_strings, read_dns_json, read_freename};
use toolcrib_core::agent::txt::{MAX_RECORDS, TxtOutcome, agent_records, is_legacy, is_pointer, parse_records, pointer_record};

fuzz_target!(|data: &[u8]| {
    // Records are separated by line feeds, so that bytes that are not UTF-8 are tested as well.
    let records: Vec<&[u8]> = data.split(|byte| *byte == b'\n').take(MAX_RECORDS + 2).collect();
    let reading = parse_records(&records);
    let pointers = records.iter().filter(|record| is_pointer(record)).count();
    match &reading.outcome {
        TxtOutcome::Pointer(cid) => {
            assert!(pointers > 0, "a pointer out of nothing");
            let has_legacy = records.iter().any(|record| is_legacy(record));
            assert_eq!(pointer_record(cid, &records).is_err(), has_legacy, "written only without legacy records");
        }
        TxtOutcome::Legacy(_) => assert_eq!(pointers, 0, "legacy records never stand in for a pointer"),
        TxtOutcome::Refused | TxtOutcome::NotAnAgent => {}
    }
    // Other records of a source change nothing, and neither does the order.
    if !matches!(reading.outcome, TxtOutcome::Refused | TxtOutcome::Legacy(_)) {
        let alone: Vec<&[u8]> = agent_records(&records).into_iter().collect();
        let again = parse_records(&alone);
        // With two pairs of quotes, one pair is removed here, and the record is unquoted again.
        let nested = alone.iter().any(|record| record.starts_with(b"\""));
        assert!(nested || again.outcome == reading.outcome, "{:?} {:?}", reading.outcome, again.outcome);
    }
    let Ok(domain) = AgtDomain::parse("exampleagent.agt") else { return };
    answer(read_dns_json(data, &domain));
    answer(read_freename(data, &domain));
    if let Ok(text) = std::str::from_utf8(data)
        && let Some(joined) = join_character_strings(text)
    {
        assert!(joined.len() <= text.len());
        let quoted: String = joined.iter().map(|byte| format!("\\{byte:03}")).collect();
        assert_eq!(join_character_strings(&format!("\"{quoted}\"")), Some(joined), "a quoted text is read as it was written");
    }
});

fn answer(answer: Result<JsonAnswer, AnswerFault>) {
    match answer {
        Ok(JsonAnswer::Records(records)) => {
            assert!(!records.is_empty());
            assert!(check_size(&records).is_ok());
            let _ = parse_records(&records);
        }
        Ok(JsonAnswer::NoRecords | JsonAnswer::NotFound) => {}
        Err(fault) => assert!(!fault.message.is_empty()),
    }
}
