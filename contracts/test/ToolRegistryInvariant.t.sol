// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {StdInvariant, Test} from "forge-std/Test.sol";
import {ToolRegistry} from "src/ToolRegistry.sol";
import {IToolRegistry, ToolConfig} from "src/interfaces/IToolRegistry.sol";
import {
    BurningPredicate,
    LongPredicate,
    RawPredicate,
    RecursingPredicate,
    RevertingPredicate,
    SetPredicate
} from "test/mocks/Predicates.sol";

/// @dev Calls the registry at random, and keeps a model of what it should hold. Calls that should revert are made too, and
///      must.
contract RegistryHandler is Test {
    ToolRegistry public immutable REGISTRY;
    address[] public people;
    address[] public predicates;
    mapping(uint256 => ToolConfig) private _model;
    mapping(uint256 => bool) public removed;
    uint256 public count;
    uint256 public grants;
    uint256 public malfunctions;

    constructor(ToolRegistry registry) {
        REGISTRY = registry;
        for (uint160 i = 1; i <= 4; ++i) {
            people.push(address(0x1000 + i));
        }
        predicates = [
            address(0),
            address(0xdead),
            address(new SetPredicate(true)),
            address(new SetPredicate(false)),
            address(new RevertingPredicate()),
            address(new BurningPredicate()),
            address(new LongPredicate(1_000_000)),
            address(new RawPredicate(abi.encode(2))),
            address(new RecursingPredicate(registry)),
            address(registry)
        ];
    }

    function register(uint256 who, string calldata uri, bytes32 hash, uint256 which) external {
        address caller = people[who % people.length];
        address predicate = predicates[which % predicates.length];
        vm.prank(caller);
        try REGISTRY.registerTool(uri, hash, predicate) returns (uint256 toolId) {
            assertTrue(_acceptable(uri, hash) && predicate != address(REGISTRY));
            assertEq(toolId, ++count, "ids are given in order and never twice");
            _model[toolId] = ToolConfig(caller, uri, hash, predicate);
        } catch {
            assertFalse(_acceptable(uri, hash) && predicate != address(REGISTRY));
        }
    }

    function update(uint256 who, uint256 which, string calldata uri, bytes32 hash) external {
        (address caller, uint256 toolId) = _pick(who, which);
        vm.prank(caller);
        try REGISTRY.updateToolMetadata(toolId, uri, hash) {
            assertTrue(_owns(caller, toolId) && _acceptable(uri, hash));
            _model[toolId].metadataURI = uri;
            _model[toolId].manifestHash = hash;
        } catch {
            assertFalse(_owns(caller, toolId) && _acceptable(uri, hash));
        }
    }

    function gate(uint256 who, uint256 which, uint256 choice) external {
        (address caller, uint256 toolId) = _pick(who, which);
        address predicate = predicates[choice % predicates.length];
        vm.prank(caller);
        try REGISTRY.setAccessPredicate(toolId, predicate) {
            assertTrue(_owns(caller, toolId) && predicate != address(REGISTRY));
            _model[toolId].accessPredicate = predicate;
        } catch {
            assertFalse(_owns(caller, toolId) && predicate != address(REGISTRY));
        }
    }

    function deregister(uint256 who, uint256 which) external {
        // One try in four, or hardly anything would stay.
        if (which % 4 != 0) return;
        (address caller, uint256 toolId) = _pick(who, which / 4);
        vm.prank(caller);
        try REGISTRY.deregisterTool(toolId) {
            assertTrue(_owns(caller, toolId));
            delete _model[toolId];
            removed[toolId] = true;
        } catch {
            assertFalse(_owns(caller, toolId));
        }
    }

    function ask(uint256 which, address account, bytes calldata data) external {
        (, uint256 toolId) = _pick(0, which);
        try REGISTRY.tryHasAccess(toolId, account, data) returns (bool ok, bool granted) {
            assertTrue(_exists(toolId));
            assertTrue(ok || !granted, "granted implies ok");
            address predicate = _model[toolId].accessPredicate;
            assertEq(granted, predicate == predicates[0] || predicate == predicates[2]);
            if (granted) ++grants;
            if (!ok) ++malfunctions;
        } catch {
            assertFalse(_exists(toolId));
        }
    }

    function model(uint256 toolId) external view returns (ToolConfig memory) {
        return _model[toolId];
    }

    /// @dev Ids from 0 to two beyond the last: the unknown ones matter too.
    function _pick(uint256 who, uint256 which) private view returns (address, uint256) {
        return (people[who % people.length], which % (count + 3));
    }

    function _exists(uint256 toolId) private view returns (bool) {
        return _model[toolId].creator != address(0);
    }

    function _owns(address caller, uint256 toolId) private view returns (bool) {
        return _model[toolId].creator == caller;
    }

    function _acceptable(string calldata uri, bytes32 hash) private pure returns (bool) {
        return bytes(uri).length != 0 && bytes(uri).length <= 2_048 && hash != bytes32(0);
    }
}

contract ToolRegistryInvariantTest is StdInvariant, Test {
    ToolRegistry private registry;
    RegistryHandler private handler;
    uint256 private highest;

    function setUp() public {
        registry = new ToolRegistry();
        handler = new RegistryHandler(registry);
        bytes4[] memory selectors = new bytes4[](5);
        selectors[0] = RegistryHandler.register.selector;
        selectors[1] = RegistryHandler.update.selector;
        selectors[2] = RegistryHandler.gate.selector;
        selectors[3] = RegistryHandler.deregister.selector;
        selectors[4] = RegistryHandler.ask.selector;
        targetSelector(FuzzSelector(address(handler), selectors));
        targetContract(address(handler));
    }

    // req: REG-003
    function invariant_toolCountCountsRegistrationsAndNeverFalls() public {
        assertEq(registry.toolCount(), handler.count());
        assertGe(registry.toolCount(), highest);
        highest = registry.toolCount();
    }

    // req: REG-001, REG-019, REG-020, REG-021
    function invariant_registryEqualsModelAndTombstonesStay() public view {
        for (uint256 toolId; toolId <= handler.count() + 1; ++toolId) {
            ToolConfig memory expected = handler.model(toolId);
            try registry.getToolConfig(toolId) returns (ToolConfig memory tool) {
                assertEq(keccak256(abi.encode(tool)), keccak256(abi.encode(expected)));
            } catch (bytes memory reason) {
                assertEq(expected.creator, address(0));
                bytes4 problem = handler.removed(toolId)
                    ? IToolRegistry.ToolIsDeregistered.selector
                    : IToolRegistry.ToolNotFound.selector;
                assertEq(reason, abi.encodeWithSelector(problem, toolId));
            }
        }
    }
}
