//! Codes of exporting and importing local tools.

super::codes! {
    OPTION = "export.option", Error, "export options" {
        "an option of the export is missing or not usable",
        "Some targets need facts that are not in the manifest: the origin and the creator of a published tool, the reverse-DNS name of a server, the endpoint of an agent.",
        "set the named option",
    }
    NAME = "export.name", Error, "names of the target" {
        "a function has no name at the target",
        "Every target has a grammar and a length limit for names. Names are never cut, because two cut names could become the same.",
        "choose a shorter id or function name, or leave the function out",
    }
    COLLISION = "export.collision", Error, "names of the target" {
        "two functions have the same name at the target",
        "A model calls a function by its exposed name alone. When two functions share one, a call could reach the wrong tool.",
        "rename one of them, or export them separately",
    }
    NAME_LONG = "export.name_long", Warning, "limits of clients" {
        "an exposed name is long",
        "MCP clients put a prefix such as `mcp__server__` in front and count it. Several of them drop or refuse names beyond 64 characters with it.",
        "choose a shorter id or function name",
    }
    DESCRIPTION = "export.description", Error, "limits of the target" {
        "a description is too long for the target",
        "Descriptions are never cut: the part that is lost could be the part that says what the function must not be used for.",
        "shorten the description in the manifest",
    }
    TOO_MANY = "export.too_many", Warning, "limits of the target" {
        "more functions than the target takes in one request",
        "Model APIs limit the number of tools in a request, and models choose worse among many.",
        "export fewer tools at a time",
    }
    SCHEMA = "export.schema", Error, "schemas of the target" {
        "the parameters of a function cannot be expressed at the target",
        "The target refuses such a schema, and with it the whole request or list, so that one function would hide all others.",
        "change the schema, or leave the function out",
    }
    LEFT_OUT = "export.left_out", Warning, "export options" {
        "a function is left out of the export",
        "It cannot be expressed at the target, and the options say to leave such functions out.",
        "change the function, or export without this option to see the error",
    }
    NOT_STRICT = "export.not_strict", Warning, "strict schemas of OpenAI and Anthropic" {
        "a function is exported without strict mode",
        "Strict mode knows closed objects with listed properties only. Maps, open objects and most combinations have no strict form; transforming them anyway would silently forbid the arguments that they are for.",
        "close the objects and list their properties, or keep the function non-strict",
    }
    STRICT_BUDGET = "export.strict_budget", Warning, "strict schemas of Anthropic" {
        "more strict functions than one request takes",
        "The Anthropic API takes 20 strict tools with 24 optional and 16 union-typed parameters in one request.",
        "export fewer tools at a time, or without strict mode",
    }
    CONTENT_CHANGED = "export.content_changed", Error, "content hash" {
        "the folder changed since it was loaded",
        "A bundle contains the files of the tool. They must be those whose content hash was given, or the bundle would not be what was reviewed.",
        "load the tool again, then export",
    }
    SECRET_FILE = "export.secret_file", Error, "export" {
        "a file of the folder looks like it holds a secret",
        "Bundles are given to others. Credentials belong into the secret store, never into the folder of a tool.",
        "move the secret out of the folder",
    }
    LINK = "export.link", Error, "export" {
        "the folder has a symbolic link",
        "Archives with links are refused by careful readers, this one included, because a link can lead out of the folder.",
        "replace the link by a copy of the file",
    }
    READ = "export.read", Error, "export" {
        "a file of the tool cannot be read",
        "The folder is read again for bundles and skills.",
        "check that the folder exists and can be read",
    }
    CREDENTIAL_LEFT_OUT = "export.credential_left_out", Warning, "MCPB manifest, user_config" {
        "a credential is not asked for by the client",
        "A client of the bundle gives credentials in environment variables. A tool whose id has other characters than lower-case letters, digits and single hyphens has none, since it could be that of another tool.",
        "set the credential with `toolcrib secret set`, or choose another id",
    }
    CREDENTIALS_SHARED = "export.credentials_shared", Warning, "ERC-8257 draft" {
        "a tool with credentials is about to be published",
        "Callers of a published tool use the credentials of its owner, and the owner pays for it.",
        "publish such a tool only behind a price or an access rule",
    }
    INVALID = "export.invalid", Error, "rules of the target" {
        "the exported document breaks a rule of its target",
        "The document is checked with the same rules as one that a person wrote.",
        "the findings below say what to change in the manifest",
    }
    IMPORT_FOLDER = "import.folder", Error, "local manifest" {
        "the folder holds no tool",
        "A tool folder has a `manifest.json`. A project has tool folders in `tools/` or `plugins/`.",
        "name the folder of a tool, or of a project that has some",
    }
    IMPORT_HANDLER = "import.handler", Warning, "local manifest, functions" {
        "no handler for a function was found",
        "Handlers are exported under the name of the function, or are members of the export `handlers`. The source was searched, not run, so that handlers which are made in other ways are not seen.",
        "export a handler of this name, or call the function once to see that it works",
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
        "A command is a file of the folder, or the bare name of a program that is looked up in PATH. Absolute paths tie a tool to one machine.",
        "put the program into PATH and name it without its folder",
    }
    IMPORT_VARIABLE = "import.variable", Error, "MCPB manifest, mcp_config" {
        "a variable in the command has no value",
        "Arguments of a bundle may hold `${__dirname}` and settings of the user. Settings without a default must be given while importing. What a client puts into its own configuration in the place of a variable is not known here.",
        "give the setting with `--setting NAME=VALUE`, or replace the variable in the configuration by its value",
    }
    IMPORT_ENVIRONMENT = "import.environment", Error, "MCP server environment" {
        "an environment variable is refused",
        "Variables such as LD_PRELOAD, NODE_OPTIONS or PYTHONPATH make a program load other code than its own.",
        "remove the variable from the configuration",
    }
    IMPORT_SECRET = "import.secret_in_arguments", Error, "MCP client configuration" {
        "an argument or the URL looks like it holds a secret",
        "Arguments and URLs are written into the manifest and can be read by every process. Secrets are taken from the environment of the entry alone.",
        "pass the secret in an environment variable of the server",
    }
    IMPORT_TOOLS = "import.tools_list", Error, "MCP tools/list" {
        "the list of tools cannot be used",
        "The functions of the tool are made from the result of `tools/list`, whose entries have a name and an input schema.",
        "check that the server starts and lists its tools",
    }
    IMPORT_NAME = "import.name", Error, "MCP tool names" {
        "a name cannot become an id or a function name",
        "Ids and function names have letters, digits, `_` and `-`, 64 characters at most. Other characters are replaced by `_`; names are never cut.",
        "give another id with `--id`, or rename the tool at the server",
    }
    IMPORT_COLLISION = "import.collision", Error, "MCP tool names" {
        "two tools of the server get the same function name",
        "The mapping of names must be reversible, or a call could reach the wrong tool.",
        "rename one of them at the server",
    }
    IMPORT_LEFT_OUT = "import.left_out", Warning, "MCP tools/list" {
        "a tool of the server is left out",
        "Its input schema is not one that arguments can be checked with.",
        "report the schema to the author of the server",
    }
    IMPORT_MANIFEST = "import.manifest", Error, "local manifest" {
        "the manifest that was made has errors",
        "The manifest is checked like one that a person wrote.",
        "the findings below say what is wrong",
    }
}
