// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {IERC165} from "@openzeppelin/contracts/utils/introspection/IERC165.sol";
import {AccessRequirement, IAccessPredicate, RequirementLogic} from "src/interfaces/IAccessPredicate.sol";
import {IToolRegistry} from "src/interfaces/IToolRegistry.sol";
import {RegistryPredicate} from "src/predicates/RegistryPredicate.sol";
import {RegistryFixture} from "test/RegistryFixture.sol";

/// @dev What the tests of the predicates on holdings share.
abstract contract HoldingFixture is RegistryFixture {
    uint256 internal toolId;
    uint256 internal otherTool;
    address internal deployed;

    /// @dev Registers two tools of `creator` that point at the predicate.
    function use(address predicate) internal {
        deployed = predicate;
        toolId = register(predicate);
        otherTool = register(predicate);
    }

    // req: PRED-001, PRED-008, PRED-029
    function test_supportsInterface() public view {
        assertTrue(IERC165(deployed).supportsInterface(0x01ffc9a7));
        assertTrue(IERC165(deployed).supportsInterface(0xbdf9dc18));
        assertFalse(IERC165(deployed).supportsInterface(0xffffffff));
        assertFalse(IERC165(deployed).supportsInterface(type(IToolRegistry).interfaceId));
    }

    // req: PRED-002
    function test_name() public view {
        assertEq(IAccessPredicate(deployed).name(), expectedName());
    }

    // req: PRED-002
    function test_version() public view {
        assertGt(bytes(RegistryPredicate(deployed).version()).length, 0);
    }

    function test_registry() public view {
        assertEq(address(RegistryPredicate(deployed).REGISTRY()), address(registry));
    }

    function test_constructor_revertsOnZeroRegistry() public {
        vm.expectRevert(RegistryPredicate.ZeroRegistry.selector);
        deploy(IToolRegistry(address(0)));
    }

    /// @dev A tool that nobody configured is closed, and asks for nothing that could be had.
    // req: PRED-003
    function test_unconfigured() public view {
        assertDenied(toolId, "");
        assertDenied(toolId, abi.encode(1));
        (AccessRequirement[] memory requirements,) = IAccessPredicate(deployed).getRequirements(toolId);
        assertEq(requirements.length, 0);
    }

    function requirementsOf(uint256 tool) internal view returns (AccessRequirement[] memory, RequirementLogic) {
        return IAccessPredicate(deployed).getRequirements(tool);
    }

    function assertRequirement(AccessRequirement memory requirement, bytes4 kind, bytes memory data) internal pure {
        assertEq(requirement.kind, kind, "kind");
        assertEq(requirement.data, data, "data");
        assertEq(requirement.label, "", "label");
    }

    /// @dev The same question to the predicate itself, with the gas that the registry would give.
    function asks(uint256 tool, address who, bytes memory data) internal view returns (bool) {
        return IAccessPredicate(deployed).hasAccess{gas: 200_000}(tool, who, data);
    }

    function expectedName() internal pure virtual returns (string memory);

    function deploy(IToolRegistry tools) internal virtual returns (address);
}
