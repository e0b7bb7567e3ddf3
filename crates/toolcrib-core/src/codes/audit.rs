//! Codes of the audit log of local tools.

super::codes! {
    STORAGE = "audit.storage", Error, "Toolcrib local tools" {
        "the audit log cannot be read or written",
        "The operating system refused an operation. A call whose start cannot be recorded is not made.",
        "free disk space or fix the permissions of the state folder, then try again",
    }
    BUSY = "audit.busy", Error, "Toolcrib local tools" {
        "another process holds the lock of the audit log",
        "One process at a time appends lines, and the other one did not release the lock within the time limit.",
        "try again; if it persists, end the process that holds the lock",
    }
    EXPOSED = "audit.exposed", Error, "Toolcrib local tools" {
        "other users have access to the audit log",
        "Other users could read the recorded calls, or replace the log.",
        "run `chmod 600` on the file or `chmod 700` on the folder, and check its owner",
    }
    NOT_A_FILE = "audit.not_a_file", Error, "Toolcrib local tools" {
        "the audit log is not a regular file",
        "Symbolic links, pipes, folders and devices are refused.",
        "move it away",
    }
    LINE_TOO_LONG = "audit.line_too_long", Error, "Toolcrib limits" {
        "an audit line is too long",
        "Lines have at most 65,536 bytes. Nothing was written.",
        "turn off the recording of arguments, or shorten the texts",
    }
    TAIL_INVALID = "audit.tail_invalid", Error, "Toolcrib local tools" {
        "the last line of the audit log is not valid",
        "Each line contains the hash of the previous one. Nothing is appended to a log that was changed, because that would hide the change.",
        "verify the log, keep a copy, and start a new chain",
    }
    CHAIN_BROKEN = "audit.chain_broken", Error, "Toolcrib local tools" {
        "the hash chain of the audit log is broken",
        "A line was changed, removed, inserted or moved after it was written.",
        "compare the log with a backup; if the head that you recorded matches, the lines before the break are authentic",
    }
    HEAD_MISMATCH = "audit.head_mismatch", Error, "Toolcrib local tools" {
        "the audit log does not contain the expected head",
        "Lines at the end were removed, or the whole log was replaced. This can be detected only with a head that was recorded elsewhere.",
        "compare the log with a backup",
    }
}
