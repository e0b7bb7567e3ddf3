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
/// @notice Grants access to holders of any of the configured tokens of ERC-1155 collections.
/// @dev Each collection is asked once, by `balanceOfBatch`. One that fails (reverts, burns its gas, has no code, answers
///      something else than the right number of balances) is skipped, and a holding in a later one still grants. If
///      none grants and one failed, `hasAccess` reverts: the account may hold a token there. A tool without entries
///      denies all accounts, and the zero address is always denied: old collections revert for it, others count burnt
///      tokens as its own, and it is what a failed signature recovery yields.
contract ERC1155OwnerPredicate is RegistryPredicate {
    /// @notice A collection, and the tokens in it that grant access to a tool.
    struct CollectionTokens {
        address collection;
        uint256[] tokenIds;
    }

    /// @notice Most collections of one tool. How many token ids go with how many collections says `maxTokenIds`.
    uint256 public constant MAX_COLLECTIONS_PER_TOOL = 2;

    /// @notice Most token ids in one entry, which only a tool with a single collection may have.
    uint256 public constant MAX_TOKEN_IDS_PER_COLLECTION = 12;

    /// @dev How many token ids cost as much gas as a collection does apart from its ids.
    uint256 private constant COLLECTION_WEIGHT = 6;

    /// @dev Reserved for each `balanceOfBatch`, apart from its ids: enough behind a beacon proxy.
    uint256 private constant QUERY_GAS = 12_500;

    /// @dev Reserved for each id: a cold slot, 2,100, and what OpenZeppelin's code does around it.
    uint256 private constant QUERY_GAS_PER_ID = 2_850;

    /// @dev What this contract spends on a collection itself: a cold account, 2,600, and the loop.
    uint256 private constant STEP_GAS = 4_000;

    /// @dev Words of a question beside those for accounts and ids.
    uint256 private constant FIXED_WORDS = 4;

    /// @dev Where the entries of a tool are stored in a `CodeStore`; zero when there are none. Each entry is kept with the question
    ///      to its collection ready but for the account, because taking apart and putting together is what costs most:
    ///      a word with the collection, a word with the length of the question, and the question. That is the call of
    ///      `balanceOfBatch`: a selector, two offsets, a length, zeros for the accounts, a length, the ids.
    mapping(uint256 toolId => address) private _entries;

    /// @notice The entries of a tool were replaced; none means that all are denied.
    event CollectionTokensSet(uint256 indexed toolId, CollectionTokens[] entries);

    /// @notice More collections than can be asked within the gas of an access check.
    error TooManyCollections(uint256 count, uint256 max);

    /// @notice More token ids, up to and with this entry, than can be asked for within the gas of an access check.
    error TooManyTokenIds(uint256 entryIndex, uint256 count, uint256 max);

    /// @notice An entry without token ids cannot grant access.
    error EmptyTokenIds(uint256 entryIndex);

    /// @notice There is no contract at this address.
    error CollectionNoCode(address collection);

    /// @notice No collection grants access, and this one could not be queried.
    error CollectionUnavailable(address collection);

    constructor(IToolRegistry registry) RegistryPredicate(registry) {}

    /// @notice Replaces the tokens that grant access to a tool. An empty list denies all accounts. Creator only.
    function setCollectionTokens(uint256 toolId, CollectionTokens[] calldata entries) external onlyToolCreator(toolId) {
        uint256 count = entries.length;
        if (count > MAX_COLLECTIONS_PER_TOOL) revert TooManyCollections(count, MAX_COLLECTIONS_PER_TOOL);
        uint256 max = maxTokenIds(count);
        uint256 total;
        bytes memory kept;
        for (uint256 i; i < count; ++i) {
            address collection = entries[i].collection;
            if (collection.code.length == 0) revert CollectionNoCode(collection);
            uint256[] calldata ids = entries[i].tokenIds;
            if (ids.length == 0) revert EmptyTokenIds(i);
            total += ids.length;
            if (total > max) revert TooManyTokenIds(i, total, max);
            bytes memory query = abi.encodeCall(IERC1155.balanceOfBatch, (new address[](ids.length), ids));
            kept = bytes.concat(kept, abi.encode(collection, query.length), query);
        }
        _entries[toolId] = count == 0 ? address(0) : CodeStore.write(kept);
        emit CollectionTokensSet(toolId, entries);
    }

    /// @notice The tokens that grant access to a tool.
    function getCollectionTokens(uint256 toolId) public view returns (CollectionTokens[] memory entries) {
        (uint256 cursor, uint256 end) = _load(toolId);
        entries = new CollectionTokens[](MAX_COLLECTIONS_PER_TOOL);
        uint256 count;
        while (cursor < end) {
            address collection;
            bytes memory query;
            (collection, query, cursor) = _next(cursor);
            uint256 ids = _idCount(query);
            entries[count] = CollectionTokens(collection, new uint256[](ids));
            for (uint256 i; i < ids; ++i) {
                entries[count].tokenIds[i] = _wordAt(query, 4 + 32 * (FIXED_WORDS + ids + i));
            }
            ++count;
        }
        assembly ("memory-safe") {
            mstore(entries, count)
        }
    }

    /// @inheritdoc IAccessPredicate
    /// @dev `data` is not used.
    function hasAccess(uint256 toolId, address account, bytes calldata) external view returns (bool) {
        if (account == address(0)) return false;
        (uint256 cursor, uint256 end) = _load(toolId);
        address failed;
        while (cursor < end) {
            address collection;
            bytes memory query;
            (collection, query, cursor) = _next(cursor);
            _fillIn(query, account);
            (bool ok, bool holds) = _holdsAny(collection, query, _reserved(cursor, end));
            if (holds) return true;
            if (!ok && failed == address(0)) failed = collection;
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

    /// @notice Maximum number of token ids of a tool with this many collections, over all of them: 12 with one, 6 with two.
    /// @dev From the measurement in `HoldingLimits.t.sol`: with any of these a holder of the last token is found within
    ///      58,000 gas behind beacon proxies, so that the predicate serves in a composite too. At the prices of Ethereum;
    ///      chains that charge more for first access to accounts and slots may take fewer.
    function maxTokenIds(uint256 collections) public pure returns (uint256) {
        if (collections == 0 || collections > MAX_COLLECTIONS_PER_TOOL) return 0;
        return MAX_TOKEN_IDS_PER_COLLECTION - COLLECTION_WEIGHT * (collections - 1);
    }

    /// @dev Loads the entries of a tool to memory.
    /// @return cursor Where they begin.
    /// @return end    Where they end.
    function _load(uint256 toolId) private view returns (uint256 cursor, uint256 end) {
        address pointer = _entries[toolId];
        if (pointer == address(0)) return (0, 0);
        bytes memory kept = CodeStore.read(pointer);
        assembly ("memory-safe") {
            cursor := add(kept, 0x20)
            end := add(cursor, mload(kept))
        }
    }

    /// @dev The entry at `cursor`, and where the next one begins. Nothing is copied: the question stays where it is.
    function _next(uint256 cursor) private pure returns (address collection, bytes memory query, uint256 next) {
        assembly ("memory-safe") {
            collection := mload(cursor)
            query := add(cursor, 0x20)
            next := add(add(cursor, 0x40), mload(query))
        }
    }

    /// @return ok    Whether the collection answered in the form of ERC-1155.
    /// @return holds Whether one of the balances is not zero; false unless `ok`.
    function _holdsAny(address collection, bytes memory query, uint256 reserved)
        private
        view
        returns (bool ok, bool holds)
    {
        uint256 count = _idCount(query);
        uint256 gasLimit = TokenCall.share(_promised(query), reserved);
        // The answer has an offset, a length, and the balances.
        uint256[] memory answer;
        (ok, answer) = TokenCall.tryWords(collection, gasLimit, query, count + 2);
        if (!ok || answer[0] != 0x20 || answer[1] != count) return (false, false);
        assembly ("memory-safe") {
            let at := add(answer, 0x60)
            for { let end := add(at, shl(5, count)) } lt(at, end) { at := add(at, 0x20) } {
                if mload(at) {
                    holds := 1
                    break
                }
            }
        }
    }

    /// @dev Gas reserved for the entries from `cursor` on.
    function _reserved(uint256 cursor, uint256 end) private pure returns (uint256 reserved) {
        while (cursor < end) {
            bytes memory query;
            (, query, cursor) = _next(cursor);
            unchecked {
                reserved += STEP_GAS + _promised(query);
            }
        }
    }

    /// @dev Writes the account into each of its places: behind the selector, two offsets and a length.
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
        unchecked {
            return QUERY_GAS + _idCount(query) * QUERY_GAS_PER_ID;
        }
    }

    function _idCount(bytes memory query) private pure returns (uint256) {
        // Every question is as `setCollectionTokens` wrote it, so nothing here overflows.
        unchecked {
            return (query.length - 4 - 32 * FIXED_WORDS) / 64;
        }
    }

    function _wordAt(bytes memory query, uint256 offset) private pure returns (uint256 word) {
        assembly ("memory-safe") {
            word := mload(add(add(query, 0x20), offset))
        }
    }
}
