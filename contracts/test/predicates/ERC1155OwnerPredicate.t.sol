// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {AccessRequirement, RequirementLogic} from "src/interfaces/IAccessPredicate.sol";
import {IToolRegistry} from "src/interfaces/IToolRegistry.sol";
import {ERC1155OwnerPredicate} from "src/predicates/ERC1155OwnerPredicate.sol";
import {RegistryPredicate} from "src/predicates/RegistryPredicate.sol";
import {TestERC1155} from "src/test-assets/TestERC1155.sol";
import {
    FixedAnswerToken,
    GasBurnerToken,
    NotAToken,
    RevertingToken,
    SilentlyRevertingToken,
    SizedAnswerToken
} from "test/mocks/BrokenTokens.sol";
import {HoldingFixture} from "test/predicates/HoldingFixture.sol";

contract ERC1155OwnerPredicateTest is HoldingFixture {
    ERC1155OwnerPredicate private predicate;
    TestERC1155 private first;
    TestERC1155 private second;

    function setUp() public override {
        super.setUp();
        predicate = ERC1155OwnerPredicate(deploy(registry));
        use(address(predicate));
        first = new TestERC1155("");
        second = new TestERC1155("");
    }

    function expectedName() internal pure override returns (string memory) {
        return "ERC1155OwnerPredicate";
    }

    function expectedLogic() internal pure override returns (RequirementLogic) {
        return RequirementLogic.OR;
    }

    function configure(uint256 tool) internal override {
        predicate.setCollectionTokens(tool, _entries(2, 2, 1_000));
    }

    function qualify(address who) internal override returns (bytes memory data) {
        second.mint(who, 1_001, 1);
        return "";
    }

    function deploy(IToolRegistry tools) internal override returns (address) {
        return address(new ERC1155OwnerPredicate(tools));
    }

    /// @dev `count` entries for `first` and `second` in turn, with ids from `base` up.
    function _entries(uint256 count, uint256 ids, uint256 base)
        private
        view
        returns (ERC1155OwnerPredicate.CollectionTokens[] memory entries)
    {
        entries = new ERC1155OwnerPredicate.CollectionTokens[](count);
        for (uint256 i; i < count; ++i) {
            entries[i].collection = i % 2 == 0 ? address(first) : address(second);
            entries[i].tokenIds = new uint256[](ids);
            for (uint256 j; j < ids; ++j) {
                entries[i].tokenIds[j] = base + j;
            }
        }
    }

    function _set(ERC1155OwnerPredicate.CollectionTokens[] memory entries) private {
        vm.prank(creator);
        predicate.setCollectionTokens(toolId, entries);
    }

    function _assertStored(ERC1155OwnerPredicate.CollectionTokens[] memory entries) private view {
        assertEq(abi.encode(predicate.getCollectionTokens(toolId)), abi.encode(entries));
    }

    function test_setCollectionTokens_singleEntry() public {
        _set(_entries(1, 1, 7));
        _assertStored(_entries(1, 1, 7));
    }

    function test_setCollectionTokens_multipleEntries() public {
        _set(_entries(2, 3, 7));
        _assertStored(_entries(2, 3, 7));
    }

    function test_setCollectionTokens_replacesExisting() public {
        _set(_entries(2, 3, 7));
        _set(_entries(1, 2, 9));
        _assertStored(_entries(1, 2, 9));
    }

    function test_setCollectionTokens_emptyArrayClearsGate() public {
        first.mint(account, 7, 1);
        _set(_entries(1, 1, 7));
        assertGranted(toolId, "");
        _set(_entries(0, 0, 0));
        _assertStored(_entries(0, 0, 0));
        assertDenied(toolId, "");
    }

    function test_setCollectionTokens_emitsEvent() public {
        vm.expectEmit(address(predicate));
        emit ERC1155OwnerPredicate.CollectionTokensSet(toolId, _entries(2, 3, 7));
        _set(_entries(2, 3, 7));
        assertEq(
            ERC1155OwnerPredicate.CollectionTokensSet.selector,
            keccak256("CollectionTokensSet(uint256,(address,uint256[])[])")
        );
    }

    function test_setCollectionTokens_revertsIfNotCreator() public {
        vm.expectRevert(abi.encodeWithSelector(RegistryPredicate.CallerIsNotToolCreator.selector, toolId, outsider));
        vm.prank(outsider);
        predicate.setCollectionTokens(toolId, _entries(1, 1, 7));
    }

    function test_setCollectionTokens_revertsOnTooManyCollections() public {
        uint256 max = predicate.MAX_COLLECTIONS_PER_TOOL();
        vm.expectRevert(abi.encodeWithSelector(ERC1155OwnerPredicate.TooManyCollections.selector, max + 1, max));
        _set(_entries(max + 1, 1, 7));
    }

    /// @dev The most ids go with one collection; a second one takes the room of six.
    function test_setCollectionTokens_revertsOnTooManyTokenIds() public {
        assertEq(predicate.maxTokenIds(0), 0);
        assertEq(predicate.maxTokenIds(1), 12);
        assertEq(predicate.maxTokenIds(2), 6);
        assertEq(predicate.maxTokenIds(3), 0);
        assertEq(predicate.maxTokenIds(type(uint256).max), 0);
        assertEq(predicate.MAX_TOKEN_IDS_PER_COLLECTION(), 12);

        vm.expectRevert(abi.encodeWithSelector(ERC1155OwnerPredicate.TooManyTokenIds.selector, 0, 13, 12));
        _set(_entries(1, 13, 7));
        vm.expectRevert(abi.encodeWithSelector(ERC1155OwnerPredicate.TooManyTokenIds.selector, 1, 8, 6));
        _set(_entries(2, 4, 7));
    }

    function test_setCollectionTokens_maxConfigSucceeds() public {
        _set(_entries(1, 12, 7));
        _assertStored(_entries(1, 12, 7));
        _set(_entries(2, 3, 7));
        _assertStored(_entries(2, 3, 7));
        ERC1155OwnerPredicate.CollectionTokens[] memory uneven = _entries(2, 1, 7);
        uneven[1].tokenIds = _entries(1, 5, 7)[0].tokenIds;
        _set(uneven);
        _assertStored(uneven);
    }

    function test_setCollectionTokens_revertsOnEmptyTokenIds() public {
        ERC1155OwnerPredicate.CollectionTokens[] memory entries = _entries(2, 1, 7);
        entries[1].tokenIds = new uint256[](0);
        vm.expectRevert(abi.encodeWithSelector(ERC1155OwnerPredicate.EmptyTokenIds.selector, 1));
        _set(entries);
    }

    function test_setCollectionTokens_revertsOnZeroAddressAndEOA() public {
        ERC1155OwnerPredicate.CollectionTokens[] memory entries = _entries(1, 1, 7);
        entries[0].collection = address(0);
        vm.expectRevert(abi.encodeWithSelector(ERC1155OwnerPredicate.CollectionNoCode.selector, address(0)));
        _set(entries);
        entries[0].collection = outsider;
        vm.expectRevert(abi.encodeWithSelector(ERC1155OwnerPredicate.CollectionNoCode.selector, outsider));
        _set(entries);
    }

    function test_setCollectionTokens_failureKeepsTheOldGate() public {
        _set(_entries(2, 3, 7));
        ERC1155OwnerPredicate.CollectionTokens[] memory entries = _entries(2, 1, 9);
        entries[1].tokenIds = new uint256[](0);
        vm.expectRevert(abi.encodeWithSelector(ERC1155OwnerPredicate.EmptyTokenIds.selector, 1));
        _set(entries);
        _assertStored(_entries(2, 3, 7));
    }

    function test_hasAccess_configuredId() public {
        _set(_entries(1, 1, 7));
        first.mint(account, 7, 1);
        assertGranted(toolId, "");
        assertGranted(toolId, "data is ignored");
    }

    function test_hasAccess_anyOfMultipleIds() public {
        _set(_entries(1, 3, 7));
        for (uint256 id = 7; id < 10; ++id) {
            assertDenied(toolId, "");
            first.mint(account, id, 2);
            assertGranted(toolId, "");
            first.burn(account, id, 2);
        }
    }

    function test_hasAccess_secondEntry() public {
        _set(_entries(2, 2, 7));
        second.mint(account, 8, 1);
        assertGranted(toolId, "");
    }

    function test_hasAccess_falseWhenUnconfiguredId() public {
        _set(_entries(1, 2, 7));
        first.mint(account, 9, 1);
        second.mint(account, 7, 1);
        assertDenied(toolId, "");
    }

    function test_hasAccess_falseWhenOwnsNothing() public {
        _set(_entries(2, 2, 7));
        first.mint(outsider, 7, 1);
        assertDenied(toolId, "");
    }

    function test_hasAccess_isolatedPerTool() public {
        _set(_entries(1, 1, 7));
        vm.prank(creator);
        predicate.setCollectionTokens(otherTool, _entries(1, 1, 8));
        first.mint(account, 8, 1);
        assertDenied(toolId, "");
        assertGranted(otherTool, "");
    }

    function test_hasAccess_zeroAddressIsDenied() public {
        _set(_entries(1, 1, 7));
        assertFalse(asks(toolId, address(0), ""));
    }

    function test_hasAccess_skipsContractWithoutBalanceOfBatch() public {
        ERC1155OwnerPredicate.CollectionTokens[] memory entries = _entries(2, 1, 7);
        entries[0].collection = address(new NotAToken());
        _set(entries);
        second.mint(account, 7, 1);
        assertGranted(toolId, "");
    }

    function test_hasAccess_skipsBrokenCollections() public {
        address[11] memory broken = [
            address(new NotAToken()),
            address(new RevertingToken()),
            address(new SilentlyRevertingToken()),
            address(new GasBurnerToken()),
            address(new SizedAnswerToken(0)),
            address(new SizedAnswerToken(127)),
            address(new SizedAnswerToken(10_000)),
            // One balance instead of two, three instead of two, an odd offset, a balance with nothing around it.
            address(new FixedAnswerToken(abi.encode(0x20, 1, 5, 0))),
            address(new FixedAnswerToken(abi.encode(0x20, 3, 5, 5, 5))),
            address(new FixedAnswerToken(abi.encode(0x40, 2, 2, 5, 5))),
            address(new FixedAnswerToken(abi.encode(5)))
        ];
        for (uint256 i; i < broken.length; ++i) {
            ERC1155OwnerPredicate.CollectionTokens[] memory entries = _entries(2, 2, 7);
            entries[0].collection = broken[i];
            _set(entries);
            assertMalfunction(toolId, "");
            vm.expectRevert(abi.encodeWithSelector(ERC1155OwnerPredicate.CollectionUnavailable.selector, broken[i]));
            asks(toolId, account, "");
            second.mint(account, 8, 1);
            assertGranted(toolId, "");
            second.burn(account, 8, 1);
        }
    }

    function test_hasAccess_collectionSelfDestructed() public {
        _set(_entries(2, 1, 7));
        vm.etch(address(first), "");
        assertMalfunction(toolId, "");
        second.mint(account, 7, 1);
        assertGranted(toolId, "");
    }

    /// @dev With too little gas the answer is "cannot tell", never "no".
    function testFuzz_hasAccess_neverDeniesForLackOfGas(uint256 gasLimit) public {
        second.mint(account, 8, 1);
        _set(_entries(2, 2, 7));
        gasLimit = bound(gasLimit, 0, 60_000);
        try predicate.hasAccess{gas: gasLimit}(toolId, account, "") returns (bool granted) {
            assertTrue(granted);
        } catch {}
    }

    /// @dev Whatever is stored comes back, and access is holding any of it.
    function testFuzz_storedAndAsked(uint256[2] memory sizes, uint256 seed, uint256 holding) public {
        uint256 count = bound(seed, 1, 2);
        ERC1155OwnerPredicate.CollectionTokens[] memory entries = new ERC1155OwnerPredicate.CollectionTokens[](count);
        uint256 room = predicate.maxTokenIds(count);
        for (uint256 i; i < count; ++i) {
            uint256 size = bound(sizes[i], 1, room - (count - i - 1));
            room -= size;
            entries[i].collection = i % 2 == 0 ? address(first) : address(second);
            entries[i].tokenIds = new uint256[](size);
            for (uint256 j; j < size; ++j) {
                entries[i].tokenIds[j] = uint256(keccak256(abi.encode(seed, i, j)));
            }
        }
        _set(entries);
        _assertStored(entries);
        assertDenied(toolId, "");
        ERC1155OwnerPredicate.CollectionTokens memory entry = entries[holding % count];
        TestERC1155(entry.collection).mint(account, entry.tokenIds[holding % entry.tokenIds.length], 1);
        assertGranted(toolId, "");
    }

    // req: PRED-003, PRED-004
    function test_getRequirements_expandsTokenIds() public {
        _set(_entries(1, 2, 7));
        (AccessRequirement[] memory requirements, RequirementLogic logic) = requirementsOf(toolId);
        assertEq(requirements.length, 2);
        assertRequirement(requirements[0], 0xcb429230, abi.encode(address(first), 7));
        assertRequirement(requirements[1], 0xcb429230, abi.encode(address(first), 8));
        assertEq(uint8(logic), 1);
    }

    // req: PRED-003, PRED-005
    function test_getRequirements_multipleCollections() public {
        _set(_entries(2, 1, 7));
        (AccessRequirement[] memory requirements,) = requirementsOf(toolId);
        assertEq(requirements.length, 2);
        assertRequirement(requirements[0], 0xcb429230, abi.encode(address(first), 7));
        assertRequirement(requirements[1], 0xcb429230, abi.encode(address(second), 7));
    }

    function test_getRequirements_empty() public view {
        (AccessRequirement[] memory requirements, RequirementLogic logic) = requirementsOf(toolId);
        assertEq(requirements.length, 0);
        assertEq(uint8(logic), 1);
    }
}
