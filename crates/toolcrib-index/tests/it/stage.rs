//! A node with the test token on it, an index beside it, and tools that are sold for that token.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_signer::SignerSync;
use alloy_signer_local::PrivateKeySigner;
use alloy_sol_types::SolCall;
use serde_json::json;
use std::ops::Deref;
use toolcrib_chain::abi::IEIP3009;
use toolcrib_chain::rpc::Chain;
use toolcrib_chain::sign::{TransferAuthorization, TransferKind};
use toolcrib_chain::transaction::{Call, Prepared};
use toolcrib_chain::wallet::{LocalWallet, Wallet};
use toolcrib_core::clock::{Clock, UnixTime};
use toolcrib_core::money::Amount;
use toolcrib_devchain::accounts::dev_signers;
use toolcrib_fetch::SystemClock;
use toolcrib_index::listing::{AccessFacts, AccessKind, Health, Life, Listing, ManifestFacts, Price, Verdict};
use toolcrib_index::model::{RegistryId, ToolKey};
use toolcrib_index::{Index, text_key};
use toolcrib_store::database::Value;
use toolcrib_testkit::nodes::FundedNode;
use toolcrib_x402::Authorization;

/// The chain of the tests.
pub(crate) const LOCAL: u64 = 31_337;

/// What a call costs.
pub(crate) const PRICE: u64 = 10_000;

/// A node with the token, some of which four accounts have.
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
            for signer in &dev_signers()[1..5] {
                node.mint(signer.address(), 1_000_000).await;
            }
            stages.push(Self(node));
        }
        stages
    }

    /// The same node, as if others had a say in which blocks are final.
    pub(crate) async fn public(&self) -> Chain {
        self.chain_of(|network| network.is_local = false).await
    }

    /// Sends and waits; the transaction succeeds.
    pub(crate) async fn send(&self, to: Address, data: Bytes) -> B256 {
        self.0.send(&deployer(), to, data).await
    }

    pub(crate) async fn send_as(&self, wallet: &dyn Wallet, to: Address, data: Bytes) -> B256 {
        self.0.send(wallet, to, data).await
    }

    /// Sends what no node was asked about, so that it may fail, and does not wait.
    pub(crate) async fn send_blindly(&self, to: Address, data: Bytes) -> B256 {
        let wallet = deployer();
        let harmless = Call { to: wallet.address(), data: Bytes::new(), value: U256::ZERO };
        let prepared = self.chain.prepare(wallet.address(), &harmless).await.expect("prepared");
        let prepared = Prepared { call: Call { to, data, value: U256::ZERO }, gas_limit: 300_000, ..prepared };
        let signed = self.chain.sign(&wallet, &prepared).await.expect("signed");
        self.chain.broadcast(&signed).await.expect("sent");
        signed.hash
    }

    /// Waits until a transaction has a receipt.
    pub(crate) async fn mined(&self, hash: B256) {
        while self.chain.receipt(hash).await.expect("an answer").is_none() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// A contract that calls the first word of its calldata with each of the parts that follow, each after its length.
    pub(crate) async fn batcher(&self) -> Address {
        const CODE: &str = "6020\
            5b80361115602d57\
            80358082602001600037\
            600060008260006000600035\
            5af115602f57\
            01602001600256\
            5b00\
            5b600080fd";
        let code = alloy_primitives::hex::decode(CODE).expect("hex");
        // Copies what follows these eleven bytes and returns it.
        let init = [&[0x60, code.len() as u8, 0x80, 0x60, 0x0b, 0x60, 0x00, 0x39, 0x60, 0x00, 0xf3][..], &code].concat();
        let data = format!("0x{}", alloy_primitives::hex::encode(init));
        let request = json!({ "from": dev_signers()[0].address(), "data": data, "gas": "0x100000" });
        let hash: B256 = serde_json::from_value(self.dev("eth_sendTransaction", json!([request])).await).expect("a hash");
        self.mined(hash).await;
        let receipt = self.chain.receipt(hash).await.expect("an answer").expect("mined");
        assert!(receipt.status());
        receipt.contract_address.expect("a contract")
    }

    /// One transaction with several calls of the token.
    pub(crate) async fn batch(&self, calls: &[Bytes]) -> B256 {
        let batcher = self.batcher().await;
        let mut data = self.token.address.into_word().to_vec();
        for call in calls {
            data.extend(U256::from(call.len()).to_be_bytes::<32>());
            data.extend(call);
        }
        self.send(batcher, data.into()).await
    }

    pub(crate) fn sign(&self, signer: &PrivateKeySigner, authorization: &Authorization) -> Vec<u8> {
        let digest = TransferAuthorization::from(authorization).digest(TransferKind::Transfer, &self.domain());
        signer.sign_hash_sync(&digest).expect("a key signs").as_bytes().to_vec()
    }

    /// Calldata of a payment, as anybody may send it.
    pub(crate) fn payment(&self, signer: &PrivateKeySigner, to: Address, value: u64) -> Bytes {
        let authorization = authorization(signer.address(), to, value);
        let signature = self.sign(signer, &authorization);
        let Authorization { from, to, value, valid_after, valid_before, nonce } = authorization;
        IEIP3009::transferWithAuthorization_1Call {
            from,
            to,
            value: value.get(),
            validAfter: U256::from(valid_after),
            validBefore: U256::from(valid_before),
            nonce,
            signature: signature.into(),
        }
        .abi_encode()
        .into()
    }

    /// Pays, and gives the transaction.
    pub(crate) async fn pay(&self, signer: &PrivateKeySigner, to: Address, value: u64) -> B256 {
        let data = self.payment(signer, to, value);
        self.send(self.token.address, data).await
    }
}

