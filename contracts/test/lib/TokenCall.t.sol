// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {Test} from "forge-std/Test.sol";
import {TokenCall} from "src/lib/TokenCall.sol";
import {
    FixedAnswerToken,
    GasBurnerToken,
    NotAToken,
    RevertingToken,
    SilentlyRevertingToken,
    SizedAnswerToken
} from "test/mocks/BrokenTokens.sol";

contract TokenCallTest is Test {
    uint256 private constant GAS = 100_000;
    uint256 private constant ONES = 0x0101010101010101010101010101010101010101010101010101010101010101;

    function _assertWord(address target, bool ok, uint256 word, bool refused) private view {
        (bool isOk, uint256 is_, bool isRefused) = TokenCall.tryWordOrReason(target, GAS, hex"01020304");
        assertEq(isOk, ok, "ok");
        assertEq(is_, word, "word");
        assertEq(isRefused, refused, "refused");
        (isOk, is_) = TokenCall.tryWord(target, GAS, hex"01020304");
        assertEq(isOk, ok, "ok");
        assertEq(is_, word, "word");
    }

    function test_tryWord() public {
        _assertWord(address(new SizedAnswerToken(32)), true, ONES, false);
        _assertWord(address(new SizedAnswerToken(33)), true, ONES, false);
        _assertWord(address(new SizedAnswerToken(5_000)), true, ONES, false);
        _assertWord(address(new FixedAnswerToken(abi.encode(5))), true, 5, false);
        _assertWord(address(new SizedAnswerToken(31)), false, 0, false);
        _assertWord(address(new SizedAnswerToken(0)), false, 0, false);
        _assertWord(address(new NotAToken()), false, 0, false);
        _assertWord(address(new SilentlyRevertingToken()), false, 0, false);
        _assertWord(address(new GasBurnerToken()), false, 0, false);
        _assertWord(address(new RevertingToken()), false, 0, true);
        _assertWord(makeAddr("account without code"), false, 0, false);
    }

    function test_tryWord_boundsGas() public {
        address burner = address(new GasBurnerToken());
        uint256 before = gasleft();
        TokenCall.tryWord(burner, GAS, "");
        assertLt(before - gasleft(), GAS + 5_000);
    }

    /// @dev A megabyte would cost the caller two million gas to copy.
    function test_tryWord_boundsCopying() public {
        address long = address(new SizedAnswerToken(1_000_000));
        (bool ok, uint256 word) = TokenCall.tryWord(long, 5_000_000, "");
        assertTrue(ok);
        assertEq(word, ONES);
        uint256 before = gasleft();
        (ok, word) = TokenCall.tryWord(long, 5_000_000, "");
        uint256 short = before - gasleft();
        uint256[] memory words;
        before = gasleft();
        (ok, words) = TokenCall.tryWords(long, 5_000_000, "", 4);
        assertTrue(ok);
        assertEq(words.length, 4);
        assertLt(before - gasleft(), short + 10_000);
    }

    function testFuzz_tryWords(uint256 size, uint256 count) public {
        size = bound(size, 0, 2_000);
        count = bound(count, 0, 40);
        (bool ok, uint256[] memory words) =
            TokenCall.tryWords(address(new SizedAnswerToken(size)), GAS, hex"01020304", count);
        assertEq(ok, size >= count * 32);
        assertEq(words.length, ok ? count : 0);
        // Memory behind the words is free to use.
        bytes memory next = abi.encode(1, 2, 3);
        for (uint256 i; i < words.length; ++i) {
            assertEq(words[i], ONES);
        }
        assertEq(next, abi.encode(1, 2, 3));
    }

    function test_share() public view {
        // Never less than was promised, however little there is.
        assertEq(TokenCall.share(type(uint64).max, 0), type(uint64).max);
        assertEq(TokenCall.share(9_000, type(uint64).max), 9_000);
        // All there is but for what the others are promised, and the end.
        uint256 left = gasleft();
        uint256 given = TokenCall.share(9_000, 50_000);
        uint256 kept = TokenCall.COLD_ACCOUNT_GAS + TokenCall.TAIL_GAS;
        assertLe(given, left - 50_000 - kept);
        assertGe(given, left - 50_000 - kept - 1_000);
    }
}
