// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {AccessProofPredicate} from "src/predicates/AccessProofPredicate.sol";
import {DenyAllPredicate} from "src/predicates/DenyAllPredicate.sol";
import {MerkleAllowlistPredicate} from "src/predicates/MerkleAllowlistPredicate.sol";
import {CompositeFixture} from "test/CompositePredicate.t.sol";
import {BurningPredicate, NearlyBurningPredicate, SetPredicate} from "test/mocks/Predicates.sol";

/// @dev What things cost, written to snapshots/ by forge. Everything is untouched before each call (`isolate`). Writes are
///      whole transactions, as a wallet pays them; reads are the call alone, the registry's own 5,000 included.
contract GasTest is CompositeFixture {
    bytes private constant NOTHING = "";

    function read(string memory what, uint256 id, bytes memory data, bool granted) private {
        (bool ok, bool answer) = registry.tryHasAccess(id, account, data);
        vm.snapshotGasLastCall("Registry", string.concat("tryHasAccess, ", what));
        assertTrue(ok);
        assertEq(answer, granted);
    }

    function test_writes() public {
        vm.startPrank(creator);
        registry.registerTool(URI, HASH, address(0));
        vm.snapshotGasLastCall("Registry", "registerTool, open, URI of 57 bytes");
        registry.registerTool(URI, HASH, no);
        vm.snapshotGasLastCall("Registry", "registerTool, with predicate");
        registry.registerTool(repeat("a", 2_048), HASH, address(0));
        vm.snapshotGasLastCall("Registry", "registerTool, URI of 2,048 bytes");
        registry.updateToolMetadata(toolId, URI, keccak256("new"));
        vm.snapshotGasLastCall("Registry", "updateToolMetadata, hash only");
        registry.updateToolMetadata(toolId, "https://tools.example.com/.well-known/ai-tool/change.json", HASH);
        vm.snapshotGasLastCall("Registry", "updateToolMetadata, URI and hash");
        registry.setAccessPredicate(toolId, no);
        vm.snapshotGasLastCall("Registry", "setAccessPredicate, to another");
        registry.setAccessPredicate(toolId, no);
        vm.snapshotGasLastCall("Registry", "setAccessPredicate, to the same");
        registry.deregisterTool(toolId);
        vm.snapshotGasLastCall("Registry", "deregisterTool");
    }

    function test_reads() public {
        read("open", register(address(0)), NOTHING, true);
        read("DenyAllPredicate", register(address(new DenyAllPredicate())), NOTHING, false);

        MerkleAllowlistPredicate allowlist = new MerkleAllowlistPredicate(registry);
        bytes32[] memory proof = new bytes32[](32);
        bytes32 root = allowlist.leafOf(account);
        for (uint256 i; i < 32; ++i) {
            root = root < proof[i] ? keccak256(abi.encode(root, proof[i])) : keccak256(abi.encode(proof[i], root));
        }
        uint256 id = register(address(allowlist));
        vm.prank(creator);
        allowlist.setRoot(id, root);
        read("MerkleAllowlistPredicate, proof of 32", id, abi.encode(proof), true);

        AccessProofPredicate proofs = new AccessProofPredicate(registry);
        id = register(address(proofs));
        uint256 key;
        (account, key) = makeAddrAndKey("principal");
        uint64 deadline = uint64(block.timestamp + 60);
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(key, proofs.proofDigest(id, account, deadline));
        read("AccessProofPredicate, key", id, abi.encode(deadline, abi.encodePacked(r, s, v)), true);

        set(ALL, list(term(yes), term(address(new SetPredicate(true))), not(no)));
        read("CompositePredicate, 3 cheap terms", toolId, NOTHING, true);
        address burner = address(new BurningPredicate());
        address other = address(new BurningPredicate());
        set(ANY, list(term(burner), term(other), term(address(new NearlyBurningPredicate(500, true)))));
        read("CompositePredicate, 3 terms that use all they get", toolId, NOTHING, true);
    }
}
