// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {AccessRequirement, IAccessPredicate, RequirementLogic} from "../interfaces/IAccessPredicate.sol";
import {IProofBased} from "../interfaces/IRequirementTypes.sol";
import {IToolRegistry} from "../interfaces/IToolRegistry.sol";
import {BoundedCall} from "../lib/BoundedCall.sol";
import {TokenCall} from "../lib/TokenCall.sol";
import {RegistryPredicate} from "./RegistryPredicate.sol";

/// @title ICompositePredicate
/// @notice The functions of a composite beyond `IAccessPredicate`. Claimed by ERC-165, so that a composite
///         recognises another one among its terms.
interface ICompositePredicate {
    /// @notice How terms combine: all must grant, or any one.
    enum Op {
        ALL,
        ANY
    }

    /// @notice One predicate of a composition.
    /// @param predicate Who is asked.
    /// @param negate    Whether a clear yes counts as no, and a clear no as yes.
    struct Term {
        address predicate;
        bool negate;
    }

    /// @notice A tool has a new composition.
    event CompositionSet(uint256 indexed toolId, Op op, Term[] terms);

    /// @notice Sets the composition of a tool; no terms deny all accounts. Creator only.
    function setComposition(uint256 toolId, Op op, Term[] calldata terms) external;

    /// @notice How the terms of a tool combine.
    function getOp(uint256 toolId) external view returns (Op);

    /// @notice The terms of a tool.
    function getTerms(uint256 toolId) external view returns (Term[] memory);
}

