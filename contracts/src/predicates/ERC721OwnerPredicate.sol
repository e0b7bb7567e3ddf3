// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {AccessRequirement, IAccessPredicate, RequirementLogic} from "../interfaces/IAccessPredicate.sol";
import {IERC721Holding} from "../interfaces/IRequirementTypes.sol";
import {IToolRegistry} from "../interfaces/IToolRegistry.sol";
import {TokenCall} from "../lib/TokenCall.sol";
import {RegistryPredicate} from "./RegistryPredicate.sol";
import {IERC721} from "@openzeppelin/contracts/token/ERC721/IERC721.sol";

/// @title ERC721OwnerPredicate
/// @notice Grants access to whoever holds a token of any one of some ERC-721 collections.
/// @dev A collection that fails (reverts, burns its gas, has no code, answers less than a word) is passed over, and a
///      holding in a later one still grants. If none grants and one failed, `hasAccess` reverts: the account may hold a
///      token there. A tool without collections denies everybody. The zero address holds nothing: ERC-721 makes
///      `balanceOf` revert for it, and it is what a failed signature recovery yields.
contract ERC721OwnerPredicate is RegistryPredicate {
    /// @notice Most collections of one tool.
    /// @dev From the measurement in `GasLimits.t.sol`: the most for which a holder in the last one is found within
    ///      58,000 gas, so that the predicate serves in a composite too.
    uint256 public constant MAX_COLLECTIONS_PER_TOOL = 4;

    /// @dev Promised to each `balanceOf`.
    uint256 private constant QUERY_GAS = 8_500;

    /// @dev What this contract spends for a collection itself: a cold slot 2,100, a cold account 2,600, the loop.
    uint256 private constant STEP_GAS = 5_300;

    mapping(uint256 toolId => address[]) private _collections;

    /// @notice The collections of a tool were replaced; none means that all are denied.
    event CollectionsSet(uint256 indexed toolId, address[] collections);

    /// @notice More collections than can be asked within the gas of an access check.
    error TooManyCollections(uint256 count, uint256 max);

    /// @notice There is no contract at this address.
    error CollectionNoCode(address collection);

    /// @notice No collection grants access, and this one could not be asked.
    error CollectionUnavailable(address collection);

    constructor(IToolRegistry registry) RegistryPredicate(registry) {}

    /// @notice Replaces the collections that open a tool. An empty list closes it. Creator only.
    function setCollections(uint256 toolId, address[] calldata collections) external onlyToolCreator(toolId) {
        uint256 count = collections.length;
        if (count > MAX_COLLECTIONS_PER_TOOL) revert TooManyCollections(count, MAX_COLLECTIONS_PER_TOOL);
        for (uint256 i; i < count; ++i) {
            if (collections[i].code.length == 0) revert CollectionNoCode(collections[i]);
        }
        _collections[toolId] = collections;
        emit CollectionsSet(toolId, collections);
    }

    /// @notice The collections that open a tool.
    function getCollections(uint256 toolId) external view returns (address[] memory) {
        return _collections[toolId];
    }

    /// @inheritdoc IAccessPredicate
    /// @dev `data` is not used.
    function hasAccess(uint256 toolId, address account, bytes calldata) external view returns (bool) {
        if (account == address(0)) return false;
        address[] storage collections = _collections[toolId];
        uint256 later = collections.length;
        bytes memory query = abi.encodeCall(IERC721.balanceOf, (account));
        address failed;
        for (uint256 i; later > 0; ++i) {
            --later;
            address collection = collections[i];
            uint256 gasLimit = TokenCall.share(QUERY_GAS, later * (QUERY_GAS + STEP_GAS));
            (bool ok, uint256 balance) = TokenCall.tryWord(collection, gasLimit, query);
            if (balance != 0) return true;
            if (!ok) failed = collection;
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
        address[] memory collections = _collections[toolId];
        requirements = new AccessRequirement[](collections.length);
        for (uint256 i; i < collections.length; ++i) {
            requirements[i] = AccessRequirement(type(IERC721Holding).interfaceId, abi.encode(collections[i]), "");
        }
        logic = RequirementLogic.OR;
    }

    /// @inheritdoc IAccessPredicate
    function name() external pure returns (string memory) {
        return "ERC721OwnerPredicate";
    }
}
