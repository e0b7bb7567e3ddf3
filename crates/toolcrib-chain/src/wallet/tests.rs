use alloy_primitives::{B256, hex};

use super::*;

/// The key of the examples of the Web3 Secret Storage definition.
const EXAMPLE_KEY: [u8; 32] = hex!("7a28b5ba57c53603b0b07b56bba752f7784bf506fa95edc395f5cf6c7514fe9d");

const EXAMPLE_PBKDF2: &str = r#"{"crypto":{"cipher":"aes-128-ctr","cipherparams":{"iv":"6087dab2f9fdbbfaddc31a909735c1e6"},
"ciphertext":"5318b4d5bcd28de64ee5559e671353e16f075ecae9f99c7a79a38af5f869aa46","kdf":"pbkdf2","kdfparams":{"c":262144,"dklen":32,
"prf":"hmac-sha256","salt":"ae3cd4e7013836a3df6bd7241b12db061dbe2c6785853cce422d148a624ce0bd"},
"mac":"517ead924a9d0dc3124507e3393d175ce3ff7c1e96529c6c555ce9e51205e9b2"},"id":"3198bc9c-6672-5ab3-d995-4942343ae5b6","version":3}"#;

/// Made with Python's hashlib and pycryptodome. The counter overflows its last byte, so that its width matters.
const EXAMPLE_SCRYPT: &str = r#"{"crypto":{"cipher":"aes-128-ctr","cipherparams":{"iv":"fffffffffffffffffffffffffffffffe"},
"ciphertext":"94b4ac40ab7a311268bd5afb997a0e0c66417b4fa3679c81a125a6d04fafdc01","kdf":"scrypt","kdfparams":{"dklen":32,"n":8192,"r":8,
"p":2,"salt":"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"},
"mac":"78e67afaf27f990ab239cba8c8c8b74a1ce3db334c5c3cba5c05f31eea20f044"},"id":"3198bc9c-6672-5ab3-d995-4942343ae5b6","version":3}"#;

fn secret(text: &str) -> Secret {
    Secret::new(text.to_owned())
}

fn keystore() -> (tempfile::TempDir, Keystore) {
    let folder = tempfile::tempdir().expect("a folder");
    let keystore = Keystore::new(folder.path().join("keys"));
    (folder, keystore)
}

#[track_caller]
fn code<T>(result: Result<T, WalletError>) -> &'static str {
    result.err().map_or("ok", |error| error.code().id())
}

#[test]
fn the_phrase_gives_the_ten_development_accounts() {
    for (index, address) in (0..).zip(DEV_ACCOUNTS) {
        assert_eq!(LocalWallet::development(index).expect("a phrase").address(), address);
    }
}

#[test]
fn keys_are_read_strictly_and_never_shown() {
    let key = hex::encode(EXAMPLE_KEY);
    let wallet = LocalWallet::from_key(&secret(&key), "here").expect("a key");
    assert_eq!(LocalWallet::from_key(&secret(&format!(" 0x{key}\n")), "here").expect("a key").address(), wallet.address());
    let order = "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141";
    for bad in ["", "0x", &key[1..], &format!("{key}0"), &"0".repeat(64), order, &"z".repeat(64), "0x0x"] {
        let error = LocalWallet::from_key(&secret(bad), "the test").expect_err("no key");
        assert_eq!(error.code().id(), "wallet.bad_key");
        assert!(bad.len() < 10 || !format!("{error} {error:?}").contains(bad), "{error:?}");
    }
    let shown = format!("{wallet:?} {:?} {}", secret(&key), wallet.description());
    assert!(!shown.to_lowercase().contains(&key[..8]), "{shown}");
}

#[test]
fn phrases_and_paths_are_checked() {
    for bad in ["", "test test test", "test test test test test test test test test test test test", "not words at all"] {
        assert_eq!(code(LocalWallet::from_mnemonic(&secret(bad), None)), "wallet.bad_mnemonic", "{bad}");
    }
    assert_eq!(code(LocalWallet::from_mnemonic(&secret(DEV_MNEMONIC), Some("m/x"))), "wallet.bad_path");
}

