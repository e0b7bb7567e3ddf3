// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {IERC1271} from "@openzeppelin/contracts/interfaces/IERC1271.sol";
import {ERC1155Holder} from "@openzeppelin/contracts/token/ERC1155/utils/ERC1155Holder.sol";
import {ERC721Holder} from "@openzeppelin/contracts/token/ERC721/utils/ERC721Holder.sol";
import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";

/// @title TestSmartWallet
/// @notice An account that is a contract, for tests: its owner signs for it by ERC-1271 and acts through it.
contract TestSmartWallet is IERC1271, ERC721Holder, ERC1155Holder {
    address public immutable OWNER;

    error NotOwner(address caller);

    constructor(address owner) {
        OWNER = owner;
    }

    receive() external payable {}

    /// @notice Makes a call as this account. Reverts as the call does.
    function execute(address target, uint256 value, bytes calldata data)
        external
        payable
        returns (bytes memory result)
    {
        if (msg.sender != OWNER) revert NotOwner(msg.sender);
        bool ok;
        (ok, result) = target.call{value: value}(data);
        if (!ok) {
            assembly ("memory-safe") {
                revert(add(result, 0x20), mload(result))
            }
        }
    }

    /// @inheritdoc IERC1271
    function isValidSignature(bytes32 hash, bytes calldata signature) external view returns (bytes4) {
        (address signer, ECDSA.RecoverError problem,) = ECDSA.tryRecover(hash, signature);
        bool valid = problem == ECDSA.RecoverError.NoError && signer == OWNER;
        return valid ? IERC1271.isValidSignature.selector : bytes4(0xffffffff);
    }
}
