// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {ERC1967Utils} from "@openzeppelin/contracts/proxy/ERC1967/ERC1967Utils.sol";
import {Proxy} from "@openzeppelin/contracts/proxy/Proxy.sol";
import {IBeacon} from "@openzeppelin/contracts/proxy/beacon/IBeacon.sol";

/// @title TestBeacon
/// @notice An upgradeable beacon for tests: anyone can upgrade it.
contract TestBeacon is IBeacon {
    /// @inheritdoc IBeacon
    address public implementation;

    constructor(address implementation_) {
        implementation = implementation_;
    }

    /// @notice Points all proxies of this beacon at another implementation.
    function upgradeTo(address implementation_) external {
        implementation = implementation_;
    }
}

/// @title TestBeaconProxy
/// @notice A beacon proxy for tests that reads its beacon from the ERC-1967 slot at each call, as OpenZeppelin's did before
///         version 5: the most expensive of the usual proxies. Beside the call itself it costs two cold accounts (beacon and
///         implementation) and two cold slots (in the proxy and in the beacon).
contract TestBeaconProxy is Proxy {
    constructor(address beacon) payable {
        ERC1967Utils.upgradeBeaconToAndCall(beacon, "");
    }

    receive() external payable {
        _fallback();
    }

    function _implementation() internal view override returns (address) {
        return IBeacon(ERC1967Utils.getBeacon()).implementation();
    }
}
