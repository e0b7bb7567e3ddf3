// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {IERC165} from "@openzeppelin/contracts/utils/introspection/IERC165.sol";
import {ToolRegistry} from "src/ToolRegistry.sol";
import {IAccessPredicate} from "src/interfaces/IAccessPredicate.sol";
import {IToolRegistry, ToolConfig} from "src/interfaces/IToolRegistry.sol";
import {DenyAllPredicate} from "src/predicates/DenyAllPredicate.sol";
import {RegistryFixture} from "test/RegistryFixture.sol";
import {LadderPredicate, RevertingPredicate, SetPredicate, SlowLadderPredicate} from "test/mocks/Predicates.sol";

/// @dev A creator that is a contract.
contract ContractWallet {
    function register(ToolRegistry registry, string calldata uri, bytes32 hash) external returns (uint256) {
        return registry.registerTool(uri, hash, address(0));
    }
}

contract ToolRegistryTest is RegistryFixture {
    event ToolRegistered(
        uint256 indexed toolId,
        address indexed creator,
        address indexed accessPredicate,
        string metadataURI,
        bytes32 manifestHash
    );
    event ToolMetadataUpdated(uint256 indexed toolId, string newURI, bytes32 newHash);
    event AccessPredicateUpdated(uint256 indexed toolId, address indexed newPredicate);
    event ToolDeregistered(uint256 indexed toolId);

    bytes32 private constant OTHER = keccak256("other");

    // ── registerTool ──

    // req: REG-001, REG-002
    function test_registerTool_open() public {
        uint256 toolId = register(address(0));
        ToolConfig memory tool = registry.getToolConfig(toolId);
        assertEq(tool.creator, creator);
        assertEq(tool.metadataURI, URI);
        assertEq(tool.manifestHash, HASH);
        assertEq(tool.accessPredicate, address(0));
    }

    // req: REG-001
    function test_registerTool_withPredicate() public {
        address predicate = address(new SetPredicate(true));
        assertEq(registry.getToolConfig(register(predicate)).accessPredicate, predicate);
    }

    // req: REG-002
    function test_registerTool_contractCreatorAndSameUri() public {
        ContractWallet wallet = new ContractWallet();
        uint256 first = register(address(0));
        uint256 second = wallet.register(registry, URI, HASH);
        assertEq(registry.getToolConfig(first).creator, creator);
        assertEq(registry.getToolConfig(second).creator, address(wallet));
        assertEq(registry.getToolConfig(second).metadataURI, URI);
    }

    // req: REG-003
    function test_registerTool_autoIncrementingIds() public {
        for (uint256 id = 1; id <= 3; ++id) {
            assertEq(register(address(0)), id);
        }
        vm.prank(creator);
        registry.deregisterTool(2);
        assertEq(register(address(0)), 4);
        assertEq(registry.toolCount(), 4);
    }

    // req: REG-023
    function test_registerTool_emitsEvent() public {
        vm.expectEmit(address(registry));
        emit ToolRegistered(1, creator, address(0), URI, HASH);
        register(address(0));
    }

    // req: REG-023
    function test_registerTool_emitsEvent_withPredicate() public {
        address predicate = address(new SetPredicate(true));
        vm.expectEmit(address(registry));
        emit ToolRegistered(1, creator, predicate, URI, HASH);
        register(predicate);
    }

    // req: REG-005
    function test_registerTool_revertsOnEmptyURI() public {
        vm.expectRevert(IToolRegistry.InvalidMetadataURI.selector);
        registry.registerTool("", HASH, address(0));
    }

    // req: REG-005
    function test_registerTool_acceptsUriAtCap() public {
        string memory uri = repeat("a", 2_048);
        uint256 toolId = registry.registerTool(uri, HASH, address(0));
        assertEq(registry.getToolConfig(toolId).metadataURI, uri);
        registry.registerTool("a", HASH, address(0));
    }

    // The whole room that the ERC allows, and not a byte more.
    // req: REG-006
    function test_registerTool_capIsTheCeilingOfTheErc() public view {
        assertEq(registry.MAX_METADATA_URI_LENGTH(), 2_048);
    }

    // req: REG-005
    function test_registerTool_revertsOnUriAboveCap() public {
        string memory uri = repeat("a", 2_049);
        vm.expectRevert(IToolRegistry.InvalidMetadataURI.selector);
        registry.registerTool(uri, HASH, address(0));
    }

    // req: REG-005
    function test_registerTool_countsBytesNotCharacters() public {
        string memory uri;
        for (uint256 i; i < 1_024; ++i) {
            uri = string.concat(uri, unicode"é");
        }
        registry.registerTool(uri, HASH, address(0));
        uri = string.concat(uri, unicode"é");
        vm.expectRevert(IToolRegistry.InvalidMetadataURI.selector);
        registry.registerTool(uri, HASH, address(0));
    }

    // req: REG-007
    function test_registerTool_revertsOnZeroManifestHash() public {
        vm.expectRevert(IToolRegistry.InvalidManifestHash.selector);
        registry.registerTool(URI, bytes32(0), address(0));
        registry.registerTool(URI, bytes32(uint256(1)), address(0));
    }

    function test_registerTool_failureLeavesNoTrace() public {
        address wrong = address(new LadderPredicate(LadderPredicate.Reply.Yes, LadderPredicate.Reply.No));
        vm.expectRevert(abi.encodeWithSelector(IToolRegistry.InvalidAccessPredicate.selector, wrong));
        registry.registerTool(URI, HASH, wrong);
        assertEq(registry.toolCount(), 0);
    }

    // req: REG-009
    function test_registerTool_openMakesNoCall() public {
        vm.startStateDiffRecording();
        registry.registerTool(URI, HASH, address(0));
        assertEq(vm.stopAndReturnStateDiff().length, 1, "one call, that to the registry");
    }

    // ── the ERC-165 ladder, in both functions ──

    // req: REG-008, REG-011, REG-013
    function test_ladder_allAnswers() public {
        for (uint8 first; first <= uint8(LadderPredicate.Reply.Nothing); ++first) {
            for (uint8 second; second <= uint8(LadderPredicate.Reply.Nothing); ++second) {
                address predicate =
                    address(new LadderPredicate(LadderPredicate.Reply(first), LadderPredicate.Reply(second)));
                // Odd answers count as no: the first question then accepts, the second refuses.
                bool speaksErc165 = LadderPredicate.Reply(first) == LadderPredicate.Reply.Yes;
                checkLadder(predicate, !speaksErc165 || LadderPredicate.Reply(second) == LadderPredicate.Reply.Yes);
            }
        }
    }

    // req: REG-013, PRED-029
    function test_registerTool_revertsForInvalidERC165Predicate() public {
        // The registry has the selector of hasAccess, too; the ladder keeps it from being taken for a predicate.
        checkLadder(address(registry), false);
    }

    // req: REG-013
    function test_registerTool_revertsForERC165ThatRevertsOnPredicateQuery() public {
        checkLadder(address(new LadderPredicate(LadderPredicate.Reply.Yes, LadderPredicate.Reply.Revert)), false);
    }

    // req: REG-011, PRED-008
    function test_registerTool_allowsNonERC165Predicate() public {
        checkLadder(address(new RevertingPredicate()), true);
    }

    // req: REG-010
    function test_registerTool_allowsEOAPredicate() public {
        checkLadder(makeAddr("no code"), true);
    }

    // req: REG-012
    function test_ladder_slowButConformantPredicateIsNotMisread() public {
        SlowLadderPredicate slow = new SlowLadderPredicate();
        checkLadder(address(slow), true);
        // Seen as what it is, not waved through: without the second yes it would be refused.
        vm.mockCall(
            address(slow),
            abi.encodeCall(IERC165.supportsInterface, (type(IAccessPredicate).interfaceId)),
            abi.encode(false)
        );
        checkLadder(address(slow), false);
    }

    function checkLadder(address predicate, bool accepted) private {
        bytes memory refusal = abi.encodeWithSelector(IToolRegistry.InvalidAccessPredicate.selector, predicate);
        if (!accepted) vm.expectRevert(refusal);
        register(predicate);

        uint256 toolId = register(address(0));
        if (!accepted) vm.expectRevert(refusal);
        vm.prank(creator);
        registry.setAccessPredicate(toolId, predicate);
        assertEq(registry.getToolConfig(toolId).accessPredicate, accepted ? predicate : address(0));
    }

    // ── updateToolMetadata ──

    // req: REG-018
    function test_updateToolMetadata() public {
        uint256 toolId = register(address(0));
        string[4] memory uris = ["https://a.example/", URI, URI, "https://b.example/"];
        bytes32[4] memory hashes = [HASH, HASH, OTHER, HASH];
        for (uint256 i; i < uris.length; ++i) {
            vm.expectEmit(address(registry));
            emit ToolMetadataUpdated(toolId, uris[i], hashes[i]);
            vm.prank(creator);
            registry.updateToolMetadata(toolId, uris[i], hashes[i]);
            ToolConfig memory tool = registry.getToolConfig(toolId);
            assertEq(tool.metadataURI, uris[i]);
            assertEq(tool.manifestHash, hashes[i]);
            assertEq(tool.creator, creator);
        }
    }

    // req: REG-018
    function test_updateToolMetadata_idempotent_noEventOnSameValues() public {
        uint256 toolId = register(address(0));
        vm.recordLogs();
        vm.prank(creator);
        registry.updateToolMetadata(toolId, URI, HASH);
        assertEq(vm.getRecordedLogs().length, 0);
    }

    // A shorter URI must not leave bytes of the longer one behind.
    function test_updateToolMetadata_shorterAndLonger() public {
        uint256 toolId = register(address(0));
        uint256[6] memory lengths = [uint256(2_048), 31, 32, 1, 33, 2_048];
        for (uint256 i; i < lengths.length; ++i) {
            string memory uri = repeat(bytes1(uint8(65 + i)), lengths[i]);
            vm.prank(creator);
            registry.updateToolMetadata(toolId, uri, HASH);
            assertEq(registry.getToolConfig(toolId).metadataURI, uri);
        }
    }

    // req: REG-022
    function test_updateToolMetadata_revertsIfNotCreator() public {
        uint256 toolId = register(address(0));
        vm.expectRevert(abi.encodeWithSelector(IToolRegistry.NotToolCreator.selector, toolId, outsider));
        vm.prank(outsider);
        registry.updateToolMetadata(toolId, "https://a.example/", OTHER);
        assertEq(registry.getToolConfig(toolId).metadataURI, URI);
    }

    // req: REG-005
    function test_updateToolMetadata_revertsOnEmptyURI() public {
        uint256 toolId = register(address(0));
        vm.expectRevert(IToolRegistry.InvalidMetadataURI.selector);
        vm.prank(creator);
        registry.updateToolMetadata(toolId, "", HASH);
    }

    // req: REG-005
    function test_updateToolMetadata_revertsOnUriAboveCap() public {
        uint256 toolId = register(address(0));
        string memory uri = repeat("a", 2_049);
        vm.expectRevert(IToolRegistry.InvalidMetadataURI.selector);
        vm.prank(creator);
        registry.updateToolMetadata(toolId, uri, HASH);
    }

    // req: REG-005
    function test_updateToolMetadata_acceptsUriAtCap() public {
        uint256 toolId = register(address(0));
        string memory uri = repeat("a", 2_048);
        vm.prank(creator);
        registry.updateToolMetadata(toolId, uri, HASH);
        assertEq(registry.getToolConfig(toolId).metadataURI, uri);
    }

    // req: REG-007
    function test_updateToolMetadata_revertsOnZeroManifestHash() public {
        uint256 toolId = register(address(0));
        vm.expectRevert(IToolRegistry.InvalidManifestHash.selector);
        vm.prank(creator);
        registry.updateToolMetadata(toolId, URI, bytes32(0));
    }

    // req: REG-021
    function test_updateToolMetadata_revertsIfNotFound() public {
        vm.expectRevert(abi.encodeWithSelector(IToolRegistry.ToolNotFound.selector, 99));
        registry.updateToolMetadata(99, URI, HASH);
    }

    // ── setAccessPredicate ──

    // req: REG-017
    function test_setAccessPredicate() public {
        uint256 toolId = register(address(0));
        address[2] memory predicates = [address(new SetPredicate(true)), address(new SetPredicate(false))];
        for (uint256 i; i < predicates.length; ++i) {
            vm.expectEmit(address(registry));
            emit AccessPredicateUpdated(toolId, predicates[i]);
            vm.prank(creator);
            registry.setAccessPredicate(toolId, predicates[i]);
            assertEq(registry.getToolConfig(toolId).accessPredicate, predicates[i]);
        }
    }

    // req: REG-017
    function test_setAccessPredicate_toZero() public {
        uint256 toolId = register(address(new SetPredicate(false)));
        assertDenied(toolId, "");
        vm.expectEmit(address(registry));
        emit AccessPredicateUpdated(toolId, address(0));
        vm.prank(creator);
        registry.setAccessPredicate(toolId, address(0));
        assertGranted(toolId, "");
    }

    // req: REG-015
    function test_setAccessPredicate_idempotent_noEventOnSameValue() public {
        address predicate = address(new SetPredicate(true));
        uint256 toolId = register(predicate);
        // It would fail the ladder now, which is not asked again.
        vm.etch(predicate, address(registry).code);
        vm.recordLogs();
        vm.prank(creator);
        registry.setAccessPredicate(toolId, predicate);
        assertEq(vm.getRecordedLogs().length, 0);
    }

    // req: REG-022
    function test_setAccessPredicate_revertsIfNotCreator() public {
        uint256 toolId = register(address(0));
        address[2] memory predicates = [address(0), address(new SetPredicate(false))];
        for (uint256 i; i < predicates.length; ++i) {
            vm.expectRevert(abi.encodeWithSelector(IToolRegistry.NotToolCreator.selector, toolId, outsider));
            vm.prank(outsider);
            registry.setAccessPredicate(toolId, predicates[i]);
            assertEq(registry.getToolConfig(toolId).accessPredicate, address(0));
        }
    }

    // req: REG-021
    function test_setAccessPredicate_revertsIfNotFound() public {
        vm.expectRevert(abi.encodeWithSelector(IToolRegistry.ToolNotFound.selector, 99));
        registry.setAccessPredicate(99, address(0));
    }

    // req: REG-013
    function test_setAccessPredicate_revertsForInvalidERC165Predicate() public {
        uint256 toolId = register(address(0));
        vm.expectRevert(abi.encodeWithSelector(IToolRegistry.InvalidAccessPredicate.selector, address(registry)));
        vm.prank(creator);
        registry.setAccessPredicate(toolId, address(registry));
    }

    // req: REG-013
    function test_setAccessPredicate_revertsForERC165ThatRevertsOnPredicateQuery() public {
        address gate = address(new SetPredicate(false));
        uint256 toolId = register(gate);
        address wrong = address(new LadderPredicate(LadderPredicate.Reply.Yes, LadderPredicate.Reply.Revert));
        vm.expectRevert(abi.encodeWithSelector(IToolRegistry.InvalidAccessPredicate.selector, wrong));
        vm.prank(creator);
        registry.setAccessPredicate(toolId, wrong);
        assertEq(registry.getToolConfig(toolId).accessPredicate, gate);
    }

    // The registry as its own predicate is refused by the ladder alone, with the error of the ladder.
    // req: REG-014
    function test_setAccessPredicate_refusesItselfLikeAnyOther() public {
        ToolRegistry other = new ToolRegistry();
        address[2] memory registries = [address(registry), address(other)];
        for (uint256 i; i < registries.length; ++i) {
            checkLadder(registries[i], false);
        }
    }

    // The rule that a predicate is not examined again belongs to this interface id.
    // req: REG-015, REG-016
    function test_setAccessPredicate_sameValueAsksNothing() public {
        address predicate = address(new SetPredicate(true));
        uint256 toolId = register(predicate);
        assertTrue(registry.supportsInterface(0xf1dc8075));
        vm.expectCall(predicate, "", 0);
        vm.prank(creator);
        registry.setAccessPredicate(toolId, predicate);
    }

    // ── getToolConfig, toolCount ──

    // req: REG-021
    function test_getToolConfig_revertsIfNotFound() public {
        vm.expectRevert(abi.encodeWithSelector(IToolRegistry.ToolNotFound.selector, 1));
        registry.getToolConfig(1);
        register(address(0));
        registry.getToolConfig(1);
        vm.expectRevert(abi.encodeWithSelector(IToolRegistry.ToolNotFound.selector, 2));
        registry.getToolConfig(2);
    }

    // req: REG-021
    function testFuzz_getToolConfig_revertsIfNotFound(uint256 toolId) public {
        register(address(0));
        vm.assume(toolId != 1);
        vm.expectRevert(abi.encodeWithSelector(IToolRegistry.ToolNotFound.selector, toolId));
        registry.getToolConfig(toolId);
    }

    // Writes other than registrations do not count, nor do registrations that failed.
    // req: REG-003
    function test_toolCount() public {
        assertEq(registry.toolCount(), 0);
        uint256 toolId = register(address(0));
        assertEq(registry.toolCount(), 1);
        vm.startPrank(creator);
        registry.updateToolMetadata(toolId, URI, OTHER);
        registry.setAccessPredicate(toolId, makeAddr("no code"));
        vm.expectRevert(IToolRegistry.InvalidMetadataURI.selector);
        registry.registerTool("", HASH, address(0));
        vm.stopPrank();
        assertEq(registry.toolCount(), 1);
        register(address(0));
        assertEq(registry.toolCount(), 2);
    }

    // ── deregisterTool ──

    // req: REG-019
    function test_deregisterTool() public {
        uint256 toolId = register(address(new SetPredicate(true)));
        vm.expectEmit(address(registry));
        emit ToolDeregistered(toolId);
        vm.prank(creator);
        registry.deregisterTool(toolId);
    }

    // req: REG-020, REG-027
    function test_deregisterTool_everythingRevertsAfterwards() public {
        uint256 toolId = register(address(0));
        vm.prank(creator);
        registry.deregisterTool(toolId);
        checkAllRevert(toolId, abi.encodeWithSelector(bytes4(0x0bf47976), toolId));
    }

    // req: REG-004, REG-021, REG-027
    function test_unknownTool_everythingReverts() public {
        register(address(0));
        uint256[4] memory ids = [uint256(0), 2, 3, type(uint256).max];
        for (uint256 i; i < ids.length; ++i) {
            checkAllRevert(ids[i], abi.encodeWithSelector(bytes4(0xb73d6f8b), ids[i]));
        }
    }

    function checkAllRevert(uint256 toolId, bytes memory reason) private {
        bytes[6] memory calls = [
            abi.encodeCall(registry.getToolConfig, (toolId)),
            abi.encodeCall(registry.hasAccess, (toolId, account, "")),
            abi.encodeCall(registry.tryHasAccess, (toolId, account, "")),
            abi.encodeCall(registry.updateToolMetadata, (toolId, URI, HASH)),
            abi.encodeCall(registry.setAccessPredicate, (toolId, address(0))),
            abi.encodeCall(registry.deregisterTool, (toolId))
        ];
        address[2] memory callers = [creator, outsider];
        for (uint256 i; i < calls.length; ++i) {
            for (uint256 j; j < callers.length; ++j) {
                vm.prank(callers[j]);
                (bool ok, bytes memory answer) = address(registry).call(calls[i]);
                assertFalse(ok);
                assertEq(answer, reason);
            }
        }
    }

    // req: REG-022
    function test_deregisterTool_revertsIfNotCreator() public {
        uint256 toolId = register(address(0));
        vm.expectRevert(abi.encodeWithSelector(bytes4(0xd594d2e7), toolId, outsider));
        vm.prank(outsider);
        registry.deregisterTool(toolId);
        registry.getToolConfig(toolId);
    }

    // req: REG-021
    function test_deregisterTool_revertsIfNotFound() public {
        vm.expectRevert(abi.encodeWithSelector(IToolRegistry.ToolNotFound.selector, 1));
        vm.prank(creator);
        registry.deregisterTool(1);
    }

    // A removed tool does not reveal its creator.
    // req: REG-020
    function test_deregisterTool_removedComesBeforeNotCreator() public {
        uint256 toolId = register(address(0));
        vm.prank(creator);
        registry.deregisterTool(toolId);
        address[2] memory callers = [creator, outsider];
        for (uint256 i; i < callers.length; ++i) {
            vm.startPrank(callers[i]);
            vm.expectRevert(abi.encodeWithSelector(IToolRegistry.ToolIsDeregistered.selector, toolId));
            registry.deregisterTool(toolId);
            // Wrong arguments do not come first either.
            vm.expectRevert(abi.encodeWithSelector(IToolRegistry.ToolIsDeregistered.selector, toolId));
            registry.updateToolMetadata(toolId, "", bytes32(0));
            vm.expectRevert(abi.encodeWithSelector(IToolRegistry.ToolIsDeregistered.selector, toolId));
            registry.setAccessPredicate(toolId, address(registry));
            vm.stopPrank();
        }
    }

    // The neighbours of a removed tool stay as they were.
    // req: REG-019
    function test_deregisterTool_leavesOthersAlone() public {
        uint256 first = register(address(0));
        uint256 second = register(address(0));
        uint256 third = register(address(0));
        vm.prank(creator);
        registry.deregisterTool(second);
        assertGranted(first, "");
        assertGranted(third, "");
        assertEq(registry.getToolConfig(first).metadataURI, URI);
        assertEq(registry.getToolConfig(third).metadataURI, URI);
    }

    // After losing a key or removing a tool, the same manifest can be registered again under another id.
    // req: REG-039
    function test_registerAgain_getsAFreshId() public {
        uint256 lost = register(address(0));
        vm.prank(outsider);
        uint256 fresh = registry.registerTool(URI, HASH, address(0));
        assertEq(fresh, lost + 1);
        // Only the old key can change the old tool, which stays as it was.
        vm.expectRevert(abi.encodeWithSelector(IToolRegistry.NotToolCreator.selector, lost, outsider));
        vm.prank(outsider);
        registry.deregisterTool(lost);
        assertEq(registry.getToolConfig(lost).creator, creator);

        vm.prank(outsider);
        registry.deregisterTool(fresh);
        vm.prank(outsider);
        assertEq(registry.registerTool(URI, HASH, address(0)), fresh + 1);
        vm.expectRevert(abi.encodeWithSelector(IToolRegistry.ToolIsDeregistered.selector, fresh));
        registry.getToolConfig(fresh);
    }

    // ── no fee ──

    // This registry asks for no money, and takes none by mistake.
    // req: REG-045
    function test_valueIsRefused() public {
        uint256 toolId = register(address(0));
        bytes[5] memory calls = [
            abi.encodeCall(registry.registerTool, (URI, HASH, address(0))),
            abi.encodeCall(registry.updateToolMetadata, (toolId, URI, OTHER)),
            abi.encodeCall(registry.setAccessPredicate, (toolId, makeAddr("no code"))),
            abi.encodeCall(registry.deregisterTool, (toolId)),
            bytes("")
        ];
        vm.deal(creator, 10);
        for (uint256 i; i < calls.length; ++i) {
            vm.prank(creator);
            (bool ok,) = address(registry).call{value: 1}(calls[i]);
            assertFalse(ok);
        }
        assertEq(address(registry).balance, 0);
        assertEq(registry.toolCount(), 1);
        assertEq(registry.getToolConfig(toolId).manifestHash, HASH);
    }

    // req: REG-003
    function test_deregisterTool_doesNotAffectToolCount() public {
        uint256 toolId = register(address(0));
        vm.prank(creator);
        registry.deregisterTool(toolId);
        assertEq(registry.toolCount(), 1);
    }

    // req: REG-019
    function test_deregisterTool_deletesTheConfig() public {
        uint256 toolId = registry.registerTool(repeat("a", 100), HASH, address(new SetPredicate(true)));
        vm.record();
        registry.deregisterTool(toolId);
        (, bytes32[] memory written) = vm.accesses(address(registry));
        // Creator, the URI's length and four words, hash, predicate.
        assertEq(written.length, 8);
        for (uint256 i; i < written.length; ++i) {
            assertEq(vm.load(address(registry), written[i]), bytes32(0));
        }
    }

    // ── precedence of reverts: existence, creator, URI, hash, predicate ──

    function test_precedence() public {
        address wrong = address(registry);
        uint256 toolId = register(address(0));

        vm.expectRevert(IToolRegistry.InvalidMetadataURI.selector);
        registry.registerTool("", bytes32(0), wrong);
        vm.expectRevert(IToolRegistry.InvalidManifestHash.selector);
        registry.registerTool(URI, bytes32(0), wrong);

        vm.startPrank(outsider);
        vm.expectRevert(abi.encodeWithSelector(IToolRegistry.ToolNotFound.selector, 9));
        registry.updateToolMetadata(9, "", bytes32(0));
        vm.expectRevert(abi.encodeWithSelector(IToolRegistry.NotToolCreator.selector, toolId, outsider));
        registry.updateToolMetadata(toolId, "", bytes32(0));
        vm.expectRevert(abi.encodeWithSelector(IToolRegistry.NotToolCreator.selector, toolId, outsider));
        registry.setAccessPredicate(toolId, wrong);
        vm.stopPrank();

        vm.expectRevert(IToolRegistry.InvalidMetadataURI.selector);
        vm.prank(creator);
        registry.updateToolMetadata(toolId, "", bytes32(0));
    }

    // ── name, version, ERC-165 ──

    // req: REG-031
    function test_nameAndVersion() public view {
        assertEq(registry.name(), "ToolRegistry");
        assertEq(registry.version(), "0.1");
    }

    // req: REG-033
    function test_supportsInterface() public view {
        assertTrue(registry.supportsInterface(0xf1dc8075));
        assertTrue(registry.supportsInterface(0x01ffc9a7));
        assertFalse(registry.supportsInterface(0xffffffff));
        assertFalse(registry.supportsInterface(0xbdf9dc18));
        assertFalse(registry.supportsInterface(0x00000000));
    }

    // req: REG-044
    function test_noProxySlots() public view {
        bytes32[3] memory slots = [
            bytes32(0x360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc),
            bytes32(0xa3f0ad74e5423aebfd80d3ef4346578335a9a72aeaee59ff6cb3582b35133d50),
            bytes32(0xb53127684a568b3173ae13b9f8a6016e243e63b6e8ee1178d6a717850b5d6103)
        ];
        for (uint256 i; i < slots.length; ++i) {
            assertEq(vm.load(address(registry), slots[i]), bytes32(0));
        }
    }

    // req: REG-038
    function test_pauseUnpauseViaDenyPredicate() public {
        SetPredicate gate = new SetPredicate(true);
        uint256 toolId = register(address(gate));
        assertGranted(toolId, "");
        address deny = address(new DenyAllPredicate());
        vm.prank(creator);
        registry.setAccessPredicate(toolId, deny);
        assertDenied(toolId, "");
        vm.prank(creator);
        registry.setAccessPredicate(toolId, address(gate));
        assertGranted(toolId, "");
    }

    // ── fuzz ──

    // req: REG-001, REG-005, REG-007
    function testFuzz_registerTool(address caller, string calldata uri, bytes32 hash, address predicate) public {
        vm.assume(caller != address(0) && predicate.code.length == 0);
        bool badURI = bytes(uri).length == 0 || bytes(uri).length > 2_048;
        if (badURI) vm.expectRevert(IToolRegistry.InvalidMetadataURI.selector);
        else if (hash == 0) vm.expectRevert(IToolRegistry.InvalidManifestHash.selector);
        vm.prank(caller);
        uint256 toolId = registry.registerTool(uri, hash, predicate);
        if (badURI || hash == 0) return;
        ToolConfig memory tool = registry.getToolConfig(toolId);
        assertEq(tool.creator, caller);
        assertEq(tool.metadataURI, uri);
        assertEq(tool.manifestHash, hash);
        assertEq(tool.accessPredicate, predicate);
    }

    function testFuzz_updateToolMetadata(string calldata first, string calldata second, bytes32 hash) public {
        vm.assume(bytes(first).length > 0 && bytes(first).length <= 2_048 && hash != 0);
        vm.assume(bytes(second).length > 0 && bytes(second).length <= 2_048);
        uint256 toolId = registry.registerTool(first, HASH, address(0));
        vm.recordLogs();
        registry.updateToolMetadata(toolId, second, hash);
        bool same = keccak256(bytes(first)) == keccak256(bytes(second)) && hash == HASH;
        assertEq(vm.getRecordedLogs().length, same ? 0 : 1);
        assertEq(registry.getToolConfig(toolId).metadataURI, second);
        assertEq(registry.getToolConfig(toolId).manifestHash, hash);
    }
}
