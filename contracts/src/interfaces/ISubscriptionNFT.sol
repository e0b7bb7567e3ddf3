// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

/// @title ISubscriptionNFT
/// @notice What `SubscriptionPredicate` asks of a collection: the time from ERC-5643, and two functions more.
interface ISubscriptionNFT {
    /// @notice The one token of `owner`, or 0 if it has none. There is no token 0.
    function tokenOfOwner(address owner) external view returns (uint256);

    /// @notice When the subscription of a token ends, in seconds since 1970.
    function expiresAt(uint256 tokenId) external view returns (uint64);

    /// @notice Tier of a token, from 1 up; 1 in a collection that has no tiers.
    function tierOf(uint256 tokenId) external view returns (uint8);
}
