//! Encrypted key files: version 3 of the Web3 Secret Storage, which geth, foundry and most wallets read.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use aes::cipher::{KeyIvInit, StreamCipher};
use alloy_primitives::{Address, hex, keccak256};
use hmac::Hmac;
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use toolcrib_files::{AtomicFile, create_private_folder};
use zeroize::Zeroizing;

use super::{LocalWallet, Secret, Wallet, WalletError};

/// Maximum size of a keystore file. Real ones have 500 bytes.
const MAX_FILE_BYTES: u64 = 65_536;

/// Maximum memory that a file may request for scrypt: 128 bytes times n times r. Twice the usual 256 MiB.
const MAX_SCRYPT_BYTES: u64 = 512 << 20;

/// Maximum work that a file may request for scrypt, as n times r times p. Eight times the usual.
const MAX_SCRYPT_WORK: u64 = 8 << 21;

/// Maximum number of PBKDF2 rounds that a file may request. Forty times the usual.
const MAX_PBKDF2_ROUNDS: u32 = 10_000_000;

/// Minimum number of PBKDF2 rounds. Fewer protect nothing.
const MIN_PBKDF2_ROUNDS: u32 = 1_000;

/// A folder of key files.
#[derive(Clone, Debug)]
pub struct Keystore {
    folder: PathBuf,
}

/// A key file without its decrypted key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeystoreEntry {
    /// The name of the file.
    pub name: String,
    /// The account in the file. Not verified until the file is opened.
    pub address: Option<Address>,
    /// Whether other users of the computer can read the file.
    pub is_readable_by_others: bool,
}

/// The key derivation's work factor: scrypt with r = 8 and p = 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    log_n: u8,
}

impl Cost {
    /// 256 MiB and about a second: what geth uses.
    pub const STANDARD: Self = Self { log_n: 18 };

    /// 4 MiB and a few milliseconds. For keys that protect nothing.
    pub const LIGHT: Self = Self { log_n: 12 };
}

impl Keystore {
    /// Key files in this folder, which need not exist yet.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Generates a new key and writes it encrypted.
    pub fn create(&self, name: &str, password: &Secret, cost: Cost) -> Result<LocalWallet, WalletError> {
        self.import(name, LocalWallet::random()?, password, cost)
    }

    /// Checks that a wallet with this name can be created: the name is valid and not in use.
    pub fn check_new(&self, name: &str) -> Result<(), WalletError> {
        match fs::symlink_metadata(self.path(name)?) {
            Ok(_) => Err(WalletError::Exists { name: name.to_owned() }),
            Err(_) => Ok(()),
        }
    }

    /// The address in a wallet's file, without opening it; `None` if the file has none. Opening compares it with the key.
    pub fn address_of(&self, name: &str) -> Result<Option<Address>, WalletError> {
        let missing = || WalletError::NotFound { name: name.to_owned() };
        let stated = name.parse::<Address>().ok();
        let is_meant = |entry: &KeystoreEntry| entry.name == name || (stated.is_some() && entry.address == stated);
        Ok(self.list()?.into_iter().find(is_meant).ok_or_else(missing)?.address)
    }

    /// Writes an existing key encrypted.
    pub fn import(&self, name: &str, wallet: LocalWallet, password: &Secret, cost: Cost) -> Result<LocalWallet, WalletError> {
        let path = self.path(name)?;
        if password.expose().is_empty() {
            return Err(WalletError::WeakPassword);
        }
        self.check_new(name)?;
        let text = seal(&wallet, password, cost)?;
        self.write_new(&path, name, text.as_bytes())?;
        Ok(wallet.described(format!("keystore {name}")))
    }

    /// The keystore files of the folder, by name.
    pub fn list(&self) -> Result<Vec<KeystoreEntry>, WalletError> {
        let folder = match fs::read_dir(&self.folder) {
            Ok(folder) => folder,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let mut entries = Vec::new();
        for file in folder {
            let file = file?;
            let Ok(name) = file.file_name().into_string() else { continue };
            // Skip files that cannot be read or are not keystores.
            if check_name(&name).is_err() || !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
                continue;
            }
            let Ok(envelope) = read(&file.path(), &name) else { continue };
            entries.push(KeystoreEntry {
                name,
                address: envelope.stated(),
                is_readable_by_others: is_readable_by_others(&file.path()),
            });
        }
        entries.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(entries)
    }

    /// Opens a file by its name, or by the address in it.
    pub fn open(&self, name: &str, password: &Secret) -> Result<LocalWallet, WalletError> {
        let name = match name.parse::<Address>() {
            Ok(address) => {
                let found = self.list()?.into_iter().find(|entry| entry.address == Some(address));
                found.map(|entry| entry.name).ok_or_else(|| WalletError::NotFound { name: name.to_owned() })?
            }
            Err(_) => name.to_owned(),
        };
        let envelope = read(&self.path(&name)?, &name)?;
        envelope.open(&name, password)
    }

