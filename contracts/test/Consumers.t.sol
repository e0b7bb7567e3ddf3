// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {IAccessPredicate} from "src/interfaces/IAccessPredicate.sol";
import {RegistryFixture} from "test/RegistryFixture.sol";
import {AuditingPredicate, CarefulConsumer, CarelessConsumer, Flipper} from "test/mocks/Consumers.sol";
import {BurningPredicate, SetPredicate} from "test/mocks/Predicates.sol";

/// @dev Contracts that build on the registry: what ERC-8257 asks of them can be had from ours.
contract ConsumersTest is RegistryFixture {
    uint256 private constant BUDGET = 250_000;

    function consumer(address predicate, uint256 budget) private returns (CarefulConsumer) {
        return new CarefulConsumer(registry, register(predicate), budget);
    }

    // req: PRED-013
    function test_aBudgetBoundsWhatAPredicateCanCost() public {
        CarefulConsumer careful = consumer(address(new BurningPredicate()), 60_000);
        uint256 before = gasleft();
        vm.expectRevert(abi.encodeWithSelector(CarefulConsumer.Denied.selector, account));
        vm.prank(account);
        careful.act();
        assertLt(before - gasleft(), 120_000);
    }

    // Too little gas for the question is a no, never a yes, and enough of it is all that is needed.
    // req: PRED-012, PRED-013
    function test_everyBudgetDeniesOrTellsTheTruth() public {
        address gate = address(new SetPredicate(true));
        uint256 granted;
        for (uint256 budget; budget <= 30_000; budget += 1_000) {
            CarefulConsumer careful = consumer(gate, budget);
            vm.prank(account);
            try careful.act() {
                ++granted;
            } catch (bytes memory reason) {
                assertEq(reason, abi.encodeWithSelector(CarefulConsumer.Denied.selector, account));
                assertEq(granted, 0, "more gas never takes a grant away");
            }
        }
        assertGt(granted, 0);
        assertLt(granted, 31);
    }

    // The account that is asked about is the one that acts.
    // req: PRED-018, PRED-019
    function test_anotherAccountsAccessIsOfNoUse() public {
        SetPredicate gate = new SetPredicate(false);
        gate.allow(account);
        CarefulConsumer careful = consumer(address(gate), BUDGET);
        vm.prank(account);
        careful.act();
        vm.expectRevert(abi.encodeWithSelector(CarefulConsumer.Denied.selector, outsider));
        vm.prank(outsider);
        careful.act();
        assertEq(careful.counts(account), 1);
        assertEq(careful.counts(outsider), 0);
    }

    // req: PRED-017
    function test_oneQuestionInATransaction() public {
        address gate = address(new SetPredicate(true));
        CarefulConsumer careful = consumer(gate, BUDGET);
        bytes memory question = abi.encodeCall(IAccessPredicate.hasAccess, (1, account, ""));
        vm.expectCall(gate, question, 1);
        vm.prank(account);
        careful.actTwice();
        assertEq(careful.counts(account), 2);
    }

    // req: PRED-017
    function test_theNextTransactionAsksAgain() public {
        SetPredicate gate = new SetPredicate(true);
        CarefulConsumer careful = consumer(address(gate), BUDGET);
        vm.prank(account);
        careful.act();
        gate.set(false);
        vm.expectRevert(abi.encodeWithSelector(CarefulConsumer.Denied.selector, account));
        vm.prank(account);
        careful.act();
    }

    // The registry keeps no answer, not even within a transaction.
    // req: PRED-017
    function test_theRegistryNeverCaches() public {
        SetPredicate gate = new SetPredicate(false);
        uint256 toolId = register(address(gate));
        (bool before, bool afterwards) = new Flipper().flip(registry, toolId, account, address(gate));
        assertFalse(before);
        assertTrue(afterwards);
    }

    // A predicate may read its caller. Called before any write, it sees a consistent state.
    // req: PRED-016
    function test_askingBeforeWritingShowsNoHalfWrittenState() public {
        AuditingPredicate gate = new AuditingPredicate();
        uint256 toolId = register(address(gate));
        CarefulConsumer careful = new CarefulConsumer(registry, toolId, BUDGET);
        gate.set(address(careful));
        vm.startPrank(account);
        careful.act();
        careful.act();
        vm.stopPrank();
        assertEq(careful.total(), 2);

        CarelessConsumer careless = new CarelessConsumer(registry, toolId);
        gate.set(address(careless));
        vm.prank(account);
        assertFalse(careless.act(), "the predicate saw the first write and not the second");
    }
}
