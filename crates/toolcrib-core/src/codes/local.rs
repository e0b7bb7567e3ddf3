//! Codes of the local rules.

super::codes! {
    ID_GRAMMAR = "local.id_grammar", Error, "local manifest, id" {
        "the id is not a valid name",
        "The id names the folder of the tool and begins the name of each of its functions. It starts with a letter or digit, followed by letters, digits, `_` and `-`, at most 64 characters, so that it cannot point outside its folder.",
        "rename the tool, and its folder with it, such as `my-tool`",
    }
    ID_UNDERSCORE = "local.id_underscore", Warning, "local manifest, id" {
        "the id contains an underscore",
        "Models see `id_function`. Hosts split that name at the first underscore to find the tool, so an id with an underscore is split in the wrong place.",
        "use a hyphen instead of the underscore",
    }
    ID_NOT_SLUG = "local.id_not_slug", Warning, "local manifest, id; ERC-8257 §6" {
        "the id is not a slug",
        "Lower-case letters, digits and inner hyphens work as a folder on every file system, as an ERC-8257 slug and as a skill name. Other ids have to be changed before the tool can be published.",
        "write the id in lower case with hyphens, such as `my-tool`",
    }
    ID_LONG = "local.id_long", Warning, "local manifest, id" {
        "the id is long",
        "The id is part of the name of every function, which is limited to 64 characters. An id of more than 40 leaves little room for the function name.",
        "choose a shorter id",
    }
    FOLDER_MISMATCH = "local.folder_mismatch", Error, "local manifest, id" {
        "the id differs from the name of the folder",
        "Hosts find a tool by its folder and address it by its id. When the two differ, permissions and secrets are assigned to the wrong tool. The comparison is case-sensitive.",
        "rename the folder or the id so that both are the same",
    }
    VERSION_NOT_SEMVER = "local.version_not_semver", Error, "local manifest, version; Semantic Versioning 2.0.0" {
        "the version is not a semantic version",
        "A version has three numbers without leading zeros, then optionally `-` with a pre-release and `+` with a build. Hosts compare versions to tell an update from a downgrade.",
        "write all three numbers and no prefix, such as 1.0.0",
    }
    TEXT_EMPTY = "local.text_empty", Error, "local manifest" {
        "a required text is empty",
        "People see names and labels before they grant access, and the description is all that a model knows about a function.",
        "describe it in a few words",
    }
    NAME_LONG = "local.name_long", Warning, "local manifest, name; ERC-8257 §2" {
        "a displayed name is long",
        "Lists and settings truncate long names, and the name of a published tool has at most 128 characters.",
        "move details to the description",
    }
    DESCRIPTION_LONG = "local.description_long", Warning, "local manifest, description; ERC-8257 §2" {
        "the description of the tool is long",
        "The description of a published tool has at most 500 characters, and texts are never truncated silently.",
        "keep the first sentences and move the rest to the functions or to a page",
    }
    FUNCTION_DESCRIPTION_LONG = "local.function_description_long", Warning, "local manifest, functions" {
        "the description of a function is long",
        "It is sent to the model with every request, for every function. Providers refuse descriptions beyond 1024 characters.",
        "keep what the model needs to choose the function; describe arguments at the arguments",
    }
    CONTROL_CHARACTER = "local.control_character", Warning, "local manifest" {
        "a text contains control characters",
        "Names and labels must not have control characters; descriptions may have tabs and line breaks only. Others can send escape sequences to a terminal.",
        "remove them",
    }
    UNKNOWN_FIELD = "local.unknown_field", Hint, "local manifest" {
        "an unknown field resembles a known one",
        "Unknown fields are kept and ignored, so a misspelt one has no effect.",
        "correct the spelling, or ignore this if the field is intended",
    }
    LATER_FIELD = "local.later_field_shape", Warning, "local manifest, later versions" {
        "a field of a later version has an unexpected shape",
        "Fields of later format versions are kept unchanged. Hosts that use them expect a certain shape and may fail on this one.",
        "correct the field, or leave it out",
    }
    MODULE_FUNCTION = "local.module_function_unknown", Warning, "local manifest, later versions" {
        "a module lists a function that the tool does not have",
        "Modules group functions by name. A name without a function is skipped, and the intended function is in no group.",
        "write the name of an existing function",
    }
    CREDENTIAL_NAME = "local.credential_name", Error, "local manifest, credentials" {
        "the name of a credential is not valid",
        "Handlers look a credential up by its name. It starts with a letter or digit, followed by letters, digits, `_` and `-`, at most 64 characters.",
        "rename it, such as `api_key`",
    }
    CREDENTIAL_DUPLICATE = "local.credential_duplicate", Error, "local manifest, credentials" {
        "two credentials have the same name",
        "A handler gets one value per name, so one of the two could never be set.",
        "rename one of them, or remove it",
    }
    CREDENTIALS_TOO_MANY = "local.credentials_too_many", Error, "Toolcrib limits" {
        "the tool asks for too many credentials",
        "The limit is 64. A tool that uses so many services should be several tools.",
        "split the tool",
    }
    SECRET_IN_MANIFEST = "local.secret_in_manifest", Error, "local manifest, credentials" {
        "a credential carries a value",
        "A manifest lists which credentials a tool needs, never their values. The file is shared, hashed and logged; a value in it is public.",
        "remove the value, revoke it if it was real, and let the host ask for it",
    }
    FUNCTIONS_MISSING = "local.functions_missing", Error, "local manifest, functions" {
        "the manifest has no `functions`",
        "A tool has functions that a model can call. Manifests of channels and other plug-ins look similar but have no functions, so they are not tools.",
        "add a `functions` array with at least one function that has `name`, `description` and `parameters`",
    }
    FUNCTIONS_EMPTY = "local.functions_empty", Error, "local manifest, functions" {
        "the tool has no function",
        "A tool without functions loads but cannot be called.",
        "add a function with `name`, `description` and `parameters`",
    }
    FUNCTIONS_MANY = "local.functions_many", Warning, "local manifest, functions" {
        "the tool has more functions than clients take",
        "Model providers accept 128 functions per request, over all tools, and models choose worse with far fewer.",
        "split the tool by topic",
    }
    FUNCTIONS_TOO_MANY = "local.functions_too_many", Error, "Toolcrib limits" {
        "the tool has too many functions",
        "Each function has a schema that is compiled when the tool is loaded. At most 512 are checked.",
        "split the tool by topic",
    }
    FUNCTION_NAME = "local.function_name", Error, "local manifest, functions" {
        "the name of a function is not valid",
        "It starts with a letter or digit, followed by letters, digits, `_` and `-`, at most 64 characters. Clients and model providers refuse other names.",
        "rename it, such as `do_something`",
    }
    FUNCTION_NOT_IDENTIFIER = "local.function_not_identifier", Warning, "local manifest, functions" {
        "the name of a function cannot be an export",
        "The name matches an export of the handler. A name with a hyphen or a leading digit is not an identifier, so most languages cannot export it.",
        "use letters, digits and `_`, with a letter first",
    }
    FUNCTION_DUPLICATE = "local.function_duplicate", Error, "local manifest, functions" {
        "two functions have the same name",
        "A call names one function. With two of the same name it is ambiguous which one runs.",
        "rename one of them",
    }
    EXPOSED_NAME_TOO_LONG = "local.exposed_name_too_long", Error, "local manifest, functions; OpenAI, Anthropic, Gemini, MCP, ERC-8257" {
        "the name that models see is too long",
        "Models see `id_function`. Providers refuse the whole request when one name exceeds their limit, so one long name disables every other tool as well.",
        "shorten the id or the name of the function",
    }
    EXPOSED_NAME_LONG = "local.exposed_name_long", Warning, "local manifest, functions" {
        "the name that models see leaves no room for prefixes",
        "MCP clients put the name of the server in front of `id_function` and count it towards the limit of 64. Beyond 40 characters some clients drop the function.",
        "shorten the id or the name of the function",
    }
    SLUG_REFUSED = "local.slug_refused", Warning, "ERC-8257 §6" {
        "the function has no valid slug",
        "A function is published under `id-function` in lower case with hyphens for underscores. The result here is not a valid slug, so the function cannot be published.",
        "end the name of the function with a letter or digit",
    }
    NAME_COLLISION = "local.name_collision", Warning, "local manifest, functions; ERC-8257 §6" {
        "two functions map to the same name",
        "Slugs have no upper case and no underscores, so names that differ only in these become equal. Only one of the two can be published.",
        "rename one of them",
    }
    PARAMETERS_TYPE = "local.parameters_type", Error, "local manifest, functions; MCP tools; Anthropic input_schema" {
        "the parameters are not the schema of an object",
        "Arguments are always one JSON object. MCP and the model providers refuse a schema whose `type` is missing or anything but \"object\".",
        "write \"type\": \"object\" at the top of `parameters`",
    }
    PARAMETERS_COMBINED = "local.parameters_combined", Warning, "OpenAI function parameters; Anthropic input_schema" {
        "the parameters combine schemas at the top level",
        "OpenAI and Anthropic refuse `oneOf`, `anyOf` and `allOf` at the top of the parameters; OpenAI refuses `enum` and `not` there as well. They are accepted at deeper levels.",
        "list the properties once, and move the alternatives into one of them",
    }
    REQUIRED_UNKNOWN = "local.required_unknown", Warning, "local manifest, functions; JSON Schema" {
        "a required parameter is not described",
        "A name in `required` without a schema in `properties` is legal, but the model must send a value without knowing its type or meaning.",
        "add the parameter to `properties`, or correct the name",
    }
    PROPERTY_NAME = "local.property_name", Warning, "Anthropic input_schema; Gemini FunctionDeclaration" {
        "the name of a parameter is refused by some providers",
        "At the top level of the parameters, Anthropic accepts letters, digits, `_`, `.` and `-`, at most 64 characters, and refuses the whole request otherwise. Gemini has the same limit of 64.",
        "rename the parameter and translate the name in the handler",
    }
    RUNTIME_KIND = "local.runtime_kind", Error, "Toolcrib, runtime" {
        "the kind of the runtime is unknown",
        "`runtime.kind` selects what runs the functions: `exec` a program that reads and writes JSON lines, `node` a JavaScript module, `mcp` an MCP server, `http` a server on this machine, `wasm` a WebAssembly component.",
        "use one of the five kinds, or remove `runtime` if the folder has an index.ts, index.js or handler.js",
    }
    RUNTIME_COMMAND = "local.runtime_command", Error, "Toolcrib, runtime" {
        "the command cannot be run",
        "A command is a list: the program, then its arguments, without a shell. The program is a file of the folder (`./run.sh`) or a bare name that is found in PATH. Absolute paths differ between machines, and paths with `..` lead out of the folder whose content the user approved.",
        "write it as a list, such as [\"./run.sh\", \"--fast\"] or [\"python3\", \"main.py\"]",
    }
    RUNTIME_ENTRY = "local.runtime_entry", Error, "Toolcrib, runtime" {
        "the entry is not a file of the folder",
        "The user approves the content of the folder. A module elsewhere could change without notice.",
        "write a path relative to the folder, such as index.js",
    }
    RUNTIME_URL = "local.runtime_url", Error, "Toolcrib, runtime" {
        "the URL of the runtime cannot be used",
        "The kind `http` sends calls to a server on this machine. The kind `mcp` sends them to this machine by http, or to a public host by https.",
        "write the whole URL, such as http://127.0.0.1:3000/mcp or https://mcp.example.com/mcp",
    }
    NUMBER_RANGE = "local.number_range", Error, "Toolcrib limits" {
        "a number is out of range",
        "Timeouts, sizes and counts of a tool are limited, so that one tool cannot block or fill its user's machine.",
        "use a whole number within the range",
    }
    SANDBOX_PATH = "local.sandbox_path", Error, "Toolcrib, sandbox" {
        "a path of the sandbox cannot be used",
        "The user sees these paths before granting them, so each must name exactly one location: absolute, below the home folder (`~/notes`), the folder of the tool (`$folder`), its data (`$data`) or its temporary folder (`$tmp`).",
        "write an absolute path or begin with ~/, $folder, $data or $tmp",
    }
    SANDBOX_NETWORK = "local.sandbox_network", Error, "Toolcrib, sandbox" {
        "the network of the sandbox cannot be used",
        "`network` is `none`, `any`, or a list of at most 64 TCP ports that the tool connects to.",
        "write \"none\", \"any\" or a list such as [443]",
    }
    CREDENTIAL_ENV = "local.credential_env", Error, "Toolcrib, credentials" {
        "the environment variable of a credential cannot be used",
        "Third-party programs may expect a credential in an environment variable. Variables that control what a program loads or runs would let a credential execute code.",
        "use the variable that the program documents, such as GITHUB_TOKEN",
    }
    CREDENTIAL_HEADER = "local.credential_header", Error, "Toolcrib, credentials" {
        "the header of a credential cannot be used",
        "MCP servers with a `url` may expect a credential in a header. Headers that control the destination or the framing of a request would let a credential change the request.",
        "use the header that the server documents, such as Authorization or X-API-Key, for one credential",
    }
    CREDENTIAL_HEADER_UNUSED = "local.credential_header_unused", Warning, "Toolcrib, credentials" {
        "the header of a credential is never sent",
        "Only the runtime `mcp` with a `url` sends headers. Programs and handlers receive credentials in a protocol message, or in the variable that `env` names.",
        "remove `header`, or use `env`",
    }
    RUNTIME_NETWORK = "local.runtime_network", Error, "Toolcrib, sandbox" {
        "the sandbox does not allow the server of the tool",
        "A tool that calls a remote server needs network access like any program. The user sees `sandbox.network` before a call, so it must include the port of the URL.",
        "add the port to `sandbox.network`, such as [443]",
    }
}
