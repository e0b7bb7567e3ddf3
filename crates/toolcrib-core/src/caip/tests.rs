use proptest::prelude::*;

use super::*;
use crate::finding::Mode;
use crate::json::{self, Limits};

const USDC: &str = "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913";
const USDC_CHECKSUMMED: &str = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";
const ZERO: &str = "0x0000000000000000000000000000000000000000";

#[test]
fn chains() {
    let chain = ChainId::parse("eip155:8453").expect("well-formed");
    assert_eq!((chain.namespace(), chain.reference(), chain.evm_id()), ("eip155", "8453", Some(8453)));
    let longest = format!("{}:{}", "a".repeat(MAX_NAMESPACE_CHARS), "a".repeat(MAX_REFERENCE_CHARS));
    for good in [
        "eip155:1",
        "eip155:18446744073709551615",
        "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp",
        "bip122:000000000019d6689c085ae165831e93",
        "cosmos:cosmoshub-3",
        "abc:a_b",
        "a-1:x",
        &longest,
    ] {
        assert_eq!(ChainId::parse(good).map(|chain| chain.to_string()), Ok(good.to_owned()));
    }
    let long_namespace = format!("{}:1", "a".repeat(MAX_NAMESPACE_CHARS + 1));
    let long_reference = format!("abc:{}", "a".repeat(MAX_REFERENCE_CHARS + 1));
    for (bad, fault) in [
        ("", CaipError::Empty),
        ("base", CaipError::ChainShape),
        ("ab:1", CaipError::Namespace),
        ("EIP155:1", CaipError::Namespace),
        ("ab_c:1", CaipError::Namespace),
        (":1", CaipError::Namespace),
        (&long_namespace, CaipError::Namespace),
        ("abc:", CaipError::Reference),
        ("abc:a:b", CaipError::Reference),
        ("abc:é", CaipError::Reference),
        (&long_reference, CaipError::Reference),
        ("eip155:08453", CaipError::EvmChain),
        ("eip155:0x2105", CaipError::EvmChain),
        ("eip155:0", CaipError::EvmChain),
        ("eip155:base", CaipError::EvmChain),
        ("eip155:18446744073709551616", CaipError::EvmChain),
    ] {
        assert_eq!(ChainId::parse(bad), Err(fault), "{bad}");
    }
}

// req: PRICE-005, PRICE-006, PRICE-008
#[test]
fn accounts() {
    let account = AccountId::parse(&format!("eip155:8453:{USDC}")).expect("well-formed");
    assert_eq!(
        (account.chain(), account.namespace(), account.reference(), account.address()),
        ("eip155:8453", "eip155", "8453", USDC)
    );
    assert_eq!(account.evm_chain_id(), Some(8453));
    assert!(AccountId::parse(&format!("eip155:1:{}1", &ZERO[..41])).is_ok());

    let solana = AccountId::parse("solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp:7S3P4HxJpyyigGzodYwHtCxZyUQe9JiBMHyRWXArAaKv")
        .expect("well-formed");
    assert!(!solana.is_evm());
    assert_eq!((solana.evm_address(), solana.evm_chain_id()), (None, None));

    let longest = format!("abc:1:{}", "a".repeat(MAX_ADDRESS_CHARS));
    assert!(AccountId::parse(&longest).is_ok());
    let text = |tail: &str| format!("eip155:8453:{tail}");
    for (bad, fault) in [
        (String::new(), CaipError::Empty),
        (USDC.to_owned(), CaipError::AccountShape),
        (format!("base:{USDC}"), CaipError::AccountShape),
        (format!("{longest}a"), CaipError::AccountAddress),
        (text(""), CaipError::AccountAddress),
        (text("vitalik_eth"), CaipError::AccountAddress),
        (text("vitalik.eth"), CaipError::EvmAddress),
        (text(&USDC[..41]), CaipError::EvmAddress),
        (text(&format!("{USDC}0")), CaipError::EvmAddress),
        (text(&USDC[2..]), CaipError::EvmAddress),
        (text(USDC_CHECKSUMMED), CaipError::UppercaseHex),
        (text(&USDC.replace("0x", "0X")), CaipError::UppercaseHex),
        (text(ZERO), CaipError::ZeroAccount),
        ("starknet:SN_GOERLI:0x0".to_owned(), CaipError::ZeroAccount),
        (format!("eip155:1:2:{USDC}"), CaipError::Reference),
        (format!("eip155:08453:{USDC}"), CaipError::EvmChain),
    ] {
        assert_eq!(AccountId::parse(&bad), Err(fault), "{bad}");
    }
}

