//! Agents: the list, the work, the search, the feed, and what is remembered.

mod events;
mod find;
mod memory;
mod processes;
mod scripted;
mod work;