/// @title CompositePredicate
/// @notice Several predicates as one, each of them possibly negated.
/// @dev Each term answers yes, no, or not at all: a revert, a lack of gas, a strange answer and a term without code are
///      no answer. Negation swaps yes and no, and leaves "no answer" as it is.
///
///      - ALL: one no denies; otherwise one missing answer makes the composite revert; otherwise it grants.
///      - ANY: one yes grants; otherwise one missing answer makes the composite revert; otherwise it denies.
///
///      So a broken term never grants anything. The registry reports the revert as a malfunction. A term that reports its own
///      failures as a denial cannot be told from an honest one: negate only terms that revert when they cannot tell.
///
///      Terms are flat. Composites as terms are refused, because no slice of the gas is enough to slice again.
///
///      All terms get the same `data`. Proofs of two kinds have different encodings, so ALL of them could never grant;
///      `setComposition` refuses that. Under ANY they work, but the terms whose encoding `data` does not have may revert, so
///      that a denial shows as a malfunction.
///
///      A composite with a term that depends on proofs answers `REGISTRY` only: see `AccessProofPredicate`.
contract CompositePredicate is RegistryPredicate, ICompositePredicate {
    using BoundedCall for address;

    /// @notice Most terms in one composition. With `TERM_GAS`, set from measurement so that the largest composition answers
    ///         inside the registry's 200,000 gas even when each term uses up its slice.
    uint256 public constant MAX_TERMS_PER_COMPOSITION = 3;

    /// @notice Gas that each term gets, neither more nor less: the answer of a composition does not depend on the gas
    ///         that a caller happens to send. 59,500 is the most that three terms can have; the rest is for long `data`.
    uint256 public constant TERM_GAS = 58_000;

    /// @notice Gas for reading the requirements of one term. Enough for 160 requirements of a predicate that stores each in
    ///         a slot of its own.
    uint256 public constant REQUIREMENTS_GAS = 2_000_000;

    /// @notice Gas for decoding them. Hostile answers may point many times at the same bytes.
    uint256 public constant DECODE_GAS = 1_000_000;

    /// @notice Longest answer to `getRequirements` that is read from a term, in bytes: 256 requirements of usual size.
    uint256 public constant MAX_REQUIREMENTS_BYTES = 65_536;

    /// @notice Most requirements that a composition reports. Readers refuse longer lists (ERC-8257 "Predicate
    ///         Introspection Hardening"), as they do with longer data and labels.
    uint256 public constant MAX_REQUIREMENTS = 256;

    /// @notice Most bytes of data in one requirement.
    uint256 public constant MAX_REQUIREMENT_DATA = 4_096;

    /// @notice Most bytes of label in one requirement.
    uint256 public constant MAX_REQUIREMENT_LABEL = 256;

    /// @dev Operator, count and flag share a slot, which saves a cold read (2,100 gas) for the terms.
    struct Composition {
        Op op;
        uint8 count;
        /// Whether a term depends on proofs, so that only the registry gets an answer.
        bool proofs;
        Term[MAX_TERMS_PER_COMPOSITION] terms;
    }

    mapping(uint256 toolId => Composition) private _compositions;

    /// @notice More terms than can answer inside the registry's gas.
    error TooManyTerms(uint256 count, uint256 max);

    /// @notice The term is zero, has no code, is a composite, or is negated although it rests on proofs.
    error InvalidTerm(uint256 index, address predicate);

    /// @notice The term supports ERC-165 but does not claim `IAccessPredicate`.
    error InvalidAccessPredicate(address predicate);

    /// @notice Both terms must grant, and they need different `data`: the composition could never grant.
    error TermsNeedDifferentData(uint256 first, uint256 second);

    /// @notice The term serves the tools of another registry, where the same id is another tool.
    error TermServesAnotherRegistry(uint256 index, address predicate, address registry);

    /// @notice The answer depends on a term that did not give one.
    error TermMalfunctioned(uint256 index, address predicate);

    /// @notice The caller sent too little gas to ask a term properly.
    error InsufficientGas();

    /// @notice The requirements of a term cannot be read, or are more than a reader would accept.
    error RequirementsUnreadable();

    constructor(IToolRegistry registry) RegistryPredicate(registry) {}

    /// @inheritdoc ICompositePredicate
    /// @dev Terms need not support ERC-165 or have a `REGISTRY()`. The same term may be listed twice. A term whose kind of
    ///      proof cannot be read is accepted.
    function setComposition(uint256 toolId, Op op, Term[] calldata terms) external onlyToolCreator(toolId) {
        if (terms.length > MAX_TERMS_PER_COMPOSITION) revert TooManyTerms(terms.length, MAX_TERMS_PER_COMPOSITION);

        delete _compositions[toolId];
        Composition storage composition = _compositions[toolId];
        composition.op = op;
        composition.count = uint8(terms.length);
        bytes4[MAX_TERMS_PER_COMPOSITION] memory kinds;
        for (uint256 i; i < terms.length; ++i) {
            bool proofs;
            (proofs, kinds[i]) = _checkTerm(i, terms[i]);
            if (proofs) composition.proofs = true;
            for (uint256 j; j < i && op == Op.ALL; ++j) {
                if (kinds[j] != kinds[i] && kinds[j] != 0 && kinds[i] != 0) revert TermsNeedDifferentData(j, i);
            }
            composition.terms[i] = terms[i];
        }
        emit CompositionSet(toolId, op, terms);
    }

    /// @inheritdoc IAccessPredicate
    /// @dev All terms get the same `data`. Asking stops as soon as the outcome is certain.
    function hasAccess(uint256 toolId, address account, bytes calldata data) external view returns (bool) {
        Composition storage composition = _compositions[toolId];
        (Op op, uint256 count, bool proofs) = (composition.op, composition.count, composition.proofs);
        if (proofs && msg.sender != address(REGISTRY)) revert CallerIsNotRegistry(msg.sender);
        if (count == 0) return false;

        // The answer that settles the matter at once: a yes for ANY, a no for ALL.
        bool decisive = op == Op.ANY;
        bytes memory question = abi.encodeCall(IAccessPredicate.hasAccess, (toolId, account, data));
        bool broken;
        uint256 brokenIndex;
        for (uint256 i; i < count; ++i) {
            Term storage term = composition.terms[i];
            (address predicate, bool negate) = (term.predicate, term.negate);
            (bool ok, bool answer) = _ask(predicate, question);
            if (!ok) {
                if (!broken) (broken, brokenIndex) = (true, i);
            } else if ((answer != negate) == decisive) {
                return decisive;
            }
        }
        if (broken) revert TermMalfunctioned(brokenIndex, composition.terms[brokenIndex].predicate);
        return !decisive;
    }

    /// @inheritdoc IAccessPredicate
    /// @dev The requirements of all terms in one list under the operator of the composition, which loses the operators of
    ///      the terms. Kind zero with the label "unknown" stands for a term whose requirements cannot be read or are too
    ///      many, and for a negated one, since no kind says "must not have".
    function getRequirements(uint256 toolId)
        external
        view
        returns (AccessRequirement[] memory requirements, RequirementLogic logic)
    {
        Term[] memory terms = getTerms(toolId);
        logic = _compositions[toolId].op == Op.ANY ? RequirementLogic.OR : RequirementLogic.AND;

        AccessRequirement[][] memory parts = new AccessRequirement[][](terms.length);
        uint256 total;
        for (uint256 i; i < terms.length; ++i) {
            // Every term still to come needs room for one entry, even if only for the sentinel.
            uint256 room = MAX_REQUIREMENTS - total - (terms.length - i - 1);
            parts[i] = terms[i].negate ? _unknown() : _termRequirements(terms[i].predicate, toolId, room);
            total += parts[i].length;
        }

        requirements = new AccessRequirement[](total);
        uint256 next;
        for (uint256 i; i < parts.length; ++i) {
            for (uint256 j; j < parts[i].length; ++j) {
                requirements[next++] = parts[i][j];
            }
        }
    }

    /// @notice The requirements of another predicate, if they can be read within the limits; reverts otherwise.
    /// @dev For `getRequirements`, which calls it on this very contract: decoding untrusted bytes can fail or eat gas, and only
    ///      a call of its own can be given up.
    function readRequirements(address predicate, uint256 toolId) external view returns (AccessRequirement[] memory) {
        bytes memory input = abi.encodeCall(IAccessPredicate.getRequirements, (toolId));
        bytes memory output;
        bool ok;
        uint256 limit = MAX_REQUIREMENTS_BYTES;
        uint256 gasLimit = REQUIREMENTS_GAS;
        /// @solidity memory-safe-assembly
        assembly {
            // Nothing is copied by the call itself; the size is judged first.
            ok := staticcall(gasLimit, predicate, add(input, 0x20), mload(input), 0, 0)
            let size := returndatasize()
            ok := and(ok, iszero(gt(size, limit)))
            if ok {
                output := mload(0x40)
                mstore(output, size)
                returndatacopy(add(output, 0x20), 0, size)
                mstore(0x40, add(add(output, 0x20), and(add(size, 0x1f), not(0x1f))))
            }
        }
        if (!ok) revert RequirementsUnreadable();

        (AccessRequirement[] memory requirements,) = abi.decode(output, (AccessRequirement[], RequirementLogic));
        if (requirements.length > MAX_REQUIREMENTS) revert RequirementsUnreadable();
        for (uint256 i; i < requirements.length; ++i) {
            if (
                requirements[i].data.length > MAX_REQUIREMENT_DATA
                    || bytes(requirements[i].label).length > MAX_REQUIREMENT_LABEL
            ) revert RequirementsUnreadable();
        }
        return requirements;
    }

    /// @inheritdoc ICompositePredicate
    function getOp(uint256 toolId) external view returns (Op) {
        return _compositions[toolId].op;
    }

    /// @inheritdoc ICompositePredicate
    function getTerms(uint256 toolId) public view returns (Term[] memory terms) {
        Composition storage composition = _compositions[toolId];
        terms = new Term[](composition.count);
        for (uint256 i; i < terms.length; ++i) {
            terms[i] = composition.terms[i];
        }
    }

    /// @inheritdoc IAccessPredicate
    function name() external pure returns (string memory) {
        return "CompositePredicate";
    }

    /// @inheritdoc RegistryPredicate
    function supportsInterface(bytes4 interfaceId) public pure override returns (bool) {
        return interfaceId == type(ICompositePredicate).interfaceId || super.supportsInterface(interfaceId);
    }

    /// @return proofs Whether the term depends on proofs.
    /// @return kind   Which kind of proof; zero if none, or if the term does not say.
    function _checkTerm(uint256 index, Term calldata term) private view returns (bool proofs, bytes4 kind) {
        address predicate = term.predicate;
        if (
            predicate.code.length == 0 || predicate == address(this)
                || predicate.claims(type(ICompositePredicate).interfaceId)
        ) revert InvalidTerm(index, predicate);
        proofs = predicate.claims(type(IProofBased).interfaceId);
        if (proofs && term.negate) revert InvalidTerm(index, predicate);
        if (!predicate.mayBePredicate()) revert InvalidAccessPredicate(predicate);
        _checkRegistry(index, predicate, abi.encodeCall(this.REGISTRY, ()));
        // What the reference calls it in its subscription predicate.
        _checkRegistry(index, predicate, abi.encodeWithSignature("registry()"));
        if (proofs) {
            (, uint256 word) =
                TokenCall.tryWord(predicate, BoundedCall.ERC165_GAS, abi.encodeCall(IProofBased.proofKind, ()));
            // A bytes4 is padded with zeros; anything else is not an answer.
            if (word << 32 == 0) kind = bytes4(bytes32(word));
        }
    }

    /// @dev Refuses a term that names a registry other than `REGISTRY`. An answer that is not the address of a contract is
    ///      not a registry.
    function _checkRegistry(uint256 index, address predicate, bytes memory query) private view {
        (bool ok, uint256 word) = TokenCall.tryWord(predicate, BoundedCall.ERC165_GAS, query);
        if (!ok || word > type(uint160).max) return;
        // forge-lint: disable-next-line(unsafe-typecast)
        address registry = address(uint160(word));
        if (registry != address(REGISTRY) && registry.code.length > 0) {
            revert TermServesAnotherRegistry(index, predicate, registry);
        }
    }

    function _termRequirements(address predicate, uint256 toolId, uint256 room)
        private
        view
        returns (AccessRequirement[] memory)
    {
        uint256 budget = REQUIREMENTS_GAS + DECODE_GAS;
        _requireGas(budget);
        try this.readRequirements{gas: budget}(predicate, toolId) returns (AccessRequirement[] memory requirements) {
            return requirements.length > room ? _unknown() : requirements;
        } catch {
            return _unknown();
        }
    }

    function _unknown() private pure returns (AccessRequirement[] memory requirements) {
        requirements = new AccessRequirement[](1);
        requirements[0] = AccessRequirement({kind: bytes4(0), data: "", label: "unknown"});
    }

    /// @dev The term is touched before gas is counted, so that what a first touch costs, which differs between chains and
    ///      forks, does not come out of its slice.
    function _ask(address predicate, bytes memory question) private view returns (bool ok, bool answer) {
        if (predicate.code.length == 0) return (false, false);
        _requireGas(TERM_GAS);
        return predicate.tryBool(TERM_GAS, question);
    }

    /// @dev A call hands on at most 63/64 of the gas that is left (EIP-150), and silently less than was asked for. A term that
    ///      gets less might take its own lack of gas for a no, which negation would turn into a grant. 1,000 is for what
    ///      happens between here and the call.
    function _requireGas(uint256 needed) private view {
        uint256 left = gasleft();
        if (left < 1_000 || ((left - 1_000) * 63) / 64 < needed) revert InsufficientGas();
    }
}