// req: PRICE-003, PRICE-006
#[test]
fn assets() {
    let asset = AssetId::parse(&format!("eip155:8453/erc20:{USDC}")).expect("well-formed");
    assert_eq!(
        (asset.chain(), asset.asset_namespace(), asset.asset_reference(), asset.token_id()),
        ("eip155:8453", "erc20", USDC, None)
    );
    assert_eq!(asset.evm_address().map(|address| format!("{address:#x}")), Some(USDC.to_owned()));
    let coin = AssetId::parse("eip155:1/slip44:60").expect("well-formed");
    assert_eq!((coin.asset_namespace(), coin.asset_reference(), coin.evm_address()), ("slip44", "60", None));
    let token = AssetId::parse(&format!("eip155:1/erc721:{USDC}/771769")).expect("well-formed");
    assert_eq!((token.asset_reference(), token.token_id()), (USDC, Some("771769")));

    let longest = format!("abc:1/abc:{}/{}", "a".repeat(MAX_ADDRESS_CHARS), "9".repeat(MAX_TOKEN_ID_CHARS));
    for good in ["cosmos:cosmoshub-3/slip44:118", "eip155:1/custom:anything.%20", &longest] {
        assert_eq!(AssetId::parse(good).map(|asset| asset.to_string()), Ok(good.to_owned()));
    }
    let text = |tail: &str| format!("eip155:8453/{tail}");
    for (bad, fault) in [
        (String::new(), CaipError::Empty),
        ("eip155:8453".to_owned(), CaipError::AssetShape),
        (text(""), CaipError::AssetShape),
        (text("erc20"), CaipError::AssetShape),
        (text(&format!(":{USDC}")), CaipError::AssetNamespace),
        (text(&format!("ERC20:{USDC}")), CaipError::AssetNamespace),
        (text("erc20:"), CaipError::AssetReference),
        (text("custom:a_b"), CaipError::AssetReference),
        (text("custom:a:b"), CaipError::AssetReference),
        (text("erc20:USDC"), CaipError::EvmAddress),
        (text(&format!("erc20:{USDC_CHECKSUMMED}")), CaipError::UppercaseHex),
        (text(&format!("erc1155:{USDC_CHECKSUMMED}/1")), CaipError::UppercaseHex),
        (text("slip44:eth"), CaipError::Slip44),
        (text("slip44:060"), CaipError::Slip44),
        (text(&format!("erc721:{USDC}/")), CaipError::TokenId),
        (text(&format!("erc721:{USDC}/1/2")), CaipError::TokenId),
        (format!("{longest}9"), CaipError::TokenId),
        ("eip155/erc20:0x".to_owned(), CaipError::ChainShape),
        ("/erc20:0x".to_owned(), CaipError::Empty),
    ] {
        assert_eq!(AssetId::parse(&bad), Err(fault), "{bad}");
    }
}

// req: PRICE-004
#[test]
fn asset_and_recipient_share_a_chain() {
    let asset = AssetId::parse(&format!("eip155:8453/erc20:{USDC}")).expect("well-formed");
    let account = |chain: u64| AccountId::parse(&format!("eip155:{chain}:{USDC}")).expect("well-formed");
    assert_eq!(asset.chain(), account(8453).chain());
    assert_ne!(asset.chain(), account(1).chain());
    // A second spelling of the same chain is rejected before any comparison.
    assert_eq!(AccountId::parse(&format!("eip155:08453:{USDC}")), Err(CaipError::EvmChain));
}

// req: PRICE-007
#[test]
fn addresses_from_elsewhere_compare_without_case() {
    let account = AccountId::parse(&format!("eip155:8453:{USDC}")).expect("well-formed");
    assert_eq!(account.evm_address(), Some(Address::parse_checksummed(USDC_CHECKSUMMED, None).expect("well-formed")));
}

// req: PRICE-006
#[test]
fn upper_case_is_fixed_in_the_address_only() {
    for (text, lower) in [
        (format!("eip155:1/erc721:{USDC_CHECKSUMMED}/AbC"), format!("eip155:1/erc721:{USDC}/AbC")),
        (format!("eip155:1:{}", USDC_CHECKSUMMED.replace("0x", "0X")), format!("eip155:1:{USDC}")),
    ] {
        assert_eq!(lowercase_hex(&text), lower);
    }
    let source = format!("\"eip155:8453/erc20:{USDC_CHECKSUMMED}\"");
    let document = json::read(source.as_bytes(), Limits::default()).document.expect("well-formed");
    let mut context = Context::new(Mode::Consumer);
    assert!(check_asset(document.root(), document.root().as_str().expect("well-formed"), &mut context).is_none());
    let finding = &context.findings.as_slice()[0];
    assert_eq!((finding.code, finding.code.info().check), (codes::caip::UPPERCASE_HEX, Some(3)));
    assert_eq!(finding.fix.as_ref().expect("well-formed").edits[0].replacement, format!("\"eip155:8453/erc20:{USDC}\""));

    let document = json::read(b"\"solana:abc:xyz\"", Limits::default()).document.expect("well-formed");
    let mut context = Context::new(Mode::Producer);
    assert!(check_account(document.root(), "solana:abc:xyz", &mut context).is_some());
    assert_eq!(context.findings.as_slice()[0].code, codes::caip::NAMESPACE_UNVERIFIED);
    assert!(!context.findings.has_errors());
}

