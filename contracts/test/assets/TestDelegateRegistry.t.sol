// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {Test} from "forge-std/Test.sol";
import {TestDelegateRegistry} from "src/test-assets/TestDelegateRegistry.sol";

contract TestDelegateRegistryTest is Test {
    TestDelegateRegistry private delegates;
    address private vault = makeAddr("vault");
    address private hot = makeAddr("hot");
    address private nft = makeAddr("nft");
    address private other = makeAddr("other");
    bytes32 private constant RIGHTS = "tools";
    uint256 private constant ALL = type(uint256).max;

    function setUp() public {
        delegates = new TestDelegateRegistry();
        vm.startPrank(vault);
    }

    /// @dev What each check says about the contract `nft` and its token 7.
    function _assertChecks(bytes32 rights, bool all, bool contract_, bool erc721, uint256 erc20, uint256 erc1155)
        private
        view
    {
        assertEq(delegates.checkDelegateForAll(hot, vault, rights), all, "all");
        assertEq(delegates.checkDelegateForContract(hot, vault, nft, rights), contract_, "contract");
        assertEq(delegates.checkDelegateForERC721(hot, vault, nft, 7, rights), erc721, "erc721");
        assertEq(delegates.checkDelegateForERC20(hot, vault, nft, rights), erc20, "erc20");
        assertEq(delegates.checkDelegateForERC1155(hot, vault, nft, 7, rights), erc1155, "erc1155");
    }

    function _assertNothing(bytes32 rights) private view {
        _assertChecks(rights, false, false, false, 0, 0);
    }

    function test_nothing() public view {
        _assertNothing("");
        _assertNothing(RIGHTS);
    }

    function test_all() public {
        vm.expectEmit(address(delegates));
        emit TestDelegateRegistry.DelegateAll(vault, hot, "", true);
        delegates.delegateAll(hot, "", true);
        _assertChecks("", true, true, true, ALL, ALL);
        // No rights given means all of them.
        _assertChecks(RIGHTS, true, true, true, ALL, ALL);
        // It goes one way only, and to no other account.
        assertFalse(delegates.checkDelegateForAll(vault, hot, ""));
        assertFalse(delegates.checkDelegateForAll(other, vault, ""));
        delegates.delegateAll(hot, "", false);
        _assertNothing("");
    }

    function test_all_withRights() public {
        delegates.delegateAll(hot, RIGHTS, true);
        _assertChecks(RIGHTS, true, true, true, ALL, ALL);
        _assertNothing("");
        _assertNothing("other");
    }

    function test_contract() public {
        vm.expectEmit(address(delegates));
        emit TestDelegateRegistry.DelegateContract(vault, hot, nft, RIGHTS, true);
        delegates.delegateContract(hot, nft, RIGHTS, true);
        _assertChecks(RIGHTS, false, true, true, ALL, ALL);
        _assertNothing("");
        assertFalse(delegates.checkDelegateForContract(hot, vault, other, RIGHTS));
        delegates.delegateContract(hot, nft, RIGHTS, false);
        _assertNothing(RIGHTS);
    }

    function test_erc721() public {
        vm.expectEmit(address(delegates));
        emit TestDelegateRegistry.DelegateERC721(vault, hot, nft, 7, "", true);
        delegates.delegateERC721(hot, nft, 7, "", true);
        _assertChecks(RIGHTS, false, false, true, 0, 0);
        assertFalse(delegates.checkDelegateForERC721(hot, vault, nft, 8, ""));
        delegates.delegateERC721(hot, nft, 7, "", false);
        _assertNothing("");
    }

    function test_erc20() public {
        vm.expectEmit(address(delegates));
        emit TestDelegateRegistry.DelegateERC20(vault, hot, nft, "", 5);
        delegates.delegateERC20(hot, nft, "", 5);
        _assertChecks(RIGHTS, false, false, false, 5, 0);
        // The larger of the two counts.
        delegates.delegateERC20(hot, nft, RIGHTS, 3);
        assertEq(delegates.checkDelegateForERC20(hot, vault, nft, RIGHTS), 5);
        delegates.delegateERC20(hot, nft, RIGHTS, 9);
        assertEq(delegates.checkDelegateForERC20(hot, vault, nft, RIGHTS), 9);
        assertEq(delegates.checkDelegateForERC20(hot, vault, nft, ""), 5);
        delegates.delegateERC20(hot, nft, "", 0);
        assertEq(delegates.checkDelegateForERC20(hot, vault, nft, ""), 0);
    }

    function test_erc1155() public {
        vm.expectEmit(address(delegates));
        emit TestDelegateRegistry.DelegateERC1155(vault, hot, nft, 7, "", 5);
        delegates.delegateERC1155(hot, nft, 7, "", 5);
        _assertChecks(RIGHTS, false, false, false, 0, 5);
        assertEq(delegates.checkDelegateForERC1155(hot, vault, nft, 8, ""), 0);
        delegates.delegateERC1155(hot, nft, 7, "", 0);
        _assertNothing("");
    }

    function test_lists() public {
        bytes32 first = delegates.delegateAll(hot, "", true);
        bytes32 second = delegates.delegateERC721(hot, nft, 7, RIGHTS, true);
        delegates.delegateContract(other, nft, "", true);
        // Twice the same is once.
        delegates.delegateAll(hot, "", true);
        assertEq(delegates.getOutgoingDelegationHashes(vault).length, 3);
        bytes32[] memory hashes = delegates.getIncomingDelegationHashes(hot);
        assertEq(hashes.length, 2);
        assertEq(hashes[0], first);
        assertEq(hashes[1], second);
        TestDelegateRegistry.Delegation[] memory incoming = delegates.getIncomingDelegations(hot);
        assertEq(uint8(incoming[1].type_), 3);
        assertEq(incoming[1].to, hot);
        assertEq(incoming[1].from, vault);
        assertEq(incoming[1].rights, RIGHTS);
        assertEq(incoming[1].contract_, nft);
        assertEq(incoming[1].tokenId, 7);

        delegates.delegateAll(hot, "", false);
        hashes = delegates.getIncomingDelegationHashes(hot);
        assertEq(hashes.length, 1);
        assertEq(hashes[0], second);
        assertEq(delegates.getOutgoingDelegations(vault).length, 2);
        delegates.delegateAll(hot, "", true);
        assertEq(delegates.getIncomingDelegations(hot).length, 2);
    }

    /// @dev The type is the last byte of a hash, the packed fields are the rest.
    function test_hashes() public {
        bytes32 hash = delegates.delegateERC1155(hot, nft, 7, RIGHTS, 1);
        bytes32 fields = keccak256(abi.encodePacked(RIGHTS, vault, hot, nft, uint256(7)));
        assertEq(hash, bytes32((uint256(fields) << 8) | 5));
        hash = delegates.delegateAll(hot, RIGHTS, true);
        assertEq(hash, bytes32((uint256(keccak256(abi.encodePacked(RIGHTS, vault, hot))) << 8) | 1));
    }

    function test_multicall() public {
        bytes[] memory calls = new bytes[](2);
        calls[0] = abi.encodeCall(delegates.delegateAll, (hot, RIGHTS, true));
        calls[1] = abi.encodeCall(delegates.delegateERC20, (hot, nft, "", 5));
        delegates.multicall(calls);
        assertTrue(delegates.checkDelegateForAll(hot, vault, RIGHTS));
        assertEq(delegates.checkDelegateForERC20(hot, vault, nft, ""), 5);
        calls[0] = hex"ffffffff";
        vm.expectRevert(TestDelegateRegistry.MulticallFailed.selector);
        delegates.multicall(calls);
    }

    function test_supportsInterface() public view {
        assertTrue(delegates.supportsInterface(0x01ffc9a7));
        assertTrue(delegates.supportsInterface(0x5f68bc5a));
        assertFalse(delegates.supportsInterface(0xffffffff));
    }

    /// @dev Selectors of the deployed registry.
    function test_selectors_pinned() public pure {
        assertEq(TestDelegateRegistry.checkDelegateForAll.selector, bytes4(0xe839bd53));
        assertEq(TestDelegateRegistry.checkDelegateForContract.selector, bytes4(0x8988eea9));
        assertEq(TestDelegateRegistry.checkDelegateForERC721.selector, bytes4(0xb9f36874));
    }
}
