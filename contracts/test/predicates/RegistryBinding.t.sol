// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {ToolRegistry} from "src/ToolRegistry.sol";
import {IAccessPredicate} from "src/interfaces/IAccessPredicate.sol";
import {IToolRegistry} from "src/interfaces/IToolRegistry.sol";
import {AccessProofPredicate} from "src/predicates/AccessProofPredicate.sol";
import {CompositePredicate, ICompositePredicate} from "src/predicates/CompositePredicate.sol";
import {ERC721OwnerPredicate} from "src/predicates/ERC721OwnerPredicate.sol";
import {RegistryPredicate} from "src/predicates/RegistryPredicate.sol";
import {SubscriptionPredicate} from "src/predicates/SubscriptionPredicate.sol";
import {CompositeFixture} from "test/CompositePredicate.t.sol";
import {ForwardingPredicate, RawPredicate} from "test/mocks/Predicates.sol";

/// @dev The reference's subscription predicate, as far as a composite reads it: `registry()` in lower case.
contract LowerCaseRegistryPredicate {
    IToolRegistry public immutable registry;

    constructor(IToolRegistry registry_) {
        registry = registry_;
    }
}

/// @dev A predicate that forwards questions and names a registry, as a composite of a third party would.
contract BoundForwarder is ForwardingPredicate {
    IToolRegistry public immutable REGISTRY;

    constructor(IToolRegistry registry) {
        REGISTRY = registry;
    }
}

