//! Interprets one DNS message about the TXT records of a name.

use hickory_proto::dnssec::Proof;
use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::rdata::CNAME;
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};

use super::Anchors;
use crate::evidence::Dnssec;

/// Maximum number of aliases (CNAME) of one name, over all messages.
pub(super) use toolcrib_core::agent::txt::answers::MAX_ALIASES;

/// The contents of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// The records, each with its character-strings joined.
    Records(Vec<Vec<u8>>),
    /// The name is an alias of this one, whose TXT records are not in the message.
    Alias(Name),
    /// The name exists and has no TXT records.
    NoRecords,
    /// The name does not exist.
    NotFound,
}

/// Why a message is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageError {
    /// It violates the DNS protocol.
    Malformed(&'static str),
    /// It has too many aliases.
    Aliases,
}

/// Interprets a message about `name`. `aliases` is the number of aliases followed before, and is increased.
pub(super) fn read(message: &Message, name: &Name, aliases: &mut usize) -> Result<Reading, MessageError> {
    if message.answers.iter().any(|record| record.dns_class != DNSClass::IN) {
        return Err(MessageError::Malformed("a record has another class than IN"));
    }
    let mut last = name;
    let mut is_alias = false;
    while let Some(target) = alias(message, last)? {
        *aliases += 1;
        if *aliases > MAX_ALIASES {
            return Err(MessageError::Aliases);
        }
        last = target;
        is_alias = true;
    }
    let records: Vec<Vec<u8>> = of(message, last)
        .filter_map(|record| match &record.data {
            RData::TXT(txt) => Some(txt.txt_data.concat()),
            _ => None,
        })
        .collect();
    let exists = message.metadata.response_code != ResponseCode::NXDomain;
    match (records.is_empty(), exists) {
        (false, true) => Ok(Reading::Records(records)),
        (false, false) => Err(MessageError::Malformed("the name does not exist, and has records")),
        (true, true) if is_alias => Ok(Reading::Alias(last.clone())),
        (true, true) => Ok(Reading::NoRecords),
        // The response code is about the last name; the requested one exists.
        (true, false) if is_alias => Ok(Reading::NoRecords),
        (true, false) => Ok(Reading::NotFound),
    }
}

/// The DNSSEC status of a validated message about `name`. Records outside of all anchors are unchecked.
pub(super) fn proof(message: &Message, name: &Name, anchors: &Anchors) -> Dnssec {
    let mut last = name;
    let mut used: Vec<&Record> = Vec::new();
    for _ in 0..=MAX_ALIASES {
        used.extend(of(message, last).filter(|record| matches!(record.record_type(), RecordType::CNAME | RecordType::TXT)));
        match alias(message, last) {
            Ok(Some(target)) => last = target,
            _ => break,
        }
    }
    let states: Vec<Dnssec> = if used.is_empty() {
        vec![negative(message, name, anchors)]
    } else {
        used.iter().map(|record| if anchors.cover(&record.name) { state(record.proof) } else { Dnssec::Unchecked }).collect()
    };
    weakest(states)
}

/// The weakest of several states: one bogus record makes the response bogus, and one unchecked record makes it unchecked.
pub(super) fn weakest(states: impl IntoIterator<Item = Dnssec>) -> Dnssec {
    let rank = |state: &Dnssec| match state {
        Dnssec::Bogus => 0,
        Dnssec::Unchecked => 1,
        Dnssec::Insecure => 2,
        Dnssec::Secure => 3,
    };
    states.into_iter().min_by_key(rank).unwrap_or(Dnssec::Unchecked)
}

/// A negative response is secure if a signed record proves it; the validator has rejected those without a required proof.
fn negative(message: &Message, name: &Name, anchors: &Anchors) -> Dnssec {
    if !anchors.cover(name) {
        return Dnssec::Unchecked;
    }
    let is_proof = |record: &&Record| matches!(record.record_type(), RecordType::NSEC | RecordType::NSEC3);
    if message.authorities.iter().any(|record| record.proof == Proof::Bogus) {
        Dnssec::Bogus
    } else if message.authorities.iter().filter(is_proof).any(|record| record.proof == Proof::Secure) {
        Dnssec::Secure
    } else {
        Dnssec::Insecure
    }
}

const fn state(proof: Proof) -> Dnssec {
    match proof {
        Proof::Secure => Dnssec::Secure,
        Proof::Insecure => Dnssec::Insecure,
        // Below an anchor every record must be proven secure or insecure.
        Proof::Bogus | Proof::Indeterminate => Dnssec::Bogus,
    }
}

/// The records of a name in the answer section.
fn of<'a>(message: &'a Message, name: &Name) -> impl Iterator<Item = &'a Record> {
    message.answers.iter().filter(move |record| record.name == *name)
}

/// The name that `name` is an alias of.
fn alias<'a>(message: &'a Message, name: &Name) -> Result<Option<&'a Name>, MessageError> {
    let mut targets = of(message, name).filter_map(|record| match &record.data {
        RData::CNAME(CNAME(target)) => Some(target),
        _ => None,
    });
    let Some(target) = targets.next() else { return Ok(None) };
    if targets.next().is_some() {
        return Err(MessageError::Malformed("a name has two aliases"));
    }
    if of(message, name).any(|record| record.record_type() == RecordType::TXT) {
        return Err(MessageError::Malformed("a name is an alias and has records"));
    }
    Ok(Some(target))
}

