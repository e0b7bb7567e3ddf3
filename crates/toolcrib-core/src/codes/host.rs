//! Codes of loading and calling local tools.

super::codes! {
    MANIFEST_MISSING = "host.manifest_missing", Error, "local manifest" {
        "the folder has no manifest.json",
        "Every tool is a folder with a manifest.json that names its functions. A folder without one is not a tool and is skipped.",
        "add a manifest.json (`toolcrib new local NAME` writes one), or move the folder out of the tools folder",
    }
    MANIFEST_INVALID = "host.manifest_invalid", Error, "local manifest" {
        "the manifest has errors",
        "A manifest with errors is not loaded, because it could give models wrong information. Other tools are not affected.",
        "run `toolcrib lint FOLDER` and fix its findings",
    }
    FOLDER_UNREADABLE = "host.folder_unreadable", Error, "Toolcrib, tool folders" {
        "the folder of a tool cannot be read",
        "A tool is loaded from a copy of its whole folder; permissions and secrets are bound to the hash of that copy. Links that leave the folder, special files, and folders beyond the limits of size and count cannot be copied.",
        "remove the file that the message names, or make it readable",
    }
    DUPLICATE_ID = "host.duplicate_id", Error, "local manifest, id" {
        "two folders have the same id",
        "Models, permissions and secrets identify a tool by its id, so only the first of the two is loaded.",
        "rename one of the tools, or remove its folder from the list of tools folders",
    }
    HANDLER_MISSING = "host.handler_missing", Error, "local manifest, functions" {
        "nothing in the folder can run the functions",
        "Without a `runtime`, the host needs one of index.ts, index.mts, index.js, index.mjs, handler.js or handler.mjs. None of them exists, or the file that `runtime` names does not exist.",
        "add a handler, or name the program in `runtime`",
    }
    EXPORT_MISSING = "host.export_missing", Error, "local manifest, functions" {
        "the handler does not export the function",
        "The manifest names a function that the handler does not export under that name.",
        "export it under the name in the manifest, as a named export or as a member of `handlers`",
    }
    RUNTIME_UNSUPPORTED = "host.runtime_unsupported", Error, "Toolcrib, runtime" {
        "the runtime is not available",
        "The program that the runtime needs is not installed, or this build of Toolcrib does not support the runtime.",
        "install the program that the message names, such as Node 24, or use a build with the feature",
    }
    TOOL_UNKNOWN = "host.tool_unknown", Error, "local manifest" {
        "unknown tool or function",
        "A call names a tool by its id and a function by its name, as shown by `toolcrib local list`.",
        "run `toolcrib local list`",
    }
    ARGUMENTS_INVALID = "host.arguments_invalid", Error, "local manifest, functions" {
        "the arguments do not match the parameters",
        "Arguments are validated against the JSON Schema of the function before the tool runs.",
        "correct the arguments as the message says",
    }
    CREDENTIAL_MISSING = "host.credential_missing", Error, "local manifest, credentials" {
        "a required credential is not set",
        "The manifest marks the credential as required, so the tool is hidden from models and its calls are refused.",
        "run `toolcrib secret set TOOL NAME`",
    }
    DECLINED = "host.declined", Error, "Toolcrib, permissions" {
        "the call was not allowed",
        "The user, or a rule of the user's permissions, refused the call. Nothing was run.",
        "ask the user, who can allow it with `toolcrib permit set`",
    }
    TIMEOUT = "host.timeout", Error, "Toolcrib limits" {
        "the call took too long",
        "The time limit is the smallest of those of the function, the tool, the caller and the host. The processes of the call were ended.",
        "make the request smaller, or raise `timeoutMs` in the manifest",
    }
    CANCELLED = "host.cancelled", Error, "Toolcrib limits" {
        "the call was cancelled",
        "The client cancelled the call or disconnected. The processes of the call were ended.",
        "call again",
    }
    START_FAILED = "host.start_failed", Error, "Toolcrib, runtime" {
        "the program of the tool could not be started",
        "The operating system did not start the program, or the program exited before it answered.",
        "read the log of the tool with `toolcrib local logs TOOL`",
    }
    BACKING_OFF = "host.backing_off", Error, "Toolcrib limits" {
        "the tool crashed repeatedly and is paused",
        "After each crash the host waits longer before it restarts the program, so that a broken tool does not exhaust the machine.",
        "read the log with `toolcrib local logs TOOL`, then call again",
    }
    PROCESS_ENDED = "host.process_ended", Error, "Toolcrib, runtime" {
        "the program of the tool exited before it answered",
        "The call may or may not have had an effect, so it is not retried automatically.",
        "read the log with `toolcrib local logs TOOL`",
    }
    SERVER_UNREACHABLE = "host.server_unreachable", Error, "Toolcrib, runtime" {
        "the server of the tool cannot be reached",
        "The host was not found, tools may not connect to its address, the connection failed, or the certificate is not valid. Nothing was sent.",
        "check that the server runs at the `url` of the manifest, then call again",
    }
    SERVER_ERROR = "host.server_error", Error, "Toolcrib, runtime" {
        "the server of the tool answered with an error status",
        "The status is neither a success nor a request for credentials. Redirects are not followed: they would send arguments and credentials to a server that the user did not approve.",
        "correct the `url` of the manifest, or try again later",
    }
    CREDENTIAL_REJECTED = "host.credential_rejected", Error, "Toolcrib, runtime" {
        "the server of the tool rejected the credentials",
        "The status of the response is 401 or 403. Credentials are sent in the headers that the manifest names.",
        "check the value, and set it with `toolcrib secret set TOOL NAME`",
    }
    CREDENTIAL_INVALID = "host.credential_invalid", Error, "Toolcrib, runtime" {
        "the value of a credential cannot be sent",
        "The manifest names a header for the credential. Header values have only visible ASCII characters and inner spaces, at most 16 KiB.",
        "set the value again with `toolcrib secret set TOOL NAME`",
    }
    PROTOCOL = "host.protocol", Error, "Toolcrib, runtime" {
        "the program of the tool broke the protocol",
        "A program answers each call with one line of JSON, which has the call's id and either `result` or `error`.",
        "write nothing but protocol lines to standard output, and logs to standard error",
    }
    RESULT_TOO_LARGE = "host.result_too_large", Error, "Toolcrib limits" {
        "the result is too large",
        "A result has at most 1 MiB. The program was terminated when it wrote more.",
        "return less, or write a file into the tool's data folder and return its name",
    }
    TOOL_FAILED = "host.tool_failed", Error, "local manifest, functions" {
        "the tool reported an error",
        "The handler threw an error or answered with one. Its message was written by the tool's author.",
        "read the message, and correct the arguments if they caused it",
    }
    OUTPUT_INVALID = "host.output_invalid", Error, "local manifest, functions" {
        "the result does not match the output schema",
        "The manifest defines a JSON Schema for the result, and clients validate results against it.",
        "correct the handler, or the `outputs` of the function",
    }
    BUSY = "host.busy", Error, "Toolcrib limits" {
        "the tool has too many concurrent calls",
        "Each call may start a process, so their number is limited by `maxConcurrent` of the tool.",
        "wait for the other calls, then call again",
    }
    STATE = "host.state", Error, "Toolcrib, state folder" {
        "the state of the host cannot be used",
        "Permissions, secrets, the audit log and copies of tools are in the state folder, which only its owner may read.",
        "check that the folder exists, belongs to you and is not full",
    }
    PAGE_ADDRESS = "host.page_address", Error, "Toolcrib, settings page" {
        "the settings page listens on loopback addresses only",
        "The page changes permissions and credentials over plain HTTP, so it must not be reachable from other machines.",
        "listen on 127.0.0.1 or [::1]; to use it from another machine, forward the port with `ssh -L`",
    }
    PAGE_SESSION = "host.page_session", Error, "Toolcrib, settings page" {
        "the browser is not signed in to the settings page",
        "The URL that the command prints works once, in one browser, and the session ends after 30 minutes without use.",
        "run `toolcrib local settings` again and open the URL that it prints",
    }
    PAGE_FORGERY = "host.page_forgery", Error, "Toolcrib, settings page" {
        "the request does not come from the settings page",
        "Other pages in the same browser can send requests to this machine. Changes are accepted only from a form of the settings page itself, under a loopback host name (CSRF protection).",
        "open the settings page and use its forms",
    }
    PAGE_FORM = "host.page_form", Error, "Toolcrib, settings page" {
        "the form is not valid",
        "A field is missing or unknown, the encoding is broken, or the form is larger than the settings page ever sends. Nothing was changed.",
        "reload the page and repeat the input; use `toolcrib secret set` for values of several lines",
    }
    PAGE_STALE = "host.page_stale", Error, "Toolcrib, settings page" {
        "the tool changed since the page was loaded",
        "Permissions and credentials are granted to the content that you reviewed. The content has changed, so nothing was saved.",
        "reload the page, review the changes, and repeat the input",
    }
    PIN_UNVERIFIED = "host.pin_unverified", Error, "ERC-8257 §7" {
        "the onchain tool failed verification, so it was not pinned",
        "Only a tool that passes all four checks and every rule of its manifest is listed for models. The findings list the errors.",
        "run `toolcrib verify REFERENCE`, and report its findings to the operator of the tool",
    }
    PIN_EXISTS = "host.pin_exists", Error, "Toolcrib, pinned tools" {
        "the onchain tool is already pinned",
        "A pin fixes one version of one tool. It is not replaced without showing the changes.",
        "run `toolcrib local update REFERENCE` to accept another version, or `toolcrib local remove REFERENCE`",
    }
    PIN_NAME_TAKEN = "host.pin_name_taken", Error, "Toolcrib, pinned tools" {
        "another tool has this name",
        "Models see a pinned tool as `onchain_NAME`. Names must be unique among local and onchain tools.",
        "choose another name with --name",
    }
    PIN_NAME_LONG = "host.pin_name_long", Error, "Toolcrib, pinned tools" {
        "the name of the onchain tool is too long for models",
        "Models see a pinned tool as `onchain_NAME`, and model APIs accept at most 64 characters.",
        "choose a shorter name with --name",
    }
    PIN_LIMIT = "host.pin_limit", Error, "Toolcrib limits" {
        "too many pinned tools, or the manifest is too large",
        "Every pinned tool is listed for models, and its manifest is stored to show later changes. At most 64 tools can be pinned, with manifests of at most 128 KiB.",
        "remove pinned tools that you do not use; a large tool can be called through `call_tool`",
    }
    PIN_QUARANTINED = "host.pin_quarantined", Error, "Toolcrib, pinned tools; ERC-8257 Metadata URI Mutability" {
        "the tool differs from the pinned version",
        "The registration or the manifest changed after the user accepted the tool, or it no longer verifies. It is neither listed nor called until the user accepts the change.",
        "the user can review the changes with `toolcrib local show REFERENCE` and accept them with `toolcrib local update REFERENCE`",
    }
    PUBLISH_CREDENTIALS = "host.publish_credentials", Error, "Toolcrib, publishing" {
        "the tool has credentials, so it was not published",
        "Every caller of a published function uses the credentials of its tool: at the user's expense, in the user's name, and with the access that they grant.",
        "publish a tool without credentials, or accept this with --allow-credentials",
    }
    PUBLISH_UNSANDBOXED = "host.publish_unsandboxed", Error, "Toolcrib, publishing" {
        "the tool would run without a sandbox, so it was not published",
        "Unknown callers send input to the program. Without a sandbox, a vulnerability in it exposes the user's files, network and processes.",
        "publish on a machine with Landlock and without --no-sandbox, or accept this with --allow-unsandboxed",
    }
    PUBLISH_CHANGED = "host.publish_changed", Error, "Toolcrib, publishing" {
        "the tool changed after it was published, so it is not served",
        "A function is published in one version. Changed content has no permission to run for callers.",
        "run `toolcrib local publish` again",
    }
}
