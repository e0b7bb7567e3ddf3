// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

/// @title TestDelegateRegistry
/// @notice A delegation registry for tests with the functions, events and answers of delegate.xyz's DelegateRegistry v2
///         (0x00000000000000447e69651d841bD8D104Bed493). It leaves out `readSlot`, `readSlots` and `sweep`.
/// @dev A delegation without rights stands for all rights. A wider one stands for every narrower one: of everything for a
///      contract, of a contract for a token.
contract TestDelegateRegistry {
    enum DelegationType {
        NONE,
        ALL,
        CONTRACT,
        ERC721,
        ERC20,
        ERC1155
    }

    struct Delegation {
        DelegationType type_;
        address to;
        address from;
        bytes32 rights;
        address contract_;
        uint256 tokenId;
        uint256 amount;
    }

    /// @dev By hash. A revoked delegation stays with type NONE, and with an amount of zero.
    mapping(bytes32 hash => Delegation) private _delegations;
    mapping(address from => bytes32[]) private _outgoing;
    mapping(address to => bytes32[]) private _incoming;
    mapping(bytes32 hash => bool) private _known;

    event DelegateAll(address indexed from, address indexed to, bytes32 rights, bool enable);
    event DelegateContract(
        address indexed from, address indexed to, address indexed contract_, bytes32 rights, bool enable
    );
    event DelegateERC721(
        address indexed from,
        address indexed to,
        address indexed contract_,
        uint256 tokenId,
        bytes32 rights,
        bool enable
    );
    event DelegateERC20(
        address indexed from, address indexed to, address indexed contract_, bytes32 rights, uint256 amount
    );
    event DelegateERC1155(
        address indexed from,
        address indexed to,
        address indexed contract_,
        uint256 tokenId,
        bytes32 rights,
        uint256 amount
    );

    error MulticallFailed();

    /// @notice Several calls in one, as the same sender.
    function multicall(bytes[] calldata data) external payable returns (bytes[] memory results) {
        results = new bytes[](data.length);
        for (uint256 i; i < data.length; ++i) {
            bool ok;
            (ok, results[i]) = address(this).delegatecall(data[i]);
            if (!ok) revert MulticallFailed();
        }
    }

    /// @notice Lets `to` act for the sender everywhere, or no longer.
    function delegateAll(address to, bytes32 rights, bool enable) external payable returns (bytes32 hash) {
        hash = _set(Delegation(DelegationType.ALL, to, msg.sender, rights, address(0), 0, 0), enable);
        emit DelegateAll(msg.sender, to, rights, enable);
    }

    /// @notice Lets `to` act for the sender towards a contract, or no longer.
    function delegateContract(address to, address contract_, bytes32 rights, bool enable)
        external
        payable
        returns (bytes32 hash)
    {
        hash = _set(Delegation(DelegationType.CONTRACT, to, msg.sender, rights, contract_, 0, 0), enable);
        emit DelegateContract(msg.sender, to, contract_, rights, enable);
    }

    /// @notice Lets `to` act for the sender with one token, or no longer.
    function delegateERC721(address to, address contract_, uint256 tokenId, bytes32 rights, bool enable)
        external
        payable
        returns (bytes32 hash)
    {
        hash = _set(Delegation(DelegationType.ERC721, to, msg.sender, rights, contract_, tokenId, 0), enable);
        emit DelegateERC721(msg.sender, to, contract_, tokenId, rights, enable);
    }

    /// @notice Lets `to` act for the sender with an amount of a token; zero takes it back.
    function delegateERC20(address to, address contract_, bytes32 rights, uint256 amount)
        external
        payable
        returns (bytes32 hash)
    {
        hash = _set(Delegation(DelegationType.ERC20, to, msg.sender, rights, contract_, 0, amount), amount != 0);
        emit DelegateERC20(msg.sender, to, contract_, rights, amount);
    }

    /// @notice Lets `to` act for the sender with an amount of a token id; zero takes it back.
    function delegateERC1155(address to, address contract_, uint256 tokenId, bytes32 rights, uint256 amount)
        external
        payable
        returns (bytes32 hash)
    {
        hash = _set(Delegation(DelegationType.ERC1155, to, msg.sender, rights, contract_, tokenId, amount), amount != 0);
        emit DelegateERC1155(msg.sender, to, contract_, tokenId, rights, amount);
    }

    /// @notice Whether `to` may act for `from` everywhere.
    function checkDelegateForAll(address to, address from, bytes32 rights) external view returns (bool) {
        return _all(to, from, rights);
    }

    /// @notice Whether `to` may act for `from` towards a contract.
    function checkDelegateForContract(address to, address from, address contract_, bytes32 rights)
        external
        view
        returns (bool)
    {
        return _contract(to, from, contract_, rights);
    }

    /// @notice Whether `to` may act for `from` with a token.
    function checkDelegateForERC721(address to, address from, address contract_, uint256 tokenId, bytes32 rights)
        external
        view
        returns (bool)
    {
        return _contract(to, from, contract_, rights)
            || _amount(DelegationType.ERC721, to, from, contract_, tokenId, rights) != 0;
    }

    /// @notice With how much of a token `to` may act for `from`.
    function checkDelegateForERC20(address to, address from, address contract_, bytes32 rights)
        external
        view
        returns (uint256)
    {
        if (_contract(to, from, contract_, rights)) return type(uint256).max;
        return _amount(DelegationType.ERC20, to, from, contract_, 0, rights);
    }

    /// @notice With how much of a token id `to` may act for `from`.
    function checkDelegateForERC1155(address to, address from, address contract_, uint256 tokenId, bytes32 rights)
        external
        view
        returns (uint256)
    {
        if (_contract(to, from, contract_, rights)) return type(uint256).max;
        return _amount(DelegationType.ERC1155, to, from, contract_, tokenId, rights);
    }

    /// @notice Delegations to an account that are in force.
    function getIncomingDelegations(address to) external view returns (Delegation[] memory) {
        return getDelegationsFromHashes(getIncomingDelegationHashes(to));
    }

    /// @notice Delegations by an account that are in force.
    function getOutgoingDelegations(address from) external view returns (Delegation[] memory) {
        return getDelegationsFromHashes(getOutgoingDelegationHashes(from));
    }

    /// @notice Hashes of the delegations to an account that are in force.
    function getIncomingDelegationHashes(address to) public view returns (bytes32[] memory) {
        return _inForce(_incoming[to]);
    }

    /// @notice Hashes of the delegations by an account that are in force.
    function getOutgoingDelegationHashes(address from) public view returns (bytes32[] memory) {
        return _inForce(_outgoing[from]);
    }

    /// @notice Delegations by hash; all zeros for one that is not in force.
    function getDelegationsFromHashes(bytes32[] memory hashes) public view returns (Delegation[] memory delegations) {
        delegations = new Delegation[](hashes.length);
        for (uint256 i; i < hashes.length; ++i) {
            delegations[i] = _delegations[hashes[i]];
        }
    }

    /// @notice ERC-165: itself and the id of IDelegateRegistry.
    function supportsInterface(bytes4 interfaceId) external pure returns (bool) {
        return interfaceId == 0x01ffc9a7 || interfaceId == 0x5f68bc5a;
    }

    function _set(Delegation memory delegation, bool enable) private returns (bytes32 hash) {
        hash = _hash(
            delegation.type_,
            delegation.to,
            delegation.from,
            delegation.contract_,
            delegation.tokenId,
            delegation.rights
        );
        if (!enable) {
            delete _delegations[hash];
            return hash;
        }
        if (!_known[hash]) {
            _known[hash] = true;
            _outgoing[delegation.from].push(hash);
            _incoming[delegation.to].push(hash);
        }
        _delegations[hash] = delegation;
    }

    /// @dev The packed fields that the type has, shifted by a byte to make room for the type.
    function _hash(DelegationType type_, address to, address from, address contract_, uint256 tokenId, bytes32 rights)
        private
        pure
        returns (bytes32)
    {
        bytes memory fields = abi.encodePacked(rights, from, to);
        if (type_ != DelegationType.ALL) fields = abi.encodePacked(fields, contract_);
        if (type_ == DelegationType.ERC721 || type_ == DelegationType.ERC1155) {
            fields = abi.encodePacked(fields, tokenId);
        }
        return bytes32((uint256(keccak256(fields)) << 8) | uint256(type_));
    }

    function _all(address to, address from, bytes32 rights) private view returns (bool) {
        return _amount(DelegationType.ALL, to, from, address(0), 0, rights) != 0;
    }

    function _contract(address to, address from, address contract_, bytes32 rights) private view returns (bool) {
        return _all(to, from, rights) || _amount(DelegationType.CONTRACT, to, from, contract_, 0, rights) != 0;
    }

    /// @return The larger amount of the delegation with these rights and the one with all rights; 1 for one in force of a
    ///         type that has no amounts.
    function _amount(DelegationType type_, address to, address from, address contract_, uint256 tokenId, bytes32 rights)
        private
        view
        returns (uint256)
    {
        uint256 full = _amountOf(_delegations[_hash(type_, to, from, contract_, tokenId, "")]);
        if (rights == "") return full;
        uint256 some = _amountOf(_delegations[_hash(type_, to, from, contract_, tokenId, rights)]);
        return full > some ? full : some;
    }

    function _amountOf(Delegation storage delegation) private view returns (uint256) {
        DelegationType type_ = delegation.type_;
        if (type_ == DelegationType.NONE) return 0;
        return type_ == DelegationType.ERC20 || type_ == DelegationType.ERC1155 ? delegation.amount : 1;
    }

    function _inForce(bytes32[] storage all) private view returns (bytes32[] memory hashes) {
        uint256 count;
        for (uint256 i; i < all.length; ++i) {
            if (_delegations[all[i]].type_ != DelegationType.NONE) ++count;
        }
        hashes = new bytes32[](count);
        for (uint256 i = all.length; i > 0; --i) {
            if (_delegations[all[i - 1]].type_ != DelegationType.NONE) hashes[--count] = all[i - 1];
        }
    }
}
