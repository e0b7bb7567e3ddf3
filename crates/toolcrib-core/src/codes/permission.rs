//! Codes of permissions of local tools.

super::codes! {
    REQUIRED = "permission.required", Error, "Toolcrib local tools" {
        "the call needs an approval",
        "No rule allows this function with these arguments, so a person must decide.",
        "approve the call, or run `toolcrib permit set TOOL allow --function FUNCTION`",
    }
    DENIED = "permission.denied", Error, "Toolcrib local tools" {
        "a rule denies the call",
        "A deny rule matches the function and its arguments. Deny rules override all others.",
        "list the rules with `toolcrib permit list`, and revoke the wrong one",
    }
    CONTENT_CHANGED = "permission.content_changed", Error, "Toolcrib local tools" {
        "the tool changed since it was approved",
        "An approval is bound to one content hash. It is not valid for a tool whose manifest or handler changed.",
        "review the change, then approve the tool again",
    }
    HEADLESS = "permission.headless", Error, "Toolcrib local tools" {
        "the call needs an approval, but no user is present",
        "Without a user, every call is denied unless a stored approval or the policy file allows it.",
        "approve the function in advance with `toolcrib permit set TOOL allow --function FUNCTION`, or add a rule to the policy file",
    }
    RULE_INVALID = "permission.rule_invalid", Error, "Toolcrib local tools" {
        "the permission rule is not valid",
        "A rule names a tool, a decision, and argument patterns of a known kind within the limits.",
        "fix what the message names",
    }
    RULE_NOT_FOUND = "permission.rule_not_found", Error, "Toolcrib local tools" {
        "the permission rule does not exist",
        "The rule was revoked, used up or has expired.",
        "list the rules with `toolcrib permit list`",
    }
    RULE_READ_ONLY = "permission.rule_read_only", Error, "Toolcrib local tools" {
        "the permission rule comes from the policy file",
        "The policy file belongs to the operator and is never written.",
        "edit the policy file",
    }
    TOO_MANY = "permission.too_many", Error, "Toolcrib limits" {
        "too many permission rules are stored",
        "Every call is compared with every rule of its tool, so at most 4,096 rules in 16 MiB are stored.",
        "revoke rules of tools that are no longer installed",
    }
    POLICY = "permission.policy", Error, "Toolcrib local tools" {
        "the policy file is not valid",
        "A policy file with an error is refused as a whole: a rule that is silently ignored could be a deny rule.",
        "fix what the message names",
    }
    STORAGE = "permission.storage", Error, "Toolcrib local tools" {
        "the permissions cannot be read or written",
        "The operating system refused an operation. Permissions that were stored before are unchanged.",
        "free disk space or fix the permissions of the state folder, then try again",
    }
    BUSY = "permission.busy", Error, "Toolcrib local tools" {
        "another process holds the lock of the permissions",
        "One process at a time writes, and the other one did not release the lock within the time limit. Nothing was changed.",
        "try again; if it persists, end the process that holds the lock",
    }
    EXPOSED = "permission.exposed", Error, "Toolcrib local tools" {
        "other users can change the permissions",
        "A user who can write the file can allow any call, so it is not used.",
        "run `chmod 600` on the file or `chmod 700` on the folder, check its owner, and review its content",
    }
    MALFORMED = "permission.malformed", Error, "Toolcrib local tools" {
        "the permissions file cannot be read",
        "The file is truncated, damaged or written by another version. Every call is denied until it is fixed, because it may hold deny rules.",
        "restore the file from a backup, or remove it and approve again",
    }
}
