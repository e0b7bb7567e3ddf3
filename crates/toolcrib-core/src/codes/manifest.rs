//! Codes shared by the manifest kinds.

super::codes! {
    NOT_AN_OBJECT = "manifest.not_an_object", Error, check 3, "ERC-8257 §2; .agt §2; local manifest" {
        "the document is not a JSON object",
        "A manifest of every kind is one JSON object. An array, a string or null cannot be one.",
        "wrap the fields in one pair of braces",
    }
    FIELD_MISSING = "manifest.field_missing", Error, "ERC-8257 §2; .agt §2; local manifest" {
        "a required field is missing",
        "Readers refuse a manifest that lacks a required field; they do not fill it in.",
        "add the field; `toolcrib new` writes a complete starting file",
    }
    WRONG_TYPE = "manifest.wrong_type", Error, "ERC-8257 §2; .agt §2; local manifest" {
        "a field has the wrong JSON type",
        "Fields are never converted: a number is not a string, and null is not the same as an absent field.",
        "write the value in the required type, or leave the field out",
    }
    SECRET_LIKE = "manifest.secret_like", Warning, "Toolcrib" {
        "a text looks like a secret",
        "Manifests are published, hashed and read by models. Every reader knows a key or token in it, and deleting it later does not make it secret again.",
        "revoke the secret at its issuer, remove it here, and pass the new one at run time",
    }
}
