// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {AccessRequirement, RequirementLogic} from "src/interfaces/IAccessPredicate.sol";
import {IToolRegistry} from "src/interfaces/IToolRegistry.sol";
import {ERC721OwnerPredicate} from "src/predicates/ERC721OwnerPredicate.sol";
import {RegistryPredicate} from "src/predicates/RegistryPredicate.sol";
import {TestERC721} from "src/test-assets/TestERC721.sol";
import {
    GasBurnerToken,
    NotAToken,
    RevertingToken,
    SilentlyRevertingToken,
    SizedAnswerToken
} from "test/mocks/BrokenTokens.sol";
import {HoldingFixture} from "test/predicates/HoldingFixture.sol";

contract ERC721OwnerPredicateTest is HoldingFixture {
    ERC721OwnerPredicate private predicate;
    TestERC721 private first;
    TestERC721 private second;

    function setUp() public override {
        super.setUp();
        predicate = ERC721OwnerPredicate(deploy(registry));
        use(address(predicate));
        first = new TestERC721("First", "A");
        second = new TestERC721("Second", "B");
    }

    function expectedName() internal pure override returns (string memory) {
        return "ERC721OwnerPredicate";
    }

    function expectedLogic() internal pure override returns (RequirementLogic) {
        return RequirementLogic.OR;
    }

    function configure(uint256 tool) internal override {
        predicate.setCollections(tool, _list(address(first), address(second)));
    }

    function qualify(address who) internal override returns (bytes memory data) {
        second.mint(who, 1_000);
        return "";
    }

    function deploy(IToolRegistry tools) internal override returns (address) {
        return address(new ERC721OwnerPredicate(tools));
    }

    function _list(address a) private pure returns (address[] memory list) {
        list = new address[](1);
        list[0] = a;
    }

    function _list(address a, address b) private pure returns (address[] memory list) {
        list = new address[](2);
        (list[0], list[1]) = (a, b);
    }

    function _set(address[] memory list) private {
        vm.prank(creator);
        predicate.setCollections(toolId, list);
    }

    function test_setCollections_single() public {
        _set(_list(address(first)));
        assertEq(predicate.getCollections(toolId), _list(address(first)));
    }

    function test_setCollections_multiple() public {
        _set(_list(address(first), address(second)));
        assertEq(predicate.getCollections(toolId), _list(address(first), address(second)));
    }

    function test_setCollections_replacesExisting() public {
        _set(_list(address(first), address(second)));
        _set(_list(address(second)));
        assertEq(predicate.getCollections(toolId), _list(address(second)));
    }

    function test_setCollections_emptyArrayClearsGate() public {
        first.mint(account, 1);
        _set(_list(address(first)));
        assertGranted(toolId, "");
        _set(new address[](0));
        assertEq(predicate.getCollections(toolId).length, 0);
        assertDenied(toolId, "");
    }

    function test_setCollections_emitsEvent() public {
        vm.expectEmit(address(predicate));
        emit ERC721OwnerPredicate.CollectionsSet(toolId, _list(address(first), address(second)));
        _set(_list(address(first), address(second)));
        // The topic that clients of the reference listen for.
        assertEq(ERC721OwnerPredicate.CollectionsSet.selector, keccak256("CollectionsSet(uint256,address[])"));
    }

    function test_setCollections_revertsIfNotCreator() public {
        vm.expectRevert(abi.encodeWithSelector(RegistryPredicate.CallerIsNotToolCreator.selector, toolId, outsider));
        vm.prank(outsider);
        predicate.setCollections(toolId, _list(address(first)));
    }

    function test_setCollections_revertsIfTooMany() public {
        address[] memory list = _max(1);
        vm.expectRevert(
            abi.encodeWithSelector(ERC721OwnerPredicate.TooManyCollections.selector, list.length, list.length - 1)
        );
        _set(list);
    }

    function test_setCollections_maxCollectionsSucceeds() public {
        _set(_max(0));
        assertEq(predicate.getCollections(toolId), _max(0));
    }

    function test_setCollections_revertsOnZeroAddress() public {
        vm.expectRevert(abi.encodeWithSelector(ERC721OwnerPredicate.CollectionNoCode.selector, address(0)));
        _set(_list(address(first), address(0)));
    }

    function test_setCollections_revertsOnEOA() public {
        vm.expectRevert(abi.encodeWithSelector(ERC721OwnerPredicate.CollectionNoCode.selector, outsider));
        _set(_list(outsider));
    }

    function test_setCollections_failureKeepsTheOldGate() public {
        _set(_list(address(first)));
        vm.expectRevert(abi.encodeWithSelector(ERC721OwnerPredicate.CollectionNoCode.selector, outsider));
        _set(_list(address(second), outsider));
        assertEq(predicate.getCollections(toolId), _list(address(first)));
    }

    function test_hasAccess_first() public {
        _set(_list(address(first), address(second)));
        first.mint(account, 1);
        assertGranted(toolId, "");
    }

    function test_hasAccess_second() public {
        _set(_list(address(first), address(second)));
        second.mint(account, 1);
        assertGranted(toolId, "");
        assertGranted(toolId, "data is ignored");
    }

    function test_hasAccess_all() public {
        _set(_list(address(first), address(second)));
        first.mint(account, 1);
        second.mint(account, 1);
        assertGranted(toolId, "");
    }

    function test_hasAccess_falseWhenHoldsNone() public {
        _set(_list(address(first), address(second)));
        first.mint(outsider, 1);
        assertDenied(toolId, "");
    }

    function test_hasAccess_falseAfterTokenIsGone() public {
        _set(_list(address(first)));
        first.mint(account, 1);
        assertGranted(toolId, "");
        first.burn(1);
        assertDenied(toolId, "");
    }

    function test_hasAccess_ignoresToolIdForDifferentTools() public {
        _set(_list(address(first)));
        vm.prank(creator);
        predicate.setCollections(otherTool, _list(address(second)));
        second.mint(account, 1);
        assertDenied(toolId, "");
        assertGranted(otherTool, "");
    }

    function test_hasAccess_zeroAddressIsDenied() public {
        _set(_list(address(first)));
        assertFalse(asks(toolId, address(0), ""));
    }

    /// @dev A broken collection in front does not hide a holding behind it; without one, the answer is unknown.
    function test_hasAccess_skipsBrokenCollections() public {
        address[6] memory broken = [
            address(new NotAToken()),
            address(new RevertingToken()),
            address(new SilentlyRevertingToken()),
            address(new GasBurnerToken()),
            address(new SizedAnswerToken(31)),
            address(new SizedAnswerToken(0))
        ];
        for (uint256 i; i < broken.length; ++i) {
            _set(_list(broken[i], address(second)));
            assertMalfunction(toolId, "");
            vm.expectRevert(abi.encodeWithSelector(ERC721OwnerPredicate.CollectionUnavailable.selector, broken[i]));
            asks(toolId, account, "");
            second.mint(account, i);
            assertGranted(toolId, "");
            second.burn(i);
            // It does not matter on which side it stands.
            _set(_list(address(second), broken[i]));
            assertMalfunction(toolId, "");
        }
    }

    function test_hasAccess_skipsContractWithoutBalanceOf() public {
        _set(_list(address(new NotAToken()), address(first)));
        first.mint(account, 1);
        assertGranted(toolId, "");
    }

    function test_hasAccess_collectionSelfDestructed() public {
        _set(_list(address(first), address(second)));
        vm.etch(address(first), "");
        assertMalfunction(toolId, "");
        second.mint(account, 1);
        assertGranted(toolId, "");
    }

    /// @dev Only a word of a long answer is copied. What it says is what the collection says.
    function test_hasAccess_longAnswer() public {
        _set(_list(address(new SizedAnswerToken(10_000))));
        assertGranted(toolId, "");
    }

    /// @dev With too little gas the answer is "cannot tell", never "no".
    function testFuzz_hasAccess_neverDeniesForLackOfGas(uint256 gasLimit) public {
        first.mint(account, 1);
        _set(_list(address(second), address(first)));
        gasLimit = bound(gasLimit, 0, 60_000);
        try predicate.hasAccess{gas: gasLimit}(toolId, account, "") returns (bool granted) {
            assertTrue(granted);
        } catch {}
    }

    function testFuzz_hasAccess_isHoldingAny(uint8 held, address who) public {
        vm.assume(who != address(0) && who.code.length == 0);
        address[] memory list = _max(0);
        for (uint256 i; i < list.length; ++i) {
            list[i] = address(new TestERC721("N", "N"));
            if (held & (1 << i) != 0) TestERC721(list[i]).mint(who, i);
        }
        _set(list);
        (bool ok, bool granted) = registry.tryHasAccess(toolId, who, "");
        assertTrue(ok);
        assertEq(granted, held & ((1 << list.length) - 1) != 0);
    }

    // req: PRED-003, PRED-004
    function test_getRequirements_single() public {
        _set(_list(address(first)));
        (AccessRequirement[] memory requirements, RequirementLogic logic) = requirementsOf(toolId);
        assertEq(requirements.length, 1);
        assertRequirement(requirements[0], 0xbdf8c428, abi.encode(address(first)));
        assertEq(uint8(logic), 1);
    }

    // req: PRED-003, PRED-005
    function test_getRequirements_multiple() public {
        _set(_list(address(first), address(second)));
        (AccessRequirement[] memory requirements, RequirementLogic logic) = requirementsOf(toolId);
        assertEq(requirements.length, 2);
        assertRequirement(requirements[0], 0xbdf8c428, abi.encode(address(first)));
        assertRequirement(requirements[1], 0xbdf8c428, abi.encode(address(second)));
        assertEq(uint8(logic), 1);
    }

    function test_getRequirements_empty() public view {
        (AccessRequirement[] memory requirements, RequirementLogic logic) = requirementsOf(toolId);
        assertEq(requirements.length, 0);
        assertEq(uint8(logic), 1);
    }

    function _max(uint256 more) private view returns (address[] memory list) {
        list = new address[](predicate.MAX_COLLECTIONS_PER_TOOL() + more);
        for (uint256 i; i < list.length; ++i) {
            list[i] = i % 2 == 0 ? address(first) : address(second);
        }
    }
}
