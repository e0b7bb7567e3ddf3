// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {IERC1271} from "@openzeppelin/contracts/interfaces/IERC1271.sol";
import {AccessRequirement, RequirementLogic} from "src/interfaces/IAccessPredicate.sol";
import {IAccessProof, IDenyAll, IMerkleAllowlist, IProofBased} from "src/interfaces/IRequirementTypes.sol";
import {IToolRegistry} from "src/interfaces/IToolRegistry.sol";
import {AccessProofPredicate} from "src/predicates/AccessProofPredicate.sol";
import {CompositePredicate, ICompositePredicate} from "src/predicates/CompositePredicate.sol";
import {DenyAllPredicate} from "src/predicates/DenyAllPredicate.sol";
import {MerkleAllowlistPredicate} from "src/predicates/MerkleAllowlistPredicate.sol";
import {RegistryPredicate} from "src/predicates/RegistryPredicate.sol";
import {CompositeFixture} from "test/CompositePredicate.t.sol";
import {RegistryFixture} from "test/RegistryFixture.sol";
import {BurningPredicate, LongPredicate, RevertingPredicate} from "test/mocks/Predicates.sol";

/// @dev A wallet that accepts one signature, and does strange things when told to.
contract Wallet is IERC1271 {
    bytes32 private immutable _digest;
    bytes32 private immutable _signature;

    constructor(bytes32 digest, bytes memory signature) {
        (_digest, _signature) = (digest, keccak256(signature));
    }

    function isValidSignature(bytes32 digest, bytes calldata signature) external view returns (bytes4) {
        return digest == _digest && keccak256(signature) == _signature ? bytes4(0x1626ba7e) : bytes4(0xffffffff);
    }
}

