//! Codes of secrets of local tools.

super::codes! {
    NOT_SET = "secret.not_set", Error, "Toolcrib local tools" {
        "a required secret is not set",
        "The tool declares a required credential, and no source has a value for it.",
        "run `toolcrib secret set TOOL NAME`",
    }
    BOUND_TO_OTHER = "secret.bound_to_other", Error, "Toolcrib local tools" {
        "the tool changed since its secret was entered",
        "A stored secret is bound to one content hash. A changed tool does not receive it, because the change may have been made to steal it.",
        "review the change, then approve the tool again or set the secret again",
    }
    NAME = "secret.name", Error, "Toolcrib local tools" {
        "the tool or credential name is not valid",
        "Names of tools and credentials have 1 to 64 letters, digits, `_` and `-`, with a letter or digit first.",
        "use the names in the tool's manifest",
    }
    VALUE = "secret.value", Error, "Toolcrib limits" {
        "the secret value cannot be stored",
        "A value is text of 1 to 65,536 bytes without NUL. The value is not shown.",
        "check that the whole value was copied, without a file around it",
    }
    TOO_MANY = "secret.too_many", Error, "Toolcrib limits" {
        "too many secrets are stored",
        "The file holds at most 1,024 secrets and 16 MiB, so that reading it is fast.",
        "unset secrets of tools that are no longer installed",
    }
    CALL_TOO_LARGE = "secret.call_too_large", Error, "Toolcrib limits" {
        "the secrets of one call are too large",
        "The results of a call are searched for every secret that it receives, in several encodings. With more than 128 KiB of secrets this would use too much memory.",
        "store large data in a file that the tool may read, and only its key as a secret",
    }
    STORAGE = "secret.storage", Error, "Toolcrib local tools" {
        "the secret store cannot be read or written",
        "The operating system refused an operation. Secrets that were stored before are unchanged.",
        "free disk space or fix the permissions of the state folder, then try again",
    }
    BUSY = "secret.busy", Error, "Toolcrib local tools" {
        "another process holds the lock of the secret store",
        "One process at a time writes, and the other one did not release the lock within the time limit. Nothing was changed.",
        "try again; if it persists, end the process that holds the lock",
    }
    EXPOSED = "secret.exposed", Error, "Toolcrib local tools" {
        "other users have access to a file of secrets",
        "A key or secret that other users of the machine can read or replace is not safe, so it is not used.",
        "run `chmod 600` on the file or `chmod 700` on the folder, check its owner, and replace the secrets in it",
    }
    NOT_A_FILE = "secret.not_a_file", Error, "Toolcrib local tools" {
        "a file of secrets is not a regular file",
        "Symbolic links, pipes, folders and devices are refused, because other users could exchange their target.",
        "name the file itself",
    }
    MALFORMED = "secret.malformed", Error, "Toolcrib local tools" {
        "a file of secrets cannot be read",
        "The file is truncated, damaged or written by another version. It is neither read partially nor overwritten.",
        "restore the file from a backup, or move it away and set the secrets again",
    }
    TAMPERED = "secret.tampered", Error, "Toolcrib local tools" {
        "a stored secret is not authentic",
        "The value was changed, or moved to another tool, name or content hash. It is not used.",
        "set the secret again, and find out what changed the file",
    }
    KEY_MISSING = "secret.key_missing", Error, "Toolcrib local tools" {
        "the key of the stored secrets is missing",
        "Secrets are stored, but their encryption key is missing. A new key could not decrypt them.",
        "restore the key file, or move both files away and set the secrets again",
    }
    KEY_OTHER = "secret.key_other", Error, "Toolcrib local tools" {
        "the key does not belong to the stored secrets",
        "The file contains the id of its encryption key, and the available key has another id.",
        "restore the key file that belongs to the secrets",
    }
    PASSPHRASE_REQUIRED = "secret.passphrase_required", Error, "Toolcrib local tools" {
        "the secret store is locked with a passphrase",
        "The key file holds the key only in encrypted form.",
        "enter the passphrase",
    }
    PASSPHRASE_WRONG = "secret.passphrase_wrong", Error, "Toolcrib local tools" {
        "the passphrase does not open the secret store",
        "The passphrase is wrong, or the key file is damaged.",
        "try again",
    }
    PASSPHRASE_UNUSED = "secret.passphrase_unused", Error, "Toolcrib local tools" {
        "the secret store has no passphrase",
        "A passphrase was given, but the key file is not protected by one. Accepting any passphrase would suggest a protection that does not exist.",
        "omit the passphrase, or set one first",
    }
    PASSPHRASE_WEAK = "secret.passphrase_weak", Error, "Toolcrib local tools" {
        "the passphrase is too short",
        "An attacker who has the file can try passphrases offline.",
        "choose at least 12 characters, such as four words",
    }
    KEY_COST = "secret.key_cost", Error, "Toolcrib limits" {
        "the key derivation cost in the key file is out of range",
        "The key file contains the cost of deriving the key. A damaged file could exhaust memory.",
        "restore the key file from a backup",
    }
    KEYCHAIN_UNSUPPORTED = "secret.keychain_unsupported", Error, "Toolcrib local tools" {
        "this program was built without keychain support",
        "The key of the stored secrets is in the operating system's keychain, which this program cannot access. It does not create a second key.",
        "build Toolcrib with `--features keychain`, or run `toolcrib secret key --to file` with a program that has this feature",
    }
    KEYCHAIN_UNAVAILABLE = "secret.keychain_unavailable", Error, "Toolcrib local tools" {
        "the keychain cannot be used",
        "The session's Secret Service did not answer, or refused. It holds the key of the stored secrets, so they can be neither read nor written.",
        "run the command in a session with a Secret Service such as GNOME Keyring and with DBUS_SESSION_BUS_ADDRESS set; in such a session you can also move the key to a file with `toolcrib secret key --to file`",
    }
    KEYCHAIN_LOCKED = "secret.keychain_locked", Error, "Toolcrib local tools" {
        "the keychain is locked",
        "The key of the stored secrets is in a locked collection. Toolcrib does not ask for keychain passwords.",
        "unlock the keychain by logging in to the desktop or with the keychain program, then try again",
    }
}
