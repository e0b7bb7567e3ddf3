// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {IERC7496} from "../interfaces/IERC7496.sol";
import {ERC721} from "@openzeppelin/contracts/token/ERC721/ERC721.sol";

/// @title TestTraitsNFT
/// @notice A collection with ERC-7496 traits for tests: anyone can mint, burn, define traits and set them.
contract TestTraitsNFT is ERC721, IERC7496 {
    mapping(bytes32 traitKey => bool) private _defined;
    mapping(uint256 tokenId => mapping(bytes32 traitKey => bytes32)) private _traits;

    constructor(string memory name_, string memory symbol_) ERC721(name_, symbol_) {}

    function mint(address to, uint256 tokenId) external {
        _mint(to, tokenId);
    }

    function burn(uint256 tokenId) external {
        _burn(tokenId);
    }

    /// @notice Makes a trait known; its value is zero for every token at first.
    function defineTrait(bytes32 traitKey) external {
        _defined[traitKey] = true;
        emit TraitMetadataURIUpdated();
    }

    /// @inheritdoc IERC7496
    function setTrait(uint256 tokenId, bytes32 traitKey, bytes32 newValue) external {
        _check(tokenId, traitKey);
        _traits[tokenId][traitKey] = newValue;
        emit TraitUpdated(traitKey, tokenId, newValue);
    }

    /// @inheritdoc IERC7496
    function getTraitValue(uint256 tokenId, bytes32 traitKey) public view returns (bytes32) {
        _check(tokenId, traitKey);
        return _traits[tokenId][traitKey];
    }

    /// @inheritdoc IERC7496
    function getTraitValues(uint256 tokenId, bytes32[] calldata traitKeys)
        external
        view
        returns (bytes32[] memory values)
    {
        values = new bytes32[](traitKeys.length);
        for (uint256 i; i < traitKeys.length; ++i) {
            values[i] = getTraitValue(tokenId, traitKeys[i]);
        }
    }

    /// @inheritdoc IERC7496
    function getTraitMetadataURI() external pure returns (string memory) {
        return "data:application/json,{\"traits\":{}}";
    }

    function supportsInterface(bytes4 interfaceId) public view override returns (bool) {
        return interfaceId == type(IERC7496).interfaceId || super.supportsInterface(interfaceId);
    }

    function _check(uint256 tokenId, bytes32 traitKey) private view {
        if (_ownerOf(tokenId) == address(0)) revert TokenDoesNotExist(tokenId);
        if (!_defined[traitKey]) revert TraitKeyUnknown(traitKey);
    }
}
