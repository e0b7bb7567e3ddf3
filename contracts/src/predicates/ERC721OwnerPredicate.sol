// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {AccessRequirement, IAccessPredicate, RequirementLogic} from "../interfaces/IAccessPredicate.sol";
import {IERC721Holding} from "../interfaces/IRequirementTypes.sol";
import {IToolRegistry} from "../interfaces/IToolRegistry.sol";
import {CodeStore} from "../lib/CodeStore.sol";
import {TokenCall} from "../lib/TokenCall.sol";
import {RegistryPredicate} from "./RegistryPredicate.sol";
import {IERC721} from "@openzeppelin/contracts/token/ERC721/IERC721.sol";

/// @title ERC721OwnerPredicate
/// @notice Grants access to holders of a token of any of the configured ERC-721 collections.
/// @dev A collection that fails (reverts, burns its gas, has no code, answers less than a word) is skipped, and a
///      holding in a later one still grants. If none grants and one failed, `hasAccess` reverts: the account may hold a
///      token there. A tool without collections denies all accounts. The zero address holds nothing: ERC-721 makes
///      `balanceOf` revert for it, and it is what a failed signature recovery yields.
contract ERC721OwnerPredicate is RegistryPredicate {
    /// @notice Most collections of one tool.
    /// @dev From the measurement in `HoldingLimits.t.sol`: the most for which a holder in the last one is found within
    ///      58,000 gas behind beacon proxies, so that the predicate serves in a composite too. At the prices of Ethereum; chains
    ///      that charge more for first access to accounts and slots may take fewer.
    uint256 public constant MAX_COLLECTIONS_PER_TOOL = 3;

    /// @dev Reserved for each `balanceOf`: enough behind a beacon proxy.
    uint256 private constant QUERY_GAS = 13_500;

    /// @dev What this contract spends on a collection itself: a cold account, 2,600, and the loop.
    uint256 private constant STEP_GAS = 3_300;

    /// @dev Where the collections of a tool are stored in a `CodeStore`, ABI-encoded. Zero when there are none.
    mapping(uint256 toolId => address) private _collections;

    /// @notice The collections of a tool were replaced; none means that all are denied.
    event CollectionsSet(uint256 indexed toolId, address[] collections);

    /// @notice More collections than can be asked within the gas of an access check.
    error TooManyCollections(uint256 count, uint256 max);

    /// @notice There is no contract at this address.
    error CollectionNoCode(address collection);

    /// @notice No collection grants access, and this one could not be queried.
    error CollectionUnavailable(address collection);

    constructor(IToolRegistry registry) RegistryPredicate(registry) {}

    /// @notice Replaces the collections that grant access to a tool. An empty list denies all accounts. Creator only.
    function setCollections(uint256 toolId, address[] calldata collections) external onlyToolCreator(toolId) {
        uint256 count = collections.length;
        if (count > MAX_COLLECTIONS_PER_TOOL) revert TooManyCollections(count, MAX_COLLECTIONS_PER_TOOL);
        for (uint256 i; i < count; ++i) {
            if (collections[i].code.length == 0) revert CollectionNoCode(collections[i]);
        }
        _collections[toolId] = count == 0 ? address(0) : CodeStore.write(abi.encode(collections));
        emit CollectionsSet(toolId, collections);
    }

    /// @notice The collections that grant access to a tool.
    function getCollections(uint256 toolId) external view returns (address[] memory) {
        return _load(toolId);
    }

    /// @inheritdoc IAccessPredicate
    /// @dev `data` is not used.
    function hasAccess(uint256 toolId, address account, bytes calldata) external view returns (bool) {
        if (account == address(0)) return false;
        address[] memory collections = _load(toolId);
        bytes memory query = abi.encodeCall(IERC721.balanceOf, (account));
        uint256 reserved = collections.length * (STEP_GAS + QUERY_GAS);
        address failed;
        for (uint256 i; i < collections.length; ++i) {
            reserved -= STEP_GAS + QUERY_GAS;
            (bool ok, uint256 balance) = TokenCall.tryWord(collections[i], TokenCall.share(QUERY_GAS, reserved), query);
            if (balance != 0) return true;
            if (!ok && failed == address(0)) failed = collections[i];
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
        address[] memory collections = _load(toolId);
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

    function _load(uint256 toolId) private view returns (address[] memory collections) {
        address pointer = _collections[toolId];
        if (pointer != address(0)) collections = abi.decode(CodeStore.read(pointer), (address[]));
    }
}
