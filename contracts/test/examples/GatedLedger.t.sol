// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {GatedLedger} from "./GatedLedger.sol";
import {IAccessPredicate} from "src/interfaces/IAccessPredicate.sol";
import {IToolRegistry} from "src/interfaces/IToolRegistry.sol";
import {RegistryFixture} from "test/RegistryFixture.sol";
import {SetPredicate} from "test/mocks/Predicates.sol";

/// @dev A "registry" that burns whatever it gets.
contract BurningRegistry {
    fallback() external {
        while (true) {}
    }
}

/// @dev A "registry" that calls its caller back, which a static call prevents.
contract ReturningRegistry {
    fallback() external {
        GatedLedger(msg.sender).add(new string[](1));
    }
}

contract GatedLedgerTest is RegistryFixture {
    SetPredicate private _predicate;
    GatedLedger private _ledger;

    function setUp() public override {
        super.setUp();
        _predicate = new SetPredicate(true);
        _ledger = new GatedLedger(registry, register(address(_predicate)));
    }

    function add(uint256 count) private {
        vm.prank(account);
        _ledger.add(new string[](count));
    }

    // req: PRED-017
    function test_twoChecksOfOneTransactionAskOnce() public {
        vm.expectCall(address(_predicate), abi.encodeWithSelector(IAccessPredicate.hasAccess.selector), 1);
        add(2);
        assertEq(_ledger.entries(account), 2);
    }

    // req: PRED-017
    function test_anAnswerEndsWithItsTransaction() public {
        add(2);
        _predicate.set(false);
        vm.expectRevert(abi.encodeWithSelector(GatedLedger.Denied.selector, account));
        add(1);
        assertEq(_ledger.entries(account), 2);
    }

    // req: PRED-013
    function test_aQuestionHasABudget() public {
        GatedLedger ledger = new GatedLedger(IToolRegistry(address(new BurningRegistry())), 1);
        uint256 before = gasleft();
        vm.expectRevert(GatedLedger.Unavailable.selector);
        ledger.add(new string[](1));
        assertLt(before - gasleft(), 400_000, "the caller keeps the rest of its gas");
    }

    // req: PRED-013
    function test_theBudgetIsEnoughForTheWholeOfThePredicatesGas() public view {
        assertGt(_ledger.ACCESS_GAS() * 63 / 64, registry.PREDICATE_GAS() + 10_000);
    }

    // req: PRED-016
    function test_askingComesBeforeWriting_andNobodyComesBackInBetween() public {
        GatedLedger ledger = new GatedLedger(IToolRegistry(address(new ReturningRegistry())), 1);
        vm.expectRevert(GatedLedger.Unavailable.selector);
        ledger.add(new string[](1));
        assertEq(ledger.entries(address(this)), 0);
    }

    // req: PRED-016
    function test_aMalfunctionIsNeitherYesNorNo() public {
        GatedLedger ledger = new GatedLedger(registry, register(makeAddr("account without code")));
        vm.expectRevert(GatedLedger.Unavailable.selector);
        ledger.add(new string[](1));
    }
}
