// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {IERC165} from "@openzeppelin/contracts/utils/introspection/IERC165.sol";
import {AccessRequirement, IAccessPredicate, RequirementLogic} from "src/interfaces/IAccessPredicate.sol";
import {IToolRegistry} from "src/interfaces/IToolRegistry.sol";

/// @dev An honest predicate that answers what it is told to.
contract SetPredicate is IAccessPredicate, IERC165 {
    bool public answer;
    mapping(address => bool) public allowed;
    AccessRequirement[] private _requirements;
    RequirementLogic private _logic;

    constructor(bool answer_) {
        answer = answer_;
    }

    function set(bool answer_) external {
        answer = answer_;
    }

    function allow(address account) external {
        allowed[account] = true;
    }

    function require_(bytes4 kind, bytes memory data, string memory label, RequirementLogic logic) external {
        _requirements.push(AccessRequirement(kind, data, label));
        _logic = logic;
    }

    function hasAccess(uint256, address account, bytes calldata) external view returns (bool) {
        return answer || allowed[account];
    }

    function name() external pure returns (string memory) {
        return "SetPredicate";
    }

    function getRequirements(uint256) external view returns (AccessRequirement[] memory, RequirementLogic) {
        return (_requirements, _logic);
    }

    function supportsInterface(bytes4 id) external pure returns (bool) {
        return id == type(IAccessPredicate).interfaceId || id == type(IERC165).interfaceId;
    }
}

/// @dev Grants when `data` is the number 42.
contract DataPredicate {
    function hasAccess(uint256, address, bytes calldata data) external pure returns (bool) {
        return data.length == 32 && abi.decode(data, (uint256)) == 42;
    }
}

/// @dev Grants to one tool only.
contract OneToolPredicate {
    uint256 private immutable _toolId;

    constructor(uint256 toolId) {
        _toolId = toolId;
    }

    function hasAccess(uint256 toolId, address, bytes calldata) external view returns (bool) {
        return toolId == _toolId;
    }
}

/// @dev No ERC-165, for mocks that would otherwise answer yes to everything.
abstract contract NoErc165 {
    function supportsInterface(bytes4) external pure returns (bool) {
        return false;
    }
}

/// @dev Answers everything with the same bytes.
contract RawPredicate is NoErc165 {
    bytes private _answer;

    constructor(bytes memory answer) {
        _answer = answer;
    }

    fallback() external {
        bytes memory answer = _answer;
        assembly {
            return(add(answer, 0x20), mload(answer))
        }
    }
}

/// @dev Answers everything with a number of bytes that all say 1 as a first word.
contract LongPredicate is NoErc165 {
    uint256 private immutable _size;

    constructor(uint256 size) {
        _size = size;
    }

    fallback() external {
        uint256 size = _size;
        assembly {
            mstore(0, 1)
            return(0, size)
        }
    }
}

contract RevertingPredicate {
    error Broken();

    fallback() external {
        revert Broken();
    }
}

/// @dev Reverts with a message that says "granted": only the call's success may count.
contract RevertingWithTruePredicate {
    fallback() external {
        assembly {
            mstore(0, 1)
            revert(0, 32)
        }
    }
}

contract InvalidOpcodePredicate {
    fallback() external {
        assembly {
            invalid()
        }
    }
}

/// @dev Uses all the gas it gets.
contract BurningPredicate {
    fallback() external {
        assembly {
            for {} 1 {} {}
        }
    }
}

/// @dev Uses all the gas it gets but some, and then answers.
contract NearlyBurningPredicate is NoErc165 {
    uint256 private immutable _rest;
    uint256 private immutable _answer;

    constructor(uint256 rest, bool answer) {
        _rest = rest;
        _answer = answer ? 1 : 0;
    }

    fallback() external {
        (uint256 rest, uint256 answer) = (_rest, _answer);
        assembly {
            for {} gt(gas(), rest) {} {}
            mstore(0, answer)
            return(0, 32)
        }
    }
}

/// @dev Says how much gas it was given: grants if it is at least so much.
contract GasGaugePredicate is NoErc165 {
    uint256 private immutable _least;

    constructor(uint256 least) {
        _least = least;
    }

    fallback() external {
        uint256 given = gasleft();
        uint256 answer = given >= _least ? 1 : 0;
        assembly {
            mstore(0, answer)
            return(0, 32)
        }
    }
}

/// @dev Swallows a failure inside, as predicates over token contracts do: out of gas becomes a clean no.
contract SwallowingPredicate {
    uint256 public immutable WORK;

    constructor(uint256 work) {
        WORK = work;
    }

    function toil() external view returns (bool) {
        uint256 start = gasleft();
        while (start - gasleft() < WORK) {}
        return true;
    }

    function hasAccess(uint256, address, bytes calldata) external view returns (bool) {
        try this.toil() returns (bool yes) {
            return yes;
        } catch {
            return false;
        }
    }
}

