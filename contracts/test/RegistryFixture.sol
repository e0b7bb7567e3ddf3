// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {Test} from "forge-std/Test.sol";
import {ToolRegistry} from "src/ToolRegistry.sol";

/// @dev A registry, some people, and short ways to register.
abstract contract RegistryFixture is Test {
    string internal constant URI = "https://tools.example.com/.well-known/ai-tool/sample.json";
    bytes32 internal constant HASH = keccak256("sample");

    ToolRegistry internal registry;
    address internal creator = makeAddr("creator");
    address internal outsider = makeAddr("outsider");
    address internal account = makeAddr("account");

    function setUp() public virtual {
        registry = new ToolRegistry();
    }

    function register(address predicate) internal returns (uint256 toolId) {
        vm.prank(creator);
        return registry.registerTool(URI, HASH, predicate);
    }

    /// @dev What `tryHasAccess` and `hasAccess` say must agree, and a grant needs a proper answer.
    function assertAccess(uint256 toolId, bytes memory data, bool ok, bool granted) internal view {
        (bool isOk, bool isGranted) = registry.tryHasAccess(toolId, account, data);
        assertEq(isOk, ok, "ok");
        assertEq(isGranted, granted, "granted");
        assertEq(registry.hasAccess(toolId, account, data), granted, "hasAccess");
    }

    function assertGranted(uint256 toolId, bytes memory data) internal view {
        assertAccess(toolId, data, true, true);
    }

    function assertDenied(uint256 toolId, bytes memory data) internal view {
        assertAccess(toolId, data, true, false);
    }

    function assertMalfunction(uint256 toolId, bytes memory data) internal view {
        assertAccess(toolId, data, false, false);
    }

    function repeat(bytes1 unit, uint256 length) internal pure returns (string memory) {
        bytes memory text = new bytes(length);
        for (uint256 i; i < length; ++i) {
            text[i] = unit;
        }
        return string(text);
    }
}
