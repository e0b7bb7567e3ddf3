// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {AccessRequirement, IAccessPredicate, RequirementLogic} from "../interfaces/IAccessPredicate.sol";
import {IERC20Balance} from "../interfaces/IRequirementTypes.sol";
import {IToolRegistry} from "../interfaces/IToolRegistry.sol";
import {TokenCall} from "../lib/TokenCall.sol";
import {RegistryPredicate} from "./RegistryPredicate.sol";
import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";

/// @title ERC20BalancePredicate
/// @notice Grants access to holders of a minimum balance of an ERC-20 token.
/// @dev A token that fails (reverts, burns its gas, has no code, answers less than a word) makes `hasAccess` revert: the
///      account may well hold enough. A tool without a token denies all accounts, and the zero address is always denied:
///      it "holds" burnt tokens, and it is what a failed signature recovery yields.
contract ERC20BalancePredicate is RegistryPredicate {
    /// @notice The configuration of a tool.
    /// @param token      The ERC-20 token.
    /// @param minBalance The least balance, in the token's smallest unit.
    struct ToolERC20Config {
        address token;
        uint256 minBalance;
    }

    mapping(uint256 toolId => ToolERC20Config) private _configs;

    /// @notice The configuration of a tool was replaced.
    event ToolERC20Configured(uint256 indexed toolId, address indexed token, uint256 minBalance);

    /// @notice The zero address is not a token.
    error ZeroToken();

    /// @notice There is no contract at this address.
    error TokenNoCode(address token);

    /// @notice A least balance of zero would be an open tool that looks gated.
    error ZeroMinBalance();

    /// @notice The token could not be queried.
    error TokenUnavailable(address token);

    constructor(IToolRegistry registry) RegistryPredicate(registry) {}

    /// @notice Replaces the token and the amount that grant access to a tool. Creator only.
    function configureToolERC20(uint256 toolId, address token, uint256 minBalance) external onlyToolCreator(toolId) {
        if (token == address(0)) revert ZeroToken();
        if (token.code.length == 0) revert TokenNoCode(token);
        if (minBalance == 0) revert ZeroMinBalance();
        _configs[toolId] = ToolERC20Config(token, minBalance);
        emit ToolERC20Configured(toolId, token, minBalance);
    }

    /// @notice The configuration of a tool; zeros if it has none.
    function getToolERC20Config(uint256 toolId) external view returns (ToolERC20Config memory) {
        return _configs[toolId];
    }

    /// @inheritdoc IAccessPredicate
    /// @dev `data` is not used.
    function hasAccess(uint256 toolId, address account, bytes calldata) external view returns (bool) {
        ToolERC20Config memory config = _configs[toolId];
        if (config.token == address(0) || account == address(0)) return false;
        bytes memory query = abi.encodeCall(IERC20.balanceOf, (account));
        (bool ok, uint256 balance) = TokenCall.tryWord(config.token, TokenCall.share(0, 0), query);
        if (!ok) revert TokenUnavailable(config.token);
        return balance >= config.minBalance;
    }

    /// @inheritdoc IAccessPredicate
    function getRequirements(uint256 toolId)
        external
        view
        returns (AccessRequirement[] memory requirements, RequirementLogic logic)
    {
        ToolERC20Config memory config = _configs[toolId];
        logic = RequirementLogic.AND;
        if (config.token == address(0)) return (requirements, logic);
        requirements = new AccessRequirement[](1);
        requirements[0] = AccessRequirement(type(IERC20Balance).interfaceId, abi.encode(config), "");
    }

    /// @inheritdoc IAccessPredicate
    function name() external pure returns (string memory) {
        return "ERC20BalancePredicate";
    }
}
