//! Codes of secrets of local tools.

super::codes! {
    NOT_SET = "secret.not_set", Error, "Toolcrib local tools" {
        "a required secret is not set",
        "The tool declares a credential that it cannot work without, and no source has a value for it.",
        "run `toolcrib secret set TOOL NAME`",
    }
    BOUND_TO_OTHER = "secret.bound_to_other", Error, "Toolcrib local tools" {
        "the tool changed since its secret was entered",
        "A stored secret belongs to one content hash. A changed tool does not receive it, because the change may have been made to obtain it.",
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
        "The file holds at most 1,024 secrets and 16 MiB, so that reading it stays cheap.",
        "unset secrets of tools that are no longer installed",
    }
    CALL_TOO_LARGE = "secret.call_too_large", Error, "Toolcrib limits" {
        "the secrets of one call are too large",
        "Every secret that a call receives is searched for in its results in several encodings. Beyond 128 KiB this would take too much memory.",
        "store large material in a file that the tool may read, and only its key as a secret",
    }
    STORAGE = "secret.storage", Error, "Toolcrib local tools" {
        "the secret store cannot be read or written",
        "The operating system refused an operation. Secrets that were stored before are unchanged.",
        "free disk space or fix the permissions of the state folder, then try again",
    }
    BUSY = "secret.busy", Error, "Toolcrib local tools" {
        "another process holds the secret store",
        "Writes are made by one process at a time, and the other one has not finished within the time limit. Nothing was changed.",
        "try again; if it lasts, end the process that holds the lock",
    }
    EXPOSED = "secret.exposed", Error, "Toolcrib local tools" {
        "other users have access to a file of secrets",
        "A key or secret that other users of the machine can read or replace protects nothing. It is not used.",
        "run `chmod 600` on the file or `chmod 700` on the folder, check its owner, and replace the secrets in it",
    }
    NOT_A_FILE = "secret.not_a_file", Error, "Toolcrib local tools" {
        "a file of secrets is not a regular file",
        "Symbolic links, pipes, folders and devices are refused: what they lead to can be exchanged by others.",
        "name the file itself",
    }
    MALFORMED = "secret.malformed", Error, "Toolcrib local tools" {
        "a file of secrets cannot be read",
        "The file is truncated, damaged or written by another version. Nothing is guessed from it and nothing is overwritten.",
        "restore the file from a backup, or move it away and set the secrets again",
    }
    TAMPERED = "secret.tampered", Error, "Toolcrib local tools" {
        "a stored secret is not authentic",
        "The value was changed, or moved to another tool, name or content hash. It is not used.",
        "set the secret again, and find out what changed the file",
    }
    KEY_MISSING = "secret.key_missing", Error, "Toolcrib local tools" {
        "the key of the stored secrets is missing",
        "Secrets are stored, but the key that encrypts them is gone. A new key would not open them.",
        "restore the key file, or move both files away and set the secrets again",
    }
    KEY_OTHER = "secret.key_other", Error, "Toolcrib local tools" {
        "the key does not belong to the stored secrets",
        "The file names the key that encrypts it, and the key that was found is another one.",
        "restore the key file that belongs to the secrets",
    }
    PASSPHRASE_REQUIRED = "secret.passphrase_required", Error, "Toolcrib local tools" {
        "the secret store is locked with a passphrase",
        "The key file holds the key only in encrypted form.",
        "give the passphrase",
    }
    PASSPHRASE_WRONG = "secret.passphrase_wrong", Error, "Toolcrib local tools" {
        "the passphrase does not open the secret store",
        "The passphrase is wrong, or the key file is damaged.",
        "try again",
    }
    PASSPHRASE_UNUSED = "secret.passphrase_unused", Error, "Toolcrib local tools" {
        "the secret store has no passphrase",
        "A passphrase was given, but the key file is not protected by one. Accepting any passphrase would suggest a protection that does not exist.",
        "leave the passphrase out, or set one first",
    }
    PASSPHRASE_WEAK = "secret.passphrase_weak", Error, "Toolcrib local tools" {
        "the passphrase is too short",
        "An attacker who has the file can try passphrases at the speed of their machines.",
        "choose at least 12 characters, such as four words",
    }
    KEY_COST = "secret.key_cost", Error, "Toolcrib limits" {
        "the key file asks for too much or too little work",
        "The cost of deriving the key is written in the key file. A damaged file could ask for all memory.",
        "restore the key file from a backup",
    }
    KEYCHAIN_UNSUPPORTED = "secret.keychain_unsupported", Error, "Toolcrib local tools" {
        "this program was built without a keychain",
        "The key of the stored secrets is in the keychain of the operating system, and this program cannot ask it. No second key is made beside it.",
        "build Toolcrib with `--features keychain`, or run `toolcrib secret key --to file` with a program that has it",
    }
    KEYCHAIN_UNAVAILABLE = "secret.keychain_unavailable", Error, "Toolcrib local tools" {
        "the keychain cannot be used",
        "The Secret Service of the session did not answer, or refused. The key of the stored secrets is there, so nothing is read or written without it.",
        "run it in a session with a Secret Service such as GNOME Keyring and with DBUS_SESSION_BUS_ADDRESS set, or move the key there with `toolcrib secret key --to file`",
    }
    KEYCHAIN_LOCKED = "secret.keychain_locked", Error, "Toolcrib local tools" {
        "the keychain is locked",
        "The key of the stored secrets is in a collection that its owner has to unlock. Toolcrib does not ask for the password of a keychain.",
        "unlock the keychain, by logging in to the desktop or with its own program, then try again",
    }
}
