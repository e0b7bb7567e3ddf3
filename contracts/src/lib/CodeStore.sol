// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

/// @title CodeStore
/// @notice Keeps bytes as the code of a contract made for them.
/// @dev Reading costs 2,600 gas for the whole, where storage costs 2,100 for each word: a list of 32 values is 2,900 gas
///      rather than 67,200. Writing is cheaper too, from about three words on. The bytes can never change.
library CodeStore {
    /// @notice The contract that holds the bytes could not be made.
    error StoreFailed();

    /// @dev PUSH2 size, DUP1, PUSH1 10, RETURNDATASIZE (0), CODECOPY, RETURNDATASIZE (0), RETURN: returns what follows
    ///      these ten bytes.
    bytes1 private constant PUSH2 = 0x61;
    bytes7 private constant RETURN_THE_REST = 0x80600a3d393df3;

    /// @dev STOP in front, so that the bytes cannot be run and the contract cannot be destroyed.
    bytes1 private constant STOP = 0x00;

    /// @notice Keeps `content`, of at most 24,575 bytes, and tells where.
    function write(bytes memory content) internal returns (address pointer) {
        // Longer code than 0x6000 bytes is refused by the EVM, so the size fits.
        if (content.length >= 0x6000) revert StoreFailed();
        // forge-lint: disable-next-line(unsafe-typecast)
        uint16 size = uint16(content.length + 1);
        bytes memory creation = abi.encodePacked(PUSH2, size, RETURN_THE_REST, STOP, content);
        assembly ("memory-safe") {
            pointer := create(0, add(creation, 0x20), mload(creation))
        }
        if (pointer == address(0)) revert StoreFailed();
    }

    /// @notice The bytes kept at `pointer`.
    function read(address pointer) internal view returns (bytes memory content) {
        assembly ("memory-safe") {
            let size := sub(extcodesize(pointer), 1)
            content := mload(0x40)
            mstore(content, size)
            extcodecopy(pointer, add(content, 0x20), 1, size)
            mstore(0x40, and(add(add(content, size), 0x3f), not(0x1f)))
        }
    }
}
