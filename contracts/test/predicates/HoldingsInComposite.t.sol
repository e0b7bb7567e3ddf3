// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {CompositePredicate, ICompositePredicate} from "src/predicates/CompositePredicate.sol";
import {ERC20BalancePredicate} from "src/predicates/ERC20BalancePredicate.sol";
import {ERC721OwnerPredicate} from "src/predicates/ERC721OwnerPredicate.sol";
import {SubscriptionPredicate} from "src/predicates/SubscriptionPredicate.sol";
import {TraitGatedPredicate} from "src/predicates/TraitGatedPredicate.sol";
import {TestERC20} from "src/test-assets/TestERC20.sol";
import {TestERC721} from "src/test-assets/TestERC721.sol";
import {TestSubscriptionNFT} from "src/test-assets/TestSubscriptionNFT.sol";
import {RegistryFixture} from "test/RegistryFixture.sol";

/// @dev The predicates on holdings as terms of a real composite: a token that fails must not open a gate, least of all a
///      negated one.
contract HoldingsInCompositeTest is RegistryFixture {
    CompositePredicate private composite;
    ERC721OwnerPredicate private by721;
    ERC20BalancePredicate private by20;
    TestERC721 private nft;
    TestERC20 private token;
    uint256 private toolId;

    function setUp() public override {
        super.setUp();
        composite = new CompositePredicate(registry);
        by721 = new ERC721OwnerPredicate(registry);
        by20 = new ERC20BalancePredicate(registry);
        nft = new TestERC721("N", "N");
        token = new TestERC20("T", "T", 18);
        toolId = register(address(composite));
        vm.startPrank(creator);
        address[] memory collections = new address[](1);
        collections[0] = address(nft);
        by721.setCollections(toolId, collections);
        by20.configureToolERC20(toolId, address(token), 10);
        vm.stopPrank();
    }

    /// @dev Holds the one, and of the other not too much.
    function test_andNot() public {
        _compose(ICompositePredicate.Op.ALL, address(by721), false, address(by20), true);
        assertDenied(toolId, "");
        nft.mint(account, 1);
        assertGranted(toolId, "");
        token.mint(account, 10);
        assertDenied(toolId, "");
    }

    function test_negatedBrokenTokenNeverGrants() public {
        _compose(ICompositePredicate.Op.ALL, address(by721), false, address(by20), true);
        nft.mint(account, 1);
        vm.etch(address(token), hex"fe");
        assertMalfunction(toolId, "");
        vm.etch(address(token), "");
        assertMalfunction(toolId, "");
        // 32 bytes or nothing: PUSH1 31, PUSH0, RETURN.
        vm.etch(address(token), hex"601f5ff3");
        assertMalfunction(toolId, "");
    }

    function test_brokenTokenDoesNotHideAnother() public {
        _compose(ICompositePredicate.Op.ANY, address(by20), false, address(by721), false);
        vm.etch(address(token), hex"5b5f56"); // burns its gas: JUMPDEST, PUSH0, JUMP
        assertMalfunction(toolId, "");
        nft.mint(account, 1);
        assertGranted(toolId, "");
    }

    /// @dev Configured while the tool points at it, and used by the composite afterwards.
    function test_subscriptionAsTerm() public {
        SubscriptionPredicate subscription = new SubscriptionPredicate(registry);
        TestSubscriptionNFT passes = new TestSubscriptionNFT("S", "S");
        vm.startPrank(creator);
        registry.setAccessPredicate(toolId, address(subscription));
        subscription.configureToolGating(toolId, address(passes), 1);
        registry.setAccessPredicate(toolId, address(composite));
        vm.stopPrank();
        _compose(ICompositePredicate.Op.ANY, address(subscription), false, address(by721), false);
        assertDenied(toolId, "");
        passes.subscribe(account, 1, uint64(block.timestamp + 1));
        assertGranted(toolId, "");
    }

    /// @dev Who shows no token would pass the negation, so there is none.
    function test_traitCannotBeNegated() public {
        address trait = address(new TraitGatedPredicate(registry));
        vm.expectRevert(abi.encodeWithSelector(CompositePredicate.InvalidTerm.selector, 1, trait));
        _compose(ICompositePredicate.Op.ALL, address(by721), false, trait, true);
        _compose(ICompositePredicate.Op.ALL, address(by721), false, trait, false);
    }

    function _compose(ICompositePredicate.Op op, address a, bool notA, address b, bool notB) private {
        ICompositePredicate.Term[] memory terms = new ICompositePredicate.Term[](2);
        terms[0] = ICompositePredicate.Term(a, notA);
        terms[1] = ICompositePredicate.Term(b, notB);
        vm.prank(creator);
        composite.setComposition(toolId, op, terms);
    }
}
