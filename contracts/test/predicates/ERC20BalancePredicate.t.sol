// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {AccessRequirement, RequirementLogic} from "src/interfaces/IAccessPredicate.sol";
import {IToolRegistry} from "src/interfaces/IToolRegistry.sol";
import {ERC20BalancePredicate} from "src/predicates/ERC20BalancePredicate.sol";
import {RegistryPredicate} from "src/predicates/RegistryPredicate.sol";
import {TestERC20} from "src/test-assets/TestERC20.sol";
import {
    GasBurnerToken,
    NotAToken,
    RevertingToken,
    SilentlyRevertingToken,
    SizedAnswerToken
} from "test/mocks/BrokenTokens.sol";
import {HoldingFixture} from "test/predicates/HoldingFixture.sol";

contract ERC20BalancePredicateTest is HoldingFixture {
    ERC20BalancePredicate private predicate;
    TestERC20 private token;

    function setUp() public override {
        super.setUp();
        predicate = ERC20BalancePredicate(deploy(registry));
        use(address(predicate));
        token = new TestERC20("Token", "T", 18);
    }

    function expectedName() internal pure override returns (string memory) {
        return "ERC20BalancePredicate";
    }

    function expectedLogic() internal pure override returns (RequirementLogic) {
        return RequirementLogic.AND;
    }

    function configure(uint256 tool) internal override {
        predicate.configureToolERC20(tool, address(token), 1_000);
    }

    function qualify(address who) internal override returns (bytes memory data) {
        token.mint(who, 1_000);
        return "";
    }

    function deploy(IToolRegistry tools) internal override returns (address) {
        return address(new ERC20BalancePredicate(tools));
    }

    function _set(address token_, uint256 min) private {
        vm.prank(creator);
        predicate.configureToolERC20(toolId, token_, min);
    }

    function test_configure_success() public {
        _set(address(token), 100);
        ERC20BalancePredicate.ToolERC20Config memory config = predicate.getToolERC20Config(toolId);
        assertEq(config.token, address(token));
        assertEq(config.minBalance, 100);
    }

    function test_configure_event() public {
        vm.expectEmit(address(predicate));
        emit ERC20BalancePredicate.ToolERC20Configured(toolId, address(token), 100);
        _set(address(token), 100);
        assertEq(
            ERC20BalancePredicate.ToolERC20Configured.selector,
            keccak256("ToolERC20Configured(uint256,address,uint256)")
        );
    }

    function test_configure_replaces() public {
        _set(address(token), 100);
        TestERC20 other = new TestERC20("Other", "O", 6);
        _set(address(other), 5);
        assertEq(predicate.getToolERC20Config(toolId).token, address(other));
        assertEq(predicate.getToolERC20Config(toolId).minBalance, 5);
    }

    function test_configure_failureKeepsTheOldGate() public {
        _set(address(token), 100);
        TestERC20 other = new TestERC20("Other", "O", 6);
        vm.expectRevert(ERC20BalancePredicate.ZeroMinBalance.selector);
        _set(address(other), 0);
        assertEq(predicate.getToolERC20Config(toolId).token, address(token));
        assertEq(predicate.getToolERC20Config(toolId).minBalance, 100);
    }

    function test_configure_notCreator() public {
        vm.expectRevert(abi.encodeWithSelector(RegistryPredicate.CallerIsNotToolCreator.selector, toolId, outsider));
        vm.prank(outsider);
        predicate.configureToolERC20(toolId, address(token), 1);
    }

    function test_configure_zeroToken() public {
        vm.expectRevert(ERC20BalancePredicate.ZeroToken.selector);
        _set(address(0), 1);
    }

    function test_configure_EOA() public {
        vm.expectRevert(abi.encodeWithSelector(ERC20BalancePredicate.TokenNoCode.selector, outsider));
        _set(outsider, 1);
    }

    function test_configure_zeroMin() public {
        vm.expectRevert(ERC20BalancePredicate.ZeroMinBalance.selector);
        _set(address(token), 0);
    }

    function test_hasAccess_sufficientExactInsufficientZero() public {
        _set(address(token), 100);
        assertDenied(toolId, "");
        token.mint(account, 99);
        assertDenied(toolId, "");
        token.mint(account, 1);
        assertGranted(toolId, "");
        token.mint(account, 1);
        assertGranted(toolId, "");
    }

    function test_hasAccess_tokenSelfDestructed() public {
        _set(address(token), 100);
        token.mint(account, 100);
        vm.etch(address(token), "");
        assertMalfunction(toolId, "");
    }

    function test_hasAccess_noBalanceOf_andOtherFailures() public {
        address[6] memory broken = [
            address(new NotAToken()),
            address(new RevertingToken()),
            address(new SilentlyRevertingToken()),
            address(new GasBurnerToken()),
            address(new SizedAnswerToken(0)),
            address(new SizedAnswerToken(31))
        ];
        for (uint256 i; i < broken.length; ++i) {
            _set(broken[i], 1);
            assertMalfunction(toolId, "");
            vm.expectRevert(abi.encodeWithSelector(ERC20BalancePredicate.TokenUnavailable.selector, broken[i]));
            asks(toolId, account, "");
        }
    }

    function test_hasAccess_longAnswer() public {
        _set(address(new SizedAnswerToken(10_000)), 1);
        assertGranted(toolId, "");
    }

    function test_hasAccess_differentDecimals() public {
        uint8[3] memory decimals = [0, 6, 24];
        for (uint256 i; i < decimals.length; ++i) {
            TestERC20 other = new TestERC20("Other", "O", decimals[i]);
            assertEq(other.decimals(), decimals[i]);
            // The least unit counts, whatever a token calls it.
            _set(address(other), 1e6);
            other.mint(account, 1e6 - 1);
            assertDenied(toolId, "");
            other.mint(account, 1);
            assertGranted(toolId, "");
        }
    }

    function test_hasAccess_dataIgnored() public {
        _set(address(token), 1);
        token.mint(account, 1);
        assertGranted(toolId, "whatever");
    }

    /// @dev Tokens that were burnt to the zero address must not grant access to a failed signature recovery.
    function test_hasAccess_zeroAddressIsDenied() public {
        _set(address(token), 1);
        bytes32 slot = keccak256(abi.encode(address(0), uint256(0)));
        vm.store(address(token), slot, bytes32(uint256(5)));
        assertEq(token.balanceOf(address(0)), 5);
        assertFalse(asks(toolId, address(0), ""));
    }

    function test_hasAccess_isolatedPerTool() public {
        _set(address(token), 100);
        vm.prank(creator);
        predicate.configureToolERC20(otherTool, address(token), 50);
        token.mint(account, 50);
        assertDenied(toolId, "");
        assertGranted(otherTool, "");
    }

    function testFuzz_hasAccess(uint256 balance, uint256 min) public {
        min = bound(min, 1, type(uint256).max);
        _set(address(token), min);
        token.mint(account, balance);
        (bool ok, bool granted) = registry.tryHasAccess(toolId, account, "");
        assertTrue(ok);
        assertEq(granted, balance >= min);
    }

    /// @dev With too little gas the answer is "cannot tell", never "no".
    function testFuzz_hasAccess_neverDeniesForLackOfGas(uint256 gasLimit) public {
        token.mint(account, 1);
        _set(address(token), 1);
        gasLimit = bound(gasLimit, 0, 30_000);
        try predicate.hasAccess{gas: gasLimit}(toolId, account, "") returns (bool granted) {
            assertTrue(granted);
        } catch {}
    }

    // req: PRED-003, PRED-006
    function test_getRequirements() public {
        _set(address(token), 100);
        (AccessRequirement[] memory requirements, RequirementLogic logic) = requirementsOf(toolId);
        assertEq(requirements.length, 1);
        assertRequirement(requirements[0], 0x812b02ee, abi.encode(address(token), 100));
        assertEq(uint8(logic), 0);
    }
}
