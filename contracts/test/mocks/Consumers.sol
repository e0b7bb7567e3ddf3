// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {IToolRegistry} from "src/interfaces/IToolRegistry.sol";

/// @dev A contract that lets accounts with access to a tool count, in the way that ERC-8257 advises: it asks for its own caller,
///      with a gas limit, before it writes anything, behind a lock, and asks once in a transaction.
contract CarefulConsumer {
    error Denied(address caller);
    error Locked();

    IToolRegistry private immutable _registry;
    uint256 private immutable _toolId;
    uint256 private immutable _budget;

    mapping(address => uint256) public counts;
    uint256 public total;

    constructor(IToolRegistry registry, uint256 toolId, uint256 budget) {
        (_registry, _toolId, _budget) = (registry, toolId, budget);
    }

    function act() public {
        _enter();
        if (!_mayUse(msg.sender)) revert Denied(msg.sender);
        ++counts[msg.sender];
        ++total;
        _leave();
    }

    /// @dev In one transaction.
    function actTwice() external {
        act();
        act();
    }

    /// @dev Slots of transient storage: 0 is the lock, the others are hashes. 1 stands for no, 2 for yes.
    function _mayUse(address caller) private returns (bool granted) {
        bytes32 slot = keccak256(abi.encode(_toolId, caller));
        uint256 known;
        assembly ("memory-safe") {
            known := tload(slot)
        }
        if (known != 0) return known == 2;
        try _registry.hasAccess{gas: _budget}(_toolId, caller, "") returns (bool answer) {
            granted = answer;
        } catch {}
        known = granted ? 2 : 1;
        assembly ("memory-safe") {
            tstore(slot, known)
        }
    }

    function _enter() private {
        uint256 locked;
        assembly ("memory-safe") {
            locked := tload(0)
            tstore(0, 1)
        }
        if (locked != 0) revert Locked();
    }

    function _leave() private {
        assembly ("memory-safe") {
            tstore(0, 0)
        }
    }
}

/// @dev What ERC-8257 warns of: asks between two writes that belong together.
contract CarelessConsumer {
    IToolRegistry private immutable _registry;
    uint256 private immutable _toolId;

    mapping(address => uint256) public counts;
    uint256 public total;

    constructor(IToolRegistry registry, uint256 toolId) {
        (_registry, _toolId) = (registry, toolId);
    }

    function act() external returns (bool granted) {
        ++counts[msg.sender];
        granted = _registry.hasAccess(_toolId, msg.sender, "");
        ++total;
    }
}

/// @dev Grants while the books of a consumer of one caller balance: sees states that only exist in the middle of a call.
contract AuditingPredicate {
    CarefulConsumer public consumer;

    function set(address consumer_) external {
        consumer = CarefulConsumer(consumer_);
    }

    function hasAccess(uint256, address account, bytes calldata) external view returns (bool) {
        return consumer.counts(account) == consumer.total();
    }
}

/// @dev Asks the registry twice in one call, and turns the predicate round in between.
contract Flipper {
    function flip(IToolRegistry registry, uint256 toolId, address account, address predicate)
        external
        returns (bool before, bool afterwards)
    {
        before = registry.hasAccess(toolId, account, "");
        (bool ok,) = predicate.call(abi.encodeWithSignature("set(bool)", !before));
        require(ok);
        afterwards = registry.hasAccess(toolId, account, "");
    }
}
