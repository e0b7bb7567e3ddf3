// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

/// @dev Uses up all gas it gets, whatever it is asked.
contract GasBurnerToken {
    fallback() external {
        while (true) {}
    }
}

/// @dev Reverts with a reason, whatever it is asked.
contract RevertingToken {
    error Broken();

    fallback() external {
        revert Broken();
    }
}

/// @dev Reverts without a reason, as old contracts and missing functions do.
contract SilentlyRevertingToken {
    fallback() external {
        assembly ("memory-safe") {
            revert(0, 0)
        }
    }
}

/// @dev Knows no function that anybody asks for.
contract NotAToken {
    uint256 public nothing;
}

/// @dev Returns `size` bytes, each of them 1, or 0.
contract SizedAnswerToken {
    uint256 private immutable SIZE;

    constructor(uint256 size) {
        SIZE = size;
    }

    fallback() external {
        uint256 size = SIZE;
        assembly ("memory-safe") {
            let at := mload(0x40)
            for { let i := 0 } lt(i, size) { i := add(i, 0x20) } {
                mstore(add(at, i), 0x0101010101010101010101010101010101010101010101010101010101010101)
            }
            return(at, size)
        }
    }
}

/// @dev Returns these words, whatever it is asked.
contract FixedAnswerToken {
    bytes private _answer;

    constructor(bytes memory answer) {
        _answer = answer;
    }

    fallback() external {
        bytes memory answer = _answer;
        assembly ("memory-safe") {
            return(add(answer, 0x20), mload(answer))
        }
    }
}

/// @dev Knows balances, as far as it is in the mood.
contract MoodyERC20 {
    error Moody();

    bool public broken;
    mapping(address => uint256) private _balances;

    function set(address account, uint256 balance) external {
        _balances[account] = balance;
    }

    function setBroken(bool broken_) external {
        broken = broken_;
    }

    function balanceOf(address account) external view returns (uint256) {
        if (broken) revert Moody();
        return _balances[account];
    }
}
