//! TXT sources and writers against servers on this machine: honest ones, hostile ones, and BIND.

mod authority;
mod bind;
mod dns;
mod dnssec;
mod fns;
mod json_sources;
mod liars;
mod support;
mod writers;
