//! A node with the test token on it, and payments in that token.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use alloy_primitives::{Address, Bytes, U256, keccak256};
use alloy_provider::Provider;
use alloy_signer::SignerSync;
use alloy_signer_local::PrivateKeySigner;
use alloy_sol_types::{SolCall, SolValue};
use std::ops::Deref;
use toolcrib_chain::abi::IEIP3009;
use toolcrib_chain::network::Network;
use toolcrib_chain::rpc::{Chain, ChainConfig, NodeUrl};
use toolcrib_chain::sign::{CancelAuthorization, Domain, TransferAuthorization, TransferKind};
use toolcrib_chain::transaction::{Call, Prepared};
use toolcrib_chain::wallet::{LocalWallet, Wallet};
use toolcrib_core::caip::ChainId;
use toolcrib_core::clock::Clock as _;
use toolcrib_core::money::Amount;
use toolcrib_devchain::Devchain;
use toolcrib_devchain::accounts::dev_signers;
pub(crate) use toolcrib_gate::SystemClock;
use toolcrib_gate::{Due, LocalSettlement};
use toolcrib_testkit::nodes::FundedNode;
use toolcrib_x402::{Authorization, ChainAddress, EXACT, Extra, Offer, Payment, Signature, Version, asset};

/// What a call costs.
pub(crate) const PRICE: u64 = 10_000;

/// What the payer has at the start.
pub(crate) const FUNDS: u64 = 1_000_000;

/// The chain of the tests.
pub(crate) const LOCAL: u64 = 31_337;

pub(crate) fn payer() -> &'static PrivateKeySigner {
    &dev_signers()[1]
}

pub(crate) fn recipient() -> Address {
    Address::repeat_byte(0x77)
}

/// The account that settles.
pub(crate) fn settler() -> LocalWallet {
    LocalWallet::development(5).expect("a development account")
}

/// Another account that sends transactions.
pub(crate) fn other() -> LocalWallet {
    LocalWallet::development(6).expect("a development account")
}

/// A node with the token, some of which the payer has.
pub(crate) struct Stage(FundedNode);

impl Deref for Stage {
    type Target = FundedNode;

    fn deref(&self) -> &FundedNode {
        &self.0
    }
}

impl Stage {
    /// One of each kind; without anvil only ours, and the test is recorded as skipped.
    pub(crate) async fn each() -> Vec<Self> {
        let mut stages = Vec::new();
        for node in FundedNode::each(LOCAL).await {
            stages.push(Self::set_up(node).await);
        }
        stages
    }

    pub(crate) async fn ours(devchain: Devchain) -> Self {
        Self::set_up(FundedNode::of(devchain).await).await
    }

    async fn set_up(node: FundedNode) -> Self {
        node.mint(payer().address(), FUNDS).await;
        Self(node)
    }

    pub(crate) fn settlement(&self) -> LocalSettlement {
        LocalSettlement::new(Arc::new(settler()), [self.chain.clone()]).recipients([recipient()])
    }

    /// What recipient and payer have, to the unit.
    #[track_caller]
    pub(crate) fn assert_paid(&self, times: u64) -> impl Future<Output = ()> {
        let at = std::panic::Location::caller();
        async move {
            let have = (self.balance(recipient()).await, self.balance(payer().address()).await);
            assert_eq!(have, (times * PRICE, FUNDS - times * PRICE), "{at}");
        }
    }

    /// Transactions of the account that settles.
    pub(crate) async fn settled(&self) -> u64 {
        self.count(settler().address()).await
    }

    /// The time of the newest block.
    pub(crate) async fn time(&self) -> u64 {
        let block = self.chain.provider().get_block_by_number(Default::default()).await.expect("an answer");
        block.expect("a block").header.timestamp
    }

    pub(crate) fn offer(&self) -> Offer {
        offer(&self.token, PRICE)
    }

    /// A payment of the payer that is good for ten minutes.
    pub(crate) fn payment(&self) -> Payment {
        self.payment_with(|_| {})
    }

    /// The same, changed before it is signed.
    pub(crate) fn payment_with(&self, change: impl FnOnce(&mut Authorization)) -> Payment {
        let mut authorization = authorization(payer().address());
        change(&mut authorization);
        signed(&self.offer(), &self.token, authorization, payer())
    }

