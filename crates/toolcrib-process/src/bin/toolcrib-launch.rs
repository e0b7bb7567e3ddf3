//! The launcher as a separate program, so that the tests of this crate need no other crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    toolcrib_process::launcher_main(std::env::args_os().skip(1))
}
