//! Agents: the list of names, the worker, and finding them, on both engines.

mod find;
mod processes;
mod scripted;
mod work;
