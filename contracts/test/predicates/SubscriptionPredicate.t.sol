// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {AccessRequirement, RequirementLogic} from "src/interfaces/IAccessPredicate.sol";
import {ISubscriptionNFT} from "src/interfaces/ISubscriptionNFT.sol";
import {IToolRegistry} from "src/interfaces/IToolRegistry.sol";
import {SubscriptionPredicate} from "src/predicates/SubscriptionPredicate.sol";
import {TestERC721} from "src/test-assets/TestERC721.sol";
import {TestSubscriptionNFT} from "src/test-assets/TestSubscriptionNFT.sol";
import {GasBurnerToken, NotAToken, RevertingToken, SizedAnswerToken} from "test/mocks/BrokenTokens.sol";
import {HoldingFixture} from "test/predicates/HoldingFixture.sol";

contract SubscriptionPredicateTest is HoldingFixture {
    SubscriptionPredicate private predicate;
    TestSubscriptionNFT private nft;
    uint64 private constant NOW = 1_800_000_000;

    function setUp() public override {
        super.setUp();
        vm.warp(NOW);
        predicate = SubscriptionPredicate(deploy(registry));
        use(address(predicate));
        nft = new TestSubscriptionNFT("Subscription", "S");
    }

    function expectedName() internal pure override returns (string memory) {
        return "SubscriptionPredicate";
    }

    function expectedLogic() internal pure override returns (RequirementLogic) {
        return RequirementLogic.AND;
    }

    function configure(uint256 tool) internal override {
        predicate.configureToolGating(tool, address(nft), 2);
    }

    function qualify(address who) internal override returns (bytes memory data) {
        nft.subscribe(who, 2, NOW + 1_000);
        return "";
    }

    function notCreator(uint256 tool, address caller) internal pure override returns (bytes memory) {
        return abi.encodeWithSelector(SubscriptionPredicate.NotToolCreator.selector, tool, caller);
    }

    function deploy(IToolRegistry tools) internal override returns (address) {
        return address(new SubscriptionPredicate(tools));
    }

    function _set(address collection, uint8 minTier) private {
        vm.prank(creator);
        predicate.configureToolGating(toolId, collection, minTier);
    }

    function _assertStatus(bool hasNft, uint8 tier, uint8 requiredTier, uint64 expiration, bool active) private view {
        (bool h, uint8 t, uint8 r, uint64 e, bool a) = predicate.getSubscriptionStatus(toolId, account);
        assertEq(h, hasNft, "hasNft");
        assertEq(t, tier, "tier");
        assertEq(r, requiredTier, "requiredTier");
        assertEq(e, expiration, "expiration");
        assertEq(a, active, "active");
    }

    function test_registry_bothNames() public view {
        assertEq(address(predicate.registry()), address(registry));
    }

    function test_configureToolGating_success() public {
        _set(address(nft), 2);
        SubscriptionPredicate.ToolGatingConfig memory config = predicate.getToolGatingConfig(toolId);
        assertEq(config.collection, address(nft));
        assertEq(config.minTier, 2);
    }

    function test_configureToolGating_event() public {
        vm.expectEmit(address(predicate));
        emit SubscriptionPredicate.ToolGatingConfigured(toolId, address(nft), 2);
        _set(address(nft), 2);
        assertEq(
            SubscriptionPredicate.ToolGatingConfigured.selector,
            keccak256("ToolGatingConfigured(uint256,address,uint8)")
        );
    }

    function test_configureToolGating_notCreator() public {
        vm.expectRevert(abi.encodeWithSelector(SubscriptionPredicate.NotToolCreator.selector, toolId, outsider));
        vm.prank(outsider);
        predicate.configureToolGating(toolId, address(nft), 1);
    }

    function test_configureToolGating_toolDoesNotUseThisPredicate() public {
        uint256 open = register(address(0));
        vm.expectRevert(abi.encodeWithSelector(SubscriptionPredicate.ToolDoesNotUseThisPredicate.selector, open));
        vm.prank(creator);
        predicate.configureToolGating(open, address(nft), 1);
    }

    /// @dev What was configured before the tool moved on stays, so that a composite can use it.
    function test_configureToolGating_afterPredicateSwap() public {
        _set(address(nft), 1);
        nft.subscribe(account, 1, NOW + 1);
        vm.prank(creator);
        registry.setAccessPredicate(toolId, address(0));
        vm.expectRevert(abi.encodeWithSelector(SubscriptionPredicate.ToolDoesNotUseThisPredicate.selector, toolId));
        _set(address(nft), 2);
        assertTrue(asks(toolId, account, ""));
        // Back again, it may be changed again.
        vm.prank(creator);
        registry.setAccessPredicate(toolId, address(predicate));
        assertGranted(toolId, "");
        _set(address(nft), 2);
        assertDenied(toolId, "");
    }

    /// @dev What a wrong call asked for is not kept.
    function test_configureToolGating_failureKeepsTheOldGate() public {
        _set(address(nft), 1);
        vm.expectRevert(SubscriptionPredicate.ZeroCollection.selector);
        _set(address(0), 9);
        assertEq(predicate.getToolGatingConfig(toolId).collection, address(nft));
        assertEq(predicate.getToolGatingConfig(toolId).minTier, 1);
    }

    /// @dev The subscription goes with the token.
    function test_hasAccess_followsTheToken() public {
        _set(address(nft), 1);
        uint256 token = nft.subscribe(account, 1, NOW + 1);
        assertGranted(toolId, "");
        nft.burn(token);
        assertDenied(toolId, "");
    }

    /// @dev The largest tier and time that the types can say.
    function test_hasAccess_extremes() public {
        _set(address(nft), type(uint8).max);
        uint256 token = nft.subscribe(account, type(uint8).max - 1, type(uint64).max);
        assertDenied(toolId, "");
        nft.set(token, type(uint8).max, type(uint64).max);
        assertGranted(toolId, "");
    }

    function test_configureToolGating_zeroCollection() public {
        vm.expectRevert(SubscriptionPredicate.ZeroCollection.selector);
        _set(address(0), 1);
    }

    function test_configureToolGating_EOA() public {
        vm.expectRevert(abi.encodeWithSelector(SubscriptionPredicate.CollectionNotAContract.selector, outsider));
        _set(outsider, 1);
    }

    function test_configureToolGating_nonSubscriptionNFT() public {
        address[5] memory wrong = [
            address(new TestERC721("N", "N")),
            address(new NotAToken()),
            address(new RevertingToken()),
            address(new GasBurnerToken()),
            address(new SizedAnswerToken(31))
        ];
        for (uint256 i; i < wrong.length; ++i) {
            vm.expectRevert(
                abi.encodeWithSelector(SubscriptionPredicate.CollectionNotSubscriptionNFT.selector, wrong[i])
            );
            _set(wrong[i], 1);
        }
    }

    function test_configureToolGating_canUpdate() public {
        _set(address(nft), 1);
        TestSubscriptionNFT other = new TestSubscriptionNFT("Other", "O");
        _set(address(other), 3);
        assertEq(predicate.getToolGatingConfig(toolId).collection, address(other));
        assertEq(predicate.getToolGatingConfig(toolId).minTier, 3);
    }

    function test_hasAccess_active() public {
        _set(address(nft), 1);
        nft.subscribe(account, 1, NOW + 1);
        assertGranted(toolId, "");
        assertGranted(toolId, "data is ignored");
    }

    function test_hasAccess_noNFT() public {
        _set(address(nft), 1);
        assertDenied(toolId, "");
    }

    function test_hasAccess_expired_expirationEqualsNow() public {
        _set(address(nft), 0);
        uint256 token = nft.subscribe(account, 1, NOW);
        assertDenied(toolId, "");
        nft.set(token, 1, NOW - 1);
        assertDenied(toolId, "");
        nft.set(token, 1, NOW + 1);
        assertGranted(toolId, "");
        vm.warp(NOW + 1);
        assertDenied(toolId, "");
    }

    function test_hasAccess_tierTooLow_meets_exceeds() public {
        _set(address(nft), 2);
        uint256 token = nft.subscribe(account, 1, NOW + 1);
        assertDenied(toolId, "");
        nft.set(token, 2, NOW + 1);
        assertGranted(toolId, "");
        nft.set(token, 3, NOW + 1);
        assertGranted(toolId, "");
    }

    function test_hasAccess_minTierZeroIgnoresTier() public {
        _set(address(nft), 0);
        nft.subscribe(account, 0, NOW + 1);
        assertGranted(toolId, "");
    }

    function test_multiTool_sameCollection_differentTiers() public {
        _set(address(nft), 1);
        vm.prank(creator);
        predicate.configureToolGating(otherTool, address(nft), 2);
        nft.subscribe(account, 1, NOW + 1);
        assertGranted(toolId, "");
        assertDenied(otherTool, "");
    }

    function test_multiTool_differentCollections() public {
        TestSubscriptionNFT other = new TestSubscriptionNFT("Other", "O");
        _set(address(nft), 1);
        vm.prank(creator);
        predicate.configureToolGating(otherTool, address(other), 1);
        other.subscribe(account, 1, NOW + 1);
        assertDenied(toolId, "");
        assertGranted(otherTool, "");
    }

    /// @dev Whether the account has subscribed is unknown, so this is not a denial.
    function test_hasAccess_brokenCollectionIsMalfunction() public {
        _set(address(nft), 1);
        uint256 token = nft.subscribe(account, 1, NOW + 1);
        bytes4[3] memory questions = [
            ISubscriptionNFT.tokenOfOwner.selector,
            ISubscriptionNFT.expiresAt.selector,
            ISubscriptionNFT.tierOf.selector
        ];
        for (uint256 i; i < questions.length; ++i) {
            vm.mockCallRevert(address(nft), abi.encodeWithSelector(questions[i]), "broken");
            _assertUnavailable();
            vm.clearMockedCalls();
            assertGranted(toolId, "");
        }
        // A time beyond uint64 and a tier beyond uint8, which decoding would refuse too.
        vm.mockCall(address(nft), abi.encodeCall(ISubscriptionNFT.expiresAt, (token)), abi.encode(uint256(1) << 64));
        _assertUnavailable();
        vm.clearMockedCalls();
        vm.mockCall(address(nft), abi.encodeCall(ISubscriptionNFT.tierOf, (token)), abi.encode(256));
        _assertUnavailable();
        vm.clearMockedCalls();
        vm.etch(address(nft), "");
        _assertUnavailable();
        vm.etch(address(nft), address(new GasBurnerToken()).code);
        _assertUnavailable();
    }

    function _assertUnavailable() private {
        assertMalfunction(toolId, "");
        vm.expectRevert(abi.encodeWithSelector(SubscriptionPredicate.CollectionUnavailable.selector, address(nft)));
        predicate.getSubscriptionStatus{gas: 200_000}(toolId, account);
    }

    function test_hasAccess_zeroAddressIsDenied() public {
        _set(address(nft), 0);
        assertFalse(asks(toolId, address(0), ""));
    }

    function test_getSubscriptionStatus_active() public {
        _set(address(nft), 1);
        nft.subscribe(account, 2, NOW + 5);
        _assertStatus(true, 2, 1, NOW + 5, true);
    }

    function test_getSubscriptionStatus_insufficientTier() public {
        _set(address(nft), 3);
        nft.subscribe(account, 2, NOW + 5);
        _assertStatus(true, 2, 3, NOW + 5, false);
    }

    function test_getSubscriptionStatus_noNFT() public {
        _set(address(nft), 3);
        _assertStatus(false, 0, 3, 0, false);
    }

    function test_getSubscriptionStatus_expired() public {
        _set(address(nft), 1);
        nft.subscribe(account, 2, NOW);
        _assertStatus(true, 2, 1, NOW, false);
    }

    function test_getSubscriptionStatus_unconfigured() public view {
        _assertStatus(false, 0, 0, 0, false);
    }

    /// @dev Both ways of asking agree, whatever the subscription.
    function testFuzz_statusAgreesWithAccess(uint8 tier, uint8 minTier, uint64 expiration, uint64 time) public {
        _set(address(nft), minTier);
        nft.subscribe(account, tier, expiration);
        vm.warp(time);
        (bool ok, bool granted) = registry.tryHasAccess(toolId, account, "");
        (,,,, bool active) = predicate.getSubscriptionStatus(toolId, account);
        assertTrue(ok);
        assertEq(granted, expiration > time && tier >= minTier);
        assertEq(active, granted);
    }

    /// @dev With too little gas the answer is "cannot tell", never "no".
    function testFuzz_hasAccess_neverDeniesForLackOfGas(uint256 gasLimit) public {
        _set(address(nft), 1);
        nft.subscribe(account, 1, NOW + 1);
        gasLimit = bound(gasLimit, 0, 40_000);
        try predicate.hasAccess{gas: gasLimit}(toolId, account, "") returns (bool granted) {
            assertTrue(granted);
        } catch {}
    }

    // req: PRED-003, PRED-004
    function test_getRequirements() public {
        _set(address(nft), 2);
        (AccessRequirement[] memory requirements, RequirementLogic logic) = requirementsOf(toolId);
        assertEq(requirements.length, 1);
        assertRequirement(requirements[0], 0x44387cc2, abi.encode(address(nft), uint8(2)));
        assertEq(uint8(logic), 0);
    }
}