#[cfg(test)]
mod tests {
    use hickory_proto::op::OpCode;
    use hickory_proto::rr::rdata::{A, TXT};

    use super::*;

    fn name(text: &str) -> Name {
        Name::from_ascii(text).unwrap()
    }

    fn txt(owner: &str, strings: &[&[u8]]) -> Record {
        Record::from_rdata(name(owner), 300, RData::TXT(TXT::from_bytes(strings.to_vec())))
    }

    fn cname(owner: &str, target: &str) -> Record {
        Record::from_rdata(name(owner), 300, RData::CNAME(CNAME(name(target))))
    }

    fn message(code: ResponseCode, answers: &[Record]) -> Message {
        let mut message = Message::response(7, OpCode::Query);
        message.metadata.response_code = code;
        message.add_answers(answers.iter().cloned());
        message
    }

    fn read_one(code: ResponseCode, answers: &[Record]) -> Result<Reading, MessageError> {
        read(&message(code, answers), &name("a.agt."), &mut 0)
    }

    #[test]
    fn strings_are_joined_and_other_records_passed_over() {
        let a = Record::from_rdata(name("a.agt."), 300, RData::A(A::new(192, 0, 2, 1)));
        let answers = [txt("A.agt.", &[b"agt-", b"name=\xff"]), a, txt("b.agt.", &[b"other"]), txt("a.agt.", &[b""])];
        let expected = Reading::Records(vec![b"agt-name=\xff".to_vec(), Vec::new()]);
        assert_eq!(read_one(ResponseCode::NoError, &answers), Ok(expected));
    }

    #[test]
    fn no_name_no_records_and_aliases_are_told_apart() {
        assert_eq!(read_one(ResponseCode::NoError, &[]), Ok(Reading::NoRecords));
        assert_eq!(read_one(ResponseCode::NXDomain, &[]), Ok(Reading::NotFound));
        let alias = cname("a.agt.", "b.example.");
        assert_eq!(read_one(ResponseCode::NoError, std::slice::from_ref(&alias)), Ok(Reading::Alias(name("b.example."))));
        assert_eq!(read_one(ResponseCode::NXDomain, std::slice::from_ref(&alias)), Ok(Reading::NoRecords));
        let found = read_one(ResponseCode::NoError, &[txt("B.example.", &[b"x"]), alias.clone()]);
        assert_eq!(found, Ok(Reading::Records(vec![b"x".to_vec()])));
        for bad in [vec![alias.clone(), cname("a.agt.", "c.example.")], vec![alias.clone(), txt("a.agt.", &[b"x"])]] {
            assert!(matches!(read_one(ResponseCode::NoError, &bad), Err(MessageError::Malformed(_))), "{bad:?}");
        }
        assert!(matches!(read_one(ResponseCode::NXDomain, &[txt("a.agt.", &[b"x"])]), Err(MessageError::Malformed(_))));
        let mut foreign = txt("a.agt.", &[b"x"]);
        foreign.dns_class = DNSClass::CH;
        assert!(matches!(read_one(ResponseCode::NoError, &[foreign]), Err(MessageError::Malformed(_))));
        let back = cname("b.example.", "a.agt.");
        assert_eq!(read_one(ResponseCode::NoError, &[alias, back]), Err(MessageError::Aliases));
    }

    #[test]
    fn aliases_are_counted_over_all_messages() {
        let alias = message(ResponseCode::NoError, &[cname("a.agt.", "b.example.")]);
        let mut aliases = MAX_ALIASES - 1;
        assert_eq!(read(&alias, &name("a.agt."), &mut aliases), Ok(Reading::Alias(name("b.example."))));
        assert_eq!(read(&alias, &name("a.agt."), &mut aliases), Err(MessageError::Aliases));
    }

    #[test]
    fn the_weakest_record_decides() {
        let anchors: Anchors = "agt. DNSKEY 257 3 15 l02Woi0iS8Aa25FQkUd9RMzZHJpBoRQwAQEX1SxZJA4=".parse().unwrap();
        let proven = |mut record: Record, proof: Proof| {
            record.proof = proof;
            record
        };
        let of = |answers: &[Record]| super::proof(&message(ResponseCode::NoError, answers), &name("a.agt."), &anchors);
        let record = || txt("a.agt.", &[b"x"]);
        assert_eq!(of(&[proven(record(), Proof::Secure)]), Dnssec::Secure);
        assert_eq!(of(&[proven(record(), Proof::Secure), proven(record(), Proof::Insecure)]), Dnssec::Insecure);
        assert_eq!(of(&[proven(record(), Proof::Secure), proven(record(), Proof::Bogus)]), Dnssec::Bogus);
        assert_eq!(of(&[proven(record(), Proof::Indeterminate)]), Dnssec::Bogus);
        let alias = proven(cname("a.agt.", "b.example."), Proof::Secure);
        assert_eq!(of(&[alias, proven(txt("b.example.", &[b"x"]), Proof::Bogus)]), Dnssec::Unchecked);
        // Without any record, only a signed proof is secure.
        assert_eq!(of(&[]), Dnssec::Insecure);
        assert_eq!(weakest([]), Dnssec::Unchecked);
    }
}
