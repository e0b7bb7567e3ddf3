// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {AccessRequirement, IAccessPredicate, RequirementLogic} from "../interfaces/IAccessPredicate.sol";
import {IAccessProof, IProofBased} from "../interfaces/IRequirementTypes.sol";
import {IToolRegistry} from "../interfaces/IToolRegistry.sol";
import {TokenCall} from "../lib/TokenCall.sol";
import {RegistryPredicate} from "./RegistryPredicate.sol";
import {IERC1271} from "@openzeppelin/contracts/interfaces/IERC1271.sol";
import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";

/// @title AccessProofPredicate
/// @notice Grants access to an account that signed the EIP-712 challenge of ERC-8257 "Concrete AccessProof Pattern". Alone
///         it is a login; under ALL of a composite it turns "the account holds the token" into "the caller holds the token".
/// @dev `data` is abi.encode(uint64 deadline, bytes signature). What a proof is bound to:
///
///      - by the signature: the chain and this contract (EIP-712 domain), the tool id, the account and the deadline;
///      - by this contract: `REGISTRY`. The signed struct of the ERC has no field for a registry, and tool ids start at 1 in
///        every registry. So each registry has a deployment of its own, and `hasAccess` answers `REGISTRY` only, or a
///        predicate with the same `REGISTRY()`, such as a composite. Anyone else gets a revert: a tool of another registry
///        that points here malfunctions for all accounts.
///
///      What this contract cannot prevent: a tool of another registry may ask its users to sign for this contract and the
///      same tool id, and then show their proofs to `REGISTRY`. Wallets and clients must compare `REGISTRY()` with the
///      registry of the tool before they sign. A predicate of a third party that names the same `REGISTRY()` and forwards
///      questions must itself answer its registry only.
///
///      Until its deadline a proof can be replayed to the same tool; a server that needs single use records the proofs it
///      has seen.
///
///      - No data, a deadline in the past or too far ahead, or a signature of another account: denied.
///      - Data in another encoding, or a question on behalf of another registry: reverts, which the registry reports as a
///        malfunction.
///
///      No settings and no storage.
contract AccessProofPredicate is RegistryPredicate, IProofBased, EIP712 {
    /// @notice Hash of the signed type.
    bytes32 public constant ACCESS_PROOF_TYPEHASH =
        keccak256("AccessProof(uint256 toolId,address account,uint64 deadline)");

    /// @notice Maximum distance of a deadline from block time, in seconds: a leaked proof expires soon. Block time may lag
    ///         behind the signer's clock, so sign for less.
    uint256 public constant MAX_DEADLINE_AHEAD = 600;

    /// @dev For reading `REGISTRY()` of the caller: a constant, possibly behind a proxy on a chain with high cold prices.
    uint256 private constant REGISTRY_GAS = 30_000;

    /// @notice The account's contract used up the gas without an answer, so the validity of the signature is unknown.
    error AccountOutOfGas(address account);

    constructor(IToolRegistry registry) RegistryPredicate(registry) EIP712("ERC8257-AccessProof", "1") {}

    /// @inheritdoc IAccessPredicate
    /// @dev To ask by `eth_call` without the registry, set `from` to `REGISTRY`.
    function hasAccess(uint256 toolId, address account, bytes calldata data) external view returns (bool) {
        _requireRegistry();
        if (data.length == 0) return false;
        (uint64 deadline, bytes memory signature) = abi.decode(data, (uint64, bytes));
        if (block.timestamp > deadline || deadline > block.timestamp + MAX_DEADLINE_AHEAD) return false;
        return _signed(account, proofDigest(toolId, account, deadline), signature);
    }

    /// @notice The digest that `account` signs to use `toolId` of `REGISTRY` until `deadline`.
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
    // The name is a convention.
    // forge-lint: disable-next-line(mixed-case-function)
    function DOMAIN_SEPARATOR() external view returns (bytes32) {
        return _domainSeparatorV4();
    }

    /// @inheritdoc IAccessPredicate
    function name() external pure returns (string memory) {
        return "AccessProofPredicate";
    }

    /// @inheritdoc IProofBased
    function proofKind() external pure returns (bytes4) {
        return type(IAccessProof).interfaceId;
    }

    /// @inheritdoc RegistryPredicate
    function supportsInterface(bytes4 interfaceId) public pure override returns (bool) {
        return interfaceId == type(IProofBased).interfaceId || super.supportsInterface(interfaceId);
    }

    /// @dev A composite asks as itself, so the caller may also be a predicate of the same registry. That is the caller's own
    ///      claim, which is enough: a creator who points a tool at a contract that lies about its registry could as well
    ///      grant all accounts access.
    function _requireRegistry() private view {
        if (msg.sender == address(REGISTRY)) return;
        bytes memory query = abi.encodeCall(RegistryPredicate(msg.sender).REGISTRY, ());
        (bool ok, uint256 registry) = TokenCall.tryWord(msg.sender, REGISTRY_GAS, query);
        if (!ok || registry != uint160(address(REGISTRY))) revert CallerIsNotRegistry(msg.sender);
    }

    /// @dev The key comes first and the contract second, because an account may have both (EIP-7702). Keys sign 65 bytes with
    ///      low s and v of 0, 1, 27 or 28; contracts define their own.
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