    fn path(&self, name: &str) -> Result<PathBuf, WalletError> {
        check_name(name)?;
        Ok(self.folder.join(name))
    }

    /// Writes a file that only its owner can read, atomically, without overwriting another one.
    fn write_new(&self, path: &Path, name: &str, bytes: &[u8]) -> Result<(), WalletError> {
        create_private_folder(&self.folder)?;
        AtomicFile::new(path).create(bytes).map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => WalletError::Exists { name: name.to_owned() },
            _ => error.into(),
        })
    }
}

/// The file's JSON, with field names as in the standard.
#[derive(Deserialize, Serialize)]
struct Envelope {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    #[serde(alias = "Crypto")]
    crypto: Crypto,
    #[serde(default)]
    id: Option<String>,
    version: u32,
}

#[derive(Deserialize, Serialize)]
struct Crypto {
    cipher: String,
    cipherparams: CipherParams,
    ciphertext: String,
    #[serde(flatten)]
    kdf: Kdf,
    mac: String,
}

#[derive(Deserialize, Serialize)]
struct CipherParams {
    iv: String,
}

#[derive(Deserialize, Serialize)]
#[serde(tag = "kdf", content = "kdfparams", rename_all = "lowercase")]
enum Kdf {
    Scrypt { dklen: u32, n: u64, p: u32, r: u32, salt: String },
    Pbkdf2 { c: u32, dklen: u32, prf: String, salt: String },
}

impl Envelope {
    fn stated(&self) -> Option<Address> {
        let text = self.address.as_deref()?;
        let digits = text.strip_prefix("0x").unwrap_or(text);
        let mut bytes = [0; 20];
        hex::decode_to_slice(digits, &mut bytes).ok()?;
        Some(bytes.into())
    }

    fn open(&self, name: &str, password: &Secret) -> Result<LocalWallet, WalletError> {
        let malformed = |reason| WalletError::KeystoreMalformed { name: name.to_owned(), reason };
        if self.version != 3 {
            return Err(malformed("it is not of version 3"));
        }
        if self.crypto.cipher != "aes-128-ctr" {
            return Err(malformed("its cipher is not aes-128-ctr"));
        }
        let iv: [u8; 16] = decode(&self.crypto.cipherparams.iv).ok_or_else(|| malformed("its IV is not 16 bytes"))?;
        let ciphertext: [u8; 32] = decode(&self.crypto.ciphertext).ok_or_else(|| malformed("its key is not 32 bytes"))?;
        let mac: [u8; 32] = decode(&self.crypto.mac).ok_or_else(|| malformed("its MAC is not 32 bytes"))?;
        let derived = self.crypto.kdf.derive(name, password)?;
        if keccak256([&derived[16..], &ciphertext].concat()) != mac {
            return Err(WalletError::WrongPassword { name: name.to_owned() });
        }
        let mut key = Zeroizing::new(ciphertext);
        apply(&derived, &iv, &mut key);
        let wallet = LocalWallet::from_bytes(&key, &format!("keystore {name}"))?;
        match self.stated() {
            Some(stated) if stated != wallet.address() => {
                Err(WalletError::KeystoreAddress { name: name.to_owned(), stated, actual: wallet.address() })
            }
            _ => Ok(wallet),
        }
    }
}