/// @dev Two registries, in which the ids are the same. What is proven to a tool of the first proves nothing to the tool of
///      the second that has the same id.
contract RegistryBindingTest is CompositeFixture {
    ToolRegistry private other;
    AccessProofPredicate private proofs;
    uint256 private proofTool;
    uint256 private key;
    uint64 private deadline;

    function setUp() public override {
        super.setUp();
        other = new ToolRegistry();
        proofs = new AccessProofPredicate(registry);
        proofTool = register(address(proofs));
        // The same ids are given in the other registry.
        for (uint256 id = 1; id <= proofTool; ++id) {
            assertEq(_registerInOther(address(proofs)), id);
        }
        (account, key) = makeAddrAndKey("principal");
        vm.warp(1_800_000_000);
        deadline = uint64(block.timestamp + 300);
    }

    function _registerInOther(address predicate) private returns (uint256) {
        vm.prank(creator);
        return other.registerTool(URI, HASH, predicate);
    }

    function _pointOther(uint256 id, address predicate) private {
        vm.prank(creator);
        other.setAccessPredicate(id, predicate);
    }

    function _proof(uint256 id) private view returns (bytes memory) {
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(key, proofs.proofDigest(id, account, deadline));
        return abi.encode(deadline, abi.encodePacked(r, s, v));
    }

    function _assertNoAnswerInOther(uint256 id, bytes memory data) private view {
        (bool ok, bool granted) = other.tryHasAccess(id, account, data);
        assertFalse(granted, "granted by the other registry");
        assertFalse(ok, "a tool of another registry is a malfunction, not a denial");
    }

    // req: PRED-019, PRED-020
    function test_proofDoesNotReplayThroughAnotherRegistry() public view {
        bytes memory data = _proof(proofTool);
        assertGranted(proofTool, data);
        _assertNoAnswerInOther(proofTool, data);
        _assertNoAnswerInOther(proofTool, "");
    }

    // Each registry has a deployment of its own, so the domain of the signature tells them apart.
    // req: PRED-020
    function test_proofDoesNotReplayThroughTheDeploymentOfAnotherRegistry() public {
        AccessProofPredicate theirs = new AccessProofPredicate(other);
        _pointOther(proofTool, address(theirs));
        (bool ok, bool granted) = other.tryHasAccess(proofTool, account, _proof(proofTool));
        assertTrue(ok);
        assertFalse(granted);
    }

    // req: PRED-020
    function test_proofDoesNotReplayThroughTheCompositeOfAnotherRegistry() public {
        set(ALL, list(term(address(proofs))));
        bytes memory data = _proof(toolId);
        assertGranted(toolId, data);
        _pointOther(toolId, address(composite));
        _assertNoAnswerInOther(toolId, data);
        set(ANY, list(term(no), term(address(proofs))));
        assertGranted(toolId, data);
        _assertNoAnswerInOther(toolId, data);
    }

    // A composite of the other registry that was configured before terms were checked, or does not check them.
    function test_proofIsNotCheckedForCompositesOfAnotherRegistry() public {
        BoundForwarder foreign = new BoundForwarder(other);
        foreign.set(IAccessPredicate(address(proofs)));
        _pointOther(proofTool, address(foreign));
        _assertNoAnswerInOther(proofTool, _proof(proofTool));

        BoundForwarder ours = new BoundForwarder(registry);
        ours.set(IAccessPredicate(address(proofs)));
        uint256 id = register(address(ours));
        assertGranted(id, _proof(id));
    }

    function test_proofIsNotCheckedForOthers() public {
        bytes memory data = _proof(proofTool);
        bytes4 problem = RegistryPredicate.CallerIsNotRegistry.selector;
        vm.expectRevert(abi.encodeWithSelector(problem, address(this)));
        proofs.hasAccess(proofTool, account, data);
        // An account without code, a contract without REGISTRY(), one that answers nonsense.
        address[3] memory callers = [outsider, yes, address(new RawPredicate(abi.encode(type(uint256).max)))];
        for (uint256 i; i < callers.length; ++i) {
            vm.expectRevert(abi.encodeWithSelector(problem, callers[i]));
            vm.prank(callers[i]);
            proofs.hasAccess(proofTool, account, data);
        }
        vm.prank(address(registry));
        assertTrue(proofs.hasAccess(proofTool, account, data));
    }

    function test_compositeWithProofsAnswersItsRegistryOnly() public {
        set(ALL, list(term(yes), term(address(proofs))));
        vm.expectRevert(abi.encodeWithSelector(RegistryPredicate.CallerIsNotRegistry.selector, address(this)));
        composite.hasAccess(toolId, account, "");
        // Without proofs there is nothing to replay, and everybody may ask, as in the reference.
        set(ALL, list(term(yes)));
        assertTrue(composite.hasAccess(toolId, account, ""));
    }

    function test_constructor_zeroRegistry() public {
        vm.expectRevert(RegistryPredicate.ZeroRegistry.selector);
        new AccessProofPredicate(IToolRegistry(address(0)));
        assertEq(address(proofs.REGISTRY()), address(registry));
    }

    // ── terms of other registries ──

    function _refuse(address bad, address itsRegistry) private {
        bytes4 problem = CompositePredicate.TermServesAnotherRegistry.selector;
        vm.expectRevert(abi.encodeWithSelector(problem, 1, bad, itsRegistry));
        set(ANY, list(term(yes), term(bad)));
        assertEq(composite.getTerms(toolId).length, 0);
    }

    function test_setComposition_refusesTermsOfAnotherRegistry() public {
        _refuse(address(new AccessProofPredicate(other)), address(other));
        _refuse(address(new ERC721OwnerPredicate(other)), address(other));
        _refuse(address(new SubscriptionPredicate(other)), address(other));
        _refuse(address(new LowerCaseRegistryPredicate(other)), address(other));
    }

    function test_setComposition_acceptsTermsThatNameNoOtherRegistry() public {
        address[6] memory good = [
            address(new ERC721OwnerPredicate(registry)),
            address(new SubscriptionPredicate(registry)),
            address(new LowerCaseRegistryPredicate(registry)),
            // Not addresses of contracts.
            address(new RawPredicate(abi.encode(1))),
            address(new RawPredicate(abi.encode(type(uint256).max))),
            address(new RawPredicate(""))
        ];
        for (uint256 i; i < good.length; ++i) {
            set(ANY, list(term(good[i])));
            assertEq(composite.getTerms(toolId).length, 1);
        }
    }
}
