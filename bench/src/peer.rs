//! Other implementations, each a child process that keeps running and measures its own CPU time.

use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A running peer. Dropping it closes its stdin, which ends it.
pub struct Peer {
    pub name: &'static str,
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Peer {
    pub fn start(name: &'static str, program: &str, script: &str) -> io::Result<Self> {
        let mut child = Command::new(program).arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or_else(|| io::Error::other("the peer has no standard output"))?;
        Ok(Self { name, child, input, output: BufReader::new(output) })
    }

    /// Makes the peer read the files; returns its hash of each, as hex.
    pub fn load(&mut self, paths: &[PathBuf]) -> io::Result<Vec<String>> {
        let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        let answer = self.ask(&format!("load\t{}", paths.join("\t")))?;
        Ok(answer.split_whitespace().map(str::to_owned).collect())
    }

    /// CPU nanoseconds that the peer takes for `passes` over the loaded files.
    pub fn time(&mut self, passes: u64) -> io::Result<u64> {
        self.ask(&format!("time\t{passes}"))?.trim().parse().map_err(io::Error::other)
    }

    fn ask(&mut self, line: &str) -> io::Result<String> {
        let Some(input) = &mut self.input else { return Err(io::Error::other("the peer was stopped")) };
        writeln!(input, "{line}")?;
        input.flush()?;
        let mut answer = String::new();
        if self.output.read_line(&mut answer)? == 0 {
            return Err(io::Error::other(format!("{} ended early", self.name)));
        }
        Ok(answer)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.input = None;
        // An error of waiting for the child cannot be handled.
        let _ = self.child.wait();
    }
}
