// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {IERC1271} from "@openzeppelin/contracts/interfaces/IERC1271.sol";
import {Test} from "forge-std/Test.sol";
import {SimulatedCalls} from "src/lib/SimulatedCalls.sol";
import {TestSmartWallet} from "src/test-assets/TestSmartWallet.sol";
import {TestWalletFactory} from "src/test-assets/TestWalletFactory.sol";

contract SimulatedCallsTest is Test {
    TestWalletFactory private factory = new TestWalletFactory();
    bytes32 private constant SALT = bytes32(uint256(7));

    function test_factory_deploysWhereItSays() public {
        (address owner, uint256 key) = makeAddrAndKey("owner");
        address account = factory.accountOf(owner, SALT);
        assertEq(account.code.length, 0);
        assertEq(factory.createAccount(owner, SALT), account);
        assertEq(TestSmartWallet(payable(account)).OWNER(), owner);
        assertEq(factory.createAccount(owner, SALT), account, "again");
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(key, SALT);
        bytes4 said = IERC1271(account).isValidSignature(SALT, abi.encodePacked(r, s, v));
        assertEq(said, IERC1271.isValidSignature.selector);
    }

    function test_bothSucceed() public {
        address account = factory.accountOf(address(this), SALT);
        bytes memory result = simulate(
            address(factory),
            abi.encodeCall(factory.createAccount, (address(this), SALT)),
            account,
            abi.encodeWithSignature("OWNER()")
        );
        assertEq(result, abi.encode(2, address(this)));
    }

    function test_firstFails() public {
        bytes memory result = simulate(address(factory), hex"deadbeef", address(this), hex"");
        assertEq(result, abi.encode(0));
    }

    function test_secondFails() public {
        bytes memory failing = abi.encodeCall(this.fail, (hex"c0ffee"));
        assertEq(simulate(address(1), hex"", address(this), failing), bytes.concat(abi.encode(1), hex"c0ffee"));
        bytes memory large = abi.encodeCall(this.fail, (new bytes(100_000)));
        assertEq(simulate(address(1), hex"", address(this), large).length, 32 + 1_024, "cut");
    }

    function fail(bytes calldata reason) external pure {
        bytes memory copy = reason;
        assembly ("memory-safe") {
            revert(add(copy, 0x20), mload(copy))
        }
    }

    /// What a node returns for a call without a recipient is what the constructor returns.
    function simulate(address first, bytes memory firstData, address second, bytes memory secondData)
        private
        returns (bytes memory)
    {
        bytes memory code =
            bytes.concat(type(SimulatedCalls).creationCode, abi.encode(first, firstData, second, secondData));
        address at;
        assembly ("memory-safe") {
            at := create(0, add(code, 0x20), mload(code))
        }
        return at.code;
    }
}
