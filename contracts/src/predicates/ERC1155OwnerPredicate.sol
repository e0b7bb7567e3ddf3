// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {AccessRequirement, IAccessPredicate, RequirementLogic} from "../interfaces/IAccessPredicate.sol";
import {IERC1155Holding} from "../interfaces/IRequirementTypes.sol";
import {IToolRegistry} from "../interfaces/IToolRegistry.sol";
import {CodeStore} from "../lib/CodeStore.sol";
import {TokenCall} from "../lib/TokenCall.sol";
import {RegistryPredicate} from "./RegistryPredicate.sol";
import {IERC1155} from "@openzeppelin/contracts/token/ERC1155/IERC1155.sol";

/// @title ERC1155OwnerPredicate
/// @notice Grants access to whoever holds any one of some tokens in some ERC-1155 collections.
/// @dev Each collection is asked once, by `balanceOfBatch`. One that fails (reverts, burns its gas, has no code, answers
///      something else than the right number of balances) is passed over, and a holding in a later one still grants. If
///      none grants and one failed, `hasAccess` reverts: the account may hold a token there. A tool without entries
///      denies everybody, and the zero address is always denied: old collections revert for it, others count burnt
///      tokens as its own, and it is what a failed signature recovery yields.
contract ERC1155OwnerPredicate is RegistryPredicate {
    /// @notice A collection, and the tokens in it that open a tool.
    struct CollectionTokens {
        address collection;
        uint256[] tokenIds;
    }

    /// @notice Most collections of one tool.
    /// @dev This and the two limits below are from the measurement in `GasLimits.t.sol`: with all of them used up, a
    ///      holder of the last token is found within 58,000 gas, so that the predicate serves in a composite too.
    uint256 public constant MAX_COLLECTIONS_PER_TOOL = 3;

    /// @notice Most token ids in one entry: all that the tool may have.
    uint256 public constant MAX_TOKEN_IDS_PER_COLLECTION = 6;

    /// @notice Most token ids of one tool, over all its collections.
    uint256 public constant MAX_TOKEN_IDS_PER_TOOL = 6;

    /// @dev Promised to each `balanceOfBatch`, apart from its ids.
    uint256 private constant QUERY_GAS = 8_000;

    /// @dev Promised to it for each id: a cold slot 2,100 and the copying.
    uint256 private constant QUERY_GAS_PER_ID = 2_900;

    /// @dev What this contract spends for a collection itself: a cold account 2,600, writing the call, reading the answer.
    uint256 private constant STEP_GAS = 4_000;

    /// @dev Where the entries of a tool lie in a `CodeStore`, ABI-encoded. Zero when there are none.
    mapping(uint256 toolId => address) private _entries;

    /// @notice The entries of a tool were replaced; none means that all are denied.
    event CollectionTokensSet(uint256 indexed toolId, CollectionTokens[] entries);

    /// @notice More collections than can be asked within the gas of an access check.
    error TooManyCollections(uint256 count, uint256 max);

    /// @notice More token ids, up to and with this entry, than can be asked for within the gas of an access check.
    error TooManyTokenIds(uint256 entryIndex, uint256 count, uint256 max);

    /// @notice An entry without token ids can open nothing.
    error EmptyTokenIds(uint256 entryIndex);

    /// @notice There is no contract at this address.
    error CollectionNoCode(address collection);

    /// @notice No collection grants access, and this one could not be asked.
    error CollectionUnavailable(address collection);

    constructor(IToolRegistry registry) RegistryPredicate(registry) {}

    /// @notice Replaces the tokens that open a tool. An empty list closes it. Creator only.
    function setCollectionTokens(uint256 toolId, CollectionTokens[] calldata entries) external onlyToolCreator(toolId) {
        uint256 count = entries.length;
        if (count > MAX_COLLECTIONS_PER_TOOL) revert TooManyCollections(count, MAX_COLLECTIONS_PER_TOOL);
        uint256 total;
        for (uint256 i; i < count; ++i) {
            if (entries[i].collection.code.length == 0) revert CollectionNoCode(entries[i].collection);
            uint256 ids = entries[i].tokenIds.length;
            if (ids == 0) revert EmptyTokenIds(i);
            total += ids;
            if (total > MAX_TOKEN_IDS_PER_TOOL) revert TooManyTokenIds(i, total, MAX_TOKEN_IDS_PER_TOOL);
        }
        _entries[toolId] = count == 0 ? address(0) : CodeStore.write(abi.encode(entries));
        emit CollectionTokensSet(toolId, entries);
    }

    /// @notice The tokens that open a tool.
    function getCollectionTokens(uint256 toolId) external view returns (CollectionTokens[] memory) {
        return _load(toolId);
    }

    /// @inheritdoc IAccessPredicate
    /// @dev `data` is not used.
    function hasAccess(uint256 toolId, address account, bytes calldata) external view returns (bool) {
        if (account == address(0)) return false;
        CollectionTokens[] memory entries = _load(toolId);
        uint256 reserved;
        for (uint256 i; i < entries.length; ++i) {
            reserved += STEP_GAS + _promised(entries[i]);
        }
        address failed;
        for (uint256 i; i < entries.length; ++i) {
            uint256 promised = _promised(entries[i]);
            reserved -= STEP_GAS + promised;
            (bool ok, bool holds) = _holdsAny(entries[i], account, promised, reserved);
            if (holds) return true;
            if (!ok) failed = entries[i].collection;
        }
        if (failed != address(0)) revert CollectionUnavailable(failed);
        return false;
    }

    /// @inheritdoc IAccessPredicate
    function getRequirements(uint256 toolId)
        external
        view
        returns (AccessRequirement[] memory requirements, RequirementLogic logic)
    {
        CollectionTokens[] memory entries = _load(toolId);
        uint256 total;
        for (uint256 i; i < entries.length; ++i) {
            total += entries[i].tokenIds.length;
        }
        requirements = new AccessRequirement[](total);
        uint256 at;
        for (uint256 i; i < entries.length; ++i) {
            for (uint256 j; j < entries[i].tokenIds.length; ++j) {
                bytes memory data = abi.encode(entries[i].collection, entries[i].tokenIds[j]);
                requirements[at++] = AccessRequirement(type(IERC1155Holding).interfaceId, data, "");
            }
        }
        logic = RequirementLogic.OR;
    }

    /// @inheritdoc IAccessPredicate
    function name() external pure returns (string memory) {
        return "ERC1155OwnerPredicate";
    }

    function _load(uint256 toolId) private view returns (CollectionTokens[] memory) {
        address pointer = _entries[toolId];
        if (pointer == address(0)) return new CollectionTokens[](0);
        return abi.decode(CodeStore.read(pointer), (CollectionTokens[]));
    }

    function _promised(CollectionTokens memory entry) private pure returns (uint256) {
        return QUERY_GAS + entry.tokenIds.length * QUERY_GAS_PER_ID;
    }

    /// @return ok    Whether the collection answered in the form of ERC-1155.
    /// @return holds Whether one of the balances is not zero; false unless `ok`.
    function _holdsAny(CollectionTokens memory entry, address account, uint256 promised, uint256 reserved)
        private
        view
        returns (bool ok, bool holds)
    {
        uint256 count = entry.tokenIds.length;
        address[] memory accounts = new address[](count);
        for (uint256 i; i < count; ++i) {
            accounts[i] = account;
        }
        bytes memory query = abi.encodeCall(IERC1155.balanceOfBatch, (accounts, entry.tokenIds));
        uint256[] memory answer;
        // An offset, a length, and the balances.
        (ok, answer) = TokenCall.tryWords(entry.collection, TokenCall.share(promised, reserved), query, count + 2);
        if (!ok || answer[0] != 0x20 || answer[1] != count) return (false, false);
        for (uint256 i = 2; i < answer.length; ++i) {
            if (answer[i] != 0) return (true, true);
        }
    }
}