contract AccessProofPredicateTest is RegistryFixture {
    uint256 private constant N = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141;

    AccessProofPredicate private predicate;
    uint256 private toolId;
    uint256 private key;
    uint64 private deadline;

    function setUp() public override {
        super.setUp();
        predicate = new AccessProofPredicate(registry);
        toolId = register(address(predicate));
        (account, key) = makeAddrAndKey("principal");
        vm.warp(1_800_000_000);
        deadline = uint64(block.timestamp + 300);
    }

    function sign(uint256 signer, bytes32 digest) private pure returns (bytes memory) {
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(signer, digest);
        return abi.encodePacked(r, s, v);
    }

    function proof() private view returns (bytes memory) {
        return abi.encode(deadline, sign(key, predicate.proofDigest(toolId, account, deadline)));
    }

    // Written out by hand, word by word, as a signer elsewhere would.
    // req: PRED-021
    function test_digest_isPlainEip712() public view {
        bytes32 domain = keccak256(
            abi.encode(
                keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"),
                keccak256("ERC8257-AccessProof"),
                keccak256("1"),
                block.chainid,
                address(predicate)
            )
        );
        bytes32 message = keccak256(
            abi.encode(
                keccak256("AccessProof(uint256 toolId,address account,uint64 deadline)"), toolId, account, deadline
            )
        );
        assertEq(predicate.DOMAIN_SEPARATOR(), domain);
        assertEq(
            predicate.proofDigest(toolId, account, deadline), keccak256(abi.encodePacked(hex"1901", domain, message))
        );
    }

    // req: PRED-021
    function testFuzz_digest_bindsEveryField(uint256 tool, address who, uint64 until) public view {
        vm.assume(tool != toolId || who != account || until != deadline);
        assertNotEq(predicate.proofDigest(tool, who, until), predicate.proofDigest(toolId, account, deadline));
    }

    // req: PRED-021, PRED-022
    function test_grantsTheSigner() public view {
        assertGranted(toolId, proof());
    }

    // req: PRED-022
    function testFuzz_grantsEverySigner(uint256 seed, uint64 ahead) public {
        key = bound(seed, 1, N - 1);
        account = vm.addr(key);
        deadline = uint64(block.timestamp + bound(ahead, 0, 600));
        assertGranted(toolId, proof());
    }

    // req: PRED-022
    function test_deadline() public {
        bytes memory data = proof();
        vm.warp(deadline);
        assertGranted(toolId, data);
        vm.warp(deadline + 1);
        assertDenied(toolId, data);
        vm.warp(deadline - 600);
        assertGranted(toolId, data);
        vm.warp(deadline - 601);
        assertDenied(toolId, data);
        deadline = type(uint64).max;
        assertDenied(toolId, proof());
    }

    // req: PRED-019, PRED-020
    function test_replayElsewhereIsDenied() public {
        bytes memory data = proof();
        uint256 other = register(address(predicate));
        assertDenied(other, data);

        uint256 elsewhere = register(address(new AccessProofPredicate(registry)));
        assertDenied(elsewhere, data);

        vm.chainId(block.chainid + 1);
        assertDenied(toolId, data);
    }

    // req: PRED-019
    function test_otherSignerIsDenied() public {
        (, uint256 otherKey) = makeAddrAndKey("another signer");
        bytes32 digest = predicate.proofDigest(toolId, account, deadline);
        assertDenied(toolId, abi.encode(deadline, sign(otherKey, digest)));
        assertFalse(registry.hasAccess(toolId, outsider, proof()));
    }

    // A signature that recovers to the zero address must not make the zero address a principal.
    function test_zeroAddressIsDenied() public {
        account = address(0);
        bytes memory bad = abi.encodePacked(bytes32(uint256(1)), bytes32(uint256(1)), uint8(99));
        assertDenied(toolId, abi.encode(deadline, bad));
        assertDenied(toolId, abi.encode(deadline, new bytes(65)));
    }

    function test_recoveryIds() public view {
        bytes32 digest = predicate.proofDigest(toolId, account, deadline);
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(key, digest);
        assertGranted(toolId, abi.encode(deadline, abi.encodePacked(r, s, v)));
        assertGranted(toolId, abi.encode(deadline, abi.encodePacked(r, s, v - 27)));
        uint8[8] memory wrong = [v ^ 7, (v ^ 7) - 27, 2, 3, 26, 29, 35, 255];
        for (uint256 i; i < wrong.length; ++i) {
            assertDenied(toolId, abi.encode(deadline, abi.encodePacked(r, s, wrong[i])));
        }
    }

    function test_highSIsDenied() public view {
        bytes32 digest = predicate.proofDigest(toolId, account, deadline);
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(key, digest);
        assertDenied(toolId, abi.encode(deadline, abi.encodePacked(r, bytes32(N - uint256(s)), v ^ 7)));
    }

    function test_signatureLengths() public view {
        bytes32 digest = predicate.proofDigest(toolId, account, deadline);
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(key, digest);
        bytes32 vs = bytes32(uint256(s) | (uint256(v - 27) << 255));
        assertDenied(toolId, abi.encode(deadline, bytes("")));
        assertDenied(toolId, abi.encode(deadline, abi.encodePacked(r, s)));
        assertDenied(toolId, abi.encode(deadline, abi.encodePacked(r, vs)));
        assertDenied(toolId, abi.encode(deadline, abi.encodePacked(r, s, v, v)));
    }

    // req: PRED-022
    function test_noDataIsDeniedAndBrokenDataIsAMalfunction() public view {
        assertDenied(toolId, "");
        bytes memory whole = proof();
        for (uint256 length = 1; length < 128 + 33; length += 16) {
            bytes memory part = new bytes(length);
            for (uint256 i; i < length; ++i) {
                part[i] = whole[i];
            }
            assertMalfunction(toolId, part);
        }
        // A deadline beyond 64 bits, and an offset beyond the data.
        assertMalfunction(toolId, abi.encode(uint256(1) << 64, bytes("")));
        assertMalfunction(toolId, abi.encode(deadline, uint256(1) << 63));
    }

    function testFuzz_foreignBytesNeverGrant(bytes calldata data) public view {
        (, bool granted) = registry.tryHasAccess(toolId, account, data);
        assertFalse(granted);
    }

    function testFuzz_foreignSignaturesNeverGrant(bytes calldata signature) public view {
        assertDenied(toolId, abi.encode(deadline, signature));
    }

    // ── accounts with code ──

    function test_contractAccount() public {
        account = makeAddr("wallet");
        bytes memory signature = "any bytes the wallet likes";
        bytes32 digest = predicate.proofDigest(toolId, account, deadline);
        deployCodeTo("ProofPredicates.t.sol:Wallet", abi.encode(digest, signature), account);
        assertGranted(toolId, abi.encode(deadline, signature));
        assertDenied(toolId, abi.encode(deadline, bytes("others")));
        assertDenied(toolId, abi.encode(deadline - 1, signature));
        uint256 other = register(address(predicate));
        assertDenied(other, abi.encode(deadline, signature));
    }

    // EIP-7702: the key of the account still counts once it has code, whatever the code says.
    function test_keyOfAnAccountWithCode() public {
        vm.etch(account, address(new RevertingPredicate()).code);
        assertGranted(toolId, proof());
        vm.etch(account, abi.encodePacked(hex"ef0100", address(new RevertingPredicate())));
        assertGranted(toolId, proof());
    }

    function test_strangeContractAccounts() public {
        bytes memory data = abi.encode(deadline, bytes("signature"));
        account = address(new RevertingPredicate());
        assertDenied(toolId, data);
        // Long answers that say 1, not the magic value.
        account = address(new LongPredicate(32));
        assertDenied(toolId, data);
        account = address(new LongPredicate(31));
        assertDenied(toolId, data);
        account = address(new LongPredicate(50_000));
        assertDenied(toolId, data);
        // No answer at all is not a no.
        account = address(new BurningPredicate());
        assertMalfunction(toolId, data);
        account = address(new LongPredicate(10_000_000));
        assertMalfunction(toolId, data);
    }

    function test_namesAndRequirements() public view {
        assertEq(predicate.name(), "AccessProofPredicate");
        assertEq(predicate.version(), "0.1");
        assertTrue(predicate.supportsInterface(0xbdf9dc18));
        assertTrue(predicate.supportsInterface(0x01ffc9a7));
        assertTrue(predicate.supportsInterface(type(IProofBased).interfaceId));
        assertFalse(predicate.supportsInterface(0xffffffff));
        (AccessRequirement[] memory requirements, RequirementLogic logic) = predicate.getRequirements(toolId);
        assertEq(uint8(logic), uint8(RequirementLogic.AND));
        assertEq(requirements.length, 1);
        assertEq(requirements[0].kind, type(IAccessProof).interfaceId);
        assertEq(requirements[0].data, abi.encode(address(predicate)));
        assertEq(requirements[0].label, "");
        (, string memory name, string memory version,, address verifier,,) = predicate.eip712Domain();
        assertEq(name, "ERC8257-AccessProof");
        assertEq(version, "1");
        assertEq(verifier, address(predicate));
    }
}