/// @dev Tries to write while it is asked.
contract WritingPredicate {
    uint256 public asked;

    function hasAccess(uint256, address, bytes calldata) external returns (bool) {
        ++asked;
        return true;
    }
}

/// @dev Asks the registry again about the same tool. Has no ERC-165, so registration lets it pass.
contract RecursingPredicate {
    IToolRegistry private immutable _registry;

    constructor(IToolRegistry registry) {
        _registry = registry;
    }

    function hasAccess(uint256 toolId, address account, bytes calldata data) external view returns (bool) {
        return _registry.hasAccess(toolId, account, data);
    }
}

/// @dev Asks another predicate, as a foreign composite would. Has no ERC-165.
contract ForwardingPredicate {
    IAccessPredicate public target;

    function set(IAccessPredicate target_) external {
        target = target_;
    }

    function hasAccess(uint256 toolId, address account, bytes calldata data) external view returns (bool) {
        return target.hasAccess(toolId, account, data);
    }
}

/// @dev ERC-165 answers as configured, word by word; `hasAccess` grants.
contract LadderPredicate {
    enum Reply {
        Yes,
        No,
        Two,
        Short,
        Long,
        Revert,
        Burn,
        Nothing
    }

    Reply private immutable _toErc165;
    Reply private immutable _toPredicate;

    constructor(Reply toErc165, Reply toPredicate) {
        _toErc165 = toErc165;
        _toPredicate = toPredicate;
    }

    function hasAccess(uint256, address, bytes calldata) external pure returns (bool) {
        return true;
    }

    function supportsInterface(bytes4 id) external view returns (bool) {
        Reply reply = Reply.No;
        if (id == type(IERC165).interfaceId) reply = _toErc165;
        if (id == type(IAccessPredicate).interfaceId) reply = _toPredicate;
        if (reply == Reply.Revert) revert();
        if (reply == Reply.Burn) while (true) {}
        uint256 word = reply == Reply.No ? 0 : reply == Reply.Two ? 2 : 1;
        uint256 size = reply == Reply.Short ? 31 : reply == Reply.Long ? 64 : reply == Reply.Nothing ? 0 : 32;
        assembly {
            mstore(0, word)
            return(0, size)
        }
    }
}

/// @dev Uses 29,000 gas to answer ERC-165 questions, nearly all that the standard allows.
contract SlowLadderPredicate {
    function supportsInterface(bytes4 id) external view returns (bool) {
        uint256 start = gasleft();
        while (start - gasleft() < 29_000) {}
        return id == type(IERC165).interfaceId || id == type(IAccessPredicate).interfaceId;
    }
}

/// @dev Claims that it has a million requirements, without the bytes for them, or with a label of 10 MiB.
contract BoastingPredicate {
    uint256 private immutable _size;
    uint256 private immutable _count;

    constructor(uint256 size, uint256 count) {
        _size = size;
        _count = count;
    }

    function hasAccess(uint256, address, bytes calldata) external pure returns (bool) {
        return true;
    }

    function getRequirements(uint256) external view {
        (uint256 size, uint256 count) = (_size, _count);
        assembly {
            mstore(0x00, 0x40) // offset of the list
            mstore(0x20, 0) // AND
            mstore(0x40, count)
            return(0, size)
        }
    }
}

/// @dev One requirement with data and label of given sizes, or many that all point at the same bytes.
contract SizedPredicate {
    uint256 private immutable _count;
    uint256 private immutable _data;
    uint256 private immutable _label;

    constructor(uint256 count, uint256 data, uint256 label) {
        _count = count;
        _data = data;
        _label = label;
    }

    function hasAccess(uint256, address, bytes calldata) external pure returns (bool) {
        return true;
    }

    /// @dev By hand, since the compiler's encoder would write the bytes again for each entry.
    function getRequirements(uint256) external view {
        bytes memory entry =
            abi.encode(AccessRequirement(bytes4(0x11223344), new bytes(_data), string(new bytes(_label))));
        uint256 count = _count;
        bytes memory answer = abi.encode(uint256(0x40), uint256(0), count);
        bytes memory offsets = new bytes(32 * count);
        for (uint256 i; i < count; ++i) {
            assembly {
                mstore(add(offsets, mul(add(i, 1), 0x20)), mul(count, 0x20))
            }
        }
        // abi.encode of a dynamic struct begins with its offset, which is left away.
        bytes memory tail = new bytes(entry.length - 32);
        for (uint256 i; i < tail.length; i += 32) {
            assembly {
                mstore(add(add(tail, 0x20), i), mload(add(add(entry, 0x40), i)))
            }
        }
        answer = bytes.concat(answer, offsets, tail);
        assembly {
            return(add(answer, 0x20), mload(answer))
        }
    }
}
