// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {IERC721} from "@openzeppelin/contracts/token/ERC721/IERC721.sol";
import {IERC165} from "@openzeppelin/contracts/utils/introspection/IERC165.sol";
import {AccessRequirement, RequirementLogic} from "src/interfaces/IAccessPredicate.sol";
import {IERC7496} from "src/interfaces/IERC7496.sol";
import {IProofBased} from "src/interfaces/IRequirementTypes.sol";
import {IToolRegistry} from "src/interfaces/IToolRegistry.sol";
import {RegistryPredicate} from "src/predicates/RegistryPredicate.sol";
import {TraitGatedPredicate} from "src/predicates/TraitGatedPredicate.sol";
import {TestERC721} from "src/test-assets/TestERC721.sol";
import {TestTraitsNFT} from "src/test-assets/TestTraitsNFT.sol";
import {
    FixedAnswerToken,
    GasBurnerToken,
    NotAToken,
    RevertingToken,
    SilentlyRevertingToken,
    SizedAnswerToken
} from "test/mocks/BrokenTokens.sol";
import {HoldingFixture} from "test/predicates/HoldingFixture.sol";

contract TraitGatedPredicateTest is HoldingFixture {
    bytes32 private constant KEY = keccak256("tier");
    bytes32 private constant GOLD = "gold";
    bytes32 private constant SILVER = "silver";
    bytes32 private constant LEAD = "lead";
    uint256 private constant TOKEN = 7;

    TraitGatedPredicate private predicate;
    TestTraitsNFT private nft;

    function setUp() public override {
        super.setUp();
        predicate = TraitGatedPredicate(deploy(registry));
        use(address(predicate));
        nft = new TestTraitsNFT("Traits", "T");
        nft.defineTrait(KEY);
        nft.mint(account, TOKEN);
    }

    function expectedName() internal pure override returns (string memory) {
        return "TraitGatedPredicate";
    }

    function expectedLogic() internal pure override returns (RequirementLogic) {
        return RequirementLogic.AND;
    }

    function configure(uint256 tool) internal override {
        predicate.configureToolTrait(tool, address(nft), address(nft), KEY, _values());
    }

    function qualify(address who) internal override returns (bytes memory data) {
        nft.mint(who, 1_000);
        nft.setTrait(1_000, KEY, SILVER);
        return abi.encode(1_000);
    }

    function deploy(IToolRegistry tools) internal override returns (address) {
        return address(new TraitGatedPredicate(tools));
    }

    function _values() private pure returns (bytes32[] memory values) {
        values = new bytes32[](2);
        (values[0], values[1]) = (GOLD, SILVER);
    }

    function _set(address collection, address traits, bytes32[] memory values) private {
        vm.prank(creator);
        predicate.configureToolTrait(toolId, collection, traits, KEY, values);
    }

    function _set(address collection, address traits) private {
        _set(collection, traits, _values());
    }

    function _assertStored(address collection, address traits, bytes32[] memory values) private view {
        TraitGatedPredicate.ToolTraitConfig memory config = predicate.getToolTraitConfig(toolId);
        assertEq(config.collection, collection);
        assertEq(config.traitsContract, traits);
        assertEq(config.traitKey, KEY);
        assertEq(config.allowedValues, values);
    }

    /// @dev Composites refuse to negate it.
    function test_supportsInterface_proofBased() public view {
        assertTrue(IERC165(address(predicate)).supportsInterface(type(IProofBased).interfaceId));
    }

    function test_configure_success() public {
        TestTraitsNFT traits = new TestTraitsNFT("Other", "O");
        _set(address(nft), address(traits));
        _assertStored(address(nft), address(traits), _values());
    }

    function test_configure_sameCollectionAndTraits() public {
        _set(address(nft), address(nft));
        _assertStored(address(nft), address(nft), _values());
    }

    function test_configure_event() public {
        vm.expectEmit(address(predicate));
        emit TraitGatedPredicate.ToolTraitConfigured(toolId, address(nft), address(nft), KEY, _values());
        _set(address(nft), address(nft));
        assertEq(
            TraitGatedPredicate.ToolTraitConfigured.selector,
            keccak256("ToolTraitConfigured(uint256,address,address,bytes32,bytes32[])")
        );
    }

    function test_configure_replaces() public {
        _set(address(nft), address(nft));
        bytes32[] memory values = new bytes32[](1);
        values[0] = LEAD;
        _set(address(nft), address(nft), values);
        _assertStored(address(nft), address(nft), values);
    }

    function test_configure_failureKeepsTheOldGate() public {
        _set(address(nft), address(nft));
        vm.expectRevert(TraitGatedPredicate.EmptyAllowedValues.selector);
        _set(address(nft), address(nft), new bytes32[](0));
        _assertStored(address(nft), address(nft), _values());
    }

    function test_configure_notCreator() public {
        vm.expectRevert(abi.encodeWithSelector(RegistryPredicate.CallerIsNotToolCreator.selector, toolId, outsider));
        vm.prank(outsider);
        predicate.configureToolTrait(toolId, address(nft), address(nft), KEY, _values());
    }

    function test_configure_zeroCollection() public {
        vm.expectRevert(TraitGatedPredicate.ZeroCollection.selector);
        _set(address(0), address(nft));
    }

    function test_configure_EOA() public {
        vm.expectRevert(abi.encodeWithSelector(TraitGatedPredicate.CollectionNoCode.selector, outsider));
        _set(outsider, address(nft));
    }

    function test_configure_zeroTraits() public {
        vm.expectRevert(TraitGatedPredicate.ZeroTraitsContract.selector);
        _set(address(nft), address(0));
    }

    function test_configure_EOATraits() public {
        vm.expectRevert(abi.encodeWithSelector(TraitGatedPredicate.TraitsContractNoCode.selector, outsider));
        _set(address(nft), outsider);
    }

    function test_configure_emptyValues() public {
        vm.expectRevert(TraitGatedPredicate.EmptyAllowedValues.selector);
        _set(address(nft), address(nft), new bytes32[](0));
    }

    function test_configure_tooManyValues() public {
        uint256 max = predicate.MAX_ALLOWED_VALUES();
        _set(address(nft), address(nft), _many(max));
        _assertStored(address(nft), address(nft), _many(max));
        vm.expectRevert(abi.encodeWithSelector(TraitGatedPredicate.TooManyAllowedValues.selector, max + 1, max));
        _set(address(nft), address(nft), _many(max + 1));
    }

    function test_configure_zeroValue() public {
        bytes32[] memory values = _values();
        values[1] = 0;
        vm.expectRevert(abi.encodeWithSelector(TraitGatedPredicate.ZeroValueInAllowedValues.selector, 1));
        _set(address(nft), address(nft), values);
    }

    function test_hasAccess_match() public {
        _set(address(nft), address(nft));
        nft.setTrait(TOKEN, KEY, GOLD);
        assertGranted(toolId, abi.encode(TOKEN));
    }

    function test_hasAccess_noMatch() public {
        _set(address(nft), address(nft));
        assertDenied(toolId, abi.encode(TOKEN));
        nft.setTrait(TOKEN, KEY, LEAD);
        assertDenied(toolId, abi.encode(TOKEN));
    }

    function test_hasAccess_matchesLast() public {
        bytes32[] memory values = _many(predicate.MAX_ALLOWED_VALUES());
        _set(address(nft), address(nft), values);
        nft.setTrait(TOKEN, KEY, values[values.length - 1]);
        assertGranted(toolId, abi.encode(TOKEN));
    }

    function test_hasAccess_nonOwner() public {
        _set(address(nft), address(nft));
        nft.mint(outsider, 8);
        nft.setTrait(8, KEY, GOLD);
        assertDenied(toolId, abi.encode(8));
    }

    function test_hasAccess_emptyData_malformedData() public {
        _set(address(nft), address(nft));
        nft.setTrait(TOKEN, KEY, GOLD);
        assertDenied(toolId, "");
        assertDenied(toolId, abi.encodePacked(uint248(TOKEN)));
        assertDenied(toolId, abi.encode(TOKEN, 0));
        assertDenied(toolId, abi.encodePacked(TOKEN, uint8(0)));
    }

    function test_hasAccess_tokenDoesNotExist() public {
        _set(address(nft), address(nft));
        assertDenied(toolId, abi.encode(99));
    }

    function test_hasAccess_separateTraits() public {
        TestERC721 collection = new TestERC721("C", "C");
        collection.mint(account, 3);
        TestTraitsNFT traits = new TestTraitsNFT("Traits", "T");
        traits.defineTrait(KEY);
        traits.mint(outsider, 3);
        traits.setTrait(3, KEY, SILVER);
        _set(address(collection), address(traits));
        assertGranted(toolId, abi.encode(3));
        // The owner in the traits contract does not count.
        assertFalse(asks(toolId, outsider, abi.encode(3)));
    }

    /// @dev ERC-7496 says "no such trait" by reverting.
    function test_hasAccess_traitsReverts() public {
        _set(address(nft), address(new RevertingToken()));
        assertDenied(toolId, abi.encode(TOKEN));
        TestTraitsNFT traits = new TestTraitsNFT("Traits", "T");
        _set(address(nft), address(traits));
        assertDenied(toolId, abi.encode(TOKEN));
        traits.mint(account, TOKEN);
        // Now the token exists there, but no trait of that key.
        assertDenied(toolId, abi.encode(TOKEN));
    }

    function test_hasAccess_collectionReverts() public {
        _set(address(new RevertingToken()), address(nft));
        assertDenied(toolId, abi.encode(TOKEN));
    }

    /// @dev Failing without a reason is not an answer.
    function test_hasAccess_brokenContractsAreMalfunctions() public {
        address[5] memory broken = [
            address(new NotAToken()),
            address(new SilentlyRevertingToken()),
            address(new GasBurnerToken()),
            address(new SizedAnswerToken(0)),
            address(new SizedAnswerToken(31))
        ];
        for (uint256 i; i < broken.length; ++i) {
            _set(broken[i], address(nft));
            assertMalfunction(toolId, abi.encode(TOKEN));
            vm.expectRevert(abi.encodeWithSelector(TraitGatedPredicate.CollectionUnavailable.selector, broken[i]));
            asks(toolId, account, abi.encode(TOKEN));

            _set(address(nft), broken[i]);
            assertMalfunction(toolId, abi.encode(TOKEN));
            vm.expectRevert(abi.encodeWithSelector(TraitGatedPredicate.TraitsUnavailable.selector, broken[i]));
            asks(toolId, account, abi.encode(TOKEN));
            // Who does not own the token is denied before anybody asks for its traits.
            assertFalse(asks(toolId, outsider, abi.encode(TOKEN)));
        }
    }

    /// @dev An owner with non-zero upper bytes is not an account.
    function test_hasAccess_dirtyOwner() public {
        bytes memory dirty = abi.encode(uint256(uint160(account)) | (1 << 160));
        _set(address(new FixedAnswerToken(dirty)), address(nft));
        nft.setTrait(TOKEN, KEY, GOLD);
        assertDenied(toolId, abi.encode(TOKEN));
        _set(address(new FixedAnswerToken(abi.encode(account))), address(nft));
        assertGranted(toolId, abi.encode(TOKEN));
    }

    function test_hasAccess_selfDestructed() public {
        _set(address(nft), address(nft));
        nft.setTrait(TOKEN, KEY, GOLD);
        vm.etch(address(nft), "");
        assertMalfunction(toolId, abi.encode(TOKEN));
    }

    function test_hasAccess_zeroAddressIsDenied() public {
        _set(address(new FixedAnswerToken(abi.encode(0))), address(nft));
        assertFalse(asks(toolId, address(0), abi.encode(TOKEN)));
    }

    function test_hasAccess_isolatedPerTool() public {
        _set(address(nft), address(nft));
        nft.setTrait(TOKEN, KEY, GOLD);
        assertDenied(otherTool, abi.encode(TOKEN));
        assertGranted(toolId, abi.encode(TOKEN));
    }

    /// @dev The trait follows the token, and the grant follows its owner.
    function test_dynamicTraits_changeAndTransfer() public {
        _set(address(nft), address(nft));
        nft.setTrait(TOKEN, KEY, GOLD);
        assertGranted(toolId, abi.encode(TOKEN));
        nft.setTrait(TOKEN, KEY, LEAD);
        assertDenied(toolId, abi.encode(TOKEN));
        nft.setTrait(TOKEN, KEY, SILVER);
        assertGranted(toolId, abi.encode(TOKEN));
        vm.prank(account);
        IERC721(address(nft)).transferFrom(account, outsider, TOKEN);
        assertDenied(toolId, abi.encode(TOKEN));
        assertTrue(asks(toolId, outsider, abi.encode(TOKEN)));
        nft.burn(TOKEN);
        assertDenied(toolId, abi.encode(TOKEN));
    }

    /// @dev A trait that was defined and never set has the value zero, which no configuration can allow.
    function test_dynamicTraits_neverSet() public {
        _set(address(nft), address(nft));
        assertEq(nft.getTraitValue(TOKEN, KEY), bytes32(0));
        assertDenied(toolId, abi.encode(TOKEN));
    }

    /// @dev The same value under another key does not count.
    function test_dynamicTraits_otherKey() public {
        bytes32 other = keccak256("colour");
        nft.defineTrait(other);
        _set(address(nft), address(nft));
        nft.setTrait(TOKEN, other, GOLD);
        assertDenied(toolId, abi.encode(TOKEN));
    }

    /// @dev Of two tokens of one owner, that which is shown counts.
    function test_dynamicTraits_tokenByToken() public {
        _set(address(nft), address(nft));
        nft.mint(account, 8);
        nft.setTrait(8, KEY, GOLD);
        nft.setTrait(TOKEN, KEY, LEAD);
        assertGranted(toolId, abi.encode(8));
        assertDenied(toolId, abi.encode(TOKEN));
    }

    /// @dev Traits stay with the number of the token; access goes to its current owner.
    function test_dynamicTraits_burnedAndMintedAgain() public {
        _set(address(nft), address(nft));
        nft.setTrait(TOKEN, KEY, GOLD);
        nft.burn(TOKEN);
        assertDenied(toolId, abi.encode(TOKEN));
        nft.mint(outsider, TOKEN);
        assertDenied(toolId, abi.encode(TOKEN));
        assertTrue(asks(toolId, outsider, abi.encode(TOKEN)));
    }

    function test_dynamicTraits_interfaceId_pinned() public view {
        assertEq(type(IERC7496).interfaceId, bytes4(0xaf332f3e));
        assertTrue(nft.supportsInterface(0xaf332f3e));
    }

    function testFuzz_hasAccess(uint256 count, bytes32 value, uint256 pick) public {
        bytes32[] memory values = _many(bound(count, 1, predicate.MAX_ALLOWED_VALUES()));
        _set(address(nft), address(nft), values);
        if (pick % 2 == 0) value = values[pick % values.length];
        nft.setTrait(TOKEN, KEY, value);
        bool expected;
        for (uint256 i; i < values.length; ++i) {
            if (values[i] == value) expected = true;
        }
        (bool ok, bool granted) = registry.tryHasAccess(toolId, account, abi.encode(TOKEN));
        assertTrue(ok);
        assertEq(granted, expected);
    }

    /// @dev With too little gas the answer is "cannot tell", never "no".
    function testFuzz_hasAccess_neverDeniesForLackOfGas(uint256 gasLimit) public {
        _set(address(nft), address(nft));
        nft.setTrait(TOKEN, KEY, GOLD);
        gasLimit = bound(gasLimit, 0, 40_000);
        try predicate.hasAccess{gas: gasLimit}(toolId, account, abi.encode(TOKEN)) returns (bool granted) {
            assertTrue(granted);
        } catch {}
    }

    // req: PRED-003, PRED-006
    function test_getRequirements() public {
        _set(address(nft), address(nft));
        (AccessRequirement[] memory requirements, RequirementLogic logic) = requirementsOf(toolId);
        assertEq(requirements.length, 1);
        assertRequirement(requirements[0], 0x37d8dc22, abi.encode(address(nft), address(nft), KEY, _values()));
        assertEq(uint8(logic), 0);
    }

    function _many(uint256 count) private pure returns (bytes32[] memory values) {
        values = new bytes32[](count);
        for (uint256 i; i < count; ++i) {
            values[i] = keccak256(abi.encode(i));
        }
    }
}
