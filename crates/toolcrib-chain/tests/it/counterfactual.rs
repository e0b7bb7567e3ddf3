//! Signatures of accounts that are not deployed yet (ERC-6492), with real wallets of a real factory, on both kinds of node.

use alloy_primitives::{Address, B256, Bytes, keccak256};
use alloy_sol_types::SolValue;
use toolcrib_chain::rpc::{BoundedCall, CallOutcome, Chain};
use toolcrib_chain::sign::check_signature;
use toolcrib_chain::wallet::{DEV_ACCOUNTS, LocalWallet, Scope, Wallet};
use toolcrib_x402::erc6492::{MAGIC_SUFFIX, wrap};

use toolcrib_testkit::nodes::{Node, deploy, send, set_code};

const SALT: B256 = B256::repeat_byte(9);

/// A factory, and a wallet that is not deployed yet.
struct Setup {
    _node: Node,
    chain: Chain,
    factory: Address,
    account: Address,
    calldata: Vec<u8>,
}

fn call(function: &str, arguments: &[u8]) -> Vec<u8> {
    [&keccak256(function)[..4], arguments].concat()
}

impl Setup {
    async fn each() -> Vec<Self> {
        let mut all = Vec::new();
        for node in Node::each(31_337).await {
            let chain = node.chain().await;
            let factory = deploy(&chain, "TestWalletFactory", &[]).await;
            let owned = (DEV_ACCOUNTS[3], SALT).abi_encode();
            let data = call("accountOf(address,bytes32)", &owned).into();
            let asked = BoundedCall { to: factory, data, from: None, gas: None, max_bytes: 32 };
            let CallOutcome::Returned(word) = chain.call(&asked).await.expect("an answer") else { panic!("an address") };
            let account = Address::from_word(B256::from_slice(&word));
            let calldata = call("createAccount(address,bytes32)", &owned);
            all.push(Self { _node: node, chain, factory, account, calldata });
        }
        all
    }

    async fn sign(&self, index: u32, digest: B256) -> Vec<u8> {
        let wallet = LocalWallet::development(index).expect("a phrase");
        let cleared = Scope::of(&self.chain).await.expect("known").clear(&wallet).expect("allowed");
        wallet.sign_digest(digest, cleared).await.expect("signed").canonical().to_vec()
    }

    /// The error code, or `None` if the signature is valid.
    async fn check(&self, account: Address, digest: B256, signature: &[u8]) -> Option<&'static str> {
        check_signature(&self.chain, account, digest, signature).await.err().map(|error| error.code().id())
    }

    async fn has_code(&self, account: Address) -> bool {
        !self.chain.code(account).await.expect("an answer").is_empty()
    }
}

#[tokio::test]
async fn a_wallet_signs_before_and_after_it_is_deployed() {
    for setup in Setup::each().await {
        let digest = keccak256("one");
        let (own, foreign) = (setup.sign(3, digest).await, setup.sign(4, digest).await);
        let wrapped = |signature: &[u8]| wrap(setup.factory, &setup.calldata, signature);
        let block = setup.chain.block_number().await.expect("a number");
        assert_eq!(setup.check(setup.account, digest, &wrapped(&own)).await, None);
        assert_eq!(setup.check(setup.account, digest, &wrapped(&foreign)).await, Some("chain.contract_signature"));
        let other = keccak256("two");
        assert_eq!(setup.check(setup.account, other, &wrapped(&own)).await, Some("chain.contract_signature"));
        assert_eq!(setup.check(setup.account, digest, &own).await, Some("chain.signature_wrong_signer"), "not wrapped");
        // The simulation did not deploy the account.
        assert!(!setup.has_code(setup.account).await);
        assert_eq!(setup.chain.block_number().await.expect("a number"), block);

        send(&setup.chain, Some(setup.factory), setup.calldata.clone().into()).await;
        assert!(setup.has_code(setup.account).await);
        for signature in [own.clone(), wrapped(&own), wrap(Address::ZERO, &[], &own)] {
            assert_eq!(setup.check(setup.account, digest, &signature).await, None, "the factory is not asked any more");
        }
        assert_eq!(setup.check(setup.account, digest, &wrapped(&foreign)).await, Some("chain.contract_signature"));
    }
}

