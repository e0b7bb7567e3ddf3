// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {Vm, VmSafe} from "forge-std/Vm.sol";
import {IAccessPredicate, RequirementLogic} from "src/interfaces/IAccessPredicate.sol";
import {RegistryFixture} from "test/RegistryFixture.sol";
import {
    BoastingPredicate,
    BurningPredicate,
    DataPredicate,
    GasGaugePredicate,
    InvalidOpcodePredicate,
    LongPredicate,
    NearlyBurningPredicate,
    OneToolPredicate,
    RawPredicate,
    RecursingPredicate,
    RevertingPredicate,
    RevertingWithTruePredicate,
    SetPredicate,
    SizedPredicate,
    WritingPredicate
} from "test/mocks/Predicates.sol";

/// @dev What the registry makes of predicates, hostile ones above all.
contract ToolRegistryAccessTest is RegistryFixture {
    // req: REG-029, REG-025
    function testFuzz_openToolGrants(address anyone, bytes calldata data) public {
        uint256 toolId = register(address(0));
        (bool ok, bool granted) = registry.tryHasAccess(toolId, anyone, data);
        assertTrue(ok && granted && registry.hasAccess(toolId, anyone, data));
    }

    // req: REG-029
    function test_openToolMakesNoCall() public {
        uint256 toolId = register(address(0));
        vm.startStateDiffRecording();
        registry.tryHasAccess(toolId, account, "data");
        assertEq(vm.stopAndReturnStateDiff().length, 1);
    }

    // req: REG-025
    function test_predicateAllows() public {
        assertGranted(register(address(new SetPredicate(true))), "");
    }

    // req: REG-025
    function test_predicateDenies() public {
        assertDenied(register(address(new SetPredicate(false))), "");
    }

    function test_asksAboutTheAccount() public {
        SetPredicate gate = new SetPredicate(false);
        uint256 toolId = register(address(gate));
        gate.allow(account);
        assertGranted(toolId, "");
        assertFalse(registry.hasAccess(toolId, outsider, ""));
    }

    function test_asksAboutTheTool() public {
        address gate = address(new OneToolPredicate(2));
        assertDenied(register(gate), "");
        assertGranted(register(gate), "");
    }

    // req: REG-025
    function test_forwardsData() public {
        uint256 toolId = register(address(new DataPredicate()));
        assertGranted(toolId, abi.encode(42));
        assertDenied(toolId, abi.encode(43));
        assertDenied(toolId, "");
    }

    // Arguments reach the predicate as the plain ABI encoding, whatever they are.
    function testFuzz_forwardsExactly(address anyone, bytes calldata data) public {
        address gate = address(new SetPredicate(true));
        uint256 toolId = register(gate);
        vm.expectCall(gate, abi.encodeCall(IAccessPredicate.hasAccess, (toolId, anyone, data)));
        registry.hasAccess(toolId, anyone, data);
    }

    // req: REG-024, REG-030
    function test_zeroCodePredicateIsNotOk() public {
        address later = makeAddr("later");
        uint256 toolId = register(later);
        assertMalfunction(toolId, "");
        registry.getToolConfig(toolId);
        // Precompiles have no code either, and some answer with 32 bytes.
        for (uint160 i = 1; i <= 10; ++i) {
            (, bool granted) = registry.tryHasAccess(register(address(i)), account, "");
            assertFalse(granted);
        }
        // Deployed at last, it counts.
        vm.etch(later, address(new SetPredicate(false)).code);
        assertDenied(toolId, "");
    }

    // req: REG-024
    function test_revertingPredicateIsNotOk() public {
        assertMalfunction(register(address(new RevertingPredicate())), "");
        assertMalfunction(register(address(new RevertingWithTruePredicate())), "");
        assertMalfunction(register(address(new InvalidOpcodePredicate())), "");
    }

    // req: REG-024, REG-025
    function test_nonCanonicalBoolIsNotOk() public {
        bytes32[4] memory words =
            [bytes32(uint256(2)), bytes32(uint256(256)), bytes32(type(uint256).max), bytes32(uint256(1) << 255 | 1)];
        for (uint256 i; i < words.length; ++i) {
            assertMalfunction(register(address(new RawPredicate(bytes.concat(words[i])))), "");
        }
    }

    // req: REG-024, REG-025
    function testFuzz_onlyZeroAndOneAreAnswers(uint256 word) public {
        uint256 toolId = register(address(new RawPredicate(abi.encode(word))));
        assertAccess(toolId, "", word <= 1, word == 1);
    }

    // req: REG-024
    function test_wrongLengthIsNotOk() public {
        uint256[8] memory sizes = [uint256(0), 1, 2, 31, 33, 64, 4_096, 100_000];
        for (uint256 i; i < sizes.length; ++i) {
            assertMalfunction(register(address(new LongPredicate(sizes[i]))), "");
        }
        assertGranted(register(address(new LongPredicate(32))), "");
    }

    // req: REG-026
    function testFuzz_grantedImpliesOk(bytes calldata answer) public {
        uint256 toolId = register(address(new RawPredicate(answer)));
        (bool ok, bool granted) = registry.tryHasAccess(toolId, account, "");
        assertTrue(ok || !granted);
        assertEq(ok, answer.length == 32 && uint256(bytes32(answer)) <= 1);
    }

    // req: REG-024
    function test_megabyteAnswerCostsTheRegistryNothing() public {
        uint256 toolId = register(address(new LongPredicate(1_000_000)));
        uint256 before = gasleft();
        assertFalse(registry.hasAccess(toolId, account, ""));
        assertLt(before - gasleft(), 220_000);
    }

    // req: REG-028
    function test_writingPredicateIsNotOk() public {
        WritingPredicate gate = new WritingPredicate();
        assertMalfunction(register(address(gate)), "");
        assertEq(gate.asked(), 0);
    }

    // req: REG-028
    function test_askedByStaticCallFromTheRegistry() public {
        address gate = address(new SetPredicate(true));
        uint256 toolId = register(gate);
        vm.startStateDiffRecording();
        registry.tryHasAccess(toolId, account, "");
        Vm.AccountAccess[] memory calls = vm.stopAndReturnStateDiff();
        assertEq(calls.length, 2, "to the registry, and from there to the predicate");
        assertEq(calls[1].account, gate);
        assertEq(calls[1].accessor, address(registry));
        assertEq(uint8(calls[1].kind), uint8(VmSafe.AccountAccessKind.StaticCall));
        assertEq(calls[1].data, abi.encodeCall(IAccessPredicate.hasAccess, (toolId, account, "")));
    }

    // Anybody may ask about anybody, and hears the same: a grant says nothing about who asked.
    // req: PRED-018
    function testFuzz_theAnswerDoesNotDependOnTheAsker(address asker, bool allowed) public {
        vm.assume(asker != address(0));
        SetPredicate gate = new SetPredicate(false);
        if (allowed) gate.allow(account);
        uint256 toolId = register(address(gate));
        vm.prank(asker, asker);
        (bool ok, bool granted) = registry.tryHasAccess(toolId, account, "");
        assertTrue(ok);
        assertEq(granted, allowed);
    }

    // What a predicate says in getRequirements is not binding: the answer of hasAccess counts, both ways.
    // req: PRED-009
    function test_requirementsAreOnlyAHint() public {
        SetPredicate gate = new SetPredicate(false);
        uint256 toolId = register(address(gate));
        // No requirement at all, under AND: everybody would satisfy that.
        assertDenied(toolId, "");
        gate.require_(0xbdf8c428, abi.encode(makeAddr("collection")), "unattainable", RequirementLogic.AND);
        gate.set(true);
        assertGranted(toolId, "");
    }

    // A predicate that is still to come, at an address that is already certain.
    // req: REG-010, REG-030, PRED-026, PRED-028
    function test_counterfactualPredicate() public {
        bytes memory initCode = abi.encodePacked(type(SetPredicate).creationCode, abi.encode(true));
        address later = vm.computeCreate2Address(bytes32(uint256(7)), keccak256(initCode), address(this));
        uint256 toolId = register(later);
        assertMalfunction(toolId, "");
        // Other init code, as a hostile deployer would have it, comes to lie elsewhere.
        assertTrue(address(new SetPredicate{salt: bytes32(uint256(7))}(false)) != later);
        assertMalfunction(toolId, "");
        assertEq(address(new SetPredicate{salt: bytes32(uint256(7))}(true)), later);
        assertGranted(toolId, "");
    }

    // Equal code does not make equal predicates: storage decides too.
    // req: PRED-027
    function test_sameCodeOtherStorage() public {
        SetPredicate open = new SetPredicate(true);
        SetPredicate closed = new SetPredicate(false);
        assertEq(address(open).codehash, address(closed).codehash);
        uint256 toolId = register(address(open));
        assertGranted(toolId, "");
        assertDenied(register(address(closed)), "");
        bytes32 before = address(open).codehash;
        open.set(false);
        assertEq(address(open).codehash, before);
        assertDenied(toolId, "");
    }

    function test_recursingPredicateNeverGrants() public {
        uint256 toolId = register(address(new RecursingPredicate(registry)));
        (, bool granted) = registry.tryHasAccess(toolId, account, "");
        assertFalse(granted);
        assertFalse(registry.hasAccess(toolId, account, ""));
    }

    // Boasting in getRequirements has no bearing on access.
    function test_requirementsAreNotAsked() public {
        assertGranted(register(address(new BoastingPredicate(96, 1_000_000))), "");
        assertGranted(register(address(new SizedPredicate(1, 0, 10 * 1024 * 1024))), "");
    }

    // req: REG-046
    function test_boundsPredicateGas() public {
        uint256 toolId = register(address(new BurningPredicate()));
        uint256 before = gasleft();
        assertFalse(registry.hasAccess(toolId, account, ""));
        uint256 used = before - gasleft();
        assertGt(used, 200_000);
        assertLt(used, 220_000);
        before = gasleft();
        (bool ok, bool granted) = registry.tryHasAccess(toolId, account, "");
        used = before - gasleft();
        assertFalse(ok || granted);
        assertGt(used, 200_000);
        assertLt(used, 220_000);
    }

    // req: REG-046
    function test_predicateGetsItsGasAndNoMore() public {
        assertGranted(register(address(new GasGaugePredicate(199_700))), "");
        assertDenied(register(address(new GasGaugePredicate(200_001))), "");
        assertGranted(register(address(new NearlyBurningPredicate(1_000, true))), "");
    }

    // req: PRED-012
    function test_tooLittleGasNeverGrantsWrongly() public {
        uint256 toolId = register(address(new NearlyBurningPredicate(1_000, true)));
        for (uint256 budget = 10_000; budget <= 260_000; budget += 10_000) {
            try registry.tryHasAccess{gas: budget}(toolId, outsider, "") returns (bool ok, bool granted) {
                assertEq(ok, granted);
            } catch {}
        }
    }
}
