// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {ERC1967Proxy} from "@openzeppelin/contracts/proxy/ERC1967/ERC1967Proxy.sol";
import {ERC1967Utils} from "@openzeppelin/contracts/proxy/ERC1967/ERC1967Utils.sol";

/// @title TestProxy
/// @notice An ERC-1967 proxy for tests: anyone can upgrade it.
contract TestProxy is ERC1967Proxy {
    constructor(address implementation) ERC1967Proxy(implementation, "") {}

    receive() external payable {
        _fallback();
    }

    /// @notice Points the proxy at another implementation. A name of its own, so as not to hide one of the implementation.
    function testProxyUpgradeTo(address implementation) external {
        ERC1967Utils.upgradeToAndCall(implementation, "");
    }

    /// @dev There is nothing to initialise in a contract that anyone may change anyway.
    function _unsafeAllowUninitialized() internal pure override returns (bool) {
        return true;
    }
}
