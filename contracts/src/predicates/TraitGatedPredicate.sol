// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {AccessRequirement, IAccessPredicate, RequirementLogic} from "../interfaces/IAccessPredicate.sol";
import {IERC7496} from "../interfaces/IERC7496.sol";
import {IERC7496Trait, IProofBased} from "../interfaces/IRequirementTypes.sol";
import {IToolRegistry} from "../interfaces/IToolRegistry.sol";
import {CodeStore} from "../lib/CodeStore.sol";
import {TokenCall} from "../lib/TokenCall.sol";
import {RegistryPredicate} from "./RegistryPredicate.sol";
import {IERC721} from "@openzeppelin/contracts/token/ERC721/IERC721.sol";

/// @title TraitGatedPredicate
/// @notice Grants access to the owner of an ERC-721 token that has one of some values of an ERC-7496 trait. Which token
///         is said in `data`: abi.encode(uint256 tokenId), 32 bytes.
/// @dev Both standards answer "no such token" and "no such trait" by reverting, so a revert with a reason is a denial
///      here. A call that fails without one (out of gas, no such function, no code) or answers less than a word makes
///      `hasAccess` revert. `data` of another length is a denial, as is a tool without configuration and the zero
///      address. Since the caller chooses the token, the opposite of this predicate means nothing: it claims
///      `IProofBased`, so that composites refuse to negate it.
contract TraitGatedPredicate is RegistryPredicate, IProofBased {
    /// @notice The configuration of a tool.
    /// @param collection     The ERC-721 contract that knows the owner.
    /// @param traitsContract The ERC-7496 contract that knows the trait; often the same.
    /// @param traitKey       The trait.
    /// @param allowedValues  The values that open the tool.
    struct ToolTraitConfig {
        address collection;
        address traitsContract;
        bytes32 traitKey;
        bytes32[] allowedValues;
    }

    /// @notice Most values of one tool.
    /// @dev The values are stored together in a `CodeStore`, so that even this many cost little: see `HoldingLimits.t.sol`.
    uint256 public constant MAX_ALLOWED_VALUES = 32;

    /// @dev Where the configuration of a tool is stored in a `CodeStore`, ABI-encoded. Zero when there is none.
    mapping(uint256 toolId => address) private _configs;

    /// @notice The configuration of a tool was replaced.
    event ToolTraitConfigured(
        uint256 indexed toolId,
        address indexed collection,
        address traitsContract,
        bytes32 traitKey,
        bytes32[] allowedValues
    );

    /// @notice The zero address is not a collection.
    error ZeroCollection();

    /// @notice The zero address has no traits.
    error ZeroTraitsContract();

    /// @notice There is no contract at the collection's address.
    error CollectionNoCode(address collection);

    /// @notice There is no contract at the traits contract's address.
    error TraitsContractNoCode(address traitsContract);

    /// @notice Without values all accounts would be denied.
    error EmptyAllowedValues();

    /// @notice More values than can be compared within the gas of an access check.
    error TooManyAllowedValues(uint256 count, uint256 max);

    /// @notice Zero is what many contracts answer for a trait that was never set.
    error ZeroValueInAllowedValues(uint256 index);

    /// @notice The collection could not be queried.
    error CollectionUnavailable(address collection);

    /// @notice The traits contract could not be queried.
    error TraitsUnavailable(address traitsContract);

    constructor(IToolRegistry registry) RegistryPredicate(registry) {}

    /// @notice Replaces the configuration of a tool. Creator only.
    function configureToolTrait(
        uint256 toolId,
        address collection,
        address traitsContract,
        bytes32 traitKey,
        bytes32[] calldata allowedValues
    ) external onlyToolCreator(toolId) {
        if (collection == address(0)) revert ZeroCollection();
        if (traitsContract == address(0)) revert ZeroTraitsContract();
        if (collection.code.length == 0) revert CollectionNoCode(collection);
        if (traitsContract.code.length == 0) revert TraitsContractNoCode(traitsContract);
        uint256 count = allowedValues.length;
        if (count == 0) revert EmptyAllowedValues();
        if (count > MAX_ALLOWED_VALUES) revert TooManyAllowedValues(count, MAX_ALLOWED_VALUES);
        for (uint256 i; i < count; ++i) {
            if (allowedValues[i] == 0) revert ZeroValueInAllowedValues(i);
        }
        _configs[toolId] =
            CodeStore.write(abi.encode(ToolTraitConfig(collection, traitsContract, traitKey, allowedValues)));
        emit ToolTraitConfigured(toolId, collection, traitsContract, traitKey, allowedValues);
    }

    /// @notice The configuration of a tool; zeros if it has none.
    function getToolTraitConfig(uint256 toolId) external view returns (ToolTraitConfig memory) {
        return _load(toolId);
    }

    /// @inheritdoc IAccessPredicate
    /// @dev `data` is abi.encode(uint256 tokenId).
    function hasAccess(uint256 toolId, address account, bytes calldata data) external view returns (bool) {
        ToolTraitConfig memory config = _load(toolId);
        if (config.collection == address(0) || account == address(0) || data.length != 32) return false;
        uint256 token = abi.decode(data, (uint256));

        bytes memory query = abi.encodeCall(IERC721.ownerOf, (token));
        (bool ok, uint256 answer, bool refused) =
            TokenCall.tryWordOrReason(config.collection, TokenCall.share(0, 0), query);
        if (!ok && !refused) revert CollectionUnavailable(config.collection);
        if (refused || answer != uint160(account)) return false;

        query = abi.encodeCall(IERC7496.getTraitValue, (token, config.traitKey));
        (ok, answer, refused) = TokenCall.tryWordOrReason(config.traitsContract, TokenCall.share(0, 0), query);
        if (!ok && !refused) revert TraitsUnavailable(config.traitsContract);
        if (refused) return false;
        for (uint256 i; i < config.allowedValues.length; ++i) {
            if (uint256(config.allowedValues[i]) == answer) return true;
        }
        return false;
    }

    /// @inheritdoc IAccessPredicate
    function getRequirements(uint256 toolId)
        external
        view
        returns (AccessRequirement[] memory requirements, RequirementLogic logic)
    {
        ToolTraitConfig memory config = _load(toolId);
        logic = RequirementLogic.AND;
        if (config.collection == address(0)) return (requirements, logic);
        bytes memory data = abi.encode(config.collection, config.traitsContract, config.traitKey, config.allowedValues);
        requirements = new AccessRequirement[](1);
        requirements[0] = AccessRequirement(type(IERC7496Trait).interfaceId, data, "");
    }

    /// @inheritdoc IAccessPredicate
    function name() external pure returns (string memory) {
        return "TraitGatedPredicate";
    }

    /// @inheritdoc IProofBased
    function proofKind() external pure returns (bytes4) {
        return type(IERC7496Trait).interfaceId;
    }

    /// @inheritdoc RegistryPredicate
    function supportsInterface(bytes4 interfaceId) public pure override returns (bool) {
        return interfaceId == type(IProofBased).interfaceId || super.supportsInterface(interfaceId);
    }

    function _load(uint256 toolId) private view returns (ToolTraitConfig memory config) {
        address pointer = _configs[toolId];
        if (pointer != address(0)) config = abi.decode(CodeStore.read(pointer), (ToolTraitConfig));
    }
}
