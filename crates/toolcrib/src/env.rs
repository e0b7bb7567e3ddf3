//! Every environment variable that Toolcrib reads, in one place.

/// When to colour: `auto`, `always` or `never`. The setting `color`.
pub(crate) const TOOLCRIB_COLOR: &str = "TOOLCRIB_COLOR";

/// How `lint` prints: `human`, `json`, `sarif` or `github`. The setting `format`.
pub(crate) const TOOLCRIB_FORMAT: &str = "TOOLCRIB_FORMAT";

/// Whether warnings make `lint` and `validate` fail: `true` or `false`. The setting `deny_warnings`.
pub(crate) const TOOLCRIB_DENY_WARNINGS: &str = "TOOLCRIB_DENY_WARNINGS";

/// Producer or consumer rules: `producer` or `consumer`. The setting `as`.
pub(crate) const TOOLCRIB_AS: &str = "TOOLCRIB_AS";

/// RPC nodes, separated by commas.
pub(crate) const RPC_URL: &str = "RPC_URL";

/// The private key that signs when no wallet is given.
pub(crate) const TOOLCRIB_PRIVATE_KEY: &str = "TOOLCRIB_PRIVATE_KEY";

/// The password of the wallet given by `--wallet`.
pub(crate) const TOOLCRIB_PASSWORD: &str = "TOOLCRIB_PASSWORD";

/// The webhook of `watch`, unless `--webhook` is given. A variable, because such a URL often contains a key and other users can see
/// arguments.
pub(crate) const TOOLCRIB_WEBHOOK: &str = "TOOLCRIB_WEBHOOK";

/// The upstream server of `serve`, unless `--upstream` is given. A variable, because such a URL may contain a key.
pub(crate) const TOOLCRIB_UPSTREAM: &str = "TOOLCRIB_UPSTREAM";

/// The key for the directory that `serve --usage-url` reports to.
pub(crate) const TOOLCRIB_USAGE_KEY: &str = "TOOLCRIB_USAGE_KEY";

/// The secret from which `serve` derives nonces of sign-in challenges; servers behind one origin share it.
pub(crate) const TOOLCRIB_SIGN_IN_KEY: &str = "TOOLCRIB_SIGN_IN_KEY";

/// The replay store of used payments, unless `--store` is given: `memory`, `sqlite:PATH` or a PostgreSQL URL.
pub(crate) const TOOLCRIB_STORE: &str = "TOOLCRIB_STORE";

/// The database of an index, unless `--store` is given: `memory`, `sqlite:PATH` or a PostgreSQL URL.
pub(crate) const TOOLCRIB_INDEX: &str = "TOOLCRIB_INDEX";

/// The object store for evidence, reports and search snapshots of an index, unless `--objects` is given.
pub(crate) const TOOLCRIB_OBJECTS: &str = "TOOLCRIB_OBJECTS";

/// Access key, secret key and session token of the object store, under the names that all S3 clients use.
pub(crate) const AWS_ACCESS_KEY_ID: &str = "AWS_ACCESS_KEY_ID";
pub(crate) const AWS_SECRET_ACCESS_KEY: &str = "AWS_SECRET_ACCESS_KEY";
pub(crate) const AWS_SESSION_TOKEN: &str = "AWS_SESSION_TOKEN";
/// Read replicas of that database, separated by spaces, unless `--read-store` is given. The setting `read_stores`.
pub(crate) const TOOLCRIB_READ_STORES: &str = "TOOLCRIB_READ_STORES";

/// The purge URL of the cache that `index purge` uses, unless `--url` is given.
pub(crate) const TOOLCRIB_PURGE_URL: &str = "TOOLCRIB_PURGE_URL";
/// Facilitators whose catalogues an index follows, separated by commas, unless `--bazaar` is given: such a URL may contain a key.
pub(crate) const TOOLCRIB_BAZAAR: &str = "TOOLCRIB_BAZAAR";

