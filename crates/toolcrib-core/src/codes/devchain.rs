//! Codes of the development chain: why it cannot start or execute a request.

super::codes! {
    BIND = "devchain.bind", Error, "Toolcrib development chain" {
        "the development chain cannot listen",
        "Another program uses the address or port, or it may not be used. Nothing was started.",
        "stop the other program, or choose another port (0 takes a free one)",
    }
    STATE_UNREADABLE = "devchain.state_unreadable", Error, "Toolcrib development chain" {
        "the state file cannot be read",
        "The file exists, but the operating system refused to read it, or it is larger than any saved state. The chain did not start, because starting with an empty state would overwrite the file.",
        "check the permissions, or choose another file",
    }
    STATE_UNUSABLE = "devchain.state_unusable", Error, "Toolcrib development chain" {
        "the state file does not match this chain",
        "The file is not a saved chain, was saved by another version or for another chain id, or its blocks are not consecutive. The chain did not start, because starting with an empty state would overwrite the file.",
        "choose another file, or remove this one to start with an empty state",
    }
    STATE_UNWRITABLE = "devchain.state_unwritable", Error, "Toolcrib development chain" {
        "the state file cannot be written",
        "The operating system refused. The previous file is unchanged, and newer blocks are lost when the chain stops.",
        "check the permissions and the free space",
    }
    DEPLOY = "devchain.deploy", Error, "Toolcrib development chain" {
        "a contract could not be deployed at the start",
        "The init code reverted, ran out of gas, or is too long. The chain did not start, because other programs rely on the address of the contract.",
        "check the init code and its constructor arguments",
    }
    REFUSED = "devchain.refused", Error, "Toolcrib development chain" {
        "the development chain refused the request",
        "The request breaks a rule of the chain, such as a nonce that was already used, or a call reverted. The message has the wording of Ethereum nodes.",
        "correct what the message names",
    }
}
