// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {AccessRequirement, IAccessPredicate, RequirementLogic} from "src/interfaces/IAccessPredicate.sol";
import {IToolRegistry} from "src/interfaces/IToolRegistry.sol";
import {AccessProofPredicate} from "src/predicates/AccessProofPredicate.sol";
import {CompositePredicate, ICompositePredicate} from "src/predicates/CompositePredicate.sol";
import {DenyAllPredicate} from "src/predicates/DenyAllPredicate.sol";
import {MerkleAllowlistPredicate} from "src/predicates/MerkleAllowlistPredicate.sol";
import {RegistryPredicate} from "src/predicates/RegistryPredicate.sol";
import {RegistryFixture} from "test/RegistryFixture.sol";
import {
    BoastingPredicate,
    BurningPredicate,
    DataPredicate,
    ForwardingPredicate,
    GasGaugePredicate,
    InvalidOpcodePredicate,
    LadderPredicate,
    LongPredicate,
    NearlyBurningPredicate,
    OneToolPredicate,
    RawPredicate,
    RecursingPredicate,
    RevertingPredicate,
    SetPredicate,
    SizedPredicate,
    SwallowingPredicate,
    WritingPredicate
} from "test/mocks/Predicates.sol";

/// @dev Common to the suites about composites: one tool that points at one composite.
abstract contract CompositeFixture is RegistryFixture {
    CompositePredicate.Op internal constant ALL = ICompositePredicate.Op.ALL;
    CompositePredicate.Op internal constant ANY = ICompositePredicate.Op.ANY;

    CompositePredicate internal composite;
    uint256 internal toolId;
    address internal yes;
    address internal no;
    address internal broken;

    function setUp() public virtual override {
        super.setUp();
        composite = new CompositePredicate(registry);
        toolId = register(address(composite));
        yes = address(new SetPredicate(true));
        no = address(new SetPredicate(false));
        broken = address(new RevertingPredicate());
    }

    function term(address predicate) internal pure returns (ICompositePredicate.Term memory) {
        return ICompositePredicate.Term(predicate, false);
    }

    function not(address predicate) internal pure returns (ICompositePredicate.Term memory) {
        return ICompositePredicate.Term(predicate, true);
    }

    function list(ICompositePredicate.Term memory a) internal pure returns (ICompositePredicate.Term[] memory terms) {
        terms = new ICompositePredicate.Term[](1);
        terms[0] = a;
    }

    function list(ICompositePredicate.Term memory a, ICompositePredicate.Term memory b)
        internal
        pure
        returns (ICompositePredicate.Term[] memory terms)
    {
        terms = new ICompositePredicate.Term[](2);
        (terms[0], terms[1]) = (a, b);
    }

    function list(
        ICompositePredicate.Term memory a,
        ICompositePredicate.Term memory b,
        ICompositePredicate.Term memory c
    ) internal pure returns (ICompositePredicate.Term[] memory terms) {
        terms = new ICompositePredicate.Term[](3);
        (terms[0], terms[1], terms[2]) = (a, b, c);
    }

    function set(ICompositePredicate.Op op, ICompositePredicate.Term[] memory terms) internal {
        vm.prank(creator);
        composite.setComposition(toolId, op, terms);
    }
}

