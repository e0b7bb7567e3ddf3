//! Codes of the command line: why it could not answer.

super::codes! {
    USAGE = "cli.usage", Error, "Toolcrib command line" {
        "the command line was not understood",
        "An option or argument is unknown, missing, or holds a value that it does not take. Nothing was done.",
        "run the command with --help",
    }
    SETTINGS = "cli.settings", Error, "Toolcrib command line" {
        "a setting cannot be used",
        "A settings file or an environment variable holds an unknown key or a value that the setting does not take. Nothing is guessed, because a misspelt setting would silently check less than you asked for.",
        "correct the file or variable named in the message; `toolcrib config` shows every setting",
    }
    NETWORK_REDEFINED = "cli.network_redefined", Error, "Toolcrib command line" {
        "a settings file redefines a network",
        "The names of built-in networks are fixed, and a project's file, which comes with code of other people, cannot redefine a network of the user's own file. Otherwise a transaction could be signed for another chain than the name says.",
        "give the network in the file that the message names another name",
    }
    NOT_FOUND = "cli.not_found", Error, "Toolcrib command line" {
        "there is no such file or folder",
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
        "A search that finds nothing must not look like a search that found nothing wrong. Folders are searched for *.json files; hidden folders other than .well-known, node_modules and target are left out.",
        "name the file, or check the folder the command runs in",
    }
    GIT = "cli.git", Error, "Toolcrib command line" {
        "the history of a file could not be read",
        "Older versions of a manifest come from git, which is not installed, does not know the file, or refused. Nothing was changed.",
        "run the command inside the repository that has the file, or name older versions with --candidate",
    }
    WEBHOOK = "cli.webhook", Error, "Toolcrib command line" {
        "a webhook could not be told",
        "The service did not answer, or answered with something else than success. What it should have been told was printed, and will be sent again with the next look.",
        "check the service and the URL of the webhook",
    }
    DIRECTORY = "cli.directory", Error, "Toolcrib command line" {
        "a directory gave no answer",
        "The directory could not be reached, is in trouble itself, or answered with something else than JSON.",
        "check the URL of the directory, or ask another one",
    }
    DIRECTORY_REFUSED = "cli.directory_refused", Error, "Toolcrib command line" {
        "a directory refused the question",
        "It does not know a parameter or its value, or wants a key.",
        "look at what it says; a key for it belongs into TOOLCRIB_API_KEY",
    }
    RATE_LIMITED = "cli.rate_limited", Error, "Toolcrib command line" {
        "a directory wants no more questions for now",
        "Directories limit how much one key or one address may ask in an hour. The exit code is 3, so that scripts can wait.",
        "wait as long as it says, or use a key of your own in TOOLCRIB_API_KEY",
    }
    LISTEN = "cli.listen", Error, "Toolcrib command line" {
        "the address cannot be listened at",
        "Another program listens there, the address is not one of this machine, or the port needs more rights. Nothing is served.",
        "choose another address or port with --listen, or stop the other program",
    }
    STATE = "cli.state", Error, "Toolcrib command line" {
        "a state file cannot be used",
        "It is damaged, too large, or was written by another version. It is not taken for an empty one, because then a change that happened meanwhile would go unnoticed.",
        "restore the file; or remove it to begin anew",
    }
    UNKNOWN_CODE = "cli.unknown_code", Error, "Toolcrib command line" {
        "no code has this name",
        "Codes are two lowercase words joined by a dot, such as json.bom.",
        "run `toolcrib explain --list` to see every code",
    }
    OUTPUT = "cli.output", Error, "Toolcrib command line" {
        "the result could not be written out",
        "Standard output refused the bytes, for example because the disk is full. What was written before is incomplete.",
        "check where the output goes",
    }
}
