// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {ISubscriptionNFT} from "../interfaces/ISubscriptionNFT.sol";
import {ERC721} from "@openzeppelin/contracts/token/ERC721/ERC721.sol";

/// @title IERC5643
/// @notice Subscription NFTs.
/// @dev ERC-165 id 0x8c65f84d.
interface IERC5643 {
    event SubscriptionUpdate(uint256 indexed tokenId, uint64 expiration);

    function renewSubscription(uint256 tokenId, uint64 duration) external payable;
    function cancelSubscription(uint256 tokenId) external payable;
    function expiresAt(uint256 tokenId) external view returns (uint64);
    function isRenewable(uint256 tokenId) external view returns (bool);
}

/// @title TestSubscriptionNFT
/// @notice A subscription collection for tests: anyone can subscribe any account, for free. One token for each account, which
///         cannot be passed on; ids start at 1.
contract TestSubscriptionNFT is ERC721, IERC5643, ISubscriptionNFT {
    mapping(address owner => uint256) private _tokens;
    mapping(uint256 tokenId => uint64) private _expiries;
    mapping(uint256 tokenId => uint8) private _tiers;
    uint256 private _lastToken;

    error AlreadySubscribed(address account);
    error NotTransferable();

    constructor(string memory name_, string memory symbol_) ERC721(name_, symbol_) {}

    /// @notice Gives an account a subscription that ends at `expiration`, which may be in the past.
    function subscribe(address account, uint8 tier, uint64 expiration) external returns (uint256 tokenId) {
        if (_tokens[account] != 0) revert AlreadySubscribed(account);
        tokenId = ++_lastToken;
        _mint(account, tokenId);
        _set(tokenId, tier, expiration);
    }

    /// @notice Changes tier and end of a subscription.
    function set(uint256 tokenId, uint8 tier, uint64 expiration) external {
        _requireOwned(tokenId);
        _set(tokenId, tier, expiration);
    }

    /// @notice Ends a subscription and removes its token.
    function burn(uint256 tokenId) external {
        _burn(tokenId);
        delete _expiries[tokenId];
        delete _tiers[tokenId];
    }

    /// @inheritdoc IERC5643
    function renewSubscription(uint256 tokenId, uint64 duration) external payable {
        _requireOwned(tokenId);
        uint64 from = _expiries[tokenId] > block.timestamp ? _expiries[tokenId] : uint64(block.timestamp);
        _set(tokenId, _tiers[tokenId], from + duration);
    }

    /// @inheritdoc IERC5643
    function cancelSubscription(uint256 tokenId) external payable {
        _requireOwned(tokenId);
        _set(tokenId, _tiers[tokenId], 0);
    }

    /// @inheritdoc IERC5643
    function isRenewable(uint256 tokenId) external view returns (bool) {
        return _ownerOf(tokenId) != address(0);
    }

    /// @inheritdoc ISubscriptionNFT
    function expiresAt(uint256 tokenId) external view override(IERC5643, ISubscriptionNFT) returns (uint64) {
        return _expiries[tokenId];
    }

    /// @inheritdoc ISubscriptionNFT
    function tierOf(uint256 tokenId) external view returns (uint8) {
        return _tiers[tokenId];
    }

    /// @inheritdoc ISubscriptionNFT
    function tokenOfOwner(address owner) external view returns (uint256) {
        return _tokens[owner];
    }

    function supportsInterface(bytes4 interfaceId) public view override returns (bool) {
        return interfaceId == type(IERC5643).interfaceId || super.supportsInterface(interfaceId);
    }

    function _set(uint256 tokenId, uint8 tier, uint64 expiration) private {
        _tiers[tokenId] = tier;
        _expiries[tokenId] = expiration;
        emit SubscriptionUpdate(tokenId, expiration);
    }

    function _update(address to, uint256 tokenId, address auth) internal override returns (address from) {
        from = super._update(to, tokenId, auth);
        if (from != address(0) && to != address(0)) revert NotTransferable();
        if (from != address(0)) delete _tokens[from];
        if (to != address(0)) _tokens[to] = tokenId;
    }
}