contract CompositePredicateTest is CompositeFixture {
    event CompositionSet(uint256 indexed toolId, ICompositePredicate.Op op, ICompositePredicate.Term[] terms);

    // ── constructor, names ──

    function test_constructor_zeroRegistry() public {
        vm.expectRevert(RegistryPredicate.ZeroRegistry.selector);
        new CompositePredicate(IToolRegistry(address(0)));
    }

    // req: PRED-002
    function test_names() public view {
        assertEq(address(composite.REGISTRY()), address(registry));
        assertEq(composite.name(), "CompositePredicate");
        assertEq(composite.version(), "0.1");
        assertTrue(composite.supportsInterface(0xbdf9dc18));
        assertTrue(composite.supportsInterface(0x01ffc9a7));
        assertTrue(composite.supportsInterface(type(ICompositePredicate).interfaceId));
        assertFalse(composite.supportsInterface(0xffffffff));
    }

    // The signatures of the deployed reference, which clients know.
    function test_selectorsAndTopic_pinned() public pure {
        assertEq(
            CompositePredicate.setComposition.selector,
            bytes4(keccak256("setComposition(uint256,uint8,(address,bool)[])"))
        );
        assertEq(CompositePredicate.getOp.selector, bytes4(keccak256("getOp(uint256)")));
        assertEq(CompositePredicate.getTerms.selector, bytes4(keccak256("getTerms(uint256)")));
        assertEq(CompositionSet.selector, keccak256("CompositionSet(uint256,uint8,(address,bool)[])"));
    }

    // ── setComposition ──

    function test_setComposition_stored() public {
        set(ANY, list(term(yes), not(no)));
        assertEq(uint8(composite.getOp(toolId)), uint8(ANY));
        ICompositePredicate.Term[] memory terms = composite.getTerms(toolId);
        assertEq(terms.length, 2);
        assertEq(terms[0].predicate, yes);
        assertFalse(terms[0].negate);
        assertEq(terms[1].predicate, no);
        assertTrue(terms[1].negate);
    }

    function test_setComposition_replacesExisting() public {
        set(ANY, list(term(yes), not(no), term(no)));
        set(ALL, list(term(no)));
        assertEq(uint8(composite.getOp(toolId)), uint8(ALL));
        assertEq(composite.getTerms(toolId).length, 1);
        assertEq(composite.getTerms(toolId)[0].predicate, no);
    }

    function test_setComposition_emptyClears() public {
        set(ALL, list(term(yes)));
        assertGranted(toolId, "");
        set(ALL, new ICompositePredicate.Term[](0));
        assertEq(composite.getTerms(toolId).length, 0);
        assertDenied(toolId, "");
    }

    // Nothing of an old composition stays in storage.
    function test_setComposition_emptyClearsTheStorage() public {
        vm.record();
        set(ANY, list(term(yes), not(no), term(broken)));
        (, bytes32[] memory written) = vm.accesses(address(composite));
        assertGe(written.length, 4);
        set(ALL, new ICompositePredicate.Term[](0));
        for (uint256 i; i < written.length; ++i) {
            assertEq(vm.load(address(composite), written[i]), bytes32(0));
        }
    }

    function test_setComposition_emitsEvent() public {
        vm.expectEmit(address(composite));
        emit CompositionSet(toolId, ANY, list(term(yes), not(no)));
        set(ANY, list(term(yes), not(no)));
    }

    function test_setComposition_revertsIfNotCreator() public {
        vm.expectRevert(abi.encodeWithSelector(RegistryPredicate.CallerIsNotToolCreator.selector, toolId, outsider));
        vm.prank(outsider);
        composite.setComposition(toolId, ALL, list(term(yes)));
    }

    // The registry says why, for tools that are not there.
    function test_setComposition_revertsForUnknownAndRemovedTools() public {
        vm.startPrank(creator);
        vm.expectRevert(abi.encodeWithSelector(IToolRegistry.ToolNotFound.selector, 99));
        composite.setComposition(99, ALL, list(term(yes)));
        registry.deregisterTool(toolId);
        vm.expectRevert(abi.encodeWithSelector(IToolRegistry.ToolIsDeregistered.selector, toolId));
        composite.setComposition(toolId, ALL, list(term(yes)));
    }

    function test_setComposition_revertsIfTooMany() public {
        uint256 max = composite.MAX_TERMS_PER_COMPOSITION();
        ICompositePredicate.Term[] memory terms = new ICompositePredicate.Term[](max + 1);
        for (uint256 i; i <= max; ++i) {
            terms[i] = term(yes);
        }
        vm.expectRevert(abi.encodeWithSelector(CompositePredicate.TooManyTerms.selector, max + 1, max));
        set(ALL, terms);
    }

    function test_setComposition_maxSucceeds() public {
        set(ALL, list(term(yes), term(yes), term(yes)));
        assertEq(composite.getTerms(toolId).length, composite.MAX_TERMS_PER_COMPOSITION());
        assertGranted(toolId, "");
    }

    function test_setComposition_revertsOnUnknownOperator() public {
        bytes memory input = abi.encodeCall(composite.setComposition, (toolId, ANY, list(term(yes))));
        // The operator is the second word after the selector.
        for (uint256 op = 1; op <= 3; ++op) {
            assembly ("memory-safe") {
                mstore(add(input, 0x44), op)
            }
            vm.prank(creator);
            (bool ok,) = address(composite).call(input);
            assertEq(ok, op == 1);
        }
        assertEq(uint8(composite.getOp(toolId)), uint8(ANY));
    }

    function refuse(ICompositePredicate.Term memory bad, bytes memory reason) private {
        vm.expectRevert(reason);
        set(ALL, list(term(yes), bad));
        assertEq(composite.getTerms(toolId).length, 0);
    }

    function test_setComposition_revertsOnTermsThatCannotWork() public {
        address[3] memory bad = [address(0), address(composite), makeAddr("no code")];
        for (uint256 i; i < bad.length; ++i) {
            refuse(term(bad[i]), abi.encodeWithSelector(CompositePredicate.InvalidTerm.selector, 1, bad[i]));
        }
    }

    function test_setComposition_revertsOnAnotherComposite() public {
        address other = address(new CompositePredicate(registry));
        refuse(term(other), abi.encodeWithSelector(CompositePredicate.InvalidTerm.selector, 1, other));
    }

    function test_setComposition_revertsOnNonPredicateERC165() public {
        address ladder = address(new LadderPredicate(LadderPredicate.Reply.Yes, LadderPredicate.Reply.No));
        bytes4 problem = CompositePredicate.InvalidAccessPredicate.selector;
        refuse(term(address(registry)), abi.encodeWithSelector(problem, registry));
        refuse(term(ladder), abi.encodeWithSelector(problem, ladder));
    }

    function test_setComposition_acceptsNonERC165() public {
        set(ALL, list(term(address(new DataPredicate()))));
        assertGranted(toolId, abi.encode(42));
        assertDenied(toolId, abi.encode(1));
    }

    // Such a predicate denies an account without a proof, so its negation would be open to all.
    function test_setComposition_revertsOnNegatedProofs() public {
        address[2] memory proofs =
            [address(new AccessProofPredicate(registry)), address(new MerkleAllowlistPredicate(registry))];
        for (uint256 i; i < proofs.length; ++i) {
            refuse(not(proofs[i]), abi.encodeWithSelector(CompositePredicate.InvalidTerm.selector, 1, proofs[i]));
            set(ALL, list(term(proofs[i])));
            set(ALL, new ICompositePredicate.Term[](0));
        }
        set(ALL, list(not(address(new DenyAllPredicate()))));
        assertGranted(toolId, "");
    }

    // ── hasAccess ──

    function test_hasAccess_emptyTermsDeny() public {
        assertDenied(toolId, "");
        set(ANY, new ICompositePredicate.Term[](0));
        assertDenied(toolId, "");
    }

    /// @dev 0 no, 1 yes, 2 no answer.
    function outcome(ICompositePredicate.Op op, uint256[3] memory answers, bool[3] memory negate, uint256 count)
        private
        pure
        returns (uint256)
    {
        bool sawYes;
        bool sawNo;
        bool sawNothing;
        for (uint256 i; i < count; ++i) {
            if (answers[i] == 2) sawNothing = true;
            else if ((answers[i] == 1) != negate[i]) sawYes = true;
            else sawNo = true;
        }
        if (op == ALL) return sawNo ? 0 : sawNothing ? 2 : 1;
        return sawYes ? 1 : sawNothing ? 2 : 0;
    }

    // Every operator, every number of terms, every answer, every negation: 2 × (6 + 36 + 216) cases.
    function test_hasAccess_truthTable() public {
        address[3] memory leaf = [no, yes, broken];
        for (uint256 count = 1; count <= 3; ++count) {
            uint256 cases = 6 ** count;
            for (uint256 i; i < cases * 2; ++i) {
                ICompositePredicate.Op op = i < cases ? ALL : ANY;
                ICompositePredicate.Term[] memory terms = new ICompositePredicate.Term[](count);
                uint256[3] memory answers;
                bool[3] memory negate;
                uint256 digits = i % cases;
                for (uint256 j; j < count; ++j) {
                    answers[j] = digits % 3;
                    negate[j] = (digits / 3) % 2 == 1;
                    terms[j] = ICompositePredicate.Term(leaf[answers[j]], negate[j]);
                    digits /= 6;
                }
                set(op, terms);
                uint256 expected = outcome(op, answers, negate, count);
                assertAccess(toolId, "", expected != 2, expected == 1);
            }
        }
    }

    function failingPredicates() private returns (address[] memory failing) {
        failing = new address[](9);
        failing[0] = broken;
        failing[1] = address(new BurningPredicate());
        failing[2] = address(new RawPredicate(abi.encode(2)));
        failing[3] = address(new LongPredicate(2));
        failing[4] = address(new LongPredicate(31));
        failing[5] = address(new LongPredicate(33));
        failing[6] = address(new LongPredicate(1_000_000));
        failing[7] = address(new InvalidOpcodePredicate());
        failing[8] = address(new WritingPredicate());
    }

    // The fault of other composites: a broken term counted as no, and its negation granted.
    function test_hasAccess_brokenTermsNeverGrant() public {
        address[] memory failing = failingPredicates();
        for (uint256 i; i < failing.length; ++i) {
            for (uint256 j; j < 2; ++j) {
                ICompositePredicate.Term memory bad = ICompositePredicate.Term(failing[i], j == 1);
                set(ALL, list(bad));
                assertMalfunction(toolId, "");
                set(ANY, list(bad));
                assertMalfunction(toolId, "");
                set(ALL, list(term(yes), bad));
                assertMalfunction(toolId, "");
                set(ANY, list(term(no), bad));
                assertMalfunction(toolId, "");
                // Where the others settle the matter, it does not matter.
                set(ALL, list(bad, term(no)));
                assertDenied(toolId, "");
                set(ANY, list(bad, term(yes)));
                assertGranted(toolId, "");
            }
        }
    }

    function test_hasAccess_termThatLosesItsCodeNeverGrants() public {
        set(ALL, list(not(no)));
        assertGranted(toolId, "");
        vm.etch(no, "");
        assertMalfunction(toolId, "");
    }

    function test_hasAccess_namesTheFirstBrokenTerm() public {
        address other = address(new BurningPredicate());
        set(ALL, list(term(yes), term(other), not(broken)));
        vm.expectRevert(abi.encodeWithSelector(CompositePredicate.TermMalfunctioned.selector, 1, other));
        composite.hasAccess(toolId, account, "");
    }

    function test_hasAccess_gasBurnersDoNotStarveOthers() public {
        address burner = address(new BurningPredicate());
        set(ANY, list(term(burner), term(burner), term(yes)));
        assertGranted(toolId, "");
        set(ALL, list(term(burner), term(burner), term(no)));
        assertDenied(toolId, "");
    }

    function test_hasAccess_perAccountAndPerTool() public {
        SetPredicate gate = new SetPredicate(false);
        gate.allow(account);
        set(ALL, list(term(address(gate)), term(address(new OneToolPredicate(toolId)))));
        assertGranted(toolId, "");
        assertFalse(registry.hasAccess(toolId, outsider, ""));
        uint256 other = register(address(composite));
        assertDenied(other, "");
        ICompositePredicate.Term[] memory terms = composite.getTerms(toolId);
        vm.prank(creator);
        composite.setComposition(other, ALL, terms);
        assertDenied(other, "");
    }

    function test_hasAccess_sameDataForAllTerms() public {
        address gate = address(new DataPredicate());
        set(ALL, list(term(gate), term(gate)));
        assertGranted(toolId, abi.encode(42));
        assertDenied(toolId, abi.encode(41));
        set(ALL, list(term(gate), not(gate)));
        assertDenied(toolId, abi.encode(42));
    }

    function test_hasAccess_cyclesThroughForeignCompositesFailClosed() public {
        ForwardingPredicate foreign = new ForwardingPredicate();
        foreign.set(IAccessPredicate(address(composite)));
        ICompositePredicate.Op[2] memory ops = [ALL, ANY];
        for (uint256 i; i < 2; ++i) {
            set(ops[i], list(term(address(foreign))));
            assertMalfunction(toolId, "");
            set(ops[i], list(not(address(foreign))));
            assertMalfunction(toolId, "");
        }
    }

    // Two composites that ask each other through go-betweens without ERC-165, which no configuration can see.
    function test_hasAccess_crossCompositeCycleFailsClosed() public {
        CompositePredicate second = new CompositePredicate(registry);
        ForwardingPredicate toFirst = new ForwardingPredicate();
        ForwardingPredicate toSecond = new ForwardingPredicate();
        toFirst.set(IAccessPredicate(address(composite)));
        toSecond.set(IAccessPredicate(address(second)));
        for (uint256 i; i < 8; ++i) {
            ICompositePredicate.Op op = i & 1 == 0 ? ALL : ANY;
            set(op, list(ICompositePredicate.Term(address(toSecond), i & 2 != 0)));
            ICompositePredicate.Term[] memory back = list(ICompositePredicate.Term(address(toFirst), i & 4 != 0));
            vm.prank(creator);
            second.setComposition(toolId, op, back);
            assertMalfunction(toolId, "");
        }
        // A way out of the circle that decides is taken.
        set(ANY, list(term(address(toSecond)), term(yes)));
        assertGranted(toolId, "");
        set(ALL, list(term(address(toSecond)), term(no)));
        assertDenied(toolId, "");
    }

    // With ALL, the last of the most terms is asked too, and decides.
    function test_hasAccess_asksAsFarAsNeeded() public {
        SetPredicate last = new SetPredicate(true);
        set(ALL, list(term(yes), term(yes), term(address(last))));
        bytes memory question = abi.encodeCall(IAccessPredicate.hasAccess, (toolId, account, ""));
        vm.expectCall(address(last), question, 2);
        assertTrue(composite.hasAccess(toolId, account, ""));
        last.set(false);
        assertFalse(composite.hasAccess(toolId, account, ""));
    }

    function test_hasAccess_stopsWhenTheOutcomeIsCertain() public {
        address unasked = address(new SetPredicate(true));
        vm.expectCall(unasked, abi.encodeCall(IAccessPredicate.hasAccess, (toolId, account, "")), 0);
        set(ALL, list(term(no), term(unasked)));
        assertFalse(composite.hasAccess(toolId, account, ""));
        set(ANY, list(term(yes), term(unasked)));
        assertTrue(composite.hasAccess(toolId, account, ""));
        set(ANY, list(not(no), not(unasked)));
        assertTrue(composite.hasAccess(toolId, account, ""));
    }

    // Terms keep their own settings for each tool, so a composition of one tool says nothing about another.
    function test_setComposition_isForTheCreatorAloneAndOneTool() public {
        vm.startPrank(outsider);
        uint256 own = registry.registerTool(URI, HASH, address(composite));
        vm.expectRevert(abi.encodeWithSelector(RegistryPredicate.CallerIsNotToolCreator.selector, toolId, outsider));
        composite.setComposition(toolId, ALL, list(term(yes)));
        composite.setComposition(own, ANY, list(term(yes)));
        vm.stopPrank();
        assertDenied(toolId, "");
        assertEq(uint8(composite.getOp(toolId)), uint8(ALL));
        assertEq(composite.getTerms(toolId).length, 0);
        assertGranted(own, "");
    }

    function test_setComposition_failureKeepsTheOldOne() public {
        set(ANY, list(term(yes), not(no)));
        vm.expectRevert(abi.encodeWithSelector(CompositePredicate.InvalidTerm.selector, 2, address(0)));
        set(ALL, list(term(no), term(no), term(address(0))));
        assertEq(uint8(composite.getOp(toolId)), uint8(ANY));
        assertEq(abi.encode(composite.getTerms(toolId)), abi.encode(list(term(yes), not(no))));
    }

    // A tool leaves its composite and comes back: nothing is forgotten.
    function test_throughTheRegistry_pauseAndResume() public {
        set(ALL, list(term(yes), not(no)));
        assertGranted(toolId, "");
        address deny = address(new DenyAllPredicate());
        vm.prank(creator);
        registry.setAccessPredicate(toolId, deny);
        assertDenied(toolId, "");
        vm.prank(creator);
        registry.setAccessPredicate(toolId, address(composite));
        assertGranted(toolId, "");
    }

    function test_throughTheRegistry_removedTool() public {
        set(ALL, list(term(yes)));
        vm.prank(creator);
        registry.deregisterTool(toolId);
        vm.expectRevert(abi.encodeWithSelector(IToolRegistry.ToolIsDeregistered.selector, toolId));
        registry.tryHasAccess(toolId, account, "");
    }

    // The registry's hasAccess says no for "cannot tell". A term that is built on it gets false, and a term that asks about
    // its own tool never a yes.
    function test_hasAccess_recursionThroughTheRegistryNeverGrants() public {
        address recursing = address(new RecursingPredicate(registry));
        set(ALL, list(term(recursing)));
        assertDenied(toolId, "");
        set(ANY, list(term(recursing), term(recursing), term(recursing)));
        assertDenied(toolId, "");
    }

    // A term must not mistake its caller's thrift for a no: negated, that would be a grant.
    function test_hasAccess_thriftyCallersCannotForceANegatedTerm() public {
        address swallowing = address(new SwallowingPredicate(40_000));
        set(ALL, list(not(swallowing)));
        assertDenied(toolId, "");
        uint256 answered;
        for (uint256 budget = 10_000; budget <= 250_000; budget += 1_000) {
            try composite.hasAccess{gas: budget}(toolId, account, "") returns (bool granted) {
                assertFalse(granted);
                ++answered;
            } catch {}
            try registry.hasAccess{gas: budget}(toolId, account, "") returns (bool granted) {
                assertFalse(granted);
            } catch {}
        }
        assertGt(answered, 100);
    }

    function testFuzz_hasAccess_oddAnswersNeverGrant(bytes calldata answer, bool negate, bool any) public {
        address leaf = address(new RawPredicate(answer));
        vm.assume(answer.length != 32 || uint256(bytes32(answer)) > 1);
        // One that gives the address of a contract to every question states another registry, and is refused before.
        uint256 word = answer.length < 32 ? 0 : uint256(bytes32(answer));
        vm.assume(word > type(uint160).max || address(uint160(word)).code.length == 0);
        set(any ? ANY : ALL, list(ICompositePredicate.Term(leaf, negate)));
        assertMalfunction(toolId, "");
    }
}

