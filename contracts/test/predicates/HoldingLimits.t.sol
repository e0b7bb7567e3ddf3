// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {Test, console} from "forge-std/Test.sol";
import {ToolRegistry} from "src/ToolRegistry.sol";
import {IAccessPredicate} from "src/interfaces/IAccessPredicate.sol";
import {CompositePredicate, ICompositePredicate} from "src/predicates/CompositePredicate.sol";
import {ERC1155OwnerPredicate} from "src/predicates/ERC1155OwnerPredicate.sol";
import {ERC20BalancePredicate} from "src/predicates/ERC20BalancePredicate.sol";
import {ERC721OwnerPredicate} from "src/predicates/ERC721OwnerPredicate.sol";
import {SubscriptionPredicate} from "src/predicates/SubscriptionPredicate.sol";
import {TraitGatedPredicate} from "src/predicates/TraitGatedPredicate.sol";
import {TestBeacon, TestBeaconProxy} from "src/test-assets/TestBeaconProxy.sol";
import {TestERC1155} from "src/test-assets/TestERC1155.sol";
import {TestERC20} from "src/test-assets/TestERC20.sol";
import {TestERC721} from "src/test-assets/TestERC721.sol";
import {TestProxy} from "src/test-assets/TestProxy.sol";
import {TestSubscriptionNFT} from "src/test-assets/TestSubscriptionNFT.sol";
import {TestTraitsNFT} from "src/test-assets/TestTraitsNFT.sol";
import {GasBurnerToken, RevertingToken, SizedAnswerToken} from "test/mocks/BrokenTokens.sol";

/// @dev Asks a predicate as a composite would, with so much gas and no more.
contract Asker {
    /// @return ok      Whether the predicate answered within `limit`.
    /// @return granted What it answered.
    function hasAccess(IAccessPredicate predicate, uint256 limit, uint256 toolId, address account, bytes calldata data)
        external
        view
        returns (bool ok, bool granted)
    {
        try predicate.hasAccess{gas: limit}(toolId, account, data) returns (bool answer) {
            (ok, granted) = (true, answer);
        } catch {}
    }
}

