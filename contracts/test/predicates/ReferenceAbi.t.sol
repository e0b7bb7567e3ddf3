// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {Test} from "forge-std/Test.sol";
import {ERC1155OwnerPredicate} from "src/predicates/ERC1155OwnerPredicate.sol";
import {ERC20BalancePredicate} from "src/predicates/ERC20BalancePredicate.sol";
import {ERC721OwnerPredicate} from "src/predicates/ERC721OwnerPredicate.sol";
import {RegistryPredicate} from "src/predicates/RegistryPredicate.sol";
import {SubscriptionPredicate} from "src/predicates/SubscriptionPredicate.sol";
import {TraitGatedPredicate} from "src/predicates/TraitGatedPredicate.sol";

/// @dev Functions and errors by which clients of the deployed reference predicates speak to them, as text. Events are in the
///      tests of each predicate.
contract ReferenceAbiTest is Test {
    function _is(bytes4 selector, string memory signature) private pure {
        assertEq(selector, bytes4(keccak256(bytes(signature))), signature);
    }

    function test_shared() public view {
        _is(RegistryPredicate(address(0)).REGISTRY.selector, "REGISTRY()");
        _is(RegistryPredicate.version.selector, "version()");
        _is(RegistryPredicate.CallerIsNotToolCreator.selector, "CallerIsNotToolCreator(uint256,address)");
    }

    function test_erc721() public pure {
        _is(ERC721OwnerPredicate.setCollections.selector, "setCollections(uint256,address[])");
        _is(ERC721OwnerPredicate.getCollections.selector, "getCollections(uint256)");
        _is(ERC721OwnerPredicate(address(0)).MAX_COLLECTIONS_PER_TOOL.selector, "MAX_COLLECTIONS_PER_TOOL()");
        _is(ERC721OwnerPredicate.TooManyCollections.selector, "TooManyCollections(uint256,uint256)");
        _is(ERC721OwnerPredicate.CollectionNoCode.selector, "CollectionNoCode(address)");
    }

    function test_erc1155() public pure {
        _is(ERC1155OwnerPredicate.setCollectionTokens.selector, "setCollectionTokens(uint256,(address,uint256[])[])");
        _is(ERC1155OwnerPredicate.getCollectionTokens.selector, "getCollectionTokens(uint256)");
        _is(ERC1155OwnerPredicate(address(0)).MAX_COLLECTIONS_PER_TOOL.selector, "MAX_COLLECTIONS_PER_TOOL()");
        _is(ERC1155OwnerPredicate(address(0)).MAX_TOKEN_IDS_PER_COLLECTION.selector, "MAX_TOKEN_IDS_PER_COLLECTION()");
        _is(ERC1155OwnerPredicate.TooManyCollections.selector, "TooManyCollections(uint256,uint256)");
        _is(ERC1155OwnerPredicate.TooManyTokenIds.selector, "TooManyTokenIds(uint256,uint256,uint256)");
        _is(ERC1155OwnerPredicate.EmptyTokenIds.selector, "EmptyTokenIds(uint256)");
        _is(ERC1155OwnerPredicate.CollectionNoCode.selector, "CollectionNoCode(address)");
    }

    function test_erc20() public pure {
        _is(ERC20BalancePredicate.configureToolERC20.selector, "configureToolERC20(uint256,address,uint256)");
        _is(ERC20BalancePredicate.getToolERC20Config.selector, "getToolERC20Config(uint256)");
        _is(ERC20BalancePredicate.ZeroToken.selector, "ZeroToken()");
        _is(ERC20BalancePredicate.TokenNoCode.selector, "TokenNoCode(address)");
        _is(ERC20BalancePredicate.ZeroMinBalance.selector, "ZeroMinBalance()");
    }

    function test_subscription() public pure {
        _is(SubscriptionPredicate.configureToolGating.selector, "configureToolGating(uint256,address,uint8)");
        _is(SubscriptionPredicate.getToolGatingConfig.selector, "getToolGatingConfig(uint256)");
        _is(SubscriptionPredicate.getSubscriptionStatus.selector, "getSubscriptionStatus(uint256,address)");
        _is(SubscriptionPredicate.registry.selector, "registry()");
        _is(SubscriptionPredicate.NotToolCreator.selector, "NotToolCreator(uint256,address)");
        _is(SubscriptionPredicate.ToolDoesNotUseThisPredicate.selector, "ToolDoesNotUseThisPredicate(uint256)");
        _is(SubscriptionPredicate.ZeroCollection.selector, "ZeroCollection()");
        _is(SubscriptionPredicate.CollectionNotAContract.selector, "CollectionNotAContract(address)");
        _is(SubscriptionPredicate.CollectionNotSubscriptionNFT.selector, "CollectionNotSubscriptionNFT(address)");
    }

    function test_trait() public pure {
        _is(
            TraitGatedPredicate.configureToolTrait.selector,
            "configureToolTrait(uint256,address,address,bytes32,bytes32[])"
        );
        _is(TraitGatedPredicate.getToolTraitConfig.selector, "getToolTraitConfig(uint256)");
        _is(TraitGatedPredicate(address(0)).MAX_ALLOWED_VALUES.selector, "MAX_ALLOWED_VALUES()");
        _is(TraitGatedPredicate.ZeroCollection.selector, "ZeroCollection()");
        _is(TraitGatedPredicate.ZeroTraitsContract.selector, "ZeroTraitsContract()");
        _is(TraitGatedPredicate.CollectionNoCode.selector, "CollectionNoCode(address)");
        _is(TraitGatedPredicate.TraitsContractNoCode.selector, "TraitsContractNoCode(address)");
        _is(TraitGatedPredicate.EmptyAllowedValues.selector, "EmptyAllowedValues()");
        _is(TraitGatedPredicate.TooManyAllowedValues.selector, "TooManyAllowedValues(uint256,uint256)");
        _is(TraitGatedPredicate.ZeroValueInAllowedValues.selector, "ZeroValueInAllowedValues(uint256)");
    }
}
