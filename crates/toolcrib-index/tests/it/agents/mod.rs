//! Agents: the list, the worker, search, the feed, and the remembered manifests.

mod events;
mod find;
mod memory;
mod processes;
mod scripted;
mod work;