/// The key for the service that `--collections` names.
pub(crate) const TOOLCRIB_COLLECTIONS_KEY: &str = "TOOLCRIB_COLLECTIONS_KEY";

/// The directory that `tools` queries, unless `--directory` or `--store` is given. The setting `directory`.
pub(crate) const TOOLCRIB_DIRECTORY: &str = "TOOLCRIB_DIRECTORY";

/// The folder of a static embedding, unless `directory --embedding` is given. The setting `embedding`.
pub(crate) const TOOLCRIB_EMBEDDING: &str = "TOOLCRIB_EMBEDDING";

/// The API key for that directory.
pub(crate) const TOOLCRIB_API_KEY: &str = "TOOLCRIB_API_KEY";

/// The bearer token that clients of `mcp` over HTTP send.
pub(crate) const TOOLCRIB_MCP_TOKEN: &str = "TOOLCRIB_MCP_TOKEN";

/// Folders with local tools, separated as in `PATH`, unless `--tools` is given.
pub(crate) const TOOLCRIB_TOOLS: &str = "TOOLCRIB_TOOLS";

/// The passphrase of the encrypted credential file, if it has one.
pub(crate) const TOOLCRIB_PASSPHRASE: &str = "TOOLCRIB_PASSPHRASE";

/// The prefix of variables with credentials of local tools: `TOOLCRIB_SECRET_<TOOL>__<NAME>`.
pub(crate) const TOOLCRIB_SECRET: &str = "TOOLCRIB_SECRET_";

/// The bearer token of the node or service that `agt publish --pin` uses.
pub(crate) const TOOLCRIB_PIN_TOKEN: &str = "TOOLCRIB_PIN_TOKEN";

/// The TSIG key of `agt publish --txt update:…`: `hmac-sha256:<name>:<base64>`.
pub(crate) const TOOLCRIB_TSIG_KEY: &str = "TOOLCRIB_TSIG_KEY";

/// The folder of wallets and journals: `$XDG_STATE_HOME/toolcrib`.
pub(crate) const XDG_STATE_HOME: &str = "XDG_STATE_HOME";

/// The folder of the user's data: `$XDG_DATA_HOME/toolcrib`.
pub(crate) const XDG_DATA_HOME: &str = "XDG_DATA_HOME";

/// Folders of data for all users, separated by colons: `toolcrib` in each of them.
pub(crate) const XDG_DATA_DIRS: &str = "XDG_DATA_DIRS";

/// Any non-empty value turns colours off (<https://no-color.org>), unless `color` is set in another way.
pub(crate) const NO_COLOR: &str = "NO_COLOR";

/// The terminal type. The type `dumb` gets no colours.
pub(crate) const TERM: &str = "TERM";

/// The folder of the user's settings: `$XDG_CONFIG_HOME/toolcrib/config.toml`.
pub(crate) const XDG_CONFIG_HOME: &str = "XDG_CONFIG_HOME";

/// The home folder; `$HOME/.config` is the default of `XDG_CONFIG_HOME`.
pub(crate) const HOME: &str = "HOME";

/// The folder of settings on Windows: `%APPDATA%\toolcrib\config.toml`.
pub(crate) const APPDATA: &str = "APPDATA";