    /// Calldata of the transfer as anybody may send it.
    pub(crate) fn transfer(&self, payment: &Payment) -> Bytes {
        let Authorization { from, to, value, valid_after, valid_before, nonce } = payment.authorization;
        IEIP3009::transferWithAuthorization_1Call {
            from,
            to,
            value: value.get(),
            validAfter: U256::from(valid_after),
            validBefore: U256::from(valid_before),
            nonce,
            signature: Bytes::copy_from_slice(payment.signature.canonical().as_bytes()),
        }
        .abi_encode()
        .into()
    }

    /// A call of the token that no node was asked about, so that it may fail.
    pub(crate) async fn unchecked(&self, wallet: &dyn Wallet, data: Bytes) -> Prepared {
        let harmless = Call { to: wallet.address(), data: Bytes::new(), value: U256::ZERO };
        let prepared = self.chain.prepare(wallet.address(), &harmless).await.expect("prepared");
        Prepared { call: Call { to: self.token.address, data, value: U256::ZERO }, gas_limit: 150_000, ..prepared }
    }

    /// Takes an authorization back, as the payer may.
    pub(crate) async fn cancel(&self, payment: &Payment) {
        let Authorization { from: authorizer, nonce, .. } = payment.authorization;
        let digest = CancelAuthorization { authorizer, nonce }.digest(&domain(&self.token));
        let signature = Bytes::from(payer().sign_hash_sync(&digest).expect("a key signs").as_bytes().to_vec());
        let selector = keccak256("cancelAuthorization(address,bytes32,bytes)");
        let data = [&selector[..4], &(authorizer, nonce, signature).abi_encode_params()].concat();
        self.send(&other(), self.token.address, data.into()).await;
    }
}

pub(crate) async fn connect(url: &str, chain_id: u64) -> Chain {
    let network = Network::by_id(chain_id).expect("listed");
    let config = ChainConfig::new(network, vec![NodeUrl::parse(url).expect("a URL")]).expect("a node");
    Chain::connect(config).await.expect("the node answers")
}

pub(crate) fn code(name: &str, arguments: &[u8]) -> Bytes {
    toolcrib_contracts::artifact(name).expect("a contract").init_code(arguments)
}

pub(crate) fn offer(token: &asset::Token, amount: u64) -> Offer {
    Offer {
        scheme: EXACT.to_owned(),
        network: ChainId::parse(&format!("eip155:{}", token.chain)).expect("a chain"),
        asset: ChainAddress::evm(token.address),
        amount: Amount::new(U256::from(amount)),
        pay_to: ChainAddress::evm(recipient()),
        max_timeout_seconds: Some(300),
        extra: Some(Extra { name: Some(token.name.to_owned()), version: Some(token.version.to_owned()), ..Extra::default() }),
        resource: None,
        output_schema: None,
        other: Vec::new(),
    }
}

/// An authorization of the price that is good for ten minutes, with a nonce that no test has used before.
pub(crate) fn authorization(from: Address) -> Authorization {
    static COUNT: AtomicU64 = AtomicU64::new(1);
    Authorization {
        from,
        to: recipient(),
        value: Amount::new(U256::from(PRICE)),
        valid_after: 0,
        valid_before: SystemClock.now().seconds() as u64 + 600,
        nonce: keccak256(COUNT.fetch_add(1, Ordering::SeqCst).to_be_bytes()),
    }
}

pub(crate) fn domain(token: &asset::Token) -> Domain {
    Domain::new(token.name, token.version, U256::from(token.chain), token.address)
}

/// A payment in version 2, signed by `signer` whoever pays.
pub(crate) fn signed(offer: &Offer, token: &asset::Token, authorization: Authorization, signer: &PrivateKeySigner) -> Payment {
    signed_in(Version::V2, offer, token, authorization, signer)
}

pub(crate) fn signed_in(
    version: Version,
    offer: &Offer,
    token: &asset::Token,
    authorization: Authorization,
    signer: &PrivateKeySigner,
) -> Payment {
    let digest = TransferAuthorization::from(&authorization).digest(TransferKind::Transfer, &domain(token));
    let signature = signer.sign_hash_sync(&digest).expect("a key signs").as_bytes().to_vec();
    let signature = Signature::new(signature).expect("65 bytes");
    Payment::new(version, offer, authorization, signature, None, Vec::new())
}

pub(crate) fn due<'d>(payment: &'d Payment, offer: &'d Offer) -> Due<'d> {
    Due { payment, offer, resource: None, extensions: &[], request: None }
}
