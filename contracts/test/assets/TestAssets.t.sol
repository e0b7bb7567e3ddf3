// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {IERC1271} from "@openzeppelin/contracts/interfaces/IERC1271.sol";
import {IERC1967} from "@openzeppelin/contracts/interfaces/IERC1967.sol";
import {Test} from "forge-std/Test.sol";
import {TestERC1155} from "src/test-assets/TestERC1155.sol";
import {TestERC20} from "src/test-assets/TestERC20.sol";
import {TestERC721} from "src/test-assets/TestERC721.sol";
import {TestProxy} from "src/test-assets/TestProxy.sol";
import {TestSmartWallet} from "src/test-assets/TestSmartWallet.sol";
import {IERC5643, TestSubscriptionNFT} from "src/test-assets/TestSubscriptionNFT.sol";
import {IERC7496, TestTraitsNFT} from "src/test-assets/TestTraitsNFT.sol";

contract TestAssetsTest is Test {
    address private account = makeAddr("account");
    address private other = makeAddr("other");
    bytes32 private constant KEY = keccak256("tier");

    function test_tokens_mintAndBurn() public {
        TestERC721 erc721 = new TestERC721("Name", "SYM");
        erc721.mint(account, 1);
        assertEq(erc721.balanceOf(account), 1);
        erc721.burn(1);
        assertEq(erc721.balanceOf(account), 0);

        TestERC1155 erc1155 = new TestERC1155("https://a.example/{id}");
        erc1155.mint(account, 1, 5);
        erc1155.burn(account, 1, 2);
        assertEq(erc1155.balanceOf(account, 1), 3);

        TestERC20 erc20 = new TestERC20("Name", "SYM", 9);
        erc20.mint(account, 5);
        erc20.burn(account, 2);
        assertEq(erc20.balanceOf(account), 3);
        assertEq(erc20.decimals(), 9);
    }

    function test_subscription() public {
        vm.warp(1_000);
        TestSubscriptionNFT nft = new TestSubscriptionNFT("Name", "SYM");
        assertEq(type(IERC5643).interfaceId, bytes4(0x8c65f84d));
        assertTrue(nft.supportsInterface(0x8c65f84d));
        assertEq(nft.tokenOfOwner(account), 0);
        assertFalse(nft.isRenewable(1));

        vm.expectEmit(address(nft));
        emit IERC5643.SubscriptionUpdate(1, 1_500);
        assertEq(nft.subscribe(account, 3, 1_500), 1);
        assertEq(nft.tokenOfOwner(account), 1);
        assertEq(nft.tierOf(1), 3);
        assertEq(nft.expiresAt(1), 1_500);
        assertTrue(nft.isRenewable(1));
        vm.expectRevert(abi.encodeWithSelector(TestSubscriptionNFT.AlreadySubscribed.selector, account));
        nft.subscribe(account, 1, 1);

        // From its end on while it runs, from now on once it has ended.
        nft.renewSubscription(1, 100);
        assertEq(nft.expiresAt(1), 1_600);
        vm.warp(2_000);
        nft.renewSubscription(1, 100);
        assertEq(nft.expiresAt(1), 2_100);
        nft.cancelSubscription(1);
        assertEq(nft.expiresAt(1), 0);

        vm.prank(account);
        vm.expectRevert(TestSubscriptionNFT.NotTransferable.selector);
        nft.transferFrom(account, other, 1);
        nft.burn(1);
        assertEq(nft.tokenOfOwner(account), 0);
        assertEq(nft.subscribe(account, 1, 1), 2);
    }

    function test_traits() public {
        TestTraitsNFT nft = new TestTraitsNFT("Name", "SYM");
        vm.expectRevert(abi.encodeWithSelector(IERC7496.TokenDoesNotExist.selector, 1));
        nft.getTraitValue(1, KEY);
        nft.mint(account, 1);
        vm.expectRevert(abi.encodeWithSelector(IERC7496.TraitKeyUnknown.selector, KEY));
        nft.getTraitValue(1, KEY);
        nft.defineTrait(KEY);
        assertEq(nft.getTraitValue(1, KEY), 0);
        vm.expectEmit(address(nft));
        emit IERC7496.TraitUpdated(KEY, 1, "gold");
        nft.setTrait(1, KEY, "gold");
        bytes32[] memory keys = new bytes32[](1);
        keys[0] = KEY;
        assertEq(nft.getTraitValues(1, keys)[0], "gold");
        assertGt(bytes(nft.getTraitMetadataURI()).length, 0);
    }

    function test_proxy() public {
        TestERC721 implementation = new TestERC721("Name", "SYM");
        TestERC721 proxied = TestERC721(address(new TestProxy(address(implementation))));
        proxied.mint(account, 1);
        assertEq(proxied.balanceOf(account), 1);
        assertEq(implementation.balanceOf(account), 0);
        // The slot of ERC-1967, by which tools recognise a proxy.
        bytes32 slot = bytes32(uint256(keccak256("eip1967.proxy.implementation")) - 1);
        assertEq(slot, 0x360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc);
        assertEq(vm.load(address(proxied), slot), bytes32(uint256(uint160(address(implementation)))));
        address next = address(new TestERC721("Name", "SYM"));
        vm.expectEmit(address(proxied));
        emit IERC1967.Upgraded(next);
        TestProxy(payable(address(proxied))).testProxyUpgradeTo(next);
        assertEq(vm.load(address(proxied), slot), bytes32(uint256(uint160(next))));
        assertEq(proxied.balanceOf(account), 1);
    }

    function test_smartWallet() public {
        (address owner, uint256 key) = makeAddrAndKey("owner");
        TestSmartWallet wallet = new TestSmartWallet(owner);
        bytes32 hash = keccak256("message");
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(key, hash);
        assertEq(wallet.isValidSignature(hash, abi.encodePacked(r, s, v)), IERC1271.isValidSignature.selector);
        assertEq(wallet.isValidSignature(hash, abi.encodePacked(r, s, v)), bytes4(0x1626ba7e));
        assertEq(wallet.isValidSignature(keccak256("other"), abi.encodePacked(r, s, v)), bytes4(0xffffffff));
        assertEq(wallet.isValidSignature(hash, ""), bytes4(0xffffffff));

        TestERC20 token = new TestERC20("Name", "SYM", 18);
        token.mint(address(wallet), 5);
        bytes memory transfer = abi.encodeCall(token.transfer, (other, 5));
        vm.expectRevert(abi.encodeWithSelector(TestSmartWallet.NotOwner.selector, address(this)));
        wallet.execute(address(token), 0, transfer);
        vm.startPrank(owner);
        wallet.execute(address(token), 0, transfer);
        assertEq(token.balanceOf(other), 5);
        // It holds no more, and says so in the words of the token.
        vm.expectRevert();
        wallet.execute(address(token), 0, transfer);
    }
}
