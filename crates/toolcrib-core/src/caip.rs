//! Chain-agnostic identifiers: CAIP-2 chains, CAIP-10 accounts, CAIP-19 assets, and references to registered tools.
