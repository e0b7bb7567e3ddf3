// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

// Marker interfaces. No contract implements them: the id of each one is a value of `AccessRequirement.kind`, and its comment
// defines the layout of `AccessRequirement.data`. One function without arguments each, so that the id is its selector.

/// @dev 0xbdf8c428. Hold any token of an ERC-721 collection: abi.encode(address collection).
interface IERC721Holding {
    function erc721Holding() external;
}

/// @dev 0xcb429230. Hold one ERC-1155 token: abi.encode(address collection, uint256 tokenId).
interface IERC1155Holding {
    function erc1155Holding() external;
}

/// @dev 0x44387cc2. Have an active subscription: abi.encode(address collection, uint8 minTier).
interface ISubscription {
    function subscription() external;
}

/// @dev 0x812b02ee. Hold an amount of an ERC-20 token: abi.encode(address token, uint256 minBalance).
interface IERC20Balance {
    function erc20Balance() external;
}

/// @dev 0x37d8dc22. Own an ERC-721 token with one of some ERC-7496 trait values:
///      abi.encode(address collection, address traitsContract, bytes32 traitKey, bytes32[] allowedValues).
interface IERC7496Trait {
    function erc7496Trait() external;
}

/// @dev 0x7a111640. Show an issuer's signed attestation about the wallet: abi.encode(string jwksUri, bytes32 conditionHash).
interface IWalletStateAttestation {
    function walletStateAttestation() external;
}

/// @dev 0x498eb5bb. Sign the EIP-712 challenge of ERC-8257 "Concrete AccessProof Pattern" and pass it as `data` of the
///      access check: abi.encode(address verifyingContract), the predicate that checks it.
interface IAccessProof {
    function accessProof() external;
}

/// @dev 0xa2d33eab. Be on a list and show the Merkle proof of it in `data` of the access check: abi.encode(bytes32 root).
interface IMerkleAllowlist {
    function merkleAllowlist() external;
}

/// @dev 0x6b5c567b. No account can satisfy it: no data.
interface IDenyAll {
    function denyAll() external;
}

/// @notice A claim by ERC-165, not a kind: the answer of the predicate depends on a proof in `data`.
/// @dev 0x5eab8820. Such a predicate denies an account that shows nothing, so its negation would grant all accounts access:
///      composites refuse to negate it. All terms of a composite get the same `data`, so composites also refuse to require
///      proofs of two kinds at once: no `data` is both.
interface IProofBased {
    /// @notice The kind of requirement whose proof is expected in `data`; it determines the encoding. Constant.
    function proofKind() external view returns (bytes4);
}
