// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {AccessRequirement, IAccessPredicate, RequirementLogic} from "../interfaces/IAccessPredicate.sol";
import {IMerkleAllowlist, IProofBased} from "../interfaces/IRequirementTypes.sol";
import {IToolRegistry} from "../interfaces/IToolRegistry.sol";
import {RegistryPredicate} from "./RegistryPredicate.sol";
import {MerkleProof} from "@openzeppelin/contracts/utils/cryptography/MerkleProof.sol";

/// @title MerkleAllowlistPredicate
/// @notice Grants access to the accounts of a list of any length. Only the Merkle root of the list is stored.
/// @dev Trees are those of OpenZeppelin's StandardMerkleTree with leaves ["address"]: a leaf is hashed twice, pairs are
///      hashed in sorted order. `data` is abi.encode(bytes32[] proof).
///
///      - No root, no data, or a proof that does not lead to the root: denied.
///      - Data that is not this encoding, or a proof beyond `MAX_PROOF_LENGTH`: reverts, which the registry reports as a
///        malfunction.
///
///      A proof says that an account is on the list, not that the caller is that account.
contract MerkleAllowlistPredicate is RegistryPredicate, IProofBased {
    /// @notice Longest proof: the height of a tree with four thousand million leaves. Measured to answer inside one term of a
    ///         composite.
    uint256 public constant MAX_PROOF_LENGTH = 32;

    mapping(uint256 toolId => bytes32) private _roots;

    /// @notice The list of a tool was replaced; zero means none.
    event RootSet(uint256 indexed toolId, bytes32 root);

    /// @notice The proof is longer than that of any tree.
    error ProofTooLong(uint256 length, uint256 max);

    constructor(IToolRegistry registry) RegistryPredicate(registry) {}

    /// @notice Sets the list of a tool by its Merkle root; zero denies all accounts. Creator only.
    function setRoot(uint256 toolId, bytes32 root) external onlyToolCreator(toolId) {
        _roots[toolId] = root;
        emit RootSet(toolId, root);
    }

    /// @notice The Merkle root of a tool's list, or zero.
    function getRoot(uint256 toolId) external view returns (bytes32) {
        return _roots[toolId];
    }

    /// @inheritdoc IAccessPredicate
    function hasAccess(uint256 toolId, address account, bytes calldata data) external view returns (bool) {
        bytes32 root = _roots[toolId];
        if (root == bytes32(0) || data.length == 0) return false;
        bytes32[] memory proof = abi.decode(data, (bytes32[]));
        if (proof.length > MAX_PROOF_LENGTH) revert ProofTooLong(proof.length, MAX_PROOF_LENGTH);
        return MerkleProof.verify(proof, root, leafOf(account));
    }

    /// @notice The leaf of an account.
    function leafOf(address account) public pure returns (bytes32) {
        return keccak256(bytes.concat(keccak256(abi.encode(account))));
    }

    /// @inheritdoc IAccessPredicate
    function getRequirements(uint256 toolId)
        external
        view
        returns (AccessRequirement[] memory requirements, RequirementLogic logic)
    {
        bytes32 root = _roots[toolId];
        logic = RequirementLogic.AND;
        if (root == bytes32(0)) return (requirements, logic);
        requirements = new AccessRequirement[](1);
        requirements[0] =
            AccessRequirement({kind: type(IMerkleAllowlist).interfaceId, data: abi.encode(root), label: ""});
    }

    /// @inheritdoc IAccessPredicate
    function name() external pure returns (string memory) {
        return "MerkleAllowlistPredicate";
    }

    /// @inheritdoc IProofBased
    function proofKind() external pure returns (bytes4) {
        return type(IMerkleAllowlist).interfaceId;
    }

    /// @inheritdoc RegistryPredicate
    function supportsInterface(bytes4 interfaceId) public pure override returns (bool) {
        return interfaceId == type(IProofBased).interfaceId || super.supportsInterface(interfaceId);
    }
}
