//! Questions at the terminal. Without one the answer is no: what may be paid then has to be said beforehand.

use async_trait::async_trait;
use toolcrib_client::{Approver, Question};

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
