//! Permissions: which function may be called with which arguments, bound to the content of its tool.