#[test]
fn a_missing_variable_is_named() {
    let error = LocalWallet::from_env("TOOLCRIB_NO_SUCH_VARIABLE").expect_err("not set");
    assert_eq!(error.code().id(), "wallet.no_key");
    assert!(error.to_string().contains("TOOLCRIB_NO_SUCH_VARIABLE"));
}

#[test]
fn secrets_from_readers_are_bounded() {
    let read = |bytes: &[u8]| Secret::from_reader(bytes, "the test").map(|secret| secret.expose().to_owned());
    assert_eq!(read(b"word\r\n").expect("a text"), "word");
    assert_eq!(code(read(b"")), "wallet.no_key");
    assert_eq!(code(read(b"\n\n")), "wallet.no_key");
    assert_eq!(code(read(&[0xff, 0xfe])), "wallet.bad_key");
    assert_eq!(read(&[b'x'; 4_096]).expect("just fits").len(), 4_096);
    assert_eq!(code(read(&[b'x'; 4_097])), "wallet.bad_key");
}

#[cfg(target_os = "linux")]
#[test]
fn a_key_comes_through_a_file_descriptor() {
    use std::io::Write;
    use std::os::fd::AsRawFd;
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    writeln!(file, "{}", hex::encode(EXAMPLE_KEY)).expect("written");
    let open = std::fs::File::open(file.path()).expect("open");
    let wallet = LocalWallet::from_fd(u32::try_from(open.as_raw_fd()).expect("a number")).expect("a key");
    assert_eq!(wallet.address(), LocalWallet::from_bytes(&EXAMPLE_KEY, "").expect("a key").address());
    assert_eq!(code(LocalWallet::from_fd(9_999)), "wallet.no_key");
}

#[test]
fn keystores_of_the_standard_are_opened() {
    let (_folder, keystore) = keystore();
    std::fs::create_dir_all(keystore.folder()).expect("made");
    let expected = LocalWallet::from_bytes(&EXAMPLE_KEY, "").expect("a key").address();
    for (name, text) in [("pbkdf2", EXAMPLE_PBKDF2), ("scrypt", EXAMPLE_SCRYPT)] {
        std::fs::write(keystore.folder().join(name), text).expect("written");
        assert_eq!(keystore.open(name, &secret("testpassword")).expect("opens").address(), expected);
    }
    assert_eq!(code(keystore.open("pbkdf2", &secret("testpasswore"))), "wallet.wrong_password");
}

#[test]
fn a_new_keystore_opens_with_its_password_only() {
    let (_folder, keystore) = keystore();
    assert!(keystore.list().expect("empty").is_empty());
    let password = secret("correct horse");
    let made = keystore.create("main", &password, Cost::LIGHT).expect("made");
    let opened = keystore.open("main", &password).expect("opens");
    assert_eq!(opened.address(), made.address());
    assert_eq!(keystore.open(&made.address().to_string(), &password).expect("by address").address(), made.address());
    assert_eq!(code(keystore.open("main", &secret("wrong"))), "wallet.wrong_password");
    assert_eq!(code(keystore.open("other", &password)), "wallet.not_found");
    assert_eq!(code(keystore.open(&Address::ZERO.to_string(), &password)), "wallet.not_found");
    let before = std::fs::read(keystore.folder().join("main")).expect("there");
    assert_eq!(code(keystore.create("main", &password, Cost::LIGHT)), "wallet.exists");
    assert_eq!(std::fs::read(keystore.folder().join("main")).expect("there"), before, "nothing is overwritten");
    assert_eq!(code(keystore.create("second", &secret(""), Cost::LIGHT)), "wallet.weak_password");
    let entries = keystore.list().expect("listed");
    assert_eq!(entries, [KeystoreEntry { name: "main".to_owned(), address: Some(made.address()), is_readable_by_others: false }]);
    assert_eq!(std::fs::read_dir(keystore.folder()).expect("a folder").count(), 1, "no draft is left behind");
    assert!(!String::from_utf8(before).expect("text").contains(&hex::encode(&made.key_bytes()[..8])));
}

