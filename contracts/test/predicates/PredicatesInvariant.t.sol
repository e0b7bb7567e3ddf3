// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {StdInvariant, Test} from "forge-std/Test.sol";
import {ToolRegistry} from "src/ToolRegistry.sol";
import {IAccessPredicate} from "src/interfaces/IAccessPredicate.sol";
import {CompositePredicate, ICompositePredicate} from "src/predicates/CompositePredicate.sol";
import {ERC1155OwnerPredicate} from "src/predicates/ERC1155OwnerPredicate.sol";
import {ERC20BalancePredicate} from "src/predicates/ERC20BalancePredicate.sol";
import {ERC721OwnerPredicate} from "src/predicates/ERC721OwnerPredicate.sol";
import {TestERC1155} from "src/test-assets/TestERC1155.sol";
import {TestERC721} from "src/test-assets/TestERC721.sol";
import {MoodyERC20} from "test/mocks/BrokenTokens.sol";

/// @dev Several creators configure the same four predicates for several tools at random, people come to hold tokens and
///      lose them, a token breaks and recovers. A model is kept of what should follow.
contract PredicatesHandler is Test {
    uint256 public constant TOOLS = 4;
    uint256 public constant PEOPLE = 3;

    /// @dev A term's answer.
    enum Verdict {
        No,
        Yes,
        None
    }

    struct Model {
        address creator;
        // Bit i: collection i is in the list.
        uint256 collections;
        // Bit i: id i is in the list.
        uint256 ids;
        uint256 minBalance;
        ICompositePredicate.Op op;
        ICompositePredicate.Term[] terms;
    }

    ToolRegistry public immutable REGISTRY;
    CompositePredicate public immutable COMPOSITE;
    ERC721OwnerPredicate public immutable BY721;
    ERC1155OwnerPredicate public immutable BY1155;
    ERC20BalancePredicate public immutable BY20;

    TestERC721[2] public collections;
    TestERC1155 public multi = new TestERC1155("");
    MoodyERC20 public token = new MoodyERC20();
    mapping(uint256 toolId => Model) private _models;
    mapping(address => mapping(uint256 collection => uint256)) private _held721;
    mapping(address => mapping(uint256 id => uint256)) private _held1155;
    mapping(address => uint256) private _held20;
    uint256[][2] private _minted;

    constructor() {
        REGISTRY = new ToolRegistry();
        COMPOSITE = new CompositePredicate(REGISTRY);
        BY721 = new ERC721OwnerPredicate(REGISTRY);
        BY1155 = new ERC1155OwnerPredicate(REGISTRY);
        BY20 = new ERC20BalancePredicate(REGISTRY);
        collections = [new TestERC721("A", "A"), new TestERC721("B", "B")];
        for (uint256 i; i < TOOLS; ++i) {
            address creator = person(i % 2);
            vm.prank(creator);
            uint256 toolId = REGISTRY.registerTool("uri", keccak256("hash"), address(COMPOSITE));
            _models[toolId].creator = creator;
        }
    }

    function person(uint256 which) public pure returns (address) {
        // forge-lint: disable-next-line(unsafe-typecast)
        return address(uint160(0x1000 + which % PEOPLE));
    }

    function setCollections(uint256 who, uint256 which, uint256 bits) external {
        (address caller, uint256 toolId) = _pick(who, which);
        bits %= 4;
        vm.prank(caller);
        try BY721.setCollections(toolId, collectionsOf(bits)) {
            _accepted(caller, toolId);
            _models[toolId].collections = bits;
        } catch {
            _refused(caller, toolId);
        }
    }

    function setTokens(uint256 who, uint256 which, uint256 bits) external {
        (address caller, uint256 toolId) = _pick(who, which);
        bits %= 8;
        vm.prank(caller);
        try BY1155.setCollectionTokens(toolId, tokensOf(bits)) {
            _accepted(caller, toolId);
            _models[toolId].ids = bits;
        } catch {
            _refused(caller, toolId);
        }
    }

    function setBalance(uint256 who, uint256 which, uint256 min) external {
        (address caller, uint256 toolId) = _pick(who, which);
        min = 1 + min % 5;
        vm.prank(caller);
        try BY20.configureToolERC20(toolId, address(token), min) {
            _accepted(caller, toolId);
            _models[toolId].minBalance = min;
        } catch {
            _refused(caller, toolId);
        }
    }

    function compose(uint256 who, uint256 which, uint256 choice) external {
        (address caller, uint256 toolId) = _pick(who, which);
        ICompositePredicate.Op op = choice % 2 == 0 ? ICompositePredicate.Op.ALL : ICompositePredicate.Op.ANY;
        ICompositePredicate.Term[] memory terms = new ICompositePredicate.Term[]((choice >> 1) % 4);
        address[3] memory predicates = [address(BY721), address(BY1155), address(BY20)];
        for (uint256 i; i < terms.length; ++i) {
            uint256 bits = choice >> (8 + 8 * i);
            terms[i] = ICompositePredicate.Term(predicates[bits % 3], (bits >> 4) % 2 == 1);
        }
        vm.prank(caller);
        try COMPOSITE.setComposition(toolId, op, terms) {
            _accepted(caller, toolId);
            _models[toolId].op = op;
            delete _models[toolId].terms;
            for (uint256 i; i < terms.length; ++i) {
                _models[toolId].terms.push(terms[i]);
            }
        } catch {
            _refused(caller, toolId);
        }
    }

    function mint721(uint256 who, uint256 which) external {
        which %= 2;
        collections[which].mint(person(who), _minted[which].length);
        _minted[which].push(_minted[which].length);
        ++_held721[person(who)][which];
    }

    function move721(uint256 who, uint256 which, uint256 id) external {
        which %= 2;
        if (_minted[which].length == 0) return;
        id %= _minted[which].length;
        address owner = collections[which].ownerOf(id);
        vm.prank(owner);
        collections[which].transferFrom(owner, person(who), id);
        --_held721[owner][which];
        ++_held721[person(who)][which];
    }

    function hold1155(uint256 who, uint256 id, uint256 amount) external {
        (address holder, uint256 before) = (person(who), _held1155[person(who)][id % 3]);
        amount %= 2;
        if (amount > before) multi.mint(holder, id % 3, amount - before);
        if (amount < before) multi.burn(holder, id % 3, before - amount);
        _held1155[holder][id % 3] = amount;
    }

    function hold20(uint256 who, uint256 amount) external {
        amount %= 7;
        token.set(person(who), amount);
        _held20[person(who)] = amount;
    }

    function breakOrMend(uint256 mood) external {
        token.setBroken(mood % 3 == 0);
    }

    function model(uint256 toolId) external view returns (Model memory) {
        return _models[toolId];
    }

    function collectionsOf(uint256 bits) public view returns (address[] memory list) {
        list = new address[]((bits & 1) + (bits >> 1));
        uint256 next;
        if (bits & 1 != 0) list[next++] = address(collections[0]);
        if (bits & 2 != 0) list[next] = address(collections[1]);
    }

    function tokensOf(uint256 bits) public view returns (ERC1155OwnerPredicate.CollectionTokens[] memory list) {
        list = new ERC1155OwnerPredicate.CollectionTokens[](bits == 0 ? 0 : 1);
        if (bits == 0) return list;
        list[0].collection = address(multi);
        list[0].tokenIds = new uint256[]((bits & 1) + ((bits >> 1) & 1) + (bits >> 2));
        uint256 next;
        for (uint256 id; id < 3; ++id) {
            if (bits & (1 << id) != 0) list[0].tokenIds[next++] = id;
        }
    }

    /// @dev What each predicate should say, from the model alone.
    function expected721(uint256 toolId, address who) public view returns (Verdict) {
        uint256 bits = _models[toolId].collections;
        bool first = bits & 1 != 0 && _held721[who][0] != 0;
        bool second = bits & 2 != 0 && _held721[who][1] != 0;
        return first || second ? Verdict.Yes : Verdict.No;
    }

    function expected1155(uint256 toolId, address who) public view returns (Verdict) {
        for (uint256 id; id < 3; ++id) {
            if (_models[toolId].ids & (1 << id) != 0 && _held1155[who][id] != 0) return Verdict.Yes;
        }
        return Verdict.No;
    }

    function expected20(uint256 toolId, address who) public view returns (Verdict) {
        uint256 min = _models[toolId].minBalance;
        if (min == 0) return Verdict.No;
        if (token.broken()) return Verdict.None;
        return _held20[who] >= min ? Verdict.Yes : Verdict.No;
    }

    function expected(uint256 toolId, address who) external view returns (Verdict) {
        Model storage held = _models[toolId];
        if (held.terms.length == 0) return Verdict.No;
        uint256[3] memory seen;
        for (uint256 i; i < held.terms.length; ++i) {
            address predicate = held.terms[i].predicate;
            Verdict answer = predicate == address(BY721)
                ? expected721(toolId, who)
                : predicate == address(BY1155) ? expected1155(toolId, who) : expected20(toolId, who);
            if (held.terms[i].negate && answer != Verdict.None) {
                answer = answer == Verdict.Yes ? Verdict.No : Verdict.Yes;
            }
            ++seen[uint8(answer)];
        }
        if (held.op == ICompositePredicate.Op.ALL) {
            return seen[uint8(Verdict.No)] > 0 ? Verdict.No : seen[uint8(Verdict.None)] > 0 ? Verdict.None : Verdict.Yes;
        }
        return seen[uint8(Verdict.Yes)] > 0 ? Verdict.Yes : seen[uint8(Verdict.None)] > 0 ? Verdict.None : Verdict.No;
    }

    function _pick(uint256 who, uint256 which) private pure returns (address, uint256) {
        return (person(who), 1 + which % TOOLS);
    }

    function _accepted(address caller, uint256 toolId) private view {
        assertEq(caller, _models[toolId].creator, "an outsider configured");
    }

    function _refused(address caller, uint256 toolId) private view {
        assertTrue(caller != _models[toolId].creator, "the creator was refused");
    }
}