fn deployer() -> LocalWallet {
    LocalWallet::development(0).expect("a development account")
}

/// An authorization that is good for ten minutes, with a nonce that no test has used before.
pub(crate) fn authorization(from: Address, to: Address, value: u64) -> Authorization {
    static COUNT: AtomicU64 = AtomicU64::new(1);
    Authorization {
        from,
        to,
        value: Amount::new(U256::from(value)),
        valid_after: 0,
        valid_before: SystemClock.now().seconds() as u64 + 600,
        nonce: keccak256(COUNT.fetch_add(1, Ordering::SeqCst).to_be_bytes()),
    }
}

/// A tool to put into an index.
#[derive(Clone, Debug)]
pub(crate) struct Sold {
    pub(crate) id: u64,
    pub(crate) creator: Address,
    pub(crate) endpoint: String,
    pub(crate) prices: Vec<Price>,
    pub(crate) predicate: Option<Address>,
    pub(crate) registered_at: i64,
    pub(crate) verified: bool,
}

impl Sold {
    /// For the usual price to its creator.
    pub(crate) fn new(id: u64, creator: Address, token: Address) -> Self {
        Self {
            id,
            creator,
            endpoint: format!("https://tools.example.com/{id}"),
            prices: vec![price(token, creator, PRICE)],
            predicate: None,
            registered_at: 1_000 + id as i64,
            verified: true,
        }
    }

    pub(crate) fn to(self, token: Address, recipient: Address, amount: u64) -> Self {
        Self { prices: vec![price(token, recipient, amount)], ..self }
    }
}

pub(crate) fn price(token: Address, recipient: Address, amount: u64) -> Price {
    Price {
        amount: amount.to_string(),
        asset: format!("eip155:{LOCAL}/erc20:{token:#x}"),
        recipient: format!("eip155:{LOCAL}:{recipient:#x}"),
        protocol: "x402".to_owned(),
        chain: Some(LOCAL),
        token: Some(token),
        symbol: None,
        decimals: None,
        micro_usd: None,
    }
}

pub(crate) const REGISTRY: Address = Address::repeat_byte(0x82);

/// Puts a tool into an index, as a follower and a worker would.
pub(crate) async fn put(index: &Index, sold: &Sold) -> ToolKey {
    put_in(index, REGISTRY, sold).await
}