#[cfg(unix)]
#[test]
fn only_the_owner_can_read_a_keystore() {
    use std::os::unix::fs::PermissionsExt;
    let (_folder, keystore) = keystore();
    keystore.create("main", &secret("p"), Cost::LIGHT).expect("made");
    let path = keystore.folder().join("main");
    let mode = |path: &std::path::Path| std::fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(keystore.folder())), (0o600, 0o700));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("changed");
    assert!(keystore.list().expect("listed")[0].is_readable_by_others);
}

#[test]
fn names_cannot_leave_the_folder() {
    let (_folder, keystore) = keystore();
    for name in ["", ".", "..", "../x", "a/b", "/etc/passwd", ".hidden", "a b", "é", &"x".repeat(65)] {
        assert_eq!(code(keystore.create(name, &secret("p"), Cost::LIGHT)), "wallet.bad_name", "{name}");
        assert_eq!(code(keystore.open(name, &secret("p"))), "wallet.bad_name", "{name}");
    }
    assert_eq!(code(keystore.create(&"x".repeat(64), &secret("p"), Cost::LIGHT)), "ok");
}

#[test]
fn hostile_keystores_cost_nothing() {
    let (_folder, keystore) = keystore();
    std::fs::create_dir_all(keystore.folder()).expect("made");
    let check = |text: &str, expected: &str| {
        std::fs::write(keystore.folder().join("x"), text).expect("written");
        assert_eq!(code(keystore.open("x", &secret("testpassword"))), expected, "{text}");
    };
    let n = |n: &str| EXAMPLE_SCRYPT.replace("8192", n);
    check(&n("1099511627776"), "wallet.keystore_cost");
    check(&n("9223372036854775808"), "wallet.keystore_cost");
    check(&n("8193"), "wallet.keystore_malformed");
    check(&n("0"), "wallet.keystore_malformed");
    // RFC 7914 §6: n is below 2^(16 r). The keystore definition's example violates this with r = 1.
    check(&n("262144").replace("\"r\":8", "\"r\":1"), "wallet.keystore_malformed");
    check(&EXAMPLE_SCRYPT.replace("\"r\":8", "\"r\":4294967295"), "wallet.keystore_cost");
    check(&EXAMPLE_SCRYPT.replace("\"p\":2", "\"p\":4294967295"), "wallet.keystore_cost");
    check(&EXAMPLE_SCRYPT.replace("\"dklen\":32", "\"dklen\":4294967295"), "wallet.keystore_malformed");
    check(&EXAMPLE_PBKDF2.replace("262144", "4294967295"), "wallet.keystore_cost");
    check(&EXAMPLE_PBKDF2.replace("262144", "1"), "wallet.keystore_cost");
    check(&EXAMPLE_PBKDF2.replace("hmac-sha256", "hmac-sha1"), "wallet.keystore_malformed");
    check(&EXAMPLE_PBKDF2.replace("aes-128-ctr", "aes-128-cbc"), "wallet.keystore_malformed");
    check(&EXAMPLE_PBKDF2.replace("\"version\":3", "\"version\":1"), "wallet.keystore_malformed");
    check("{}", "wallet.keystore_malformed");
    check("", "wallet.keystore_malformed");
    check(&" ".repeat(70_000), "wallet.keystore_malformed");
    assert!(keystore.list().expect("listed").is_empty(), "what is no keystore is not listed");
}

