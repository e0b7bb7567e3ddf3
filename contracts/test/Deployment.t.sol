// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {Test} from "forge-std/Test.sol";
import {Deploy} from "script/Deploy.s.sol";
import {ToolRegistry} from "src/ToolRegistry.sol";
import {IAccessPredicate} from "src/interfaces/IAccessPredicate.sol";
import {RegistryPredicate} from "src/predicates/RegistryPredicate.sol";

/// @dev The committed artifacts and addresses, as a chain takes them.
contract DeploymentTest is Test {
    string private plan = vm.readFile("deployments.json");
    address private factory = vm.parseJsonAddress(plan, ".factory.address");
    string[] private names = vm.parseJsonKeys(plan, ".contracts");

    function field(string memory name, string memory what) private pure returns (string memory) {
        return string.concat(".contracts.", name, what);
    }

    function addressOf(string memory name) private view returns (address) {
        return vm.parseJsonAddress(plan, field(name, ".address"));
    }

    // The factory of this chain is the one that the recorded transaction makes.
    function test_factory() public {
        address signer = vm.parseJsonAddress(plan, ".factory.deployment.signer");
        assertEq(vm.computeCreateAddress(signer, 0), factory);
        assertEq(vm.parseJsonUint(plan, ".factory.deployment.cost"), 100_000 * 100 gwei);
        bytes memory transaction = vm.parseJsonBytes(plan, ".factory.deployment.transaction");
        vm.etch(factory, "");
        vm.resetNonce(factory);
        vm.resetNonce(signer);
        vm.deal(signer, 0.01 ether);
        vm.broadcastRawTransaction(transaction);
        assertEq(factory.code.length, 69);
    }

    // What the other tests examine is what is committed and deployed.
    function test_artifactsAreWhatTheTestsCompile() public view {
        for (uint256 i; i < names.length; ++i) {
            string memory artifact = vm.readFile(string.concat("artifacts/", names[i], ".json"));
            bytes memory compiled = vm.getCode(string.concat(names[i], ".sol:", names[i]));
            assertEq(keccak256(vm.parseJsonBytes(artifact, ".bytecode")), keccak256(compiled), names[i]);
        }
    }

    function test_deploysEverythingOnce() public {
        Deploy script = new Deploy();
        assertEq(script.run(), names.length);
        assertEq(script.run(), 0);

        ToolRegistry registry = ToolRegistry(addressOf("ToolRegistry"));
        assertEq(registry.name(), "ToolRegistry");
        for (uint256 i; i < names.length; ++i) {
            address where = addressOf(names[i]);
            assertEq(IAccessPredicate(where).name(), names[i]);
            if (vm.keyExistsJson(plan, field(names[i], ".codeHash"))) {
                string memory text = vm.parseJsonString(plan, field(names[i], ".codeHash"));
                if (bytes(text).length == 66) assertEq(vm.toString(where.codehash), text, names[i]);
            }
            if (vm.parseJsonBytes(plan, field(names[i], ".constructorArguments")).length == 32) {
                (bool ok, bytes memory answer) = where.staticcall(abi.encodeCall(RegistryPredicate(where).REGISTRY, ()));
                // The subscription predicate spells it in lower case, as the reference does.
                if (!ok) (, answer) = where.staticcall(abi.encodeWithSignature("registry()"));
                assertEq(abi.decode(answer, (address)), address(registry), names[i]);
            }
            if (where != address(registry)) registry.registerTool("https://example.com/", keccak256("x"), where);
        }
    }

    // Others may have deployed some of them before.
    function test_continuesWhereAnotherStopped() public {
        Deploy script = new Deploy();
        vm.etch(addressOf("CompositePredicate"), hex"00");
        assertEq(script.run(), names.length - 1);
    }

    function test_saysThatTheFactoryIsMissing() public {
        Deploy script = new Deploy();
        vm.etch(factory, "");
        vm.expectRevert(abi.encodeWithSelector(Deploy.NoFactory.selector, factory));
        script.run();
    }
}
