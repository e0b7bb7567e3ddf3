//! The real program on a kept store: how long `toolcrib directory` takes until it is ready.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::argument;
use crate::process::{StartUp, Words};

/// The program that is named, or the one that was built with this benchmark.
pub(crate) fn find() -> Option<PathBuf> {
    if let Some(program) = argument("--program") {
        return Some(PathBuf::from(program));
    }
    let this = std::env::current_exe().expect("this program");
    let program = this.parent().and_then(Path::parent)?.join("toolcrib");
    program.is_file().then_some(program)
}

/// Starts it, asks until it is ready, and ends it. Its settings are its own; its node is never asked.
pub(crate) fn start(program: &Path, setting: &str, words: &Words) -> StartUp {
    let home = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(program);
    command.args(["directory", "--listen", "127.0.0.1:0", "--network", "base", "--rpc-url", "http://127.0.0.1:9", "--search"]);
    command.arg(&words.folder);
    if let Some(embedding) = &words.embedding {
        command.arg("--embedding").arg(embedding);
    }
    command.env_clear().env("HOME", home.path()).env("XDG_DATA_DIRS", home.path()).env("TOOLCRIB_INDEX", setting);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let begun = Instant::now();
    let mut child = command.spawn().expect("the program");
    let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let url = lines.map_while(Result::ok).find_map(|line| line.strip_prefix("directory http://127.0.0.1:").map(str::to_owned));
    let port = url.expect("it says where it listens").trim().parse().expect("a port");
    let start_up = StartUp::measure(begun, port);
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    start_up
}