pub(crate) async fn put_in(index: &Index, registry: Address, sold: &Sold) -> ToolKey {
    const TOOL: &str =
        "INSERT INTO index_tool (registry, tool, creator, uri, uri_key, hash, predicate, registered_block, registered_at,
        updated_block, updated_at, events, listed, access) VALUES ($1, $2, $3, $4, $5, $6, $7, 1, $8, 1, $8, 1, $9, $10)
        ON CONFLICT (registry, tool) DO UPDATE SET listed = excluded.listed, creator = excluded.creator";
    const LISTING: &str =
        "INSERT INTO index_listing (registry, tool, checked_at, endpoint_key, document) VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT (registry, tool) DO UPDATE SET endpoint_key = excluded.endpoint_key, document = excluded.document";
    let RegistryId(registry) = index.add_registry(LOCAL, registry, 1).await.expect("a registry").id;
    let key = ToolKey { registry: RegistryId(registry), id: U256::from(sold.id) };
    let listing = listing(sold);
    let document = serde_json::to_string(&listing).expect("JSON");
    let mut transaction = index.database().begin().await.expect("a transaction");
    let id = key.id_bytes();
    let hash = listing.manifest_hash;
    let values = [
        Value::Integer(registry),
        Value::Bytes(&id),
        Value::Bytes(sold.creator.as_slice()),
        Value::Text(&listing.metadata_uri),
        Value::Integer(text_key(&listing.metadata_uri)),
        Value::Bytes(hash.as_slice()),
        Value::OptionalBytes(sold.predicate.as_ref().map(|predicate| predicate.as_slice())),
        Value::Integer(sold.registered_at),
        Value::Boolean(sold.verified),
        Value::Text(listing.access.kind.as_str()),
    ];
    transaction.execute(TOOL, &values).await.expect("a tool");
    let values = [
        Value::Integer(registry),
        Value::Bytes(&id),
        Value::Integer(listing.checked_at.seconds()),
        Value::Integer(text_key(&sold.endpoint)),
        Value::Text(&document),
    ];
    transaction.execute(LISTING, &values).await.expect("a listing");
    toolcrib_index::usage::note_payees(&mut transaction, key, &listing).await.expect("noted");
    transaction.commit().await.expect("committed");
    key
}

fn listing(sold: &Sold) -> Listing {
    let manifest = ManifestFacts {
        name: format!("tool-{}", sold.id),
        description: "Sold in tests.".to_owned(),
        tags: Vec::new(),
        endpoint: sold.endpoint.clone(),
        origin: "https://tools.example.com".to_owned(),
        slug: format!("tool-{}", sold.id),
        version: None,
        image: None,
        featured_image: None,
        inputs: None,
        outputs: None,
        fields: Vec::new(),
        prices: sold.prices.clone(),
        max_age: None,
    };
    let access = AccessFacts {
        kind: if sold.predicate.is_some() { AccessKind::Gated } else { AccessKind::Open },
        predicate: sold.predicate,
        predicate_is_proxy: None,
        predicate_name: None,
        predicate_code: None,
        is_advertised: None,
        any: false,
        requirements: Vec::new(),
    };
    Listing {
        checked_at: UnixTime::from_seconds(2_000),
        expires_at: UnixTime::from_seconds(4_000_000_000),
        manifest_hash: B256::repeat_byte(7),
        metadata_uri: format!("https://tools.example.com/.well-known/ai-tool/tool-{}.json", sold.id),
        verdict: if sold.verified { Verdict::Verified } else { Verdict::Refused },
        verified: sold.verified,
        conformant: sold.verified,
        checks: std::array::from_fn(|_| "passed".to_owned()),
        failed: None,
        findings: Vec::new(),
        manifest: sold.verified.then_some(manifest),
        claims: None,
        tier: "self-attested".to_owned(),
        access,
        same_uri: Vec::new(),
        same_endpoint: Vec::new(),
        life: Life::Active,
        health: Health::default(),
        dev: true,
    }
}