#[test]
fn a_keystore_that_names_another_account_is_refused() {
    let (_folder, keystore) = keystore();
    let made = keystore.create("main", &secret("p"), Cost::LIGHT).expect("made");
    let path = keystore.folder().join("main");
    let text = std::fs::read_to_string(&path).expect("there").replace(&hex::encode(made.address()), &"ab".repeat(20));
    std::fs::write(&path, text).expect("written");
    assert_eq!(code(keystore.open("main", &secret("p"))), "wallet.keystore_address");
}

#[tokio::test]
async fn a_local_chain_with_a_public_number_takes_development_accounts_only() {
    let own = LocalWallet::from_bytes(&EXAMPLE_KEY, "own").expect("a key");
    let development = LocalWallet::development(3).expect("a phrase");
    let impersonated = Scope::impersonated(8453);
    assert_eq!(code(impersonated.clear(&own)), "wallet.dev_chain");
    for scope in [Scope::offline(8453), Scope::offline(31_337), Scope::impersonated(31_337), Scope::DOCUMENT] {
        assert_eq!(code(scope.clear(&own)), "ok");
    }
    for chain in [1, 8453, 84_532, 11_155_111, 1_337] {
        assert_eq!(code(Scope::offline(chain).clear(&development)), "wallet.published_key", "{chain}");
    }
    for scope in [Scope::offline(31_337), Scope::DOCUMENT] {
        assert_eq!(code(scope.clear(&development)), "ok");
    }
    let cleared = impersonated.clear(&development).expect("one of the ten");
    // Permission for one account does not permit another.
    let cleared_for_other = own.sign_digest(B256::ZERO, cleared).await;
    assert_eq!(code(cleared_for_other), "wallet.refused");
    let cleared = impersonated.clear(&development).expect("one of the ten");
    let signature = development.sign_message(b"hello", cleared).await.expect("signed");
    signature.check(eip191_hash_message(b"hello"), development.address()).expect("its own");
}

#[tokio::test]
async fn leave_for_one_chain_is_no_leave_for_another() {
    use crate::sign::AccessProof;
    let wallet = LocalWallet::from_bytes(&EXAMPLE_KEY, "own").expect("a key");
    let proof = AccessProof { tool_id: alloy_primitives::U256::from(1), account: wallet.address(), deadline: 1 };
    let data = proof.typed_data(&AccessProof::domain(8453, Address::ZERO));
    for (scope, expected) in [
        (Scope::offline(8453), "ok"),
        (Scope::offline(1), "wallet.refused"),
        (Scope::offline(31_337), "wallet.refused"),
        (Scope::DOCUMENT, "wallet.refused"),
    ] {
        let cleared = scope.clear(&wallet).expect("allowed");
        assert_eq!(code(wallet.sign_typed_data(&data, cleared).await), expected, "{scope:?}");
    }
    let mut absurd = data;
    absurd.domain.chain_id = Some(alloy_primitives::U256::MAX);
    let cleared = Scope::DOCUMENT.clear(&wallet).expect("allowed");
    assert_eq!(
        code(wallet.sign_typed_data(&absurd, cleared).await),
        "wallet.refused",
        "a number that no chain has is no document"
    );
}

#[test]
fn development_nodes_are_known_by_their_names() {
    #[track_caller]
    fn check(version: &str, is_loopback: bool, expected: ChainKind) {
        assert_eq!(Scope::from_version(version, is_loopback), expected, "{version}");
    }
    check("anvil/v1.7.1", false, ChainKind::Impersonated);
    check("hardhatnetwork/2.22", true, ChainKind::Impersonated);
    check("toolcrib-devchain/0.0.0", false, ChainKind::Impersonated);
    check("geth/v1.16.0-stable/linux-amd64/go1.24", true, ChainKind::Public);
    check("reth/v1.9.0", true, ChainKind::Public);
    check("", true, ChainKind::Impersonated);
    check("something/1", true, ChainKind::Impersonated);
    check("something/1", false, ChainKind::Public);
}
