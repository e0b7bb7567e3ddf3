//! Imports tools from folders of other hosts, MCP servers and MCP bundles.