impl Kdf {
    fn derive(&self, name: &str, password: &Secret) -> Result<Zeroizing<[u8; 32]>, WalletError> {
        let cost = |what| WalletError::KeystoreCost { name: name.to_owned(), what };
        let malformed = |reason| WalletError::KeystoreMalformed { name: name.to_owned(), reason };
        let mut derived = Zeroizing::new([0; 32]);
        let (Self::Scrypt { dklen, salt, .. } | Self::Pbkdf2 { dklen, salt, .. }) = self;
        if *dklen != 32 {
            return Err(malformed("its derived key is not 32 bytes"));
        }
        let salt = hex::decode(salt).map_err(|_| malformed("its salt is not hexadecimal"))?;
        match self {
            Self::Scrypt { n, p, r, .. } => {
                let (r64, p64) = (u64::from(*r), u64::from(*p));
                if !n.is_power_of_two() || *n < 2 || r64 == 0 || p64 == 0 {
                    return Err(malformed("its scrypt parameters are invalid"));
                }
                let memory = n.checked_mul(r64).and_then(|product| product.checked_mul(128));
                let work = n.checked_mul(r64).and_then(|product| product.checked_mul(p64));
                if memory.is_none_or(|memory| memory > MAX_SCRYPT_BYTES) || work.is_none_or(|work| work > MAX_SCRYPT_WORK) {
                    return Err(cost("more memory or time than a keystore needs"));
                }
                let params = scrypt::Params::new(n.trailing_zeros() as u8, *r, *p, 32)
                    .map_err(|_| malformed("its scrypt parameters are invalid"))?;
                scrypt::scrypt(password.expose().as_bytes(), &salt, &params, &mut derived[..])
                    .map_err(|_| malformed("its scrypt parameters are invalid"))?;
            }
            Self::Pbkdf2 { c, prf, .. } => {
                if prf != "hmac-sha256" {
                    return Err(malformed("its pseudo-random function is not hmac-sha256"));
                }
                if *c > MAX_PBKDF2_ROUNDS {
                    return Err(cost("more time than a keystore needs"));
                }
                if *c < MIN_PBKDF2_ROUNDS {
                    return Err(cost("so little work that the password can be guessed"));
                }
                pbkdf2::pbkdf2::<Hmac<Sha256>>(password.expose().as_bytes(), &salt, *c, &mut derived[..])
                    .map_err(|_| malformed("its parameters are invalid"))?;
            }
        }
        Ok(derived)
    }
}

/// Encrypts a key and returns the text of its file.
fn seal(wallet: &LocalWallet, password: &Secret, cost: Cost) -> Result<String, WalletError> {
    let mut random = [0_u8; 64];
    getrandom::fill(&mut random)
        .map_err(|_| WalletError::NoKey { place: "the operating system returned no random bytes".to_owned() })?;
    let (salt, rest) = random.split_at(32);
    let (iv, id) = rest.split_at(16);
    let kdf = Kdf::Scrypt { dklen: 32, n: 1 << cost.log_n, p: 1, r: 8, salt: hex::encode(salt) };
    let derived = kdf.derive("new", password)?;
    let mut ciphertext = wallet.key_bytes();
    let mut nonce = [0; 16];
    nonce.copy_from_slice(iv);
    apply(&derived, &nonce, &mut ciphertext);
    let envelope = Envelope {
        address: Some(hex::encode(wallet.address())),
        crypto: Crypto {
            cipher: "aes-128-ctr".to_owned(),
            cipherparams: CipherParams { iv: hex::encode(iv) },
            ciphertext: hex::encode(&ciphertext[..]),
            kdf,
            mac: hex::encode(keccak256([&derived[16..], &ciphertext[..]].concat())),
        },
        id: Some(uuid(id)),
        version: 3,
    };
    serde_json::to_string_pretty(&envelope).map_err(|error| WalletError::Io { source: error.into() })
}

/// Encrypts or decrypts (AES-CTR), which is the same operation.
fn apply(derived: &[u8; 32], iv: &[u8; 16], key: &mut [u8; 32]) {
    let mut half = Zeroizing::new([0_u8; 16]);
    half.copy_from_slice(&derived[..16]);
    ctr::Ctr128BE::<aes::Aes128>::new((&*half).into(), iv.into()).apply_keystream(key);
}

/// Sixteen random bytes as a version 4 UUID.
fn uuid(bytes: &[u8]) -> String {
    let mut id = [0_u8; 16];
    id.copy_from_slice(bytes);
    id[6] = id[6] & 0x0f | 0x40;
    id[8] = id[8] & 0x3f | 0x80;
    let digits = hex::encode(id);
    format!("{}-{}-{}-{}-{}", &digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..])
}

fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    hex::decode_to_slice(text, &mut bytes).ok()?;
    Some(bytes)
}

fn read(path: &Path, name: &str) -> Result<Envelope, WalletError> {
    let file = File::open(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => WalletError::NotFound { name: name.to_owned() },
        _ => error.into(),
    })?;
    let mut text = String::new();
    let malformed = |reason| WalletError::KeystoreMalformed { name: name.to_owned(), reason };
    if file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text).map_err(|_| malformed("it is not text"))? as u64 > MAX_FILE_BYTES {
        return Err(malformed("it is too large"));
    }
    serde_json::from_str(&text).map_err(|_| malformed("it is not the JSON of a keystore"))
}

fn check_name(name: &str) -> Result<(), WalletError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    if (1..=64).contains(&name.len()) && !name.starts_with('.') && name.bytes().all(is_plain) {
        Ok(())
    } else {
        Err(WalletError::BadName)
    }
}

#[cfg(unix)]
fn is_readable_by_others(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0)
}

#[cfg(not(unix))]
fn is_readable_by_others(_: &Path) -> bool {
    false
}
