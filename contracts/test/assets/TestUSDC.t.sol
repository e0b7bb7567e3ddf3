// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {Test} from "forge-std/Test.sol";
import {TestProxy} from "src/test-assets/TestProxy.sol";
import {TestSmartWallet} from "src/test-assets/TestSmartWallet.sol";
import {TestUSDC} from "src/test-assets/TestUSDC.sol";
import {GasBurnerToken, RevertingToken} from "test/mocks/BrokenTokens.sol";

/// @dev The typed data is put together here from the text of EIP-712 and EIP-3009, not from the token's own code.
contract TestUSDCTest is Test {
    struct Authorization {
        address from;
        address to;
        uint256 value;
        uint256 validAfter;
        uint256 validBefore;
        bytes32 nonce;
    }

    uint256 private constant ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141;
    uint256 private constant NOW = 1_800_000_000;
    string private constant TRANSFER =
        "TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)";
    string private constant RECEIVE =
        "ReceiveWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)";
    string private constant CANCEL = "CancelAuthorization(address authorizer,bytes32 nonce)";

    TestUSDC private token;
    address private payer;
    uint256 private key;
    address private payee = makeAddr("payee");
    address private anyone = makeAddr("anyone");

    function setUp() public {
        vm.warp(NOW);
        (payer, key) = makeAddrAndKey("payer");
        token = new TestUSDC("USD Coin", "2");
        token.mint(payer, 1_000e6);
    }

    function test_metadata() public view {
        assertEq(token.name(), "USD Coin");
        assertEq(token.symbol(), "USDC");
        assertEq(token.version(), "2");
        assertEq(token.decimals(), 6);
    }

    /// @dev The values published in EIP-3009, and what they are hashes of.
    function test_typehashes_pinned() public view {
        assertEq(
            token.TRANSFER_WITH_AUTHORIZATION_TYPEHASH(),
            0x7c7c6cdb67a18743f49ec6fa9b35f50d52ed05cbed4cc592e13b44501c1a2267
        );
        assertEq(
            token.RECEIVE_WITH_AUTHORIZATION_TYPEHASH(),
            0xd099cc98ef71107a616c4f0f941f04c322d8e254fe26b3c6668db87aae413de8
        );
        assertEq(
            token.CANCEL_AUTHORIZATION_TYPEHASH(), 0x158b0a9edf7a828aad02f63cd515c68ef2f50ba807396f6d12842833a1597429
        );
        assertEq(token.TRANSFER_WITH_AUTHORIZATION_TYPEHASH(), keccak256(bytes(TRANSFER)));
        assertEq(token.RECEIVE_WITH_AUTHORIZATION_TYPEHASH(), keccak256(bytes(RECEIVE)));
        assertEq(token.CANCEL_AUTHORIZATION_TYPEHASH(), keccak256(bytes(CANCEL)));
    }

    /// @dev Selectors and topics that clients of USDC use.
    function test_selectors_pinned() public pure {
        assertEq(
            bytes4(
                keccak256(
                    "transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32)"
                )
            ),
            bytes4(0xe3ee160e)
        );
        assertEq(
            bytes4(keccak256("transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes)")),
            bytes4(0xcf092995)
        );
        assertEq(TestUSDC.AuthorizationUsed.selector, keccak256("AuthorizationUsed(address,bytes32)"));
        assertEq(TestUSDC.AuthorizationCanceled.selector, keccak256("AuthorizationCanceled(address,bytes32)"));
    }

    function test_domainSeparator() public {
        assertEq(token.DOMAIN_SEPARATOR(), _separator("USD Coin", "2", address(token)));
        TestUSDC other = new TestUSDC("USDC", "2");
        assertEq(other.DOMAIN_SEPARATOR(), _separator("USDC", "2", address(other)));
        vm.chainId(8453);
        assertEq(token.DOMAIN_SEPARATOR(), _separator("USD Coin", "2", address(token)));
    }

    function test_transfer_vrs() public {
        Authorization memory a = _authorization();
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(key, _digest(TRANSFER, a));
        assertFalse(token.authorizationState(payer, a.nonce));
        vm.expectEmit(address(token));
        emit TestUSDC.AuthorizationUsed(payer, a.nonce);
        vm.expectEmit(address(token));
        emit IERC20.Transfer(payer, payee, a.value);
        // Anybody may send it in.
        vm.prank(anyone);
        token.transferWithAuthorization(a.from, a.to, a.value, a.validAfter, a.validBefore, a.nonce, v, r, s);
        assertEq(token.balanceOf(payee), a.value);
        assertTrue(token.authorizationState(payer, a.nonce));
    }

    function test_transfer_bytes() public {
        Authorization memory a = _authorization();
        _transfer(a, _sign(TRANSFER, a));
        assertEq(token.balanceOf(payee), a.value);
    }

    function test_transfer_zeroValue() public {
        Authorization memory a = _authorization();
        a.value = 0;
        _transfer(a, _sign(TRANSFER, a));
        assertTrue(token.authorizationState(payer, a.nonce));
    }

    function test_transfer_twice_reverts() public {
        Authorization memory a = _authorization();
        bytes memory signature = _sign(TRANSFER, a);
        _transfer(a, signature);
        vm.expectRevert("FiatTokenV2: authorization is used or canceled");
        _transfer(a, signature);
        // The nonce is used up, whatever else the next authorization says.
        a.value = 1;
        signature = _sign(TRANSFER, a);
        vm.expectRevert("FiatTokenV2: authorization is used or canceled");
        _transfer(a, signature);
    }

    function test_transfer_timeBoundsAreExclusive() public {
        Authorization memory a = _authorization();
        a.validAfter = NOW;
        _expectFailure(a, "FiatTokenV2: authorization is not yet valid");
        a.validAfter = NOW - 1;
        a.validBefore = NOW;
        _expectFailure(a, "FiatTokenV2: authorization is expired");
        a.validBefore = NOW + 1;
        _transfer(a, _sign(TRANSFER, a));
    }

    function test_transfer_insufficientBalance_keepsNonce() public {
        Authorization memory a = _authorization();
        a.value = 1_000e6 + 1;
        _expectFailure(a, "ERC20: transfer amount exceeds balance");
        assertFalse(token.authorizationState(payer, a.nonce));
    }

    function test_transfer_wrongSigner() public {
        (, uint256 other) = makeAddrAndKey("other");
        Authorization memory a = _authorization();
        bytes memory signature = _signWith(other, _digest(TRANSFER, a));
        vm.expectRevert("FiatTokenV2: invalid signature");
        _transfer(a, signature);
    }

    /// @dev Each field is signed.
    function test_transfer_changedField() public {
        Authorization memory a = _authorization();
        bytes memory signature = _sign(TRANSFER, a);
        for (uint256 i; i < 6; ++i) {
            Authorization memory b = _authorization();
            if (i == 0) b.from = anyone;
            if (i == 1) b.to = anyone;
            if (i == 2) b.value += 1;
            if (i == 3) b.validAfter += 1;
            if (i == 4) b.validBefore += 1;
            if (i == 5) b.nonce = bytes32(uint256(a.nonce) + 1);
            vm.expectRevert("FiatTokenV2: invalid signature");
            _transfer(b, signature);
        }
        _transfer(a, signature);
    }

    function test_transfer_otherDomain() public {
        Authorization memory a = _authorization();
        bytes32[4] memory separators = [
            _separator("USDC", "2", address(token)),
            _separator("USD Coin", "1", address(token)),
            _separator("USD Coin", "2", address(this)),
            keccak256("something else")
        ];
        for (uint256 i; i < separators.length; ++i) {
            bytes memory signature = _signWith(key, _digest(separators[i], TRANSFER, a));
            vm.expectRevert("FiatTokenV2: invalid signature");
            _transfer(a, signature);
        }
        bytes memory here = _sign(TRANSFER, a);
        vm.chainId(8453);
        vm.expectRevert("FiatTokenV2: invalid signature");
        _transfer(a, here);
    }

    function test_transfer_highS() public {
        Authorization memory a = _authorization();
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(key, _digest(TRANSFER, a));
        bytes32 high = bytes32(ORDER - uint256(s));
        // The mirror image recovers to the same account, and is refused for its form.
        assertEq(ecrecover(_digest(TRANSFER, a), v == 27 ? 28 : 27, r, high), payer);
        vm.expectRevert("ECRecover: invalid signature 's' value");
        _transfer(a, abi.encodePacked(r, high, v == 27 ? uint8(28) : uint8(27)));
    }

    function test_transfer_wrongV() public {
        Authorization memory a = _authorization();
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(key, _digest(TRANSFER, a));
        uint8[5] memory wrong = [v - 27, 2, 29, 37, 255];
        for (uint256 i; i < wrong.length; ++i) {
            vm.expectRevert("ECRecover: invalid signature 'v' value");
            token.transferWithAuthorization(a.from, a.to, a.value, a.validAfter, a.validBefore, a.nonce, wrong[i], r, s);
        }
    }

    function test_transfer_degenerateSignatures() public {
        Authorization memory a = _authorization();
        bytes memory signature = _sign(TRANSFER, a);
        vm.expectRevert("ECRecover: invalid signature length");
        _transfer(a, "");
        vm.expectRevert("ECRecover: invalid signature length");
        _transfer(a, abi.encodePacked(signature, uint8(0)));
        bytes memory compact = new bytes(64);
        vm.expectRevert("ECRecover: invalid signature length");
        _transfer(a, compact);
        vm.expectRevert("ECRecover: invalid signature");
        _transfer(a, abi.encodePacked(bytes32(0), bytes32(uint256(1)), uint8(27)));
        vm.expectRevert("ECRecover: invalid signature");
        _transfer(a, abi.encodePacked(bytes32(uint256(1)), bytes32(0), uint8(27)));
    }

    /// @dev A failed recovery must not count as the zero address signing.
    function test_transfer_fromZero() public {
        Authorization memory a = _authorization();
        a.from = address(0);
        a.value = 0;
        vm.expectRevert("ECRecover: invalid signature");
        _transfer(a, abi.encodePacked(bytes32(0), bytes32(0), uint8(27)));
    }

    function test_receive_onlyPayee() public {
        Authorization memory a = _authorization();
        bytes memory signature = _sign(RECEIVE, a);
        vm.expectRevert("FiatTokenV2: caller must be the payee");
        token.receiveWithAuthorization(a.from, a.to, a.value, a.validAfter, a.validBefore, a.nonce, signature);
        // An authorization to receive is not one to transfer, and the other way round.
        vm.expectRevert("FiatTokenV2: invalid signature");
        _transfer(a, signature);
        bytes memory forTransfer = _sign(TRANSFER, a);
        vm.startPrank(payee);
        vm.expectRevert("FiatTokenV2: invalid signature");
        token.receiveWithAuthorization(a.from, a.to, a.value, a.validAfter, a.validBefore, a.nonce, forTransfer);

        token.receiveWithAuthorization(a.from, a.to, a.value, a.validAfter, a.validBefore, a.nonce, signature);
        assertEq(token.balanceOf(payee), a.value);
        assertTrue(token.authorizationState(payer, a.nonce));
    }

    function test_receive_vrs() public {
        Authorization memory a = _authorization();
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(key, _digest(RECEIVE, a));
        vm.prank(payee);
        token.receiveWithAuthorization(a.from, a.to, a.value, a.validAfter, a.validBefore, a.nonce, v, r, s);
        assertEq(token.balanceOf(payee), a.value);
    }

    function test_cancel_bothForms() public {
        for (uint256 i; i < 2; ++i) {
            Authorization memory a = _authorization();
            a.nonce = bytes32(i);
            (uint8 v, bytes32 r, bytes32 s) = vm.sign(key, _cancelDigest(a.nonce));
            vm.expectEmit(address(token));
            emit TestUSDC.AuthorizationCanceled(payer, a.nonce);
            if (i == 0) token.cancelAuthorization(payer, a.nonce, v, r, s);
            else token.cancelAuthorization(payer, a.nonce, abi.encodePacked(r, s, v));
            assertTrue(token.authorizationState(payer, a.nonce));
            _expectFailure(a, "FiatTokenV2: authorization is used or canceled");
            vm.expectRevert("FiatTokenV2: authorization is used or canceled");
            token.cancelAuthorization(payer, a.nonce, v, r, s);
        }
    }

    function test_cancel_wrongSignerOrUsed() public {
        (, uint256 other) = makeAddrAndKey("other");
        Authorization memory a = _authorization();
        bytes memory signature = _signWith(other, _cancelDigest(a.nonce));
        vm.expectRevert("FiatTokenV2: invalid signature");
        token.cancelAuthorization(payer, a.nonce, signature);
        _transfer(a, _sign(TRANSFER, a));
        signature = _signWith(key, _cancelDigest(a.nonce));
        vm.expectRevert("FiatTokenV2: authorization is used or canceled");
        token.cancelAuthorization(payer, a.nonce, signature);
    }

    function test_contractPayer() public {
        TestSmartWallet wallet = new TestSmartWallet(payer);
        token.mint(address(wallet), 100e6);
        Authorization memory a = _authorization();
        a.from = address(wallet);
        // The owner signs, in bytes or in v, r, s.
        _transfer(a, _sign(TRANSFER, a));
        a.nonce = keccak256("second");
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(key, _digest(TRANSFER, a));
        token.transferWithAuthorization(a.from, a.to, a.value, a.validAfter, a.validBefore, a.nonce, v, r, s);
        assertEq(token.balanceOf(payee), 2 * a.value);
        // An outsider does not.
        a.nonce = keccak256("third");
        (, uint256 other) = makeAddrAndKey("other");
        bytes memory signature = _signWith(other, _digest(TRANSFER, a));
        vm.expectRevert("FiatTokenV2: invalid signature");
        _transfer(a, signature);
    }

    /// @dev An account with code speaks by ERC-1271 alone, though its key may still sign (EIP-7702).
    function test_contractPayer_noFallbackToECDSA() public {
        Authorization memory a = _authorization();
        bytes memory signature = _sign(TRANSFER, a);
        bytes[5] memory codes = [
            address(new RevertingToken()).code,
            address(new GasBurnerToken()).code,
            abi.encodePacked(hex"63ffffffff60e01b60005260206000f3"),
            // The right bytes in the wrong place, and too few of them.
            abi.encodePacked(hex"631626ba7e60005260206000f3"),
            abi.encodePacked(hex"631626ba7e60e01b60005260046000f3")
        ];
        for (uint256 i; i < codes.length; ++i) {
            vm.etch(payer, codes[i]);
            vm.expectRevert("FiatTokenV2: invalid signature");
            token.transferWithAuthorization{gas: 1_000_000}(
                a.from, a.to, a.value, a.validAfter, a.validBefore, a.nonce, signature
            );
        }
        vm.etch(payer, hex"631626ba7e60e01b60005260206000f3");
        _transfer(a, "anything");
    }

    function test_behindProxy() public {
        TestUSDC proxied = TestUSDC(address(new TestProxy(address(token))));
        // The domain is that of the proxy. Name and version come from the code.
        assertEq(proxied.DOMAIN_SEPARATOR(), _separator("USD Coin", "2", address(proxied)));
    }

    function testFuzz_transfer(uint256 signer, address to, uint256 value, bytes32 nonce, uint64 after_, uint64 before)
        public
    {
        signer = bound(signer, 1, ORDER - 1);
        Authorization memory a = Authorization(vm.addr(signer), to, value, after_, before, nonce);
        vm.assume(to != address(0) && a.from.code.length == 0 && a.from != to);
        value = a.value = bound(value, 0, type(uint128).max);
        token.mint(a.from, value);
        uint256 had = token.balanceOf(to);
        bytes memory signature = _signWith(signer, _digest(TRANSFER, a));
        bool timely = after_ < NOW && NOW < before;
        if (!timely) vm.expectRevert();
        _transfer(a, signature);
        assertEq(token.balanceOf(to), timely ? had + value : had);
        assertEq(token.authorizationState(a.from, nonce), timely);
    }

    function _authorization() private view returns (Authorization memory) {
        return Authorization(payer, payee, 10_000, NOW - 10, NOW + 300, keccak256("nonce"));
    }

    function _transfer(Authorization memory a, bytes memory signature) private {
        token.transferWithAuthorization(a.from, a.to, a.value, a.validAfter, a.validBefore, a.nonce, signature);
    }

    function _expectFailure(Authorization memory a, bytes memory reason) private {
        bytes memory signature = _sign(TRANSFER, a);
        vm.expectRevert(reason);
        _transfer(a, signature);
    }

    function _sign(string memory kind, Authorization memory a) private view returns (bytes memory) {
        return _signWith(key, _digest(kind, a));
    }

    function _signWith(uint256 signer, bytes32 digest) private pure returns (bytes memory) {
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(signer, digest);
        return abi.encodePacked(r, s, v);
    }

    function _digest(string memory kind, Authorization memory a) private view returns (bytes32) {
        return _digest(_separator("USD Coin", "2", address(token)), kind, a);
    }

    function _digest(bytes32 separator, string memory kind, Authorization memory a) private pure returns (bytes32) {
        bytes32 hash =
            keccak256(abi.encode(keccak256(bytes(kind)), a.from, a.to, a.value, a.validAfter, a.validBefore, a.nonce));
        return keccak256(abi.encodePacked(hex"1901", separator, hash));
    }

    function _cancelDigest(bytes32 nonce) private view returns (bytes32) {
        bytes32 hash = keccak256(abi.encode(keccak256(bytes(CANCEL)), payer, nonce));
        return keccak256(abi.encodePacked(hex"1901", _separator("USD Coin", "2", address(token)), hash));
    }

    function _separator(string memory name, string memory version, address contract_) private view returns (bytes32) {
        return keccak256(
            abi.encode(
                keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"),
                keccak256(bytes(name)),
                keccak256(bytes(version)),
                block.chainid,
                contract_
            )
        );
    }
}
