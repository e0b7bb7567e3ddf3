//! Questions at the terminal. Without one the answer is no: what may be paid then has to be said beforehand.

use async_trait::async_trait;
use toolcrib_chain::network::Network;
use toolcrib_client::{Approver, Question, SignInTerms};

use crate::commands::onchain::confirm;
use crate::printer::shown;

/// Asks whoever sits at the terminal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terminal;

#[async_trait]
impl Approver for Terminal {
    async fn approve(&self, question: &Question<'_>) -> bool {
        match question {
            Question::Spend { terms, .. } => confirm(&format!("pay {}?", terms.shown())),
            Question::Differs { asked, findings, .. } => {
                let differences: Vec<_> = findings.iter().map(|finding| shown(&finding.message)).collect();
                confirm(&format!("{}\npay {} all the same?", differences.join("\n"), asked.shown()))
            }
            Question::SignIn { terms, .. } => confirm(&sign_in(terms)),
            Question::Fixed { values, .. } => {
                let values: Vec<_> =
                    values.iter().map(|value| format!("  {} = {}", shown(&value.pointer), shown(&value.value))).collect();
                confirm(&format!("the tool fixes values of the input:\n{}\nsend them?", values.join("\n")))
            }
            // A question of a later version that nobody here can put into words.
            _ => false,
        }
    }
}

/// What is signed, by which account, for whom, and on which network.
fn sign_in(terms: &SignInTerms) -> String {
    let network =
        Network::by_id(terms.chain).map_or_else(|| format!("chain {}", terms.chain), |network| network.title.to_owned());
    let mut lines = vec![
        format!("{} asks you to sign in; no money moves", shown(&terms.domain)),
        format!("  account   {}", terms.account),
        format!("  for       {}", shown(&terms.uri)),
        format!("  network   {network}"),
    ];
    lines.extend(terms.statement.as_ref().map(|statement| format!("  statement {}", shown(statement))));
    lines.extend(terms.expires.as_ref().map(|expires| format!("  expires   {}", shown(expires))));
    lines.push("sign in?".to_owned());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use toolcrib_core::sign_in::Message;

    use super::*;

    #[test]
    fn a_sign_in_names_account_site_resource_and_network() {
        let text = "tools.example.com wants you to sign in with your Ethereum account:\n\
                    0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266\n\nCount my words.\n\n\
                    URI: https://tools.example.com/count\nVersion: 1\nChain ID: 8453\nNonce: 0b9f4c1122334455\n\
                    Issued At: 2026-11-16T08:00:00Z\nExpiration Time: 2026-11-16T08:05:00Z";
        let terms = SignInTerms::of(&Message::parse(text).expect("a message"));
        let expected = "tools.example.com asks you to sign in; no money moves\n  \
                        account   0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266\n  \
                        for       https://tools.example.com/count\n  network   Base\n  statement Count my words.\n  \
                        expires   2026-11-16T08:05:00Z\nsign in?";
        assert_eq!(sign_in(&terms), expected);
    }
}
