//! Secrets: credentials of tools, encrypted at rest and bound to the content of their tool.
