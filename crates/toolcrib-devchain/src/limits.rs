//! Limits for clients and tests, each with its reason.

/// Maximum size of an HTTP body or WebSocket message. The largest honest request is a raw transaction with the largest init code
/// (49,152 bytes, EIP-3860), or a batch of a few hundred calls.
pub const MAX_REQUEST_BYTES: usize = 4 * 1024 * 1024;

/// Maximum number of requests in one JSON-RPC batch. viem sends up to 1,000 by default.
pub const MAX_BATCH: usize = 1_000;

/// Maximum number of WebSocket connections. Further ones are refused, so that leaking tests notice before file descriptors run out.
pub const MAX_CONNECTIONS: usize = 512;

/// Maximum number of subscriptions on one connection.
pub const MAX_SUBSCRIPTIONS: usize = 128;

/// Number of events that a slow subscriber may lag behind before its connection is closed. Events are shared, not copied.
pub const MAX_SUBSCRIBER_LAG: usize = 8_192;

/// Maximum number of installed filters. Above it, the one polled longest ago is removed: clients often forget to uninstall filters.
pub const MAX_FILTERS: usize = 1_000;

/// Maximum number of entries in one filter between two polls. A filter that exceeds it is removed; its client gets "filter not found".
pub const MAX_FILTER_BACKLOG: usize = 20_000;

/// Maximum number of logs in one response of `eth_getLogs`, as on many public nodes.
pub const MAX_LOGS: usize = 20_000;

/// Default maximum block range of `eth_getLogs`. Public nodes allow far less; lower it in the builder to test that.
pub const MAX_LOG_RANGE: u64 = 1_000_000;

/// Maximum number of addresses, or of alternatives for a topic, in one filter, as in geth.
pub const MAX_FILTER_ALTERNATIVES: usize = 1_000;

/// Maximum number of transactions in the pool.
pub const MAX_POOL: usize = 10_000;

/// How far a pooled transaction may be ahead of the account's nonce, so that one sender cannot fill the pool with gaps.
pub const MAX_NONCE_GAP: u64 = 1_024;

/// Maximum number of blocks in one `anvil_mine`.
pub const MAX_MINE: u64 = 100_000;

/// Maximum number of snapshots. Each is a few numbers and a copy of the pool; the oldest is removed first.
pub const MAX_SNAPSHOTS: usize = 1_024;

/// Maximum number of blocks in one response of `eth_feeHistory`, as in geth.
pub const MAX_FEE_HISTORY: u64 = 1_024;

/// Maximum number of reward percentiles in one `eth_feeHistory`, as in geth.
pub const MAX_PERCENTILES: usize = 100;

/// Default and maximum gas of an `eth_call`: geth's default cap.
pub const CALL_GAS: u64 = 50_000_000;

/// Block gas limit, as on anvil.
pub const BLOCK_GAS: u64 = 30_000_000;

/// Maximum size of a state file. Large enough for weeks of development, small enough not to exhaust memory.
pub const MAX_STATE_BYTES: u64 = 1024 * 1024 * 1024;
