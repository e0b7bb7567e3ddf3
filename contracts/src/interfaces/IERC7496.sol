// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

/// @title IERC7496
/// @notice Dynamic traits of tokens.
/// @dev ERC-165 id 0xaf332f3e.
interface IERC7496 {
    event TraitUpdated(bytes32 indexed traitKey, uint256 tokenId, bytes32 traitValue);
    event TraitUpdatedRange(bytes32 indexed traitKey, uint256 fromTokenId, uint256 toTokenId);
    event TraitUpdatedRangeUniformValue(
        bytes32 indexed traitKey, uint256 fromTokenId, uint256 toTokenId, bytes32 traitValue
    );
    event TraitUpdatedList(bytes32 indexed traitKey, uint256[] tokenIds);
    event TraitUpdatedListUniformValue(bytes32 indexed traitKey, uint256[] tokenIds, bytes32 traitValue);
    event TraitMetadataURIUpdated();

    error TraitKeyUnknown(bytes32 traitKey);
    error TokenDoesNotExist(uint256 tokenId);

    /// @notice A trait of a token. Reverts for a trait or a token that does not exist.
    function getTraitValue(uint256 tokenId, bytes32 traitKey) external view returns (bytes32 traitValue);

    /// @notice Several traits of a token.
    function getTraitValues(uint256 tokenId, bytes32[] calldata traitKeys)
        external
        view
        returns (bytes32[] memory traitValues);

    /// @notice Where the traits are described.
    function getTraitMetadataURI() external view returns (string memory uri);

    /// @notice Changes a trait of a token.
    function setTrait(uint256 tokenId, bytes32 traitKey, bytes32 newValue) external;
}