/// The variables that are settings, with what they set, for the generated reference.
#[cfg(test)]
pub(crate) const DOCUMENTED: &[(&str, &str)] = &[
    (TOOLCRIB_COLOR, "setting `color`: `auto`, `always` or `never`"),
    (TOOLCRIB_FORMAT, "setting `format`: `human`, `json`, `sarif` or `github`"),
    (TOOLCRIB_DENY_WARNINGS, "setting `deny_warnings`: `true` or `false`"),
    (TOOLCRIB_AS, "setting `as`: `producer` or `consumer`"),
    (RPC_URL, "RPC nodes, comma-separated, unless `--rpc-url` is given"),
    ("RPC_URL_<chain>", "RPC nodes of the chain with this id; wins over `RPC_URL`"),
    (TOOLCRIB_PRIVATE_KEY, "private key that signs if no wallet is given"),
    (TOOLCRIB_PASSWORD, "password of the wallet"),
    (TOOLCRIB_WEBHOOK, "URL to which `watch` posts drift, unless `--webhook` is given"),
    (TOOLCRIB_UPSTREAM, "upstream server of `serve`, unless `--upstream` is given"),
    (TOOLCRIB_USAGE_KEY, "API key for the directory that `serve --usage-url` reports to"),
    (TOOLCRIB_SIGN_IN_KEY, "secret of `serve` for sign-in challenges, shared by all servers of an origin (default: random)"),
    (TOOLCRIB_STORE, "replay store of `serve`, unless `--store` is given: `memory`, `sqlite:PATH` or a PostgreSQL URL"),
    (TOOLCRIB_INDEX, "index database, unless `--store` is given: `sqlite:PATH` or a PostgreSQL URL"),
    (TOOLCRIB_OBJECTS, "object store for evidence, reports and search snapshots, unless `--objects` is given"),
    (
        AWS_ACCESS_KEY_ID,
        "access key of an S3 object store; `AWS_REGION`, `AWS_ENDPOINT_URL` and other usual AWS variables are read too",
    ),
    (AWS_SECRET_ACCESS_KEY, "secret of that access key"),
    (AWS_SESSION_TOKEN, "session token of temporary credentials"),
    (TOOLCRIB_READ_STORES, "setting `read_stores`: read replicas of the index database, separated by spaces"),
    (TOOLCRIB_PURGE_URL, "purge endpoint of the cache for `index purge`, unless `--url` is given"),
    (TOOLCRIB_BAZAAR, "x402 facilitators whose Bazaar to list, comma-separated, unless `--bazaar` is given"),
    (TOOLCRIB_COLLECTIONS_KEY, "API key for the service of `--collections`"),
    (TOOLCRIB_DIRECTORY, "setting `directory`: directory URL for `tools`, unless `--directory` or `--store` is given"),
    (TOOLCRIB_EMBEDDING, "setting `embedding`: folder of a static embedding, unless `directory --embedding` is given"),
    (TOOLCRIB_API_KEY, "API key for that directory"),
    (TOOLCRIB_MCP_TOKEN, "bearer token that clients of `mcp --listen` send"),
    (TOOLCRIB_TOOLS, "folders of local tools, separated as in `PATH`, unless `--tools` is given"),
    (TOOLCRIB_PASSPHRASE, "passphrase of the encrypted credentials, if they have one"),
    ("TOOLCRIB_SECRET_<TOOL>__<NAME>", "credential of a local tool, in upper case with `_` for `-`"),
    (TOOLCRIB_PIN_TOKEN, "bearer token for `agt publish --pin`"),
    (TOOLCRIB_TSIG_KEY, "TSIG key for `agt publish --txt update:SERVER`: `hmac-sha256:<name>:<base64>`"),
    (
        XDG_STATE_HOME,
        "state folder: `$XDG_STATE_HOME/toolcrib`, with wallets and unfinished work (default: `~/.local/state/toolcrib`)",
    ),
    (XDG_DATA_HOME, "data folder: an embedding is searched in `$XDG_DATA_HOME/toolcrib/embedding` (default: `~/.local/share`)"),
    (XDG_DATA_DIRS, "further data folders for the embedding (default: `/usr/local/share:/usr/share`)"),
    (NO_COLOR, "any non-empty value turns colors off, unless `color` is set"),
    (TERM, "a terminal named `dumb` gets no colors"),
    (XDG_CONFIG_HOME, "settings file of the user: `$XDG_CONFIG_HOME/toolcrib/config.toml`"),
    (HOME, "settings file of the user if `XDG_CONFIG_HOME` is unset: `$HOME/.config/toolcrib/config.toml`"),
    (APPDATA, "settings file of the user on Windows: `%APPDATA%\\toolcrib\\config.toml`"),
];
