//! Prompts at the terminal. Without a terminal every prompt is declined, so spending has to be approved beforehand.

use alloy_primitives::Address;
use async_trait::async_trait;
use toolcrib_chain::network::Network;
use toolcrib_chain::rpc::Chain;
use toolcrib_client::{ApprovalRequest, Approver, SignInTerms, Terms, Unchecked, Usdc};
use toolcrib_core::caip::ToolRef;

use crate::commands::onchain::confirm;
use crate::onchain::fact_lines;
use crate::printer::shown;

/// Prompts at the terminal.
#[derive(Clone, Debug, Default)]
pub(super) struct Terminal {
    /// The chain in use, for the facts that a prompt shows about it.
    chain: Option<Chain>,
}

impl Terminal {
    /// Prompts for calls on a chain.
    pub(super) const fn on(chain: Chain) -> Self {
        Self { chain: Some(chain) }
    }

    /// Network, node and settings file of a chain, one per line. Empty if no node of the chain is configured.
    fn facts(&self, chain: u64) -> String {
        let chain = self.chain.as_ref().filter(|known| known.chain_id() == chain);
        chain.map(|chain| fact_lines(chain, None)).into_iter().flatten().map(|line| line + "\n").collect()
    }
}

#[async_trait]
impl Approver for Terminal {
    async fn approve(&self, question: &ApprovalRequest<'_>) -> bool {
        match question {
            ApprovalRequest::Spend { tool, terms, account, ask_above } => {
                confirm(&spend(*tool, terms, *account, *ask_above, &self.facts(terms.chain)))
            }
            ApprovalRequest::Differs { tool, asked, account, findings } => {
                let differences: Vec<_> = findings.iter().map(|finding| shown(&finding.message)).collect();
                let payment = payment(Some(*tool), asked, *account, &self.facts(asked.chain));
                confirm(&format!("{}\n{payment}pay anyway?", differences.join("\n")))
            }
            ApprovalRequest::SignIn { terms, .. } => confirm(&sign_in(terms, &self.facts(terms.chain))),
            ApprovalRequest::Identity { tool, terms, account } => {
                confirm(&identity(*tool, terms, *account, &self.facts(terms.chain)))
            }
            ApprovalRequest::Fixed { values, .. } => {
                let values: Vec<_> =
                    values.iter().map(|value| format!("  {} = {}", shown(&value.pointer), shown(&value.value))).collect();
                confirm(&format!("the tool requires these input values:\n{}\nsend them?", values.join("\n")))
            }
            ApprovalRequest::Unchecked { parts, .. } => confirm(&unchecked(parts)),
            // A question of a later version, which this version cannot show.
            _ => false,
        }
    }
}

/// The prompt for a payment above a limit.
fn spend(tool: Option<ToolRef>, terms: &Terms, account: Address, ask_above: Usdc, facts: &str) -> String {
    let payment = payment(tool, terms, account, facts);
    if ask_above == Usdc::ZERO {
        return format!("{payment}pay?");
    }
    format!("{payment}above {ask_above} USDC, payments need your approval (spend.ask_above)\npay?")
}

/// The lines about a payment: what is signed, the account, the recipient, and the network.
fn payment(tool: Option<ToolRef>, terms: &Terms, account: Address, facts: &str) -> String {
    let mut lines = format!("this signs a payment of {}\n  account   {account}\n", terms.shown());
    if let Some(tool) = tool {
        lines.push_str(&format!("  for       {tool}\n"));
    }
    lines + facts
}

/// The prompt for a proof of identity: what is signed, the account, the recipient, and the network.
fn identity(tool: ToolRef, terms: &Terms, account: Address, facts: &str) -> String {
    format!(
        "this signs a proof of identity; no money moves\n  account   {account}\n  recipient {}\n{}\n  for       {tool}\nsign?",
        terms.pay_to,
        network(terms.chain, facts)
    )
}

/// The lines about a network: the known facts, or its name or chain id.
fn network(chain: u64, facts: &str) -> String {
    match facts.trim_end() {
        "" => {
            let title = Network::by_id(chain).map(|network| network.title.to_owned());
            format!("  network   {}", title.unwrap_or_else(|| format!("chain {chain}")))
        }
        facts => facts.to_owned(),
    }
}

