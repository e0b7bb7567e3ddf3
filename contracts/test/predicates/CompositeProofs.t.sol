// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {IERC165} from "@openzeppelin/contracts/utils/introspection/IERC165.sol";
import {IAccessProof, IERC7496Trait, IMerkleAllowlist, IProofBased} from "src/interfaces/IRequirementTypes.sol";
import {AccessProofPredicate} from "src/predicates/AccessProofPredicate.sol";
import {CompositePredicate, ICompositePredicate} from "src/predicates/CompositePredicate.sol";
import {MerkleAllowlistPredicate} from "src/predicates/MerkleAllowlistPredicate.sol";
import {TraitGatedPredicate} from "src/predicates/TraitGatedPredicate.sol";
import {TestTraitsNFT} from "src/test-assets/TestTraitsNFT.sol";
import {CompositeFixture} from "test/CompositePredicate.t.sol";

/// @dev Claims `IProofBased` and answers `proofKind` with these bytes, or not at all when there are none.
contract ProofKindPredicate is IERC165 {
    bytes private _answer;

    constructor(bytes memory answer) {
        _answer = answer;
    }

    function supportsInterface(bytes4 id) external pure returns (bool) {
        return id == type(IProofBased).interfaceId;
    }

    function hasAccess(uint256, address, bytes calldata) external pure returns (bool) {
        return true;
    }

    function proofKind() external view {
        bytes memory answer = _answer;
        require(answer.length > 0);
        assembly ("memory-safe") {
            return(add(answer, 0x20), mload(answer))
        }
    }
}

/// @dev All terms of a composite get the same `data`. Proofs of different kinds are encoded differently, so requiring two of
///      them at once would never grant access, and `setComposition` refuses it.
contract CompositeProofsTest is CompositeFixture {
    bytes32 private constant TRAIT = keccak256("tier");
    bytes32 private constant VALUE = bytes32(uint256(1));

    AccessProofPredicate private proofs;
    MerkleAllowlistPredicate private allowlist;
    TraitGatedPredicate private traits;
    uint256 private key;

    function setUp() public override {
        super.setUp();
        proofs = new AccessProofPredicate(registry);
        allowlist = new MerkleAllowlistPredicate(registry);
        traits = new TraitGatedPredicate(registry);
        (account, key) = makeAddrAndKey("principal");
        vm.warp(1_800_000_000);

        TestTraitsNFT nft = new TestTraitsNFT("N", "N");
        nft.mint(account, 7);
        nft.defineTrait(TRAIT);
        nft.setTrait(7, TRAIT, VALUE);
        bytes32[] memory values = new bytes32[](1);
        values[0] = VALUE;
        vm.startPrank(creator);
        traits.configureToolTrait(toolId, address(nft), address(nft), TRAIT, values);
        // A list of one: the leaf is the root, and the proof is empty.
        allowlist.setRoot(toolId, allowlist.leafOf(account));
        vm.stopPrank();
    }

    /// @dev What satisfies each predicate alone, in the order of `_predicates`.
    function _data() private view returns (bytes[3] memory data) {
        uint64 deadline = uint64(block.timestamp + 300);
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(key, proofs.proofDigest(toolId, account, deadline));
        data[0] = abi.encode(deadline, abi.encodePacked(r, s, v));
        data[1] = abi.encode(new bytes32[](0));
        data[2] = abi.encode(uint256(7));
    }

    function _predicates() private view returns (address[3] memory) {
        return [address(proofs), address(allowlist), address(traits)];
    }

    function test_proofKinds() public view {
        assertEq(proofs.proofKind(), type(IAccessProof).interfaceId);
        assertEq(allowlist.proofKind(), type(IMerkleAllowlist).interfaceId);
        assertEq(traits.proofKind(), type(IERC7496Trait).interfaceId);
    }

    // Each is satisfied alone, and no `data` satisfies two.
    function test_twoKindsOfProofsCannotBeRequired() public {
        address[3] memory predicates = _predicates();
        bytes[3] memory data = _data();
        for (uint256 i; i < 3; ++i) {
            set(ALL, list(term(predicates[i]), term(yes)));
            assertGranted(toolId, data[i]);
            for (uint256 j; j < 3; ++j) {
                if (i == j) continue;
                vm.expectRevert(abi.encodeWithSelector(CompositePredicate.TermsNeedDifferentData.selector, 0, 1));
                set(ALL, list(term(predicates[i]), term(predicates[j])));
                vm.expectRevert(abi.encodeWithSelector(CompositePredicate.TermsNeedDifferentData.selector, 0, 2));
                set(ALL, list(term(predicates[i]), term(yes), term(predicates[j])));
                vm.expectRevert(abi.encodeWithSelector(CompositePredicate.TermsNeedDifferentData.selector, 1, 2));
                set(ALL, list(not(no), term(predicates[i]), term(predicates[j])));
            }
        }
    }

    function test_oneKindMayBeRequiredTwice() public {
        MerkleAllowlistPredicate second = new MerkleAllowlistPredicate(registry);
        vm.startPrank(creator);
        second.setRoot(toolId, second.leafOf(account));
        vm.stopPrank();
        set(ALL, list(term(address(allowlist)), term(address(second)), term(address(allowlist))));
        assertGranted(toolId, _data()[1]);
    }

    // One kind is enough under ANY. The terms that get a foreign encoding may not answer, which does not matter for a grant.
    function test_anyKindOfProofMayBeAccepted() public {
        address[3] memory predicates = _predicates();
        set(ANY, list(term(predicates[0]), term(predicates[1]), term(predicates[2])));
        bytes[3] memory data = _data();
        for (uint256 i; i < 3; ++i) {
            assertGranted(toolId, data[i]);
        }
        assertDenied(toolId, "");
        assertMalfunction(toolId, abi.encode(uint256(8)));
    }

    // A kind that cannot be read conflicts with nothing: only what can never grant is refused.
    function test_unreadableKindsAreAccepted() public {
        bytes[5] memory answers = [
            bytes(""),
            abi.encode(0),
            abi.encode(1),
            abi.encode(type(uint256).max),
            abi.encodePacked(type(IAccessProof).interfaceId)
        ];
        for (uint256 i; i < answers.length; ++i) {
            set(ALL, list(term(address(new ProofKindPredicate(answers[i]))), term(address(allowlist))));
            assertGranted(toolId, _data()[1]);
        }
        address clear = address(new ProofKindPredicate(abi.encode(bytes4(0x12345678))));
        vm.expectRevert(abi.encodeWithSelector(CompositePredicate.TermsNeedDifferentData.selector, 0, 1));
        set(ALL, list(term(clear), term(address(allowlist))));
    }

    /// @dev Foreign bytes never satisfy two kinds: the reason for refusing them, shown on the predicates themselves.
    function testFuzz_noDataSatisfiesTwoKinds(bytes calldata foreign) public {
        bytes[3] memory data = _data();
        address[3] memory predicates = _predicates();
        for (uint256 i; i < 4; ++i) {
            bytes memory shown = i < 3 ? data[i] : foreign;
            uint256 grants;
            for (uint256 j; j < 3; ++j) {
                vm.prank(address(registry));
                (bool ok, bytes memory answer) = predicates[j].staticcall(
                    abi.encodeWithSignature("hasAccess(uint256,address,bytes)", toolId, account, shown)
                );
                if (ok && answer.length == 32 && abi.decode(answer, (uint256)) == 1) ++grants;
            }
            assertLe(grants, 1);
        }
    }
}
