// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {Test} from "forge-std/Test.sol";
import {IAccessPredicate} from "src/interfaces/IAccessPredicate.sol";
import {
    IAccessProof,
    IDenyAll,
    IERC1155Holding,
    IERC20Balance,
    IERC721Holding,
    IERC7496Trait,
    IMerkleAllowlist,
    ISubscription,
    IWalletStateAttestation
} from "src/interfaces/IRequirementTypes.sol";
import {IToolRegistry} from "src/interfaces/IToolRegistry.sol";

/// @dev Values that other programs have written down. A change here breaks them all.
contract InterfacesTest is Test {
    // req: VEC-005, REG-034, PRED-001
    function test_interfaceIds_pinned() public pure {
        assertEq(type(IToolRegistry).interfaceId, bytes4(0xf1dc8075));
        assertEq(type(IAccessPredicate).interfaceId, bytes4(0xbdf9dc18));
    }

    // req: VEC-006, PRED-004, PRED-006
    function test_requirementKinds_pinned() public pure {
        assertEq(type(IERC721Holding).interfaceId, bytes4(0xbdf8c428));
        assertEq(type(IERC1155Holding).interfaceId, bytes4(0xcb429230));
        assertEq(type(ISubscription).interfaceId, bytes4(0x44387cc2));
        assertEq(type(IERC20Balance).interfaceId, bytes4(0x812b02ee));
        assertEq(type(IERC7496Trait).interfaceId, bytes4(0x37d8dc22));
        assertEq(type(IWalletStateAttestation).interfaceId, bytes4(0x7a111640));
        assertEq(type(IAccessProof).interfaceId, bytes4(0x498eb5bb));
        assertEq(type(IMerkleAllowlist).interfaceId, bytes4(0xa2d33eab));
        assertEq(type(IDenyAll).interfaceId, bytes4(0x6b5c567b));
    }
}
