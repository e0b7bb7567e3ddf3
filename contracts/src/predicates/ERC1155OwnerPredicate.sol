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

    /// @dev An entry as it is kept: with the question to the collection ready but for the account.
    /// @param query The call of `balanceOfBatch` with the token ids, and zeros for the accounts.
    struct Entry {
        address collection;
        bytes query;
    }

    /// @notice Most collections of one tool.
    uint256 public constant MAX_COLLECTIONS_PER_TOOL = 3;

    /// @notice Most token ids in one entry: what a tool with a single collection may have. See `maxTokenIds`.
    uint256 public constant MAX_TOKEN_IDS_PER_COLLECTION = 10;

    /// @dev Promised to each `balanceOfBatch`, apart from its ids.
    uint256 private constant QUERY_GAS = 7_000;

    /// @dev Promised to it for each id: a cold slot, 2,100, and what OpenZeppelin's code does around it.
    uint256 private constant QUERY_GAS_PER_ID = 2_850;

    /// @dev What this contract spends on a collection itself: a cold account, 2,600, and the loop.
    uint256 private constant STEP_GAS = 4_000;

    /// @dev Words in a query beside two for each id: two offsets and two lengths.
    uint256 private constant FIXED_WORDS = 4;

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
        uint256 max = maxTokenIds(count);
        uint256 total;
        Entry[] memory kept = new Entry[](count);
        for (uint256 i; i < count; ++i) {
            address collection = entries[i].collection;
            if (collection.code.length == 0) revert CollectionNoCode(collection);
            uint256[] calldata ids = entries[i].tokenIds;
            if (ids.length == 0) revert EmptyTokenIds(i);
            total += ids.length;
            if (total > max) revert TooManyTokenIds(i, total, max);
            kept[i] = Entry(collection, abi.encodeCall(IERC1155.balanceOfBatch, (new address[](ids.length), ids)));
        }
        _entries[toolId] = count == 0 ? address(0) : CodeStore.write(abi.encode(kept));
        emit CollectionTokensSet(toolId, entries);
    }

    /// @notice The tokens that open a tool.
    function getCollectionTokens(uint256 toolId) public view returns (CollectionTokens[] memory entries) {
        Entry[] memory kept = _load(toolId);
        entries = new CollectionTokens[](kept.length);
        for (uint256 i; i < kept.length; ++i) {
            uint256 count = _idCount(kept[i].query);
            entries[i] = CollectionTokens(kept[i].collection, new uint256[](count));
            for (uint256 j; j < count; ++j) {
                // Behind the selector, the fixed words and the accounts.
                entries[i].tokenIds[j] = _wordAt(kept[i].query, 4 + 32 * (FIXED_WORDS + count + j));
            }
        }
    }

    /// @inheritdoc IAccessPredicate
    /// @dev `data` is not used.
    function hasAccess(uint256 toolId, address account, bytes calldata) external view returns (bool) {
        if (account == address(0)) return false;
        Entry[] memory entries = _load(toolId);
        uint256 reserved;
        for (uint256 i; i < entries.length; ++i) {
            reserved += STEP_GAS + _promised(entries[i].query);
        }
        address failed;
        for (uint256 i; i < entries.length; ++i) {
            Entry memory entry = entries[i];
            uint256 promised = _promised(entry.query);
            reserved -= STEP_GAS + promised;
            _fillIn(entry.query, account);
            (bool ok, bool holds) = _holdsAny(entry, promised, reserved);
            if (holds) return true;
            if (!ok && failed == address(0)) failed = entry.collection;
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
        CollectionTokens[] memory entries = getCollectionTokens(toolId);
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

    /// @notice Most token ids that a tool with so many collections may have, over all of them. Zero for more collections than
    ///         a tool may have.
    /// @dev From the measurement in `GasLimits.t.sol`: the most for which the holder of the last one is found within
    ///      58,000 gas, so that the predicate serves in a composite too. A collection costs as much as four ids.
    function maxTokenIds(uint256 collections) public pure returns (uint256) {
        if (collections == 1) return MAX_TOKEN_IDS_PER_COLLECTION;
        if (collections == 2) return 7;
        return collections == 3 ? 3 : 0;
    }

    function _load(uint256 toolId) private view returns (Entry[] memory entries) {
        address pointer = _entries[toolId];
        if (pointer != address(0)) entries = abi.decode(CodeStore.read(pointer), (Entry[]));
    }

    /// @return ok    Whether the collection answered in the form of ERC-1155.
    /// @return holds Whether one of the balances is not zero; false unless `ok`.
    function _holdsAny(Entry memory entry, uint256 promised, uint256 reserved)
        private
        view
        returns (bool ok, bool holds)
    {
        uint256 count = _idCount(entry.query);
        // The answer has an offset, a length, and the balances.
        uint256[] memory answer;
        (ok, answer) = TokenCall.tryWords(entry.collection, TokenCall.share(promised, reserved), entry.query, count + 2);
        if (!ok || answer[0] != 0x20 || answer[1] != count) return (false, false);
        for (uint256 i = 2; i < answer.length; ++i) {
            if (answer[i] != 0) return (true, true);
        }
    }

    /// @dev Writes the account into each of its places, behind the selector, two offsets and a length.
    function _fillIn(bytes memory query, address account) private pure {
        uint256 count = _idCount(query);
        assembly ("memory-safe") {
            let place := add(query, 0x84)
            for { let end := add(place, shl(5, count)) } lt(place, end) { place := add(place, 0x20) } {
                mstore(place, account)
            }
        }
    }

    function _promised(bytes memory query) private pure returns (uint256) {
        return QUERY_GAS + _idCount(query) * QUERY_GAS_PER_ID;
    }

    function _idCount(bytes memory query) private pure returns (uint256) {
        return (query.length - 4 - 32 * FIXED_WORDS) / 64;
    }

    function _wordAt(bytes memory query, uint256 offset) private pure returns (uint256 word) {
        assembly ("memory-safe") {
            word := mload(add(add(query, 0x20), offset))
        }
    }
}
