//! The packed form of changes: they are written and read together, and many of them share a row.

use alloy_primitives::U256;

use super::Kinds;
use crate::model::{RegistryId, ToolKey};

/// Packs registry, length of the id, the id without leading zeros, and kinds of each change; numbers as in LEB128.
pub(super) fn pack(changes: &[(ToolKey, Kinds)]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8 * changes.len());
    let number = |bytes: &mut Vec<u8>, mut value: u64| {
        while value > 0x7f {
            bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        bytes.push(value as u8);
    };
    for (key, kinds) in changes {
        number(&mut bytes, key.registry.0.cast_unsigned());
        let id = key.id.to_be_bytes_trimmed_vec();
        // At most 32.
        bytes.push(id.len() as u8);
        bytes.extend_from_slice(&id);
        number(&mut bytes, kinds.0.cast_unsigned());
    }
    bytes
}

/// Unpacks changes. `None` for invalid bytes.
pub(super) fn unpack(mut bytes: &[u8]) -> Option<Vec<(ToolKey, Kinds)>> {
    fn number(bytes: &mut &[u8]) -> Option<i64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = bytes.split_first()?;
            *bytes = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value.cast_signed());
            }
        }
        None
    }
    let mut changes = Vec::new();
    while !bytes.is_empty() {
        let registry = RegistryId(number(&mut bytes)?);
        let (length, rest) = bytes.split_first()?;
        let (id, rest) = rest.split_at_checked(usize::from(*length))?;
        bytes = rest;
        let id = U256::try_from_be_slice(id)?;
        changes.push((ToolKey { registry, id }, Kinds(number(&mut bytes)?)));
    }
    Some(changes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_packed_comes_back(rows in proptest::collection::vec((any::<i64>(), any::<[u8; 32]>(), 0_usize..32, 0_i64..512), 0..20)) {
            let changes: Vec<(ToolKey, Kinds)> = rows.into_iter().map(|(registry, mut id, zeros, kinds)| {
                id[..zeros].fill(0);
                (ToolKey { registry: RegistryId(registry), id: U256::from_be_bytes(id) }, Kinds(kinds))
            }).collect();
            let packed = pack(&changes);
            prop_assert_eq!(unpack(&packed), Some(changes));
            if !packed.is_empty() {
                // A truncated input gives fewer changes or none, and never panics.
                let _ = unpack(&packed[..packed.len() - 1]);
            }
        }

        #[test]
        fn rubbish_does_no_harm(bytes in any::<Vec<u8>>()) {
            let _ = unpack(&bytes);
        }
    }
}
