// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {Test} from "forge-std/Test.sol";
import {CodeStore} from "src/lib/CodeStore.sol";

contract CodeStoreTest is Test {
    function write(bytes memory content) external returns (address) {
        return CodeStore.write(content);
    }

    function testFuzz_whatIsWrittenIsRead(bytes memory content, bytes memory next) public {
        address pointer = CodeStore.write(content);
        address other = CodeStore.write(next);
        bytes memory read = CodeStore.read(pointer);
        // Memory behind what was read is free to use.
        bytes memory readNext = CodeStore.read(other);
        assertEq(read, content);
        assertEq(readNext, next);
    }

    function test_empty() public {
        assertEq(CodeStore.read(CodeStore.write("")), "");
    }

    function test_longest() public {
        bytes memory content = new bytes(24_575);
        content[24_574] = 0x01;
        assertEq(keccak256(CodeStore.read(CodeStore.write(content))), keccak256(content));
        vm.expectRevert(CodeStore.StoreFailed.selector);
        this.write(new bytes(24_576));
        vm.expectRevert(CodeStore.StoreFailed.selector);
        this.write(new bytes(100_000));
    }

    /// @dev Content that would be a program destroying itself is not run.
    function test_contentIsNotRun() public {
        address pointer = CodeStore.write(hex"33ff");
        (bool ok, bytes memory answer) = pointer.call{gas: 100_000}("");
        assertTrue(ok);
        assertEq(answer.length, 0);
        assertEq(CodeStore.read(pointer), hex"33ff");
    }

    function test_outOfGas() public {
        vm.expectRevert();
        this.write{gas: 60_000}(new bytes(10_000));
    }
}