// attack: T10
#[tokio::test]
async fn lies_about_an_account_are_refused() {
    for setup in Setup::each().await {
        let digest = keccak256("one");
        let own = setup.sign(3, digest).await;
        let nobody = Some("chain.account_not_deployable");
        // A factory that does nothing, reverts, burns its gas, returns an endless answer, or is not there.
        let at = |byte: u8| Address::repeat_byte(byte);
        let codes: [(u8, &[u8]); 4] = [
            (0xa1, &[0x00]),
            (0xa2, &[0x60, 0, 0x60, 0, 0xfd]),
            (0xa3, &[0x5b, 0x60, 0, 0x56]),
            (0xa4, &[0x62, 0x10, 0, 0, 0x60, 0, 0xf3]),
        ];
        for (byte, code) in codes {
            set_code(&setup.chain, at(byte), code).await;
            assert_eq!(setup.check(setup.account, digest, &wrap(at(byte), &setup.calldata, &own)).await, nobody, "{byte:x}");
        }
        for factory in [Address::ZERO, at(0xa5), DEV_ACCOUNTS[0]] {
            assert_eq!(setup.check(setup.account, digest, &wrap(factory, &setup.calldata, &own)).await, nobody);
        }
        // A real factory that deploys another account, because of another salt or owner.
        for (owner, salt) in [(DEV_ACCOUNTS[3], B256::repeat_byte(8)), (DEV_ACCOUNTS[4], SALT)] {
            let calldata = call("createAccount(address,bytes32)", &(owner, salt).abi_encode());
            assert_eq!(setup.check(setup.account, digest, &wrap(setup.factory, &calldata, &own)).await, nobody);
        }
        let garbage = wrap(setup.factory, b"no such function", &own);
        assert_eq!(setup.check(setup.account, digest, &garbage).await, nobody);
        // The owner's own account is not a wallet: its key signs without a wrapper, and nothing is deployed at its address.
        assert_eq!(setup.check(DEV_ACCOUNTS[3], digest, &wrap(setup.factory, &setup.calldata, &own)).await, nobody);
        // The identity precompile returns its input, which begins with the magic value.
        let identity = Address::with_last_byte(4);
        let echoed = wrap(setup.factory, &setup.calldata, &own);
        assert_eq!(setup.check(identity, digest, &echoed).await, Some("chain.contract_signature"));

        // Garbage inside, nested wrappers, and bytes that only end like a wrapper.
        let wrapped = |signature: &[u8]| wrap(setup.factory, &setup.calldata, signature);
        for inner in [vec![], vec![7; 64], vec![7; 65], vec![7; 1_000]] {
            assert_eq!(setup.check(setup.account, digest, &wrapped(&inner)).await, Some("chain.contract_signature"));
        }
        assert_eq!(setup.check(setup.account, digest, &wrapped(&wrapped(&own))).await, Some("chain.signature_wrapper"));
        let loose = [vec![7; 96], MAGIC_SUFFIX.to_vec()].concat();
        assert_eq!(setup.check(setup.account, digest, &loose).await, Some("chain.signature_wrapper"));
        let huge = wrap(setup.factory, &vec![0; 1 << 20], &own);
        assert_eq!(setup.check(setup.account, digest, &huge).await, Some("chain.signature_length"));
        assert!(!setup.has_code(setup.account).await);
    }
}

/// All of the factory's state changes are gone after the simulation.
#[tokio::test]
async fn a_simulation_leaves_nothing_behind() {
    for setup in Setup::each().await {
        let token = deploy(&setup.chain, "TestERC20", &("Test", "T", alloy_primitives::U256::from(18)).abi_encode_params()).await;
        let thief = DEV_ACCOUNTS[4];
        let mint = call("mint(address,uint256)", &(thief, alloy_primitives::U256::from(5)).abi_encode());
        let digest = keccak256("one");
        let own = setup.sign(3, digest).await;
        let refused = setup.check(setup.account, digest, &wrap(token, &mint, &own)).await;
        assert_eq!(refused, Some("chain.account_not_deployable"));
        let data: Bytes = call("balanceOf(address)", &thief.abi_encode()).into();
        let asked = BoundedCall { to: token, data, from: None, gas: None, max_bytes: 32 };
        assert_eq!(setup.chain.call(&asked).await.expect("an answer"), CallOutcome::Returned([0; 32].into()));
    }
}
