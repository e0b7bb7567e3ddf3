//! The toolcrib command line.
fn main() {}
