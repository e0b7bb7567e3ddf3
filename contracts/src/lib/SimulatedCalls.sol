// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

/// @title SimulatedCalls
/// @notice Makes two calls, one after the other, inside an `eth_call` that has no recipient. It is never deployed: what the
/// constructor returns in place of code is the result.
/// @dev Used for accounts that do not exist yet (ERC-6492): the first call deploys the account, the second asks it something or
/// moves its tokens. The result is one word, followed by at most 1,024 bytes that the second call returned or reverted with:
/// 0 if the first call failed, 1 if the second failed, 2 if both succeeded. What the first call returns is not copied.
contract SimulatedCalls {
    constructor(address first, bytes memory firstData, address second, bytes memory secondData) {
        assembly ("memory-safe") {
            let out := mload(0x40)
            let size := 0
            mstore(out, 0)
            if call(gas(), first, 0, add(firstData, 0x20), mload(firstData), 0, 0) {
                mstore(out, add(1, call(gas(), second, 0, add(secondData, 0x20), mload(secondData), 0, 0)))
                size := returndatasize()
                if gt(size, 1024) { size := 1024 }
                returndatacopy(add(out, 0x20), 0, size)
            }
            return(out, add(size, 0x20))
        }
    }
}
