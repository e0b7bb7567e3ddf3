//! Codes of exporting and importing local tools.

super::codes! {
    OPTION = "export.option", Error, "export options" {
        "an export option is missing or invalid",
        "Some targets need values that are not in the manifest: the origin and the creator of a published tool, the reverse-DNS name of a server, the endpoint of an agent.",
        "set the named option",
    }
    NAME = "export.name", Error, "names of the target" {
        "a function has no valid name at the target",
        "Every target has a grammar and a length limit for names. Names are never truncated, because two truncated names could become equal.",
        "choose a shorter id or function name, or leave the function out",
    }
    COLLISION = "export.collision", Error, "names of the target" {
        "two functions have the same name at the target",
        "A model calls a function by its exposed name alone. When two functions share one, a call could reach the wrong tool.",
        "rename one of them, or export them separately",
    }
    NAME_LONG = "export.name_long", Warning, "limits of clients" {
        "an exposed name is long",
        "MCP clients add a prefix such as `mcp__server__`, which counts towards the limit. Several drop or refuse names of more than 64 characters including the prefix.",
        "choose a shorter id or function name",
    }
    DESCRIPTION = "export.description", Error, "limits of the target" {
        "a description is too long for the target",
        "Descriptions are never truncated: the lost part could be a warning about what the function must not be used for.",
        "shorten the description in the manifest",
    }
    TOO_MANY = "export.too_many", Warning, "limits of the target" {
        "more functions than the target accepts in one request",
        "Model APIs limit the number of tools in a request, and models choose worse among many.",
        "export fewer tools at a time",
    }
    SCHEMA = "export.schema", Error, "schemas of the target" {
        "the parameters of a function cannot be expressed at the target",
        "The target refuses the whole request or list because of one such schema, so one function would disable all others.",
        "change the schema, or leave the function out",
    }
    LEFT_OUT = "export.left_out", Warning, "export options" {
        "a function is left out of the export",
        "It cannot be expressed at the target, and an option leaves such functions out.",
        "change the function, or export without this option to see the error",
    }
    NOT_STRICT = "export.not_strict", Warning, "strict schemas of OpenAI and Anthropic" {
        "a function is exported without strict mode",
        "Strict mode supports only closed objects with listed properties. Maps, open objects and most combinations have no strict form; converting them anyway would silently forbid valid arguments.",
        "close the objects and list their properties, or keep the function non-strict",
    }
    STRICT_BUDGET = "export.strict_budget", Warning, "strict schemas of Anthropic" {
        "more strict functions than one request takes",
        "The Anthropic API accepts 20 strict tools with 24 optional and 16 union-typed parameters per request.",
        "export fewer tools at a time, or without strict mode",
    }
    CONTENT_CHANGED = "export.content_changed", Error, "content hash" {
        "the folder changed since it was loaded",
        "A bundle contains the files of the tool. Their content hash must be the one that was reviewed.",
        "load the tool again, then export",
    }
    SECRET_FILE = "export.secret_file", Error, "export" {
        "a file of the folder seems to contain a secret",
        "Bundles are distributed. Credentials belong in the secret store, never in the folder of a tool.",
        "move the secret out of the folder",
    }
    LINK = "export.link", Error, "export" {
        "the folder has a symbolic link",
        "Careful readers, Toolcrib included, refuse archives with links, because a link can point outside the folder.",
        "replace the link with a copy of the file",
    }
    READ = "export.read", Error, "export" {
        "a file of the tool cannot be read",
        "The folder is read again for bundles and skills.",
        "check that the folder exists and can be read",
    }
    CREDENTIAL_LEFT_OUT = "export.credential_left_out", Warning, "MCPB manifest, user_config" {
        "the client will not ask for a credential",
        "Clients pass the credentials of a bundle in environment variables. A tool whose id has characters other than lower-case letters, digits and single hyphens gets no variable, because its name could collide with that of another tool.",
        "set the credential with `toolcrib secret set`, or choose another id",
    }
    CREDENTIALS_SHARED = "export.credentials_shared", Warning, "ERC-8257 draft" {
        "a tool with credentials is about to be published",
        "Callers of a published tool use the credentials of its owner, at the owner's expense.",
        "publish such a tool only behind a price or an access rule",
    }
    INVALID = "export.invalid", Error, "rules of the target" {
        "the exported document breaks a rule of its target",
        "The exported document is checked with the same rules as any other document.",
        "change the manifest as the findings below say",
    }
    IMPORT_FOLDER = "import.folder", Error, "local manifest" {
        "the folder does not contain a tool",
        "A tool folder has a `manifest.json`. A project has tool folders in `tools/` or `plugins/`.",
        "name the folder of a tool, or of a project with tools",
    }
    IMPORT_HANDLER = "import.handler", Warning, "local manifest, functions" {
        "no handler for a function was found",
        "Handlers are exported under the name of the function, or are members of the export `handlers`. The source was searched, not run, so handlers that are created in other ways are not found.",
        "export a handler with this name, or call the function once to check that it works",
    }
    IMPORT_BUNDLE = "import.bundle", Error, "MCPB manifest" {
        "the manifest of the bundle cannot be used",
        "An MCP bundle has a `manifest.json` with name, version, description and `server.mcp_config`.",
        "check the bundle with `mcpb validate`",
    }
    IMPORT_ENTRY = "import.entry", Error, "MCP client configuration" {
        "the entry of the client configuration cannot be used",
        "An entry of `mcpServers` has either a `command` with `args` and `env`, or a `url`.",
        "compare the entry with the documentation of the server",
    }
    IMPORT_COMMAND = "import.command", Error, "local manifest, runtime" {
        "the command of the server cannot be used",
        "A command is a file of the folder, or the bare name of a program in PATH. Absolute paths bind a tool to one machine.",
        "add the program to PATH and name it without its folder",
    }
    IMPORT_VARIABLE = "import.variable", Error, "MCPB manifest, mcp_config" {
        "a variable in the command has no value",
        "Arguments of a bundle may contain `${__dirname}` and user settings. Settings without a default must be given when importing. Variables that another client substitutes from its own configuration are unknown.",
        "pass the setting with `--setting NAME=VALUE`, or replace the variable in the configuration with its value",
    }
    IMPORT_ENVIRONMENT = "import.environment", Error, "MCP server environment" {
        "an environment variable is refused",
        "Variables such as LD_PRELOAD, NODE_OPTIONS or PYTHONPATH make a program load foreign code.",
        "remove the variable from the configuration",
    }
    IMPORT_SECRET = "import.secret_in_arguments", Error, "MCP client configuration" {
        "an argument or the URL seems to contain a secret",
        "Arguments and URLs are written into the manifest, and every process can read them. Secrets are imported only from the environment of the entry.",
        "pass the secret in an environment variable of the server",
    }
    IMPORT_TOOLS = "import.tools_list", Error, "MCP tools/list" {
        "the list of tools cannot be used",
        "The functions of the tool are generated from the result of `tools/list`, whose entries need a name and an input schema.",
        "check that the server starts and lists its tools",
    }
    IMPORT_NAME = "import.name", Error, "MCP tool names" {
        "a name cannot become an id or a function name",
        "Ids and function names have letters, digits, `_` and `-`, at most 64 characters. Other characters are replaced with `_`; names are never truncated.",
        "choose another id with `--id`, or rename the tool on the server",
    }
    IMPORT_COLLISION = "import.collision", Error, "MCP tool names" {
        "two tools of the server get the same function name",
        "The mapping of names must be reversible, or a call could reach the wrong tool.",
        "rename one of them on the server",
    }
    IMPORT_LEFT_OUT = "import.left_out", Warning, "MCP tools/list" {
        "a tool of the server is left out",
        "Arguments cannot be validated with its input schema.",
        "report the schema to the author of the server",
    }
    IMPORT_MANIFEST = "import.manifest", Error, "local manifest" {
        "the generated manifest has errors",
        "A generated manifest is checked with the same rules as any other manifest.",
        "correct what the findings below report",
    }
}
