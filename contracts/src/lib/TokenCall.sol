// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

/// @title TokenCall
/// @notice Calls to token contracts, which may be broken or hostile: static, with a gas limit, and with only as much
///         of the answer copied as was asked for.
/// @dev A Solidity `try` hands on all gas, copies the whole answer, and reverts in the caller when it cannot decode it:
///      three ways for an untrusted contract to break a predicate.
library TokenCall {
    /// @notice Kept back for the last steps of the predicate, whatever a token does: to answer, or to revert with an
    ///         error of its own. Measured at 658 at most.
    uint256 internal constant TAIL_GAS = 1_500;

    /// @notice What the EVM charges for the first access to an account in a transaction, on top of the gas passed on.
    uint256 internal constant COLD_ACCOUNT_GAS = 2_600;

    /// @notice Gas for the next of several calls: what is left, less the reserve of the later ones. So a token
    ///         cannot starve those after it, and gas that one does not use is available to the next.
    /// @param promised What this question is promised. It is offered that much even if gas is short: the EVM then hands on
    ///                 what it has, and the question fails.
    /// @param reserved What the later questions are promised, with what the predicate spends on them itself.
    function share(uint256 promised, uint256 reserved) internal view returns (uint256) {
        // Amounts of gas are far from overflowing.
        unchecked {
            uint256 left = gasleft();
            uint256 kept = reserved + COLD_ACCOUNT_GAS + TAIL_GAS;
            return left > kept + promised ? left - kept : promised;
        }
    }

    /// @notice Queries one word.
    /// @return ok   Whether the call succeeded and returned a word at least. A target without code returns nothing.
    /// @return word The first word; zero unless `ok`.
    function tryWord(address target, uint256 gasLimit, bytes memory input)
        internal
        view
        returns (bool ok, uint256 word)
    {
        (ok, word,) = tryWordOrReason(target, gasLimit, input);
    }

    /// @notice Queries one word where a standard lets the target deny by reverting.
    /// @return ok      Whether the call succeeded and returned a word at least.
    /// @return word    The first word; zero unless `ok`.
    /// @return refused Whether the target reverted and gave a reason. Running out of gas has none, nor has a missing
    ///                 function or a missing contract.
    function tryWordOrReason(address target, uint256 gasLimit, bytes memory input)
        internal
        view
        returns (bool ok, uint256 word, bool refused)
    {
        assembly ("memory-safe") {
            // The answer goes to scratch space, which Solidity leaves to us.
            ok := staticcall(gasLimit, target, add(input, 0x20), mload(input), 0x00, 0x20)
            refused := and(iszero(ok), gt(returndatasize(), 0))
            ok := and(ok, gt(returndatasize(), 0x1f))
            if ok { word := mload(0x00) }
        }
    }

    /// @notice Queries `count` words.
    /// @return ok    Whether the call succeeded and returned that many at least.
    /// @return words The first `count` words; none unless `ok`.
    function tryWords(address target, uint256 gasLimit, bytes memory input, uint256 count)
        internal
        view
        returns (bool ok, uint256[] memory words)
    {
        assembly ("memory-safe") {
            // Nothing is copied by the call itself; the size is judged first.
            ok := staticcall(gasLimit, target, add(input, 0x20), mload(input), 0x00, 0x00)
            let size := shl(5, count)
            ok := and(ok, iszero(lt(returndatasize(), size)))
            if ok {
                words := mload(0x40)
                mstore(words, count)
                returndatacopy(add(words, 0x20), 0x00, size)
                mstore(0x40, add(add(words, 0x20), size))
            }
        }
    }
}
