//! Compares the responses of TXT sources.

use std::collections::BTreeSet;

use toolcrib_core::agent::txt::agent_records;

use crate::evidence::{TxtAnswer, TxtLookup};

/// The comparison of several sources' responses about one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// The indexes of the sources that responded, grouped by their agent records. The group of the first source that responded
    /// comes first.
    pub groups: Vec<Vec<usize>>,
    /// The indexes of the sources that failed.
    pub failed: Vec<usize>,
}

/// Whether sources agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// All sources that responded have the same agent records.
    Agree,
    /// Two sources have different agent records.
    Disagree,
    /// No source responded.
    NoAnswer,
}

impl Comparison {
    /// Whether the sources that responded agree.
    pub const fn agreement(&self) -> Agreement {
        match self.groups.len() {
            0 => Agreement::NoAnswer,
            1 => Agreement::Agree,
            _ => Agreement::Disagree,
        }
    }

    /// Whether every source responded and all agree.
    pub const fn is_unanimous(&self) -> bool {
        self.failed.is_empty() && matches!(self.agreement(), Agreement::Agree)
    }
}

/// Compares responses as sets of agent records. Ignores other TXT records, order, duplicates, one outer pair of quotes, and
/// whether a name is missing or only has no records, because sources express that differently.
pub fn compare(answers: &[TxtAnswer]) -> Comparison {
    let mut groups: Vec<(BTreeSet<&[u8]>, Vec<usize>)> = Vec::new();
    let mut failed = Vec::new();
    for (at, answer) in answers.iter().enumerate() {
        let found = match &answer.outcome {
            TxtLookup::Records(records) => agent_records(records),
            TxtLookup::NoRecords | TxtLookup::NotFound => BTreeSet::new(),
            TxtLookup::Failed { .. } => {
                failed.push(at);
                continue;
            }
        };
        match groups.iter_mut().find(|(records, _)| *records == found) {
            Some((_, members)) => members.push(at),
            None => groups.push((found, vec![at])),
        }
    }
    Comparison { groups: groups.into_iter().map(|(_, members)| members).collect(), failed }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::Bytes;

    use super::*;
    use crate::evidence::Dnssec;

    fn answer(outcome: TxtLookup) -> TxtAnswer {
        TxtAnswer { source: "test".to_owned(), outcome, dnssec: Dnssec::Unchecked, millis: 0 }
    }

    fn records(texts: &[&str]) -> TxtAnswer {
        answer(TxtLookup::Records(texts.iter().map(|text| Bytes::copy_from_slice(text.as_bytes())).collect()))
    }

    fn failed() -> TxtAnswer {
        answer(TxtLookup::Failed { code: "agent.dns_timeout".to_owned(), message: String::new() })
    }

    #[test]
    fn sets_of_agent_records_are_compared() {
        let answers = [
            records(&["agt-name=A", "v=spf1 -all", "agt-version=1"]),
            records(&["\"agt-version=1\"", "agt-name=A", "agt-name=A"]),
            failed(),
        ];
        let comparison = compare(&answers);
        assert_eq!(comparison, Comparison { groups: vec![vec![0, 1]], failed: vec![2] });
        assert_eq!(comparison.agreement(), Agreement::Agree);
        assert!(!comparison.is_unanimous() && compare(&answers[..2]).is_unanimous());
    }

    #[test]
    fn differences_are_named() {
        let answers = [
            failed(),
            records(&["agt-manifest=ipfs://a"]),
            answer(TxtLookup::NotFound),
            records(&["agt-manifest=ipfs://b"]),
            answer(TxtLookup::NoRecords),
            records(&["v=spf1 -all"]),
            records(&["agt-manifest=ipfs://a", "x"]),
        ];
        let comparison = compare(&answers);
        assert_eq!(comparison, Comparison { groups: vec![vec![1, 6], vec![2, 4, 5], vec![3]], failed: vec![0] });
        assert_eq!(comparison.agreement(), Agreement::Disagree);
    }

    #[test]
    fn silence_is_no_agreement() {
        assert_eq!(compare(&[failed(), failed()]).agreement(), Agreement::NoAnswer);
        assert_eq!(compare(&[]).agreement(), Agreement::NoAnswer);
        assert!(!compare(&[failed()]).is_unanimous());
    }
}
