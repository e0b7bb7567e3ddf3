//! Codes of wallets: keys, keystore files and what may be signed.

super::codes! {
    NO_KEY = "wallet.no_key", Error, "Toolcrib wallets" {
        "the key is missing",
        "The environment variable, file descriptor or file for the key is missing or empty. Keys are never read from the command line, which other processes can see.",
        "set the variable, or choose another wallet",
    }
    BAD_KEY = "wallet.bad_key", Error, "Toolcrib wallets" {
        "the key is not valid",
        "A private key is 64 hexadecimal digits, with or without 0x, not zero, and below the order of the curve. The value is not shown.",
        "check that the whole key was copied",
    }
    BAD_MNEMONIC = "wallet.bad_mnemonic", Error, "BIP-39" {
        "the recovery phrase is not valid",
        "A phrase has 12, 15, 18, 21 or 24 words of the English list, and its last word contains a checksum. The phrase is not shown.",
        "check the spelling and the order of the words",
    }
    BAD_PATH = "wallet.bad_path", Error, "BIP-32" {
        "the derivation path is not valid",
        "A path has the form m/44'/60'/0'/0/0.",
        "omit the path to use the default",
    }
    KEYSTORE_MALFORMED = "wallet.keystore_malformed", Error, "Web3 Secret Storage V3" {
        "the keystore file is not valid",
        "The file is not Web3 Secret Storage version 3: JSON with a cipher, a key derivation function and a MAC.",
        "check that the file is a keystore file",
    }
    KEYSTORE_COST = "wallet.keystore_cost", Error, "Toolcrib limits" {
        "the key derivation cost in the keystore is out of range",
        "The file itself contains the cost of deriving the key. A hostile file could exhaust memory, and with a low cost the password can be guessed.",
        "export the key again with default settings",
    }
    WRONG_PASSWORD = "wallet.wrong_password", Error, "Web3 Secret Storage V3" {
        "the password does not open the keystore",
        "The MAC of the encrypted key does not match. The password is wrong, or the file is damaged.",
        "try again",
    }
    WEAK_PASSWORD = "wallet.weak_password", Error, "Toolcrib wallets" {
        "the password is too short",
        "An attacker who has the file can try passwords offline. An empty password is never accepted, and one of fewer than 12 characters only with --allow-weak-password.",
        "choose a longer password, such as four words; --allow-weak-password accepts a short one",
    }
    KEYSTORE_ADDRESS = "wallet.keystore_address", Error, "Web3 Secret Storage V3" {
        "the address in the keystore does not match its key",
        "The address field differs from the address of the encrypted key. The file was changed.",
        "do not use the file",
    }
    EXISTS = "wallet.exists", Error, "Toolcrib wallets" {
        "a wallet with this name or account already exists",
        "Keystores are never overwritten, because the replaced key would be lost.",
        "choose another name, or move the existing file away",
    }
    NOT_FOUND = "wallet.not_found", Error, "Toolcrib wallets" {
        "the wallet does not exist",
        "No keystore in the folder has this name or address.",
        "run `toolcrib wallet list`",
    }
    BAD_NAME = "wallet.bad_name", Error, "Toolcrib wallets" {
        "the wallet's name is not valid",
        "Names become file names: 1 to 64 letters, digits, dots, dashes and underscores, not beginning with a dot.",
        "choose a name of letters and digits",
    }
    IO = "wallet.io", Error, "Toolcrib wallets" {
        "the keystore folder or file cannot be read or written",
        "The operating system refused an operation. Existing files are unchanged.",
        "check the permissions and the free space",
    }
    READABLE_BY_OTHERS = "wallet.readable_by_others", Warning, "Toolcrib wallets" {
        "other users of this machine can read the keystore",
        "The file is encrypted, but users who can read it can try passwords offline.",
        "run `chmod 600` on the file",
    }
    DEV_CHAIN = "wallet.dev_chain", Error, "Toolcrib development chain" {
        "only the ten development accounts may sign on a local chain with a public chain id",
        "Signatures made there are also valid on the public chain with that id. The keys of the development accounts are public and hold no funds.",
        "use a development account, or set the chain id of the local chain to 31337",
    }
    PUBLISHED_KEY = "wallet.published_key", Error, "Toolcrib wallets" {
        "the ten development accounts do not sign on public networks",
        "Their private keys are public. Bots monitor these accounts on every public network and take incoming funds, and anyone can change a tool that one of them registers.",
        "use your own wallet, or a local development chain",
    }
    REFUSED = "wallet.refused", Error, "Toolcrib wallets" {
        "the wallet did not sign",
        "The wallet refused, is locked, or cannot sign this kind of data.",
        "check the wallet; the message contains its error",
    }
}