/// @dev Limits come from these measurements: change the limits, and these must still pass. They count on `isolate` in
///      foundry.toml, without which accounts and slots would be warm and everything cheaper than it is.
contract CompositeGasTest is CompositeFixture {
    // req: REG-046, PRED-014
    function test_everyTermGetsItsWholeSliceInsideTheRegistry() public {
        uint256 slice = composite.TERM_GAS();
        address nearly = address(new NearlyBurningPredicate(500, true));
        address nearlyNot = address(new NearlyBurningPredicate(500, false));
        address burner = address(new BurningPredicate());
        address gauge = address(new GasGaugePredicate(slice - 200));
        address tooMuch = address(new GasGaugePredicate(slice + 1));

        set(ALL, list(term(nearly), term(nearly), term(nearly)));
        assertGranted(toolId, "");
        set(ANY, list(term(nearlyNot), term(nearlyNot), term(nearly)));
        assertGranted(toolId, "");
        set(ANY, list(term(burner), term(burner), term(nearly)));
        assertGranted(toolId, "");
        set(ANY, list(not(nearly), term(burner), not(nearlyNot)));
        assertGranted(toolId, "");
        set(ANY, list(term(burner), term(burner), term(gauge)));
        assertGranted(toolId, "");
        set(ANY, list(term(burner), term(burner), term(tooMuch)));
        assertMalfunction(toolId, "");
        set(ALL, list(not(tooMuch), not(tooMuch), not(tooMuch)));
        assertGranted(toolId, "");
    }

    // The same with the longest proof that a term of ours takes.
    function test_everyTermGetsItsWholeSliceWithLongData() public {
        address nearly = address(new NearlyBurningPredicate(500, true));
        address burner = address(new BurningPredicate());
        address other = address(new BurningPredicate());
        set(ANY, list(term(burner), term(other), term(nearly)));
        bytes memory proof = abi.encode(new bytes32[](32));
        assertGranted(toolId, proof);
    }
}

