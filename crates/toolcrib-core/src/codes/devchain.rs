//! Codes of the development chain: why it could not start, or do as told.

super::codes! {
    BIND = "devchain.bind", Error, "Toolcrib development chain" {
        "the development chain cannot listen",
        "The address or port is taken by another program, or may not be used. Nothing was started.",
        "stop the other program, or choose another port (0 takes a free one)",
    }
    STATE_UNREADABLE = "devchain.state_unreadable", Error, "Toolcrib development chain" {
        "the state file cannot be read",
        "The file is there, but the operating system refused, or it is larger than any state that would be written. The chain did not start, because starting afresh would overwrite the file.",
        "check the permissions, or name another file",
    }
    STATE_UNUSABLE = "devchain.state_unusable", Error, "Toolcrib development chain" {
        "the state file is of no use to this chain",
        "The file holds no saved chain, one of another version, or one with another chain id, or its blocks do not follow each other. The chain did not start, because starting afresh would overwrite the file.",
        "name another file, or remove this one to start afresh",
    }
    STATE_UNWRITABLE = "devchain.state_unwritable", Error, "Toolcrib development chain" {
        "the state file cannot be written",
        "The operating system refused. The file that was there before is unchanged, and what the chain did since is lost when it stops.",
        "check the permissions and the free space",
    }
    DEPLOY = "devchain.deploy", Error, "Toolcrib development chain" {
        "a contract could not be deployed at the start",
        "The init code reverted, ran out of gas, or is too long. The chain did not start, because whoever asked for the contract relies on its address.",
        "check the init code and its constructor arguments",
    }
    REFUSED = "devchain.refused", Error, "Toolcrib development chain" {
        "the development chain refused",
        "The request breaks a rule of the chain, such as a nonce that was used already, or a call reverted. The message has the words that Ethereum nodes use.",
        "correct what the message names",
    }
}
