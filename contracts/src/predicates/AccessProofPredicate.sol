// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {AccessRequirement, IAccessPredicate, RequirementLogic} from "../interfaces/IAccessPredicate.sol";
import {IAccessProof, IProofBased} from "../interfaces/IRequirementTypes.sol";
import {IERC1271} from "@openzeppelin/contracts/interfaces/IERC1271.sol";
import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {IERC165} from "@openzeppelin/contracts/utils/introspection/IERC165.sol";

/// @title AccessProofPredicate
/// @notice Lets in whoever proves to be `account`, by signing the EIP-712 challenge of ERC-8257 "Concrete AccessProof
///         Pattern". Alone it is a login; under ALL of a composite it turns "somebody holds the token" into "the caller
///         holds the token".
/// @dev `data` is abi.encode(uint64 deadline, bytes signature). A proof holds for one tool, one chain, this contract and a
///      short time; within that time it can be shown again, so servers that need single use keep a list of their own.
///
///      - No data, a late or far-off deadline, or a signature by somebody else: denied.
///      - Data that is not this encoding: reverts, which the registry reports as a malfunction.
///
///      No settings, no storage, no registry.
contract AccessProofPredicate is IAccessPredicate, IERC165, EIP712 {
    /// @notice Hash of the signed type.
    bytes32 public constant ACCESS_PROOF_TYPEHASH =
        keccak256("AccessProof(uint256 toolId,address account,uint64 deadline)");

    /// @notice How far ahead of block time a deadline may lie, in seconds: a proof that leaks is soon worthless. Block time may
    ///         lag behind the signer's clock, so sign for less.
    uint256 public constant MAX_DEADLINE_AHEAD = 600;

    /// @notice The account's contract used up the gas without an answer, so nobody knows whether the signature is good.
    error AccountOutOfGas(address account);

    constructor() EIP712("ERC8257-AccessProof", "1") {}

    /// @inheritdoc IAccessPredicate
    function hasAccess(uint256 toolId, address account, bytes calldata data) external view returns (bool) {
        if (data.length == 0) return false;
        (uint64 deadline, bytes memory signature) = abi.decode(data, (uint64, bytes));
        if (block.timestamp > deadline || deadline > block.timestamp + MAX_DEADLINE_AHEAD) return false;
        return _signed(account, proofDigest(toolId, account, deadline), signature);
    }

    /// @notice What `account` signs to use `toolId` until `deadline`.
    function proofDigest(uint256 toolId, address account, uint64 deadline) public view returns (bytes32) {
        return _hashTypedDataV4(keccak256(abi.encode(ACCESS_PROOF_TYPEHASH, toolId, account, deadline)));
    }

    /// @inheritdoc IAccessPredicate
    function getRequirements(uint256)
        external
        view
        returns (AccessRequirement[] memory requirements, RequirementLogic logic)
    {
        requirements = new AccessRequirement[](1);
        requirements[0] =
            AccessRequirement({kind: type(IAccessProof).interfaceId, data: abi.encode(address(this)), label: ""});
        logic = RequirementLogic.AND;
    }

    /// @notice The EIP-712 domain separator.
    // The name is fixed by custom.
    // forge-lint: disable-next-line(mixed-case-function)
    function DOMAIN_SEPARATOR() external view returns (bytes32) {
        return _domainSeparatorV4();
    }

    /// @inheritdoc IAccessPredicate
    function name() external pure returns (string memory) {
        return "AccessProofPredicate";
    }

    /// @notice Version of the implementation. Compare for equality only.
    function version() external pure returns (string memory) {
        return "0.1";
    }

    /// @inheritdoc IERC165
    function supportsInterface(bytes4 interfaceId) external pure returns (bool) {
        return interfaceId == type(IAccessPredicate).interfaceId || interfaceId == type(IProofBased).interfaceId
            || interfaceId == type(IERC165).interfaceId;
    }

    /// @dev The key comes first and the contract second, because an account may have both (EIP-7702). Keys sign 65 bytes with
    ///      low s and v of 0, 1, 27 or 28; contracts take whatever they like.
    function _signed(address account, bytes32 digest, bytes memory signature) private view returns (bool) {
        if (signature.length == 65) {
            bytes32 r;
            bytes32 s;
            uint8 v;
            /// @solidity memory-safe-assembly
            assembly {
                r := mload(add(signature, 0x20))
                s := mload(add(signature, 0x40))
                v := byte(0, mload(add(signature, 0x60)))
            }
            if (v < 2) v += 27;
            (address signer, ECDSA.RecoverError problem,) = ECDSA.tryRecover(digest, v, r, s);
            if (problem == ECDSA.RecoverError.NoError && signer == account) return true;
        }
        return account.code.length > 0 && _contractAgrees(account, digest, signature);
    }

    /// @dev ERC-1271. Many wallets revert on a bad signature, so a revert denies. A wallet that used up nearly all gas has not
    ///      answered at all; each frame that ran dry leaves 1/64 behind, and wallets are a few frames deep.
    ///      Assembly copies back one word of the answer, whatever its length.
    function _contractAgrees(address account, bytes32 digest, bytes memory signature) private view returns (bool) {
        bytes memory input = abi.encodeCall(IERC1271.isValidSignature, (digest, signature));
        uint256 before = gasleft();
        bool ok;
        bytes32 word;
        /// @solidity memory-safe-assembly
        assembly {
            ok := staticcall(gas(), account, add(input, 0x20), mload(input), 0x00, 0x20)
            ok := and(ok, gt(returndatasize(), 0x1f))
            word := mload(0x00)
        }
        if (!ok && gasleft() < before / 16) revert AccountOutOfGas(account);
        return ok && word == bytes32(IERC1271.isValidSignature.selector);
    }
}