contract MerkleAllowlistPredicateTest is RegistryFixture {
    event RootSet(uint256 indexed toolId, bytes32 root);

    MerkleAllowlistPredicate private predicate;
    uint256 private toolId;

    function setUp() public override {
        super.setUp();
        predicate = new MerkleAllowlistPredicate(registry);
        toolId = register(address(predicate));
    }

    function setRoot(bytes32 root) private {
        vm.prank(creator);
        predicate.setRoot(toolId, root);
    }

    function pair(bytes32 a, bytes32 b) private pure returns (bytes32) {
        return a < b ? keccak256(abi.encode(a, b)) : keccak256(abi.encode(b, a));
    }

    /// @dev A path of given height from the account's leaf to a root, with made-up siblings.
    function path(address who, uint256 height, uint256 seed)
        private
        view
        returns (bytes32 root, bytes32[] memory proof)
    {
        proof = new bytes32[](height);
        root = predicate.leafOf(who);
        for (uint256 i; i < height; ++i) {
            proof[i] = keccak256(abi.encode(seed, i));
            root = pair(root, proof[i]);
        }
    }

    // Made with OpenZeppelin's StandardMerkleTree (npm @openzeppelin/merkle-tree 1.0.8), leaves ["address"]: 0x11…11 to 0x55…55.
    function test_standardMerkleTree() public {
        setRoot(0xd21ca6424df344c7bdcd3d65c364ffa0cfbe7e04510d81fa57c175716da06376);
        bytes32[] memory proof = new bytes32[](2);
        proof[0] = 0xa7409058568815d08a7ad3c7d4fd44cf1dec90c620cb31e55ad24c654f7ba34f;
        proof[1] = 0x4de471fd4dc354047905142d46b40b7b787cb74950fa3bcc2b0dad59d44c00b0;
        account = 0x3333333333333333333333333333333333333333;
        assertGranted(toolId, abi.encode(proof));
        account = 0x5555555555555555555555555555555555555555;
        assertDenied(toolId, abi.encode(proof));
        proof[0] = 0xcef861ae49469220eac9703d1077fa45b0a3ae990e4a8a7d325472f93cbca30e;
        proof[1] = 0x8cdd6608c14a222369d97956b504f94500a33c673fd156f8f2da7f980260c91c;
        assertGranted(toolId, abi.encode(proof));
        account = 0x6666666666666666666666666666666666666666;
        assertDenied(toolId, abi.encode(proof));
    }

    function test_listOfOne() public {
        setRoot(predicate.leafOf(account));
        assertGranted(toolId, abi.encode(new bytes32[](0)));
        assertFalse(registry.hasAccess(toolId, outsider, abi.encode(new bytes32[](0))));
    }

    function testFuzz_pathsOfAllHeights(uint256 seed, uint256 height, address other) public {
        vm.assume(other != account);
        height = bound(height, 0, 32);
        (bytes32 root, bytes32[] memory proof) = path(account, height, seed);
        setRoot(root);
        assertGranted(toolId, abi.encode(proof));
        assertFalse(registry.hasAccess(toolId, other, abi.encode(proof)));
        if (height == 0) return;
        proof[seed % height] = ~proof[seed % height];
        assertDenied(toolId, abi.encode(proof));
    }

    function test_proofLength() public {
        (bytes32 root, bytes32[] memory proof) = path(account, 32, 1);
        setRoot(root);
        assertGranted(toolId, abi.encode(proof));
        (root, proof) = path(account, 33, 1);
        setRoot(root);
        assertMalfunction(toolId, abi.encode(proof));
        vm.expectRevert(abi.encodeWithSelector(MerkleAllowlistPredicate.ProofTooLong.selector, 33, 32));
        predicate.hasAccess(toolId, account, abi.encode(proof));
    }

    function test_noRootAndNoDataDeny() public {
        assertDenied(toolId, "");
        assertDenied(toolId, abi.encode(new bytes32[](0)));
        assertDenied(toolId, "rubbish");
        setRoot(predicate.leafOf(account));
        assertDenied(toolId, "");
        setRoot(0);
        assertDenied(toolId, abi.encode(new bytes32[](0)));
    }

    function test_brokenDataIsAMalfunction() public {
        setRoot(predicate.leafOf(account));
        assertMalfunction(toolId, "rubbish");
        assertMalfunction(toolId, abi.encode(0x20));
        assertMalfunction(toolId, abi.encode(0x20, 1));
        assertMalfunction(toolId, abi.encode(0x20, type(uint256).max));
        assertMalfunction(toolId, abi.encode(type(uint256).max, 0));
    }

    function testFuzz_foreignBytesNeverGrant(bytes calldata data) public {
        (bytes32 root,) = path(account, 8, 7);
        setRoot(root);
        (, bool granted) = registry.tryHasAccess(toolId, account, data);
        assertFalse(granted);
    }

    // An inner node is not a leaf, since leaves are hashed twice.
    function testFuzz_innerNodesAreNoLeaves(address a, address b) public {
        bytes32 inner = pair(predicate.leafOf(a), predicate.leafOf(b));
        setRoot(inner);
        vm.assume(account != a && account != b);
        assertDenied(toolId, abi.encode(new bytes32[](0)));
    }

    function test_setRoot() public {
        vm.expectEmit(address(predicate));
        emit RootSet(toolId, bytes32(uint256(7)));
        setRoot(bytes32(uint256(7)));
        assertEq(predicate.getRoot(toolId), bytes32(uint256(7)));
        assertEq(predicate.getRoot(toolId + 1), 0);
    }

    function test_setRoot_creatorOnly() public {
        vm.expectRevert(abi.encodeWithSelector(RegistryPredicate.CallerIsNotToolCreator.selector, toolId, outsider));
        vm.prank(outsider);
        predicate.setRoot(toolId, bytes32(uint256(1)));
        vm.expectRevert(abi.encodeWithSelector(IToolRegistry.ToolNotFound.selector, 9));
        predicate.setRoot(9, bytes32(uint256(1)));
    }

    function test_toolsAreApart() public {
        uint256 other = register(address(predicate));
        setRoot(predicate.leafOf(account));
        assertDenied(other, abi.encode(new bytes32[](0)));
    }

    function test_namesAndRequirements() public {
        assertEq(predicate.name(), "MerkleAllowlistPredicate");
        assertEq(predicate.version(), "0.1");
        assertEq(address(predicate.REGISTRY()), address(registry));
        assertTrue(predicate.supportsInterface(0xbdf9dc18));
        assertTrue(predicate.supportsInterface(0x01ffc9a7));
        assertTrue(predicate.supportsInterface(type(IProofBased).interfaceId));
        assertFalse(predicate.supportsInterface(0xffffffff));
        (AccessRequirement[] memory requirements,) = predicate.getRequirements(toolId);
        assertEq(requirements.length, 0);
        setRoot(bytes32(uint256(7)));
        (requirements,) = predicate.getRequirements(toolId);
        assertEq(requirements.length, 1);
        assertEq(requirements[0].kind, type(IMerkleAllowlist).interfaceId);
        assertEq(requirements[0].data, abi.encode(7));
        vm.expectRevert(RegistryPredicate.ZeroRegistry.selector);
        new MerkleAllowlistPredicate(IToolRegistry(address(0)));
    }
}

