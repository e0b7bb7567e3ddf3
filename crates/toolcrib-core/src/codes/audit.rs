//! Codes of the audit log of local tools.

super::codes! {
    STORAGE = "audit.storage", Error, "Toolcrib local tools" {
        "the audit log cannot be read or written",
        "The operating system refused an operation. A call whose start cannot be recorded is not made.",
        "free disk space or fix the permissions of the state folder, then try again",
    }
    BUSY = "audit.busy", Error, "Toolcrib local tools" {
        "another process holds the audit log",
        "Lines are appended by one process at a time, and the other one has not finished within the time limit.",
        "try again; if it lasts, end the process that holds the lock",
    }
    EXPOSED = "audit.exposed", Error, "Toolcrib local tools" {
        "other users have access to the audit log",
        "Other users could read what was called, or replace the log.",
        "run `chmod 600` on the file or `chmod 700` on the folder, and check its owner",
    }
    NOT_A_FILE = "audit.not_a_file", Error, "Toolcrib local tools" {
        "the audit log is not a regular file",
        "Symbolic links, pipes, folders and devices are refused.",
        "move it away",
    }
    LINE_TOO_LONG = "audit.line_too_long", Error, "Toolcrib limits" {
        "an audit line is too long",
        "Lines have at most 65,536 bytes, so that every reader can hold one. Nothing was written.",
        "turn off the recording of arguments, or shorten the texts",
    }
    TAIL_INVALID = "audit.tail_invalid", Error, "Toolcrib local tools" {
        "the last line of the audit log is not valid",
        "A new line continues the hash of the last one. A log that was changed is not continued, since that would hide the change.",
        "verify the log, keep a copy, and start a new chain",
    }
    CHAIN_BROKEN = "audit.chain_broken", Error, "Toolcrib local tools" {
        "the hash chain of the audit log is broken",
        "A line was changed, removed, inserted or moved after it was written.",
        "compare the log with a backup; lines before the break are authentic if the head that you noted is",
    }
    HEAD_MISMATCH = "audit.head_mismatch", Error, "Toolcrib local tools" {
        "the audit log does not contain the expected head",
        "Lines at the end were removed, or the whole log was replaced. This shows only against a head that was noted elsewhere.",
        "compare the log with a backup",
    }
}
