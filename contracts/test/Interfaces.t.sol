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
    IProofBased,
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

    // req: VEC-005, VEC-007, REG-034, PRED-001
    function test_selectors_pinned() public pure {
        bytes4[10] memory selectors = [
            IToolRegistry.registerTool.selector,
            IToolRegistry.deregisterTool.selector,
            IToolRegistry.updateToolMetadata.selector,
            IToolRegistry.setAccessPredicate.selector,
            IToolRegistry.getToolConfig.selector,
            IToolRegistry.hasAccess.selector,
            IToolRegistry.tryHasAccess.selector,
            IToolRegistry.toolCount.selector,
            IToolRegistry.name.selector,
            IToolRegistry.version.selector
        ];
        string[10] memory signatures = [
            "registerTool(string,bytes32,address)",
            "deregisterTool(uint256)",
            "updateToolMetadata(uint256,string,bytes32)",
            "setAccessPredicate(uint256,address)",
            "getToolConfig(uint256)",
            "hasAccess(uint256,address,bytes)",
            "tryHasAccess(uint256,address,bytes)",
            "toolCount()",
            "name()",
            "version()"
        ];
        bytes4 id;
        for (uint256 i; i < selectors.length; ++i) {
            assertEq(selectors[i], bytes4(keccak256(bytes(signatures[i]))), signatures[i]);
            id ^= selectors[i];
        }
        assertEq(id, bytes4(0xf1dc8075));
        assertEq(IToolRegistry.hasAccess.selector, bytes4(0xa7e3775b));
        assertEq(IAccessPredicate.hasAccess.selector, bytes4(0xa7e3775b));
        assertEq(
            IAccessPredicate.hasAccess.selector ^ IAccessPredicate.name.selector
                ^ IAccessPredicate.getRequirements.selector,
            bytes4(0xbdf9dc18)
        );
    }

    // req: VEC-010, REG-023
    function test_topics_pinned() public pure {
        assertEq(
            IToolRegistry.ToolRegistered.selector, 0xe7be7fd3c802f61682f56ba817276b1cc81fbee7cb50705c8ed7952811dac397
        );
        assertEq(
            IToolRegistry.ToolMetadataUpdated.selector,
            0x14f92d1aaaea2df5f884f2fd8dbb6ea7cad1784ffaac2d8fd594f107d719a414
        );
        assertEq(
            IToolRegistry.AccessPredicateUpdated.selector,
            0x53e2d3a37877f4a367d09cdba706178d3c6414a15d642294300c65a8037dd6ff
        );
        assertEq(
            IToolRegistry.ToolDeregistered.selector, 0x9add33e854e243f868ff7cacac076d65b1d56fb593e2bb891e76e2e8d5ddd034
        );
    }

    // req: REG-020, REG-021, REG-022
    function test_errors_pinned() public pure {
        assertEq(IToolRegistry.ToolNotFound.selector, bytes4(0xb73d6f8b));
        assertEq(IToolRegistry.ToolIsDeregistered.selector, bytes4(0x0bf47976));
        assertEq(IToolRegistry.NotToolCreator.selector, bytes4(0xd594d2e7));
        assertEq(IToolRegistry.InvalidMetadataURI.selector, bytes4(keccak256("InvalidMetadataURI()")));
        assertEq(IToolRegistry.InvalidManifestHash.selector, bytes4(keccak256("InvalidManifestHash()")));
        assertEq(IToolRegistry.InvalidAccessPredicate.selector, bytes4(keccak256("InvalidAccessPredicate(address)")));
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
        assertEq(type(IProofBased).interfaceId, bytes4(0x5eab8820));
    }
}