// req: REG-041, REG-042
#[test]
fn tools() {
    let registry = "0xaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    let text = format!("eip155:8453/erc8257:{registry}/1");
    let tool = ToolRef::parse(&text).expect("well-formed");
    assert_eq!((tool.chain, tool.id, tool.to_string()), (8453, U256::from(1), text));
    assert_ne!(tool, ToolRef { chain: 1, ..tool }, "the same id elsewhere is another tool");

    let checksummed = ToolRef::parse(&format!("eip155:1/erc8257:{USDC_CHECKSUMMED}/2")).expect("well-formed");
    assert_eq!(checksummed.to_string(), format!("eip155:1/erc8257:{USDC}/2"));
    let largest = format!("eip155:1/erc8257:{USDC}/{}", U256::MAX);
    assert_eq!(ToolRef::parse(&largest).expect("well-formed").to_string(), largest);

    let with_id = |id: &str| format!("eip155:1/erc8257:{USDC}/{id}");
    for (bad, fault) in [
        (String::new(), CaipError::Empty),
        ("1".to_owned(), CaipError::ToolShape),
        (format!("eip155:1/erc721:{USDC}/1"), CaipError::ToolShape),
        (format!("solana:1/erc8257:{USDC}/1"), CaipError::ToolShape),
        (format!("eip155:1/erc8257:{USDC}"), CaipError::ToolShape),
        (with_id("1/2"), CaipError::ToolShape),
        (with_id(""), CaipError::ToolId),
        (with_id("0x1"), CaipError::ToolId),
        (with_id("01"), CaipError::ToolId),
        (with_id("-1"), CaipError::ToolId),
        (with_id("9".repeat(78).as_str()), CaipError::ToolId),
        (with_id("1".repeat(79).as_str()), CaipError::ToolId),
        (with_id("0"), CaipError::ToolIdZero),
        (format!("eip155:1/erc8257:{}/1", USDC.to_ascii_uppercase().replace("0X", "0x")), CaipError::ToolChecksum),
        (format!("eip155:1/erc8257:{}/1", USDC_CHECKSUMMED.replace("fCD", "fcD")), CaipError::ToolChecksum),
        (format!("eip155:1/erc8257:{}/1", &USDC[..41]), CaipError::EvmAddress),
        (format!("eip155:01/erc8257:{USDC}/1"), CaipError::EvmChain),
    ] {
        assert_eq!(ToolRef::parse(&bad), Err(fault), "{bad}");
    }
}

proptest! {
    #[test]
    fn tools_round_trip(chain in 1_u64.., registry: [u8; 20], limbs: [u64; 4]) {
        prop_assume!(limbs != [0; 4]);
        let tool = ToolRef { chain, registry: Address::from(registry), id: U256::from_limbs(limbs) };
        prop_assert_eq!(ToolRef::parse(&tool.to_string()), Ok(tool));
        prop_assert!(AssetId::parse(&tool.to_string()).is_ok(), "a tool reference is a CAIP-19 asset");
    }

    #[test]
    fn whatever_parses_prints_as_written(text in "(eip155|abc)(:[0-9a-zA-Z]{1,4}){1,2}(/[a-z0-9]{2,9}:[0-9a-zA-Z.%_-]{0,5}){0,1}(/[0-9a]{0,3})?|\\PC{0,12}") {
        if let Ok(id) = ChainId::parse(&text) {
            prop_assert_eq!(format!("{}:{}", id.namespace(), id.reference()), text.clone());
        }
        if let Ok(id) = AccountId::parse(&text) {
            prop_assert_eq!(format!("{}:{}", id.chain(), id.address()), text.clone());
        }
        if let Ok(id) = AssetId::parse(&text) {
            let token = id.token_id().map(|token| format!("/{token}")).unwrap_or_default();
            prop_assert_eq!(format!("{}/{}:{}{token}", id.chain(), id.asset_namespace(), id.asset_reference()), text.clone());
        }
        let _ = lowercase_hex(&text);
        let _ = ToolRef::parse(&text);
    }
}
