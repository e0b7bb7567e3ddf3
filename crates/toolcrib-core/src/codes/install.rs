//! Codes of installing local tools.

super::codes! {
    SOURCE = "install.source", Error, "install sources" {
        "the source is not a folder, an archive or a repository",
        "Tools are installed from a folder, from a zip or mcpb file, or from a git repository with https, ssh or, when asked for, file.",
        "check the path or the URL",
    }
    MANIFEST = "install.manifest", Error, "local manifest" {
        "the manifest of the tool is missing or has errors",
        "Only tools with a valid manifest are installed. Nothing was changed.",
        "the findings below say what is wrong",
    }
    EXISTS = "install.exists", Error, "install" {
        "a tool with this id is already installed",
        "Installing over a tool would replace it without showing what changes.",
        "update it instead, or remove it first",
    }
    NOT_INSTALLED = "install.not_installed", Error, "lock file" {
        "no tool with this id was installed",
        "Only tools that the lock file lists can be updated or removed. Folders that were put there by hand are left alone.",
        "check the id, or remove the folder by hand",
    }
    DIGEST = "install.digest", Error, "content hash" {
        "the content differs from the given digest",
        "A digest pins the exact files. Whatever else the source gives is refused.",
        "check where the digest comes from, and what changed since",
    }
    ID_CHANGED = "install.id_changed", Error, "update" {
        "the source now holds a tool with another id",
        "An update keeps the id, to which permissions, secrets and data belong.",
        "remove the tool and add the other one",
    }
    CHANGED_LOCALLY = "install.changed_locally", Error, "lock file" {
        "the installed folder was changed by hand",
        "The folder differs from what the lock file says was installed. An update or a removal would lose these changes.",
        "keep a copy, then ask to discard the changes",
    }
    LOCK = "install.lock", Error, "lock file" {
        "the lock file cannot be used",
        "The lock file says what was installed from where. It is written whole or not at all.",
        "check the named file; it is JSON",
    }
    IO = "install.io", Error, "install" {
        "a file or folder cannot be read or written",
        "Nothing half-installed is visible. What is left in the staging folder is removed by the next run.",
        "check permissions and free space",
    }
    NEEDS_LISTING = "install.needs_listing", Error, "MCPB manifest" {
        "the source is an MCP server, not a tool folder",
        "The schemas of its functions are not in a bundle or configuration file. The server has to be started once to list them.",
        "run `toolcrib local import FILE`",
    }
    FOLDER_LIMIT = "install.folder_limit", Error, "limits of a tool folder" {
        "the folder has too many files or too many bytes",
        "All files of a tool are hashed before it runs, so that their number and size are limited.",
        "leave out build output and caches",
    }
    FOLDER_LINK = "install.folder_link", Error, "content hash" {
        "a symbolic link leaves the folder",
        "What lies outside is not covered by the content hash, and could change after the tool was approved.",
        "replace the link by a copy of the file",
    }
    FOLDER_SPECIAL = "install.folder_special", Error, "content hash" {
        "the folder has something that is not a file, a folder or a link",
        "Devices, sockets and pipes have no content to hash.",
        "remove it",
    }
    ARCHIVE = "install.archive", Error, "ZIP APPNOTE 6.3" {
        "the archive is malformed",
        "The archive is read strictly: one central directory at its end, no data around it, local headers that say the same. Readers disagree about everything else, so that each would unpack other files.",
        "make the archive anew with a common tool",
    }
    ARCHIVE_NAME = "install.archive_name", Error, "archive names" {
        "a name in the archive is not safe",
        "Names are relative paths in UTF-8 with `/`, without `..`, drive letters, backslashes and control characters.",
        "make the archive anew from the folder of the tool",
    }
    ARCHIVE_DUPLICATE = "install.archive_duplicate", Error, "archive names" {
        "two entries of the archive have the same name",
        "Which of them is unpacked depends on the reader and, where only case differs, on the file system.",
        "remove one of them",
    }
    ARCHIVE_LINK = "install.archive_link", Error, "archive entries" {
        "an entry of the archive is not a file or a folder",
        "Links in an archive can lead writes out of the folder. Devices have no place in a tool.",
        "replace links by copies",
    }
    ARCHIVE_LIMIT = "install.archive_limit", Error, "limits of an archive" {
        "the archive is too large, or becomes too large",
        "Bytes are counted while they are inflated; what the headers say is not trusted.",
        "leave out build output and caches",
    }
    ARCHIVE_OVERLAP = "install.archive_overlap", Error, "archive entries" {
        "entries of the archive share bytes",
        "Overlapping entries make a small archive inflate to an enormous one.",
        "make the archive anew with a common tool",
    }
    ARCHIVE_METHOD = "install.archive_method", Error, "archive entries" {
        "an entry of the archive is encrypted or compressed in an unknown way",
        "Stored and deflated entries are read.",
        "make the archive without a password, with the default compression",
    }
    ARCHIVE_ROOT = "install.archive_root", Error, "archive layout" {
        "the archive does not hold one tool",
        "The manifest lies at the top of the archive, or in its only folder.",
        "archive the folder of one tool",
    }
    GIT_URL = "install.git_url", Error, "git sources" {
        "the URL of the repository is refused",
        "Repositories are fetched over https or ssh, or from a file URL when that is asked for. A URL holds no password and does not begin with a hyphen.",
        "use an https URL without user and password",
    }
    GIT = "install.git", Error, "git sources" {
        "git could not fetch the repository",
        "git runs without a shell, without hooks, without submodules and without asking for passwords.",
        "run `git ls-remote` with the URL to see whether it can be reached",
    }
    GIT_LIMIT = "install.git_limit", Error, "git sources" {
        "fetching the repository took too long or too much space",
        "The time and the size of a fetch are limited, and git is ended when it goes beyond.",
        "install from an archive of the repository instead",
    }
}