contract CompositeRequirementsTest is CompositeFixture {
    bytes4 private constant A = 0xbdf8c428;
    bytes4 private constant B = 0xcb429230;

    function leaf(bytes4 kind, uint256 count) private returns (address) {
        SetPredicate gate = new SetPredicate(true);
        for (uint256 i; i < count; ++i) {
            gate.require_(kind, abi.encode(i), "label", RequirementLogic.OR);
        }
        return address(gate);
    }

    function check(RequirementLogic logic, bytes4[] memory kinds) private view {
        (AccessRequirement[] memory requirements, RequirementLogic actual) = composite.getRequirements(toolId);
        assertEq(uint8(actual), uint8(logic));
        assertEq(requirements.length, kinds.length, "length");
        for (uint256 i; i < kinds.length; ++i) {
            assertEq(requirements[i].kind, kinds[i], "kind");
            assertEq(requirements[i].label, kinds[i] == 0 ? "unknown" : "label");
            if (kinds[i] == 0) assertEq(requirements[i].data.length, 0);
        }
    }

    function kindsOf(bytes4 a) private pure returns (bytes4[] memory kinds) {
        kinds = new bytes4[](1);
        kinds[0] = a;
    }

    function kindsOf(bytes4 a, bytes4 b, bytes4 c) private pure returns (bytes4[] memory kinds) {
        kinds = new bytes4[](3);
        (kinds[0], kinds[1], kinds[2]) = (a, b, c);
    }

    function test_empty() public view {
        check(RequirementLogic.AND, new bytes4[](0));
    }

    // req: PRED-005, PRED-010
    function test_flattens() public {
        set(ALL, list(term(leaf(A, 2)), term(leaf(B, 1))));
        check(RequirementLogic.AND, kindsOf(A, A, B));
        (AccessRequirement[] memory requirements,) = composite.getRequirements(toolId);
        assertEq(requirements[1].data, abi.encode(1));
        set(ANY, list(term(leaf(A, 2)), term(leaf(B, 1))));
        check(RequirementLogic.OR, kindsOf(A, A, B));
    }

    function test_emptyUnderAny() public {
        set(ANY, new ICompositePredicate.Term[](0));
        check(RequirementLogic.OR, new bytes4[](0));
    }

    function test_childrenWithoutRequirementsAddNothing() public {
        set(ALL, list(term(leaf(A, 0)), term(leaf(B, 1))));
        check(RequirementLogic.AND, kindsOf(B));
    }

    // req: PRED-010
    function test_sentinelForFailingChildren() public {
        address[9] memory bad = [
            broken,
            address(new DataPredicate()),
            address(new BurningPredicate()),
            address(new RawPredicate("")),
            address(new RawPredicate(abi.encode(1))),
            address(new LongPredicate(1_000_000)),
            address(new BoastingPredicate(96, 1_000_000)),
            address(new BoastingPredicate(1_000_000, 1_000_000)),
            address(new BoastingPredicate(96, type(uint256).max))
        ];
        for (uint256 i; i < bad.length; ++i) {
            set(ANY, list(term(leaf(A, 1)), term(bad[i]), term(leaf(B, 1))));
            check(RequirementLogic.OR, kindsOf(A, 0, B));
        }
    }

    // A logic that is neither AND nor OR is not an answer.
    // req: PRED-003
    function test_sentinelForUnknownLogic() public {
        set(ALL, list(term(address(new RawPredicate(abi.encode(0x40, 2, 0))))));
        check(RequirementLogic.AND, kindsOf(0));
        set(ALL, list(term(address(new RawPredicate(abi.encode(0x40, 1, 0))))));
        check(RequirementLogic.AND, new bytes4[](0));
    }

    // No kind says "must not have", so a negated child is not shown as something to get.
    function test_sentinelForNegatedChildren() public {
        set(ALL, list(term(leaf(A, 1)), not(leaf(B, 2)), term(leaf(B, 1))));
        check(RequirementLogic.AND, kindsOf(A, 0, B));
    }

    function kindOfSized(uint256 count, uint256 data, uint256 label) private returns (bytes4, uint256) {
        set(ALL, list(term(address(new SizedPredicate(count, data, label)))));
        (AccessRequirement[] memory requirements,) = composite.getRequirements(toolId);
        return (requirements[0].kind, requirements.length);
    }

    // req: PRED-011
    function test_sentinelBeyondTheLimits() public {
        uint256[3][6] memory sizes = [
            [uint256(1), 4_096, 256],
            [uint256(256), 32, 8],
            [uint256(1), 4_097, 0],
            [uint256(1), 0, 257],
            [uint256(257), 0, 0],
            [uint256(1), 0, 10 * 1024 * 1024]
        ];
        for (uint256 i; i < sizes.length; ++i) {
            (bytes4 kind, uint256 length) = kindOfSized(sizes[i][0], sizes[i][1], sizes[i][2]);
            assertEq(kind, i < 2 ? bytes4(0x11223344) : bytes4(0));
            assertEq(length, i < 2 ? sizes[i][0] : 1);
        }
    }

    // Each child within the limits, but not together: the list must stay one that readers accept.
    function test_sentinelForTheChildThatOverflowsTheList() public {
        address many = address(new SizedPredicate(254, 0, 0));
        address three = address(new SizedPredicate(3, 0, 0));
        set(ALL, list(term(many), term(three), term(address(new SizedPredicate(1, 0, 0)))));
        (AccessRequirement[] memory requirements,) = composite.getRequirements(toolId);
        assertEq(requirements.length, 256);
        assertEq(requirements[253].kind, bytes4(0x11223344));
        assertEq(requirements[254].kind, bytes4(0));
        assertEq(requirements[255].kind, bytes4(0x11223344));

        set(ALL, list(term(address(new SizedPredicate(256, 0, 0))), term(three)));
        (requirements,) = composite.getRequirements(toolId);
        assertEq(requirements.length, 4);
        assertEq(requirements[0].kind, bytes4(0));
    }

    // Many entries that point at the same long bytes: small on the wire, huge in memory.
    function test_sentinelForAmplifiedAnswers() public {
        set(ALL, list(term(address(new SizedPredicate(256, 4_096, 256))), term(leaf(A, 1)), term(leaf(B, 1))));
        check(RequirementLogic.AND, kindsOf(0, A, B));
    }

    // Hostile children cost a known amount, and a caller with less gas hears about it instead of reading sentinels.
    function test_costIsBounded() public {
        address burner = address(new BurningPredicate());
        set(ALL, list(term(burner), term(burner), term(burner)));
        uint256 before = gasleft();
        composite.getRequirements(toolId);
        assertLt(before - gasleft(), 9_500_000);

        set(ALL, list(term(leaf(A, 1))));
        vm.expectRevert(CompositePredicate.InsufficientGas.selector);
        composite.getRequirements{gas: 2_900_000}(toolId);
        composite.getRequirements{gas: 3_200_000}(toolId);
    }
}