/// @dev Shorter than usual: after every call each tool is asked about everybody.
contract PredicatesInvariantTest is StdInvariant, Test {
    PredicatesHandler private handler;

    function setUp() public {
        handler = new PredicatesHandler();
        bytes4[] memory selectors = new bytes4[](9);
        selectors[0] = PredicatesHandler.setCollections.selector;
        selectors[1] = PredicatesHandler.setTokens.selector;
        selectors[2] = PredicatesHandler.setBalance.selector;
        selectors[3] = PredicatesHandler.compose.selector;
        selectors[4] = PredicatesHandler.mint721.selector;
        selectors[5] = PredicatesHandler.move721.selector;
        selectors[6] = PredicatesHandler.hold1155.selector;
        selectors[7] = PredicatesHandler.hold20.selector;
        selectors[8] = PredicatesHandler.breakOrMend.selector;
        targetSelector(FuzzSelector(address(handler), selectors));
        targetContract(address(handler));
    }

    // The actions reach every answer, so that the invariants say something.
    function test_theModelReachesEveryAnswer() public {
        address account = handler.person(2);
        assertEq(uint8(handler.expected(1, account)), uint8(PredicatesHandler.Verdict.No));
        // Tool 1 of person 0: not enough of the token, alone.
        handler.setBalance(0, 0, 1);
        handler.compose(0, 0, 2 | (0x11 << 8));
        assertEq(abi.encode(handler.model(1).terms).length, 64 + 64);
        assertTrue(handler.model(1).terms[0].negate);
        assertEq(uint8(handler.expected(1, account)), uint8(PredicatesHandler.Verdict.Yes));
        invariant_accessFollowsFromHoldings();
        handler.hold20(2, 2);
        assertEq(uint8(handler.expected(1, account)), uint8(PredicatesHandler.Verdict.No));
        invariant_accessFollowsFromHoldings();
        handler.breakOrMend(0);
        assertEq(uint8(handler.expected(1, account)), uint8(PredicatesHandler.Verdict.None));
        invariant_accessFollowsFromHoldings();
        // Another creator's tool is out of reach, and out of mind.
        handler.setBalance(1, 0, 3);
        assertEq(handler.model(1).minBalance, 2);
        invariant_configurationsAreTheCreatorsLastWord();
    }

    // Each tool has what its creator said last, and no other tool's creator said anything.
    /// forge-config: default.invariant.runs = 32
    /// forge-config: default.invariant.depth = 64
    function invariant_configurationsAreTheCreatorsLastWord() public view {
        for (uint256 toolId = 1; toolId <= handler.TOOLS(); ++toolId) {
            PredicatesHandler.Model memory model = handler.model(toolId);
            assertEq(handler.BY721().getCollections(toolId), handler.collectionsOf(model.collections));
            assertEq(abi.encode(handler.BY1155().getCollectionTokens(toolId)), abi.encode(handler.tokensOf(model.ids)));
            assertEq(handler.BY20().getToolERC20Config(toolId).minBalance, model.minBalance);
            assertEq(uint8(handler.COMPOSITE().getOp(toolId)), uint8(model.op));
            assertEq(abi.encode(handler.COMPOSITE().getTerms(toolId)), abi.encode(model.terms));
        }
    }

    // Each predicate by itself, whether a composition uses it or not.
    /// forge-config: default.invariant.runs = 32
    /// forge-config: default.invariant.depth = 64
    function invariant_everyPredicateFollowsFromHoldings() public view {
        for (uint256 toolId = 1; toolId <= handler.TOOLS(); ++toolId) {
            for (uint256 i; i < handler.PEOPLE(); ++i) {
                address who = handler.person(i);
                _assertAnswer(handler.BY721(), toolId, who, handler.expected721(toolId, who));
                _assertAnswer(handler.BY1155(), toolId, who, handler.expected1155(toolId, who));
                _assertAnswer(handler.BY20(), toolId, who, handler.expected20(toolId, who));
            }
        }
    }

    function _assertAnswer(IAccessPredicate predicate, uint256 toolId, address who, PredicatesHandler.Verdict expected)
        private
        view
    {
        try predicate.hasAccess(toolId, who, "") returns (bool granted) {
            assertEq(granted, expected == PredicatesHandler.Verdict.Yes, predicate.name());
            assertTrue(expected != PredicatesHandler.Verdict.None, "a broken token is not an answer");
        } catch {
            assertEq(uint8(expected), uint8(PredicatesHandler.Verdict.None), predicate.name());
        }
    }

    // For every tool and everybody the registry says what follows from the holdings, and a broken token never opens.
    // req: REG-025, REG-026
    /// forge-config: default.invariant.runs = 32
    /// forge-config: default.invariant.depth = 64
    function invariant_accessFollowsFromHoldings() public view {
        for (uint256 toolId = 1; toolId <= handler.TOOLS(); ++toolId) {
            for (uint256 i; i < handler.PEOPLE(); ++i) {
                PredicatesHandler.Verdict expected = handler.expected(toolId, handler.person(i));
                (bool ok, bool granted) = handler.REGISTRY().tryHasAccess(toolId, handler.person(i), "");
                assertEq(ok, expected != PredicatesHandler.Verdict.None, "ok");
                assertEq(granted, expected == PredicatesHandler.Verdict.Yes, "granted");
            }
        }
    }
}
