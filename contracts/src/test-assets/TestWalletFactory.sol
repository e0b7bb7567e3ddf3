// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {TestSmartWallet} from "./TestSmartWallet.sol";

/// @title TestWalletFactory
/// @notice Deploys smart wallets at addresses that are known beforehand, for tests of counterfactual accounts (ERC-6492).
contract TestWalletFactory {
    /// @notice Deploys the wallet of an owner. Does nothing if it is there already.
    function createAccount(address owner, bytes32 salt) external returns (address account) {
        account = accountOf(owner, salt);
        if (account.code.length == 0) new TestSmartWallet{salt: salt}(owner);
    }

    /// @notice The address of an owner's wallet, deployed or not.
    function accountOf(address owner, bytes32 salt) public view returns (address) {
        bytes32 codeHash = keccak256(abi.encodePacked(type(TestSmartWallet).creationCode, abi.encode(owner)));
        return address(uint160(uint256(keccak256(abi.encodePacked(bytes1(0xff), address(this), salt, codeHash)))));
    }
}
