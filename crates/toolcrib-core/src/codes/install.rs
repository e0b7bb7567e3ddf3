//! Codes of installing local tools.

super::codes! {
    SOURCE = "install.source", Error, "install sources" {
        "the source is not a folder, an archive or a repository",
        "Tools are installed from a folder, from a zip or mcpb file, or from a git repository over https, ssh or, if enabled, file URLs.",
        "check the path or the URL",
    }
    MANIFEST = "install.manifest", Error, "local manifest" {
        "the manifest of the tool is missing or has errors",
        "Only tools with a valid manifest are installed. Nothing was changed.",
        "correct what the findings below report",
    }
    EXISTS = "install.exists", Error, "install" {
        "a tool with this id is already installed",
        "Installing over a tool would replace it without showing the changes.",
        "update it instead, or remove it first",
    }
    NOT_INSTALLED = "install.not_installed", Error, "lock file" {
        "no tool with this id is installed",
        "Only tools in the lock file can be updated or removed. Folders that were added by hand are not changed.",
        "check the id, or remove the folder by hand",
    }
    DIGEST = "install.digest", Error, "content hash" {
        "the content differs from the given digest",
        "A digest pins the exact files. Any other content is refused.",
        "check the origin of the digest, and the changes since",
    }
    ID_CHANGED = "install.id_changed", Error, "update" {
        "the source now has a tool with another id",
        "An update must keep the id, because permissions, secrets and data belong to it.",
        "remove the tool, and install the one with the new id",
    }
    CHANGED_LOCALLY = "install.changed_locally", Error, "lock file" {
        "the installed folder was changed by hand",
        "The content of the folder differs from the hash in the lock file. An update or a removal would lose these changes.",
        "make a copy, then repeat the command with the option to discard changes",
    }
    LOCK = "install.lock", Error, "lock file" {
        "the lock file cannot be used",
        "The lock file records each installed tool and its source. It is replaced atomically.",
        "check the file that the message names; it must be JSON",
    }
    IO = "install.io", Error, "install" {
        "a file or folder cannot be read or written",
        "An incomplete installation is never visible. The next run removes leftovers in the staging folder.",
        "check permissions and free space",
    }
    NEEDS_LISTING = "install.needs_listing", Error, "MCPB manifest" {
        "the source is an MCP server, not a tool folder",
        "A bundle or configuration file does not contain the schemas of its functions. The server has to be started once to list them.",
        "run `toolcrib local import FILE`",
    }
    FOLDER_LIMIT = "install.folder_limit", Error, "limits of a tool folder" {
        "the folder has too many files or too many bytes",
        "All files of a tool are hashed before it runs, so their number and size are limited.",
        "remove build output and caches",
    }
    FOLDER_LINK = "install.folder_link", Error, "content hash" {
        "a symbolic link leaves the folder",
        "The content hash does not cover files outside the folder, so they could change after the tool was approved.",
        "replace the link with a copy of the file",
    }
    FOLDER_SPECIAL = "install.folder_special", Error, "content hash" {
        "the folder has a special file",
        "Devices, sockets and pipes have no content to hash.",
        "remove it",
    }
    ARCHIVE = "install.archive", Error, "ZIP APPNOTE 6.3" {
        "the archive is malformed",
        "The archive is read strictly: one central directory at its end, no data around it, and local headers that match it. Readers disagree about any other archive, so each would unpack different files.",
        "create the archive again with a common tool",
    }
    ARCHIVE_NAME = "install.archive_name", Error, "archive names" {
        "a name in the archive is not safe",
        "Names are relative UTF-8 paths with `/`, without `..`, drive letters, backslashes or control characters.",
        "create the archive again from the folder of the tool",
    }
    ARCHIVE_DUPLICATE = "install.archive_duplicate", Error, "archive names" {
        "two entries of the archive have the same name",
        "Which of them is unpacked depends on the reader and, where only case differs, on the file system.",
        "remove one of them",
    }
    ARCHIVE_LINK = "install.archive_link", Error, "archive entries" {
        "an entry of the archive is not a file or a folder",
        "Links in an archive can redirect writes to files outside the folder. Devices are not allowed in a tool.",
        "replace links with copies",
    }
    ARCHIVE_LIMIT = "install.archive_limit", Error, "limits of an archive" {
        "the archive is too large, packed or unpacked",
        "Bytes are counted while they are inflated; the sizes in the headers are not trusted.",
        "remove build output and caches",
    }
    ARCHIVE_OVERLAP = "install.archive_overlap", Error, "archive entries" {
        "entries of the archive share bytes",
        "Overlapping entries let a small archive inflate to an enormous size (zip bomb).",
        "create the archive again with a common tool",
    }
    ARCHIVE_METHOD = "install.archive_method", Error, "archive entries" {
        "an entry of the archive is encrypted or uses an unsupported compression",
        "Only stored and deflated entries are supported.",
        "create the archive without a password and with the default compression",
    }
    ARCHIVE_ROOT = "install.archive_root", Error, "archive layout" {
        "the archive does not contain exactly one tool",
        "The manifest must be at the top level of the archive, or in its only folder.",
        "archive the folder of one tool",
    }
    GIT_URL = "install.git_url", Error, "git sources" {
        "the URL of the repository is refused",
        "Repositories are fetched over https or ssh, or from a file URL if enabled. A URL must not contain a password or begin with a hyphen.",
        "use an https URL without user and password",
    }
    GIT = "install.git", Error, "git sources" {
        "git could not fetch the repository",
        "git runs without a shell, without hooks, without submodules and without asking for passwords.",
        "run `git ls-remote` with the URL to check whether it is reachable",
    }
    GIT_LIMIT = "install.git_limit", Error, "git sources" {
        "fetching the repository took too long or too much space",
        "The time and the size of a fetch are limited; git was terminated when it exceeded a limit.",
        "install from an archive of the repository instead",
    }
}