contract DenyAllPredicateTest is RegistryFixture {
    // req: REG-038
    function testFuzz_deniesEverybody(address anyone, bytes calldata data) public {
        uint256 toolId = register(address(new DenyAllPredicate()));
        (bool ok, bool granted) = registry.tryHasAccess(toolId, anyone, data);
        assertTrue(ok && !granted);
    }

    function test_namesAndRequirements() public {
        DenyAllPredicate predicate = new DenyAllPredicate();
        assertEq(predicate.name(), "DenyAllPredicate");
        assertEq(predicate.version(), "0.1");
        assertTrue(predicate.supportsInterface(0xbdf9dc18));
        assertTrue(predicate.supportsInterface(0x01ffc9a7));
        assertFalse(predicate.supportsInterface(0xffffffff));
        (AccessRequirement[] memory requirements, RequirementLogic logic) = predicate.getRequirements(1);
        assertEq(requirements.length, 1);
        assertEq(requirements[0].kind, type(IDenyAll).interfaceId);
        assertEq(uint8(logic), uint8(RequirementLogic.AND));
    }
}

/// @dev The costliest questions to these predicates fit one slice of a composite.
contract ProofsInCompositesTest is CompositeFixture {
    // req: PRED-014
    function test_longestMerkleProofInTheLastOfThreeTerms() public {
        MerkleAllowlistPredicate allowlist = new MerkleAllowlistPredicate(registry);
        bytes32[] memory proof = new bytes32[](32);
        bytes32 root = allowlist.leafOf(account);
        for (uint256 i; i < 32; ++i) {
            proof[i] = keccak256(abi.encode(i));
            root = root < proof[i] ? keccak256(abi.encode(root, proof[i])) : keccak256(abi.encode(proof[i], root));
        }
        vm.prank(creator);
        allowlist.setRoot(toolId, root);
        address burner = address(new BurningPredicate());
        address other = address(new BurningPredicate());
        set(ANY, list(term(burner), term(other), term(address(allowlist))));
        assertGranted(toolId, abi.encode(proof));
        set(ALL, list(term(yes), term(yes), term(address(allowlist))));
        assertGranted(toolId, abi.encode(proof));
    }

    // req: PRED-014, PRED-019
    function test_proofOfThePrincipalInTheLastOfThreeTerms() public {
        AccessProofPredicate proofs = new AccessProofPredicate(registry);
        uint256 key;
        (account, key) = makeAddrAndKey("principal");
        uint64 deadline = uint64(block.timestamp + 60);
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(key, proofs.proofDigest(toolId, account, deadline));
        bytes memory data = abi.encode(deadline, abi.encodePacked(r, s, v));
        address burner = address(new BurningPredicate());
        address other = address(new BurningPredicate());
        set(ANY, list(term(burner), term(other), term(address(proofs))));
        assertGranted(toolId, data);
        set(ALL, list(term(yes), term(yes), term(address(proofs))));
        assertGranted(toolId, data);
        assertFalse(registry.hasAccess(toolId, outsider, data));
    }
}
