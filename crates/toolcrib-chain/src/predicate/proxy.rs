//! Whether a contract's code can be replaced, and when it was replaced.

use alloy_primitives::{Address, B256, b256};
use alloy_provider::Provider;
use alloy_rpc_types_eth::Filter;
use toolcrib_core::registry::{Proxy, ProxyKind};

use crate::Error;
use crate::rpc::Chain;

/// keccak256("eip1967.proxy.implementation") - 1.
pub const IMPLEMENTATION_SLOT: B256 = b256!("360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc");

/// keccak256("eip1967.proxy.beacon") - 1.
pub const BEACON_SLOT: B256 = b256!("a3f0ad74e5423aebfd80d3ef4346578335a9a72aeaee59ff6cb3582b35133d50");

/// keccak256("eip1967.proxy.admin") - 1.
pub const ADMIN_SLOT: B256 = b256!("b53127684a568b3173ae13b9f8a6016e243e63b6e8ee1178d6a717850b5d6103");

/// The topic of `Upgraded(address)`.
pub const UPGRADED_TOPIC: B256 = b256!("bc7cd75a20ee27fd9adebab32041f755214dbc6bffa90cc0225b39da2e5c2d3b");

/// The topic of `BeaconUpgraded(address)`.
pub const BEACON_UPGRADED_TOPIC: B256 = b256!("1cf3b03a6cf19fa2baba4df148e9dcabedea7f8a5c07840e207e5c089be95d3e");

/// Reads the code and the three slots of ERC-1967. Proxies of other designs are not detected.
pub async fn detect_proxy(chain: &Chain, address: Address, code: &[u8]) -> Result<Option<Proxy>, Error> {
    if let Some(proxy) = proxy_in(code) {
        return Ok(Some(proxy));
    }
    for (slot, kind) in
        [(IMPLEMENTATION_SLOT, ProxyKind::Implementation), (BEACON_SLOT, ProxyKind::Beacon), (ADMIN_SLOT, ProxyKind::Admin)]
    {
        let word = chain.storage(address, slot).await?;
        if !word.is_zero() {
            return Ok(Some(Proxy { kind, target: Address::from_word(word) }));
        }
    }
    Ok(None)
}

/// Detects proxies by their code.
fn proxy_in(code: &[u8]) -> Option<Proxy> {
    /// EIP-1167 code before and after the address.
    const HEAD: &[u8] = &[0x36, 0x3d, 0x3d, 0x37, 0x3d, 0x3d, 0x3d, 0x36, 0x3d, 0x73];
    const TAIL: &[u8] = &[0x5a, 0xf4, 0x3d, 0x82, 0x80, 0x3e, 0x90, 0x3d, 0x91, 0x60, 0x2b, 0x57, 0xfd, 0x5b, 0xf3];
    /// EIP-7702 code before the address.
    const DELEGATION: &[u8] = &[0xef, 0x01, 0x00];
    let target = |bytes: &[u8]| <[u8; 20]>::try_from(bytes).ok().map(Address::from);
    if let Some(target) = code.strip_prefix(HEAD).and_then(|rest| rest.strip_suffix(TAIL)).and_then(target) {
        return Some(Proxy { kind: ProxyKind::Minimal, target });
    }
    code.strip_prefix(DELEGATION).and_then(target).map(|target| Proxy { kind: ProxyKind::Delegated, target })
}

/// An upgrade of a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upgrade {
    /// The block.
    pub block: u64,
    /// The transaction.
    pub transaction: B256,
    /// The new implementation or beacon.
    pub target: Address,
}

/// The upgrades that a proxy emitted from block `from` to block `to`, both included. A proxy need not emit events, so compare
/// [`Proxy::target`] too.
pub async fn upgrades(chain: &Chain, address: Address, from: u64, to: u64) -> Result<Vec<Upgrade>, Error> {
    let filter =
        Filter::new().address(address).from_block(from).to_block(to).event_signature(vec![UPGRADED_TOPIC, BEACON_UPGRADED_TOPIC]);
    let logs = chain.provider().get_logs(&filter).await.map_err(Error::from_rpc)?;
    Ok(logs
        .iter()
        .filter(|log| log.address() == address && !log.removed)
        .filter_map(|log| {
            let target = Address::from_word(*log.topics().get(1)?);
            Some(Upgrade { block: log.block_number?, transaction: log.transaction_hash?, target })
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{U256, keccak256};

    use super::*;

    // req: PRED-015, REG-043
    #[test]
    fn slots_and_topics_are_what_their_names_say() {
        let slot = |name: &str| B256::from(U256::from_be_bytes(keccak256(name).0) - U256::ONE);
        assert_eq!(slot("eip1967.proxy.implementation"), IMPLEMENTATION_SLOT);
        assert_eq!(slot("eip1967.proxy.beacon"), BEACON_SLOT);
        assert_eq!(slot("eip1967.proxy.admin"), ADMIN_SLOT);
        assert_eq!(keccak256("Upgraded(address)"), UPGRADED_TOPIC);
        assert_eq!(keccak256("BeaconUpgraded(address)"), BEACON_UPGRADED_TOPIC);
    }

    #[test]
    fn minimal_proxies_and_delegations_are_seen_in_the_code() {
        let target = Address::repeat_byte(7);
        let minimal = [
            &[0x36, 0x3d, 0x3d, 0x37, 0x3d, 0x3d, 0x3d, 0x36, 0x3d, 0x73][..],
            target.as_slice(),
            &[0x5a, 0xf4, 0x3d, 0x82, 0x80, 0x3e, 0x90, 0x3d, 0x91, 0x60, 0x2b, 0x57, 0xfd, 0x5b, 0xf3],
        ]
        .concat();
        assert_eq!(proxy_in(&minimal), Some(Proxy { kind: ProxyKind::Minimal, target }));
        assert_eq!(proxy_in(&minimal[..44]), None);
        let delegated = [&[0xef, 0x01, 0x00][..], target.as_slice()].concat();
        assert_eq!(proxy_in(&delegated), Some(Proxy { kind: ProxyKind::Delegated, target }));
        assert_eq!(proxy_in(&[0x60; 45]), None);
        assert_eq!(proxy_in(&[]), None);
    }
}
