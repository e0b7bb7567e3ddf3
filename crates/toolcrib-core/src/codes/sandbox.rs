//! Codes of running programs under limits.

super::codes! {
    START = "sandbox.start", Error, "Toolcrib process runner" {
        "the program could not be started",
        "The operating system refused to create the process. The program may be missing, not executable, or the system may be out of processes.",
        "check that the file exists and is executable",
    }
    PROGRAM = "sandbox.program", Error, "Toolcrib process runner" {
        "the path of the program is not absolute",
        "A relative path or a bare name would be resolved against the current folder and PATH. The caller resolves it once, so that the program that was checked is the one that runs.",
        "pass the absolute path of the program",
    }
    LAUNCHER = "sandbox.launcher", Error, "Toolcrib process runner" {
        "a sandbox needs a launcher, and none was given",
        "The sandbox is applied by a launcher process between the host and the program. Without it the program would run unrestricted, so it was not started.",
        "pass a launcher, or turn the sandbox off explicitly",
    }
    UNAVAILABLE = "sandbox.unavailable", Error, "Toolcrib process runner" {
        "this system cannot restrict programs",
        "The sandbox needs Landlock (Linux 5.13 or newer, enabled at boot) or bubblewrap. The program was not started.",
        "use a kernel with Landlock, install bubblewrap and isolate programs (`--isolate`), or deliberately run the program without a sandbox (`--no-sandbox`)",
    }
    BUBBLEWRAP = "sandbox.bubblewrap", Error, "Toolcrib process runner" {
        "the policy requires bubblewrap, which was not found",
        "Namespace isolation is an additional layer that a policy can require (`--isolate`). A missing layer is not skipped silently.",
        "install bubblewrap, or remove the isolation from the policy (leave `--isolate` out)",
    }
    PATH = "sandbox.path", Error, "Toolcrib process runner" {
        "a path of the sandbox policy cannot be used",
        "Paths of a policy must be absolute, exist, and be valid UTF-8. A rule for a missing path would silently have no effect.",
        "correct the path, or create the file or folder first",
    }
    ENVIRONMENT = "sandbox.environment", Error, "Toolcrib process runner" {
        "an environment variable or an argument cannot be passed to a process",
        "A variable name must not be empty or contain an equals sign; names, values and arguments must not contain a NUL byte.",
        "correct the variable or the argument",
    }
    REFUSED = "sandbox.refused", Error, "Toolcrib process runner" {
        "the launcher could not apply the sandbox, and did not start the program",
        "The launcher applies either the whole policy or none of it. Its message on standard error names the failed step.",
        "read the message of the launcher; `containment` shows what this system supports",
    }
    NOT_STARTED = "sandbox.not_started", Error, "Toolcrib process runner" {
        "the launcher could not start the program",
        "The sandbox was applied, but the program could not be executed. It may be missing, not executable, or outside the paths that the policy allows to execute.",
        "check the file, its interpreter, and the execute paths of the policy",
    }
    WAIT = "sandbox.wait", Error, "Toolcrib process runner" {
        "the exit status of the program is unknown",
        "The operating system did not report the exit status of the process.",
        "report this as a bug, with your operating system and version",
    }
}
