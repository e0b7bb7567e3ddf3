// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {IERC165} from "@openzeppelin/contracts/utils/introspection/IERC165.sol";
import {ToolRegistry} from "src/ToolRegistry.sol";
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
        assertEq(RegistryPredicate(deployed).version(), "0.1");
    }

    function test_registry() public view {
        assertEq(address(RegistryPredicate(deployed).REGISTRY()), address(registry));
    }

    function test_constructor_revertsOnZeroRegistry() public {
        vm.expectRevert(RegistryPredicate.ZeroRegistry.selector);
        deploy(IToolRegistry(address(0)));
    }

    /// @dev A tool without configuration denies all accounts, and lists a requirement that cannot be met.
    // req: PRED-003
    function test_unconfigured() public view {
        assertDenied(toolId, "");
        assertDenied(toolId, abi.encode(1));
        (AccessRequirement[] memory requirements, RequirementLogic logic) = requirementsOf(toolId);
        assertEq(requirements.length, 0);
        assertEq(uint8(logic), uint8(expectedLogic()));
    }

    /// @dev The registry alone decides who the creator is: the creator of another tool is an outsider here, and what a
    ///      outsider tried leaves nothing behind.
    function test_configure_isForTheCreatorAlone() public {
        bytes memory data = qualify(account);
        vm.startPrank(outsider);
        uint256 own = registry.registerTool(URI, HASH, deployed);
        vm.expectRevert(notCreator(toolId, outsider));
        configure(toolId);
        configure(own);
        vm.stopPrank();
        assertDenied(toolId, data);
        assertGranted(own, data);
    }

    function test_configure_revertsAsTheRegistryDoes() public {
        vm.startPrank(creator);
        registry.deregisterTool(toolId);
        vm.expectRevert(abi.encodeWithSelector(IToolRegistry.ToolIsDeregistered.selector, toolId));
        configure(toolId);
        uint256[2] memory unknown = [uint256(0), 99];
        for (uint256 i; i < unknown.length; ++i) {
            vm.expectRevert(abi.encodeWithSelector(IToolRegistry.ToolNotFound.selector, unknown[i]));
            configure(unknown[i]);
        }
        vm.stopPrank();
    }

    /// @dev Ids of two registries have nothing to do with each other.
    // req: REG-041
    function test_configure_creatorInAnotherRegistryIsAnOutsider() public {
        ToolRegistry elsewhere = new ToolRegistry();
        vm.startPrank(outsider);
        assertEq(elsewhere.registerTool(URI, HASH, deployed), toolId);
        vm.expectRevert(notCreator(toolId, outsider));
        configure(toolId);
        vm.stopPrank();
    }

    /// @dev From closed to open, through the registry and for one account alone.
    // req: REG-025, PRED-030
    function test_throughTheRegistry() public {
        assertDenied(toolId, "");
        vm.startPrank(creator);
        configure(toolId);
        vm.stopPrank();
        assertDenied(toolId, "");
        bytes memory data = qualify(account);
        assertGranted(toolId, data);
        (bool ok, bool granted) = registry.tryHasAccess(toolId, outsider, data);
        assertTrue(ok);
        assertFalse(granted);
        assertFalse(registry.hasAccess(toolId, outsider, data));
    }

    /// @dev One predicate serves any number of tools, each by its own configuration.
    function test_throughTheRegistry_samePredicateForTwoTools() public {
        bytes memory data = qualify(account);
        vm.startPrank(creator);
        configure(toolId);
        vm.stopPrank();
        assertGranted(toolId, data);
        assertDenied(otherTool, data);
        vm.startPrank(creator);
        configure(otherTool);
        vm.stopPrank();
        assertGranted(otherTool, data);
    }

    /// @dev An account that qualifies for a removed tool gets the error that it is removed.
    // req: REG-020, REG-027
    function test_throughTheRegistry_removedTool() public {
        bytes memory data = qualify(account);
        vm.startPrank(creator);
        configure(toolId);
        registry.deregisterTool(toolId);
        vm.stopPrank();
        vm.expectRevert(abi.encodeWithSelector(IToolRegistry.ToolIsDeregistered.selector, toolId));
        registry.hasAccess(toolId, account, data);
        vm.expectRevert(abi.encodeWithSelector(IToolRegistry.ToolIsDeregistered.selector, toolId));
        registry.tryHasAccess(toolId, account, data);
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

    function notCreator(uint256 tool, address caller) internal pure virtual returns (bytes memory) {
        return abi.encodeWithSelector(RegistryPredicate.CallerIsNotToolCreator.selector, tool, caller);
    }

    /// @dev Configures a tool with one call, as the pranked account.
    function configure(uint256 tool) internal virtual;

    /// @dev Gives an account what `configure` asks for.
    /// @return data What shows it.
    function qualify(address who) internal virtual returns (bytes memory data);

    function expectedName() internal pure virtual returns (string memory);

    function expectedLogic() internal pure virtual returns (RequirementLogic);

    function deploy(IToolRegistry tools) internal virtual returns (address);
}