/// @dev The largest configuration that a predicate accepts must find a holder in its last slot, through the registry and
///      inside one term of a composite: with OpenZeppelin's tokens, plain, behind ERC-1967 proxies and behind beacon
///      proxies that keep the beacon in storage (the most expensive of the usual ones), each with a beacon and an
///      implementation of its own, and with every other token of the list burning all the gas it gets.
///      Prices are those of Ethereum; `crates/toolcrib-chain/tests/it/gas.rs` measures the same with those of Monad.
///      `isolate` in foundry.toml makes each call a transaction, so that nothing is warm. What the registry's answer costs
///      is written to snapshots/Holdings.json.
contract HoldingLimitsTest is Test {
    bytes32 private constant TRAIT = keccak256("tier");

    ToolRegistry private registry;
    CompositePredicate private composite;
    uint256 private termGas;
    Asker private asker;
    address private holder = makeAddr("holder");
    bytes private none = "";

    enum Others {
        PLAIN,
        PROXIED,
        BEACONS,
        BURNERS
    }

    function setUp() public {
        registry = new ToolRegistry();
        composite = new CompositePredicate(registry);
        termGas = composite.TERM_GAS();
        asker = new Asker();
    }

    /// @dev The limits were set for these two.
    // req: PRED-014
    function test_budgets() public view {
        assertEq(registry.PREDICATE_GAS(), 200_000);
        assertGe(termGas, 58_000);
    }

    // req: PRED-014
    function test_erc721_one() public {
        _erc721("721 x 1", 1, Others.PLAIN);
        _erc721("721 x 1, proxy", 1, Others.PROXIED);
        _erc721("721 x 1, beacon proxy", 1, Others.BEACONS);
    }

    // req: PRED-014
    function test_erc721_max() public {
        uint256 max = new ERC721OwnerPredicate(registry).MAX_COLLECTIONS_PER_TOOL();
        _erc721("721 x max", max, Others.PLAIN);
        _erc721("721 x max, proxies", max, Others.PROXIED);
        _erc721("721 x max, beacon proxies", max, Others.BEACONS);
        _erc721("721 x max, others burn gas", max, Others.BURNERS);
    }

    // req: PRED-014
    function test_erc1155_everyShapeOfMax() public {
        ERC1155OwnerPredicate predicate = new ERC1155OwnerPredicate(registry);
        for (uint256 count = 1; count <= predicate.MAX_COLLECTIONS_PER_TOOL(); ++count) {
            uint256 ids = predicate.maxTokenIds(count);
            string memory label = string.concat("1155 x ", vm.toString(count), ", ids ", vm.toString(ids));
            _erc1155(label, count, ids, Others.PLAIN);
            _erc1155(string.concat(label, ", proxies"), count, ids, Others.PROXIED);
            _erc1155(string.concat(label, ", beacon proxies"), count, ids, Others.BEACONS);
            if (count > 1) _erc1155(string.concat(label, ", others burn gas"), count, ids, Others.BURNERS);
        }
    }

    // req: PRED-014
    function test_erc20() public {
        ERC20BalancePredicate predicate = new ERC20BalancePredicate(registry);
        uint256 toolId = _register(predicate);
        TestERC20 token = new TestERC20("T", "T", 18);
        string[3] memory labels = ["20", "20, proxy", "20, beacon proxy"];
        for (uint256 i; i < labels.length; ++i) {
            TestERC20 at = TestERC20(_behind(address(token), Others(i)));
            at.mint(holder, 5);
            predicate.configureToolERC20(toolId, address(at), 5);
            _check(labels[i], predicate, toolId, none);
        }
    }

    // req: PRED-014
    function test_subscription() public {
        SubscriptionPredicate predicate = new SubscriptionPredicate(registry);
        uint256 toolId = _register(predicate);
        TestSubscriptionNFT nft = new TestSubscriptionNFT("S", "S");
        string[3] memory labels = ["subscription", "subscription, proxy", "subscription, beacon proxy"];
        for (uint256 i; i < labels.length; ++i) {
            TestSubscriptionNFT at = TestSubscriptionNFT(_behind(address(nft), Others(i)));
            at.subscribe(holder, 2, uint64(block.timestamp + 1));
            predicate.configureToolGating(toolId, address(at), 2);
            _check(labels[i], predicate, toolId, none);
        }
    }

    // req: PRED-014
    function test_trait_max() public {
        TraitGatedPredicate predicate = new TraitGatedPredicate(registry);
        uint256 toolId = _register(predicate);
        string[3] memory labels = ["trait max", "trait max, proxies", "trait max, beacon proxies"];
        for (uint256 i; i < labels.length; ++i) {
            _setTrait(predicate, toolId, Others(i));
            _check(labels[i], predicate, toolId, abi.encode(7));
        }
    }

    /// @dev All three terms as large as they may be, all tokens behind beacon proxies, and all of them must grant.
    // req: PRED-014
    function test_composite_ofMaxima() public {
        (ERC721OwnerPredicate by721, ERC1155OwnerPredicate by1155) =
            (new ERC721OwnerPredicate(registry), new ERC1155OwnerPredicate(registry));
        TraitGatedPredicate byTrait = new TraitGatedPredicate(registry);
        uint256 toolId = _register(composite);
        _set721(by721, toolId, by721.MAX_COLLECTIONS_PER_TOOL(), Others.BEACONS);
        _set1155(by1155, toolId, 2, by1155.maxTokenIds(2), Others.BEACONS);
        _setTrait(byTrait, toolId, Others.BEACONS);
        CompositePredicate.Term[] memory terms = new CompositePredicate.Term[](3);
        terms[0].predicate = address(by721);
        terms[1].predicate = address(by1155);
        terms[2].predicate = address(byTrait);
        composite.setComposition(toolId, ICompositePredicate.Op.ALL, terms);
        _checkAlone("composite of 721 x max, 1155 x 2 max, trait max, beacon proxies", toolId, abi.encode(7));
    }

    /// @dev In two terms all tokens but the last burn their gas, and it is still found that the account holds that one.
    // req: PRED-014
    function test_composite_ofMaxima_withBurners() public {
        (ERC721OwnerPredicate by721, ERC1155OwnerPredicate by1155) =
            (new ERC721OwnerPredicate(registry), new ERC1155OwnerPredicate(registry));
        ERC721OwnerPredicate other721 = new ERC721OwnerPredicate(registry);
        uint256 toolId = _register(composite);
        _set721(by721, toolId, by721.MAX_COLLECTIONS_PER_TOOL(), Others.BURNERS);
        uint256 most = by1155.MAX_COLLECTIONS_PER_TOOL();
        _set1155(by1155, toolId, most, by1155.maxTokenIds(most), Others.BURNERS);
        _set721(other721, toolId, by721.MAX_COLLECTIONS_PER_TOOL(), Others.BURNERS);
        CompositePredicate.Term[] memory terms = new CompositePredicate.Term[](3);
        terms[0].predicate = address(by721);
        terms[1].predicate = address(by1155);
        terms[2].predicate = address(other721);
        composite.setComposition(toolId, ICompositePredicate.Op.ALL, terms);
        _checkAlone("composite of 721 x max, 1155 x max, 721 x max, others burn gas", toolId, none);
    }

    /// @dev Whatever stands in the other slots, and wherever the holder's token stands, a term's gas is enough to find it.
    // req: PRED-014
    /// forge-config: default.fuzz.runs = 256
    function testFuzz_erc721_findsTheHolding(uint256 slot, uint8[3] memory kinds) public {
        ERC721OwnerPredicate predicate = new ERC721OwnerPredicate(registry);
        uint256 toolId = _register(predicate);
        address[] memory collections = new address[](predicate.MAX_COLLECTIONS_PER_TOOL());
        slot %= collections.length;
        for (uint256 i; i < collections.length; ++i) {
            bool sound = i == slot || kinds[i] % 2 == 0;
            address collection = address(new TestERC721("N", "N"));
            collections[i] = sound ? _behind(collection, Others(kinds[i] % 3)) : _broken(kinds[i]);
        }
        TestERC721(collections[slot]).mint(holder, 1);
        predicate.setCollections(toolId, collections);
        _assertFound(predicate, toolId);
    }

    // req: PRED-014
    /// forge-config: default.fuzz.runs = 256
    function testFuzz_erc1155_findsTheHolding(uint256 slot, uint256 count, uint8[2] memory sizes, uint8[2] memory kinds)
        public
    {
        ERC1155OwnerPredicate predicate = new ERC1155OwnerPredicate(registry);
        uint256 toolId = _register(predicate);
        count = bound(count, 1, predicate.MAX_COLLECTIONS_PER_TOOL());
        uint256 room = predicate.maxTokenIds(count);
        slot %= count;
        ERC1155OwnerPredicate.CollectionTokens[] memory entries = new ERC1155OwnerPredicate.CollectionTokens[](count);
        for (uint256 i; i < count; ++i) {
            bool sound = i == slot || kinds[i] % 2 == 0;
            address collection = address(new TestERC1155(""));
            entries[i].collection = sound ? _behind(collection, Others(kinds[i] % 3)) : _broken(kinds[i]);
            // The last one takes all ids that are left.
            uint256 size = i + 1 == count ? room : bound(sizes[i], 1, room - (count - i - 1));
            room -= size;
            entries[i].tokenIds = new uint256[](size);
            for (uint256 j; j < size; ++j) {
                entries[i].tokenIds[j] = j;
            }
        }
        TestERC1155(entries[slot].collection).mint(holder, entries[slot].tokenIds.length - 1, 1);
        predicate.setCollectionTokens(toolId, entries);
        _assertFound(predicate, toolId);
    }

    function _broken(uint8 kind) private returns (address) {
        if (kind % 8 < 4) return address(new GasBurnerToken());
        return kind % 8 < 6 ? address(new RevertingToken()) : address(new SizedAnswerToken(1_000_000));
    }

    function _assertFound(IAccessPredicate predicate, uint256 toolId) private view {
        (bool ok, bool granted) = registry.tryHasAccess(toolId, holder, none);
        assertTrue(ok && granted);
        (ok, granted) = asker.hasAccess(predicate, termGas, toolId, holder, none);
        assertTrue(ok && granted, "as a term");
    }

    function _erc721(string memory label, uint256 count, Others others) private {
        ERC721OwnerPredicate predicate = new ERC721OwnerPredicate(registry);
        uint256 toolId = _register(predicate);
        _set721(predicate, toolId, count, others);
        _check(label, predicate, toolId, none);
    }

    function _set721(ERC721OwnerPredicate predicate, uint256 toolId, uint256 count, Others others) private {
        address[] memory collections = new address[](count);
        for (uint256 i; i < count; ++i) {
            bool burner = others == Others.BURNERS && i + 1 < count;
            collections[i] = burner ? address(new GasBurnerToken()) : _behind(address(new TestERC721("N", "N")), others);
        }
        TestERC721(collections[count - 1]).mint(holder, 1);
        predicate.setCollections(toolId, collections);
    }

    function _erc1155(string memory label, uint256 count, uint256 ids, Others others) private {
        ERC1155OwnerPredicate predicate = new ERC1155OwnerPredicate(registry);
        uint256 toolId = _register(predicate);
        _set1155(predicate, toolId, count, ids, others);
        _check(label, predicate, toolId, none);
    }

    /// @dev All ids beyond one for each collection are in the last collection, where the holder has the last of them.
    function _set1155(ERC1155OwnerPredicate predicate, uint256 toolId, uint256 count, uint256 ids, Others others)
        private
    {
        ERC1155OwnerPredicate.CollectionTokens[] memory entries = new ERC1155OwnerPredicate.CollectionTokens[](count);
        for (uint256 i; i < count; ++i) {
            bool last = i + 1 == count;
            entries[i].collection = others == Others.BURNERS && !last
                ? address(new GasBurnerToken())
                : _behind(address(new TestERC1155("")), others);
            entries[i].tokenIds = new uint256[](last ? ids - i : 1);
            for (uint256 j; j < entries[i].tokenIds.length; ++j) {
                entries[i].tokenIds[j] = uint256(keccak256(abi.encode(i, j)));
            }
        }
        uint256[] memory lastIds = entries[count - 1].tokenIds;
        TestERC1155(entries[count - 1].collection).mint(holder, lastIds[lastIds.length - 1], 1);
        predicate.setCollectionTokens(toolId, entries);
    }

    /// @dev Two contracts, so that both are cold. The holder has token 7 with the last of the values.
    function _setTrait(TraitGatedPredicate predicate, uint256 toolId, Others others) private {
        bytes32[] memory values = new bytes32[](predicate.MAX_ALLOWED_VALUES());
        for (uint256 i; i < values.length; ++i) {
            values[i] = bytes32(i + 1);
        }
        TestTraitsNFT nft = TestTraitsNFT(_behind(address(new TestTraitsNFT("N", "N")), others));
        TestTraitsNFT traits = TestTraitsNFT(_behind(address(new TestTraitsNFT("T", "T")), others));
        nft.mint(holder, 7);
        traits.mint(holder, 7);
        traits.defineTrait(TRAIT);
        traits.setTrait(7, TRAIT, values[values.length - 1]);
        predicate.configureToolTrait(toolId, address(nft), address(traits), TRAIT, values);
    }

    function _check(string memory label, IAccessPredicate predicate, uint256 toolId, bytes memory data) private {
        _checkAlone(label, toolId, data);
        (bool ok, bool granted) = asker.hasAccess(predicate, termGas, toolId, holder, data);
        assertTrue(ok && granted, string.concat(label, " as a term"));
    }

    function _checkAlone(string memory label, uint256 toolId, bytes memory data) private {
        (bool ok, bool granted) = registry.tryHasAccess(toolId, holder, data);
        uint256 used = vm.snapshotGasLastCall("Holdings", string.concat("tryHasAccess, ", label));
        console.log("tryHasAccess, %s: %d", label, used);
        assertTrue(ok && granted, label);
    }

    function _register(IAccessPredicate predicate) private returns (uint256) {
        return registry.registerTool("https://a.example/t.json", bytes32(uint256(1)), address(predicate));
    }

    /// @dev The token as the list has it. Beside burners it is behind a beacon proxy, the most expensive way.
    function _behind(address implementation, Others others) private returns (address) {
        if (others == Others.PLAIN) return implementation;
        if (others == Others.PROXIED) return address(new TestProxy(implementation));
        return address(new TestBeaconProxy(address(new TestBeacon(implementation))));
    }
}
