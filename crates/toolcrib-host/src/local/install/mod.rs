//! Installs, updates and removes tool folders, with a lockfile of digests.
