//! What one client, or one careless test, may ask of the chain. Each number has its reason.

/// Bytes of one HTTP body or WebSocket message. The largest honest request is a raw transaction with the largest init code
/// (49,152 bytes, EIP-3860), or a batch of a few hundred calls.
pub const MAX_REQUEST_BYTES: usize = 4 * 1024 * 1024;

/// Requests in one JSON-RPC batch. viem sends up to 1,000 by default.
pub const MAX_BATCH: usize = 1_000;

/// WebSocket connections at a time. Beyond it upgrades are refused, so that leaking tests notice before file descriptors run out.
pub const MAX_CONNECTIONS: usize = 512;

/// Subscriptions on one connection.
pub const MAX_SUBSCRIPTIONS: usize = 128;

/// Events that a slow subscriber may lag behind before its connection is closed. Every event is shared, not copied.
pub const MAX_SUBSCRIBER_LAG: usize = 8_192;

/// Installed filters. Past it the filter that was polled longest ago goes: clients that forget to uninstall are common.
pub const MAX_FILTERS: usize = 1_000;

/// Entries that wait in one filter between two polls. A filter that overflows is dropped; its owner is told "filter not found".
pub const MAX_FILTER_BACKLOG: usize = 20_000;

/// Logs in one answer of `eth_getLogs`, as public nodes commonly have it.
pub const MAX_LOGS: usize = 20_000;

/// Blocks that `eth_getLogs` looks at, unless the builder says otherwise. Public nodes allow far fewer; lower it to test that.
pub const MAX_LOG_RANGE: u64 = 1_000_000;

/// Addresses or alternatives for a topic in one filter, as in geth.
pub const MAX_FILTER_ALTERNATIVES: usize = 1_000;

/// Transactions that wait to be mined.
pub const MAX_POOL: usize = 10_000;

/// How far ahead of the account's nonce a waiting transaction may be. Keeps one sender from filling the pool with gaps.
pub const MAX_NONCE_GAP: u64 = 1_024;

/// Blocks that one `anvil_mine` may make.
pub const MAX_MINE: u64 = 100_000;

/// Snapshots kept. Each is a few numbers and a copy of the pool; the oldest goes first.
pub const MAX_SNAPSHOTS: usize = 1_024;

/// Blocks in one answer of `eth_feeHistory`, as in geth.
pub const MAX_FEE_HISTORY: u64 = 1_024;

/// Reward percentiles in one `eth_feeHistory`, as in geth.
pub const MAX_PERCENTILES: usize = 100;

/// Gas of an `eth_call` that names none, and the most it may name: geth's default cap.
pub const CALL_GAS: u64 = 50_000_000;

/// Gas in a block. As on anvil; above it a transaction could not be mined anywhere.
pub const BLOCK_GAS: u64 = 30_000_000;

/// Bytes of a state file that is read back. Large enough for weeks of development, small enough not to exhaust memory.
pub const MAX_STATE_BYTES: u64 = 1024 * 1024 * 1024;