/// The prompt about what was not checked, with the reasons.
fn unchecked(parts: &[Unchecked]) -> String {
    let mut lines = Vec::new();
    for part in parts {
        lines.push(format!(
            "the tool's schema of {} cannot be applied, so the {} not checked:",
            part.which,
            match part.which {
                "inputs" => "input is",
                _ => "output is",
            }
        ));
        lines.extend(part.findings.iter().map(|finding| format!("  {}: {}", finding.code, shown(&finding.message))));
    }
    lines.push("call anyway?".to_owned());
    lines.join("\n")
}

/// The prompt for a sign-in: what is signed, the account, the recipient, and the network.
fn sign_in(terms: &SignInTerms, facts: &str) -> String {
    let network = network(terms.chain, facts);
    let mut lines = vec![
        format!("{} asks you to sign in; no money moves", shown(&terms.domain)),
        format!("  account   {}", terms.account),
        format!("  for       {}", shown(&terms.uri)),
        network,
    ];
    lines.extend(terms.statement.as_ref().map(|statement| format!("  statement {}", shown(statement))));
    lines.extend(terms.expires.as_ref().map(|expires| format!("  expires   {}", shown(expires))));
    lines.push("sign in?".to_owned());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use toolcrib_chain::rpc::ChainConfig;
    use toolcrib_x402::sign_in::Message;

    use super::*;

    #[test]
    fn a_payment_names_amount_network_payee_account_and_tool() {
        let terms =
            "eip155:8453/erc20:0x833589fcd6edb6e08f4c7c32d4f71b54bda02913/50000/0x70997970c51812dc3a010c7d01b50e0d17dc79c8";
        let terms = Terms::parse(terms).expect("terms");
        let account = Address::repeat_byte(0x11);
        let tool = ToolRef::parse("eip155:8453/erc8257:0x265bb2dbfc0a8165c9a1941eb1372f349bad2cf1/7").ok();
        let limit = Usdc::parse("0.02").expect("an amount");
        let expected = "this signs a payment of 0.05 USDC on Base (eip155:8453, real money) to \
                        0x70997970C51812dc3A010C7d01b50e0d17dc79C8\n  \
                        account   0x1111111111111111111111111111111111111111\n  \
                        for       eip155:8453/erc8257:0x265bb2dbfc0a8165c9a1941eb1372f349bad2cf1/7\n\
                        above 0.02 USDC, payments need your approval (spend.ask_above)\npay?";
        assert_eq!(spend(tool, &terms, account, limit, ""), expected);
        assert!(!spend(tool, &terms, account, Usdc::ZERO, "").contains("above"), "every amount is asked about");
        // The key in the node's URL is not shown, and the node of another chain is not mentioned.
        let network = Network::find("base").expect("built in");
        let config = ChainConfig::from_setting(network, Some("https://user:secret@node.example/v2/secret?key=secret"));
        let terminal = Terminal::on(Chain::lazy(config.expect("a URL")).expect("a chain"));
        let asked = spend(tool, &terms, account, limit, &terminal.facts(terms.chain));
        assert!(asked.contains("\n  network   Base (eip155:8453, real money)\n  node      https://node.example\n"), "{asked}");
        assert!(!asked.contains("secret") && terminal.facts(1).is_empty(), "{asked}");
    }

    #[test]
    fn a_proof_of_identity_names_account_recipient_network_and_tool() {
        let terms = "eip155:8453/erc20:0x833589fcd6edb6e08f4c7c32d4f71b54bda02913/0/0x70997970c51812dc3a010c7d01b50e0d17dc79c8";
        let tool = ToolRef::parse("eip155:31337/erc8257:0x265bb2dbfc0a8165c9a1941eb1372f349bad2cf1/7").expect("a reference");
        let expected = "this signs a proof of identity; no money moves\n  \
                        account   0x1111111111111111111111111111111111111111\n  \
                        recipient 0x70997970C51812dc3A010C7d01b50e0d17dc79C8\n  network   Base\n  \
                        for       eip155:31337/erc8257:0x265bb2dbfc0a8165c9a1941eb1372f349bad2cf1/7\nsign?";
        assert_eq!(identity(tool, &Terms::parse(terms).expect("terms"), Address::repeat_byte(0x11), ""), expected);
    }

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
        assert_eq!(sign_in(&terms, ""), expected);
    }
}
