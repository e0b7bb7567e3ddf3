//! Codes of the command line: why a command cannot run.

super::codes! {
    USAGE = "cli.usage", Error, "Toolcrib command line" {
        "the command line was not understood",
        "An option or argument is unknown, missing, or has an invalid value. Nothing was done.",
        "run the command with --help",
    }
    SETTINGS = "cli.settings", Error, "Toolcrib command line" {
        "a setting is not valid",
        "A settings file or an environment variable has an unknown key or an invalid value. It is an error, because an ignored setting could silently disable a check.",
        "correct the file or variable named in the message; `toolcrib config` shows every setting",
    }
    NETWORK_REDEFINED = "cli.network_redefined", Error, "Toolcrib command line" {
        "a settings file redefines a network",
        "The names of built-in networks are fixed, and a project's settings file, which may come from other people, cannot redefine a network of the user's settings file. Otherwise a transaction could be signed for another chain than its name says.",
        "rename the network in the file that the message names",
    }
    NOT_FOUND = "cli.not_found", Error, "Toolcrib command line" {
        "the file or folder does not exist",
        "The path does not exist, or a part of it is not a folder.",
        "check the path and the folder the command runs in",
    }
    IS_A_FOLDER = "cli.is_a_folder", Error, "Toolcrib command line" {
        "a folder was given where a file is needed",
        "Hashes and canonical bytes belong to one document each, so these commands do not search folders.",
        "name the file inside the folder",
    }
    UNREADABLE = "cli.unreadable", Error, "Toolcrib command line" {
        "a file or folder could not be read",
        "The operating system refused. No verdict about the file is given.",
        "check the permissions",
    }
    UNWRITABLE = "cli.unwritable", Error, "Toolcrib command line" {
        "a file could not be written",
        "The operating system refused, or the file is marked read-only. The file that was there before is unchanged.",
        "check the permissions and the free space",
    }
    CHANGED = "cli.changed_meanwhile", Error, "Toolcrib command line" {
        "the file changed while it was being checked",
        "Another program wrote the file between reading and writing. Fixes for the old text were not applied to the new one.",
        "run the command again",
    }
    EXISTS = "cli.exists", Error, "Toolcrib command line" {
        "the file is already there",
        "An existing file is never replaced unless that was asked for.",
        "choose another path with --out, or pass --force to replace the file",
    }
    NOTHING_TO_CHECK = "cli.nothing_to_check", Error, "Toolcrib command line" {
        "no manifest was found",
        "Finding no manifest is an error, so that it does not look like a successful check. Folders are searched for *.json files, except in node_modules, target and hidden folders other than .well-known.",
        "name the file, or check the folder the command runs in",
    }
    GIT = "cli.git", Error, "Toolcrib command line" {
        "the git history of a file could not be read",
        "Older versions of a manifest are read from git. git is not installed, does not track the file, or failed. Nothing was changed.",
        "run the command inside the repository of the file, or pass older versions with --candidate",
    }
    WEBHOOK = "cli.webhook", Error, "Toolcrib command line" {
        "a webhook could not be delivered",
        "The service did not answer, or did not answer with a success status. The notification was printed, and is sent again with the next check.",
        "check the service and the URL of the webhook",
    }
    DIRECTORY = "cli.directory", Error, "Toolcrib command line" {
        "a directory did not answer",
        "The directory could not be reached, returned a server error, or its response is not JSON.",
        "check the URL of the directory, or use another one",
    }
    DIRECTORY_REFUSED = "cli.directory_refused", Error, "Toolcrib command line" {
        "a directory refused the request",
        "A parameter or its value is unknown to it, or it requires an API key.",
        "read its message; set the API key in TOOLCRIB_API_KEY",
    }
    RATE_LIMITED = "cli.rate_limited", Error, "Toolcrib command line" {
        "rate limit of a directory exceeded",
        "Directories limit the requests per hour of each key and address. The exit code is 3, so that scripts can wait and retry.",
        "wait as long as the message says, or set your own API key in TOOLCRIB_API_KEY",
    }
    LISTEN = "cli.listen", Error, "Toolcrib command line" {
        "cannot listen on the address",
        "Another program uses the address, it does not belong to this machine, or the port needs more privileges. Nothing is served.",
        "choose another address or port with --listen, or stop the other program",
    }
    STATE = "cli.state", Error, "Toolcrib command line" {
        "a state file cannot be used",
        "It is damaged, too large, or was written by another version. It is not replaced by an empty state, because changes since the last run would go unnoticed.",
        "restore the file, or remove it to start over",
    }
    UNKNOWN_CODE = "cli.unknown_code", Error, "Toolcrib command line" {
        "no code has this name",
        "Codes are two lowercase words joined by a dot, such as json.bom.",
        "run `toolcrib explain --list` to see every code",
    }
    OUTPUT = "cli.output", Error, "Toolcrib command line" {
        "the result could not be written",
        "Writing to standard output failed, for example because the disk is full. The output is incomplete.",
        "check the destination of the output",
    }
}
