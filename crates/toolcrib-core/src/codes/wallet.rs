//! Codes of wallets: keys, keystore files and what may be signed.

super::codes! {
    NO_KEY = "wallet.no_key", Error, "Toolcrib wallets" {
        "no key is there",
        "The environment variable, file descriptor or file that should hold the key is missing or empty. Keys are never taken from the command line, where every process can read them.",
        "set the variable, or choose another wallet",
    }
    BAD_KEY = "wallet.bad_key", Error, "Toolcrib wallets" {
        "the key cannot be used",
        "A private key is 64 hexadecimal digits, with or without 0x, not zero, and below the order of the curve. The value is not shown.",
        "check that the whole key was copied",
    }
    BAD_MNEMONIC = "wallet.bad_mnemonic", Error, "BIP-39" {
        "the recovery phrase cannot be used",
        "A phrase has 12, 15, 18, 21 or 24 words of the English list, and its last word carries a checksum. The phrase is not shown.",
        "check the spelling and the order of the words",
    }
    BAD_PATH = "wallet.bad_path", Error, "BIP-32" {
        "the derivation path cannot be used",
        "A path looks like m/44'/60'/0'/0/0.",
        "leave the path out to use the usual one",
    }
    KEYSTORE_MALFORMED = "wallet.keystore_malformed", Error, "Web3 Secret Storage V3" {
        "the keystore file cannot be read",
        "The file is not version 3 of the Web3 secret storage: JSON with a cipher, a key derivation and a checksum.",
        "check that the file is a keystore file",
    }
    KEYSTORE_COST = "wallet.keystore_cost", Error, "Toolcrib limits" {
        "the keystore asks for too much or too little work",
        "The cost of deriving the key is written in the file itself. A hostile file could ask for all memory, and a weak one is opened by guessing.",
        "export the key again with usual settings",
    }
    WRONG_PASSWORD = "wallet.wrong_password", Error, "Web3 Secret Storage V3" {
        "the password does not open the keystore",
        "The checksum over the encrypted key does not match. The password is wrong, or the file is damaged.",
        "try again",
    }
    WEAK_PASSWORD = "wallet.weak_password", Error, "Toolcrib wallets" {
        "the password is too short",
        "An attacker who has the file can try passwords as fast as machines can. An empty one is never taken, and one of fewer than 12 characters only on request.",
        "choose a longer password, such as four words; --allow-weak-password takes a short one",
    }
    KEYSTORE_ADDRESS = "wallet.keystore_address", Error, "Web3 Secret Storage V3" {
        "the keystore names another account than its key",
        "The file's address field differs from the address of the key inside. Somebody changed the file.",
        "do not use the file",
    }
    EXISTS = "wallet.exists", Error, "Toolcrib wallets" {
        "a wallet with this name or account is already there",
        "Keystores are never overwritten: a replaced file is a lost key.",
        "choose another name, or move the old file away yourself",
    }
    NOT_FOUND = "wallet.not_found", Error, "Toolcrib wallets" {
        "there is no such wallet",
        "No keystore in the folder has this name or address.",
        "run `toolcrib wallet list`",
    }
    BAD_NAME = "wallet.bad_name", Error, "Toolcrib wallets" {
        "the wallet's name cannot be used",
        "Names become file names: 1 to 64 letters, digits, dots, dashes and underscores, not beginning with a dot.",
        "choose a plain name",
    }
    IO = "wallet.io", Error, "Toolcrib wallets" {
        "the keystore folder or file could not be used",
        "The operating system refused. What was there before is unchanged.",
        "check the permissions and the free space",
    }
    READABLE_BY_OTHERS = "wallet.readable_by_others", Warning, "Toolcrib wallets" {
        "other users of this machine can read the keystore",
        "The file is encrypted, but whoever can read it can try passwords at leisure.",
        "run chmod 600 on the file",
    }
    DEV_CHAIN = "wallet.dev_chain", Error, "Toolcrib development chain" {
        "only the ten development accounts may sign on a local chain with a public number",
        "A signature made there is valid on the real chain of that number too. The keys of the development accounts are known to everybody and hold nothing.",
        "use a development account, or give the local chain the number 31337",
    }
    PUBLISHED_KEY = "wallet.published_key", Error, "Toolcrib wallets" {
        "the ten development accounts do not sign on public networks",
        "Their keys are published. Programs watch these accounts on every public network and take what arrives there, and a tool that one of them registers belongs to everybody.",
        "use a wallet of your own, or a local development chain",
    }
    REFUSED = "wallet.refused", Error, "Toolcrib wallets" {
        "the wallet did not sign",
        "The wallet refused, is locked, or cannot sign this kind of data.",
        "look at the wallet; its own words are in the message",
    }
}
