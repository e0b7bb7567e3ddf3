// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {IAccessPredicate} from "../interfaces/IAccessPredicate.sol";
import {IERC165} from "@openzeppelin/contracts/utils/introspection/IERC165.sol";

/// @title BoundedCall
/// @notice Calls to contracts that may be hostile: static, with a gas limit, and with no more than one word of the
///         answer copied.
/// @dev Assembly, because a Solidity call copies the whole answer into memory first: a callee that returns a megabyte
///      would make its caller pay for it.
library BoundedCall {
    /// @notice Gas for one ERC-165 question. ERC-165 obliges the callee to answer with less, so an honest contract is
    ///         never misread. A creator who sends too little gas for it cannot finish the write that follows either.
    uint256 internal constant ERC165_GAS = 30_000;

    /// @notice Queries a bool, strictly: the call must succeed and return exactly 32 bytes that say 0 or 1.
    ///         A target without code returns nothing and thereby fails.
    /// @return ok     Whether there was a proper answer.
    /// @return answer The answer; false unless `ok`.
    function tryBool(address target, uint256 gasLimit, bytes memory input)
        internal
        view
        returns (bool ok, bool answer)
    {
        uint256 word;
        /// @solidity memory-safe-assembly
        assembly {
            // The answer goes to scratch space (0x00 to 0x1f), which Solidity leaves to us.
            ok := staticcall(gasLimit, target, add(input, 0x20), mload(input), 0x00, 0x20)
            ok := and(ok, eq(returndatasize(), 0x20))
            word := mload(0x00)
        }
        ok = ok && word <= 1;
        answer = ok && word == 1;
    }

    /// @notice Whether `target` claims `interfaceId` by ERC-165. Anything but a well-formed true is false.
    function claims(address target, bytes4 interfaceId) internal view returns (bool yes) {
        (, yes) = tryBool(target, ERC165_GAS, abi.encodeCall(IERC165.supportsInterface, (interfaceId)));
    }

    /// @notice ERC-8257 "Predicate Validation at Registration", steps 3 to 5: a contract that supports ERC-165 must
    ///         claim `IAccessPredicate`; any other address is accepted, with or without code.
    function mayBePredicate(address target) internal view returns (bool) {
        return !claims(target, type(IERC165).interfaceId) || claims(target, type(IAccessPredicate).interfaceId);
    }
}
