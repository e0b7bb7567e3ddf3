// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {IToolRegistry} from "src/interfaces/IToolRegistry.sol";

/// @title GatedLedger
/// @notice Shows how a contract asks a registry for access. An example to copy; it is not deployed.
/// @dev - `msg.sender` is the account asked about. A yes for an address says nothing about who sends it.
///      - The question has a gas budget. A registry bounds its predicates, but need not be the registry that it claims to be.
///      - Asking comes before all writes, and behind a guard: a predicate runs foreign code, and must not see a half-written
///        state or come back in between.
///      - An answer holds for one transaction. It is kept in transient storage (EIP-1153), which ends with the transaction,
///        never in storage.
contract GatedLedger {
    /// @notice Gas for one question: 200,000 for the predicate, the 64th that calls keep back, and the registry's own reads.
    uint256 public constant ACCESS_GAS = 230_000;

    IToolRegistry public immutable REGISTRY;
    uint256 public immutable TOOL_ID;

    mapping(address account => uint256) public entries;

    error Denied(address account);
    error Unavailable();
    error Reentered();

    constructor(IToolRegistry registry, uint256 toolId) {
        (REGISTRY, TOOL_ID) = (registry, toolId);
    }

    modifier guarded() {
        bytes32 slot = keccak256("GatedLedger.guard");
        bool busy;
        assembly ("memory-safe") {
            busy := tload(slot)
            tstore(slot, 1)
        }
        if (busy) revert Reentered();
        _;
        assembly ("memory-safe") {
            tstore(slot, 0)
        }
    }

    /// @notice Writes an entry for each text, if the sender may. Two entries cost one question.
    function add(string[] calldata texts) external guarded {
        for (uint256 i; i < texts.length; ++i) {
            _requireAccess(msg.sender);
        }
        entries[msg.sender] += texts.length;
    }

    function _requireAccess(address account) private {
        bytes32 slot = keccak256(abi.encode(TOOL_ID, account));
        bool known;
        assembly ("memory-safe") {
            known := tload(slot)
        }
        if (known) return;
        if (!_ask(account)) revert Denied(account);
        assembly ("memory-safe") {
            tstore(slot, 1)
        }
    }

    /// @dev A malfunction is not a no, and never a yes.
    function _ask(address account) private view returns (bool) {
        try REGISTRY.tryHasAccess{gas: ACCESS_GAS}(TOOL_ID, account, "") returns (bool ok, bool granted) {
            if (!ok) revert Unavailable();
            return granted;
        } catch {
            revert Unavailable();
        }
    }
}
