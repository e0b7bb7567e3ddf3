// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {Script, console} from "forge-std/Script.sol";

/// @title Deploy
/// @notice Puts every contract of deployments.json at its address, through the deterministic deployer. What is there already
///         is left alone, so it can be run again after a failure, and by anyone.
/// @dev forge script script/Deploy.s.sol --rpc-url URL --broadcast, with a wallet option. It deploys the committed bytes, not
///      what a compiler makes of the sources that day.
contract Deploy is Script {
    /// @notice The chain lacks the deterministic deployer; deployments.json has the transaction that makes it.
    error NoFactory(address factory);

    /// @notice The committed code and the committed address do not belong together; run contracts/build.
    error StaleArtifact(string name);

    /// @notice The deployer did not put the contract where it should be.
    error NotDeployed(string name, address where);

    /// @return made How many contracts were not there before.
    function run() public returns (uint256 made) {
        string memory plan = vm.readFile("deployments.json");
        address factory = vm.parseJsonAddress(plan, ".factory.address");
        bytes32 salt = vm.parseJsonBytes32(plan, ".salt");
        if (factory.code.length == 0) revert NoFactory(factory);

        string[] memory names = vm.parseJsonKeys(plan, ".contracts");
        for (uint256 i; i < names.length; ++i) {
            string memory key = string.concat(".contracts.", names[i]);
            address where = vm.parseJsonAddress(plan, string.concat(key, ".address"));
            if (where.code.length > 0) {
                console.log("is there  ", where, names[i]);
                continue;
            }
            string memory artifact = vm.readFile(string.concat("artifacts/", names[i], ".json"));
            bytes memory initCode = bytes.concat(
                vm.parseJsonBytes(artifact, ".bytecode"),
                vm.parseJsonBytes(plan, string.concat(key, ".constructorArguments"))
            );
            if (vm.computeCreate2Address(salt, keccak256(initCode), factory) != where) revert StaleArtifact(names[i]);

            vm.broadcast();
            (bool ok,) = factory.call(bytes.concat(salt, initCode));
            if (!ok || where.code.length == 0) revert NotDeployed(names[i], where);
            console.log("deployed  ", where, names[i]);
            ++made;
        }
    }
}
