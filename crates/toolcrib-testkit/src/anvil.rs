//! Foundry's anvil as a process.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Longest wait until it listens, on a busy machine.
const START: Duration = Duration::from_secs(60);

/// A running anvil on a free port. It ends when this is dropped.
#[derive(Debug)]
pub struct Anvil {
    child: Child,
    /// The URL of its JSON-RPC endpoint.
    pub url: String,
}

impl Anvil {
    /// Starts it with further arguments. `None`, recorded as a skip of the calling test, if it is not installed.
    ///
    /// # Panics
    ///
    /// If it is installed and does not start.
    #[must_use]
    pub fn start(arguments: &[&str]) -> Option<Self> {
        let program = crate::anvil()?;
        let mut command = Command::new(program);
        command.args(["--port", "0"]).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("anvil starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines().map_while(Result::ok);
        let mut anvil = Self { child, url: String::new() };
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let address = lines.find_map(|line| Some(line.strip_prefix("Listening on ")?.trim().to_owned()));
            let _ = sender.send(address);
            // Later output must not fill the pipe.
            lines.for_each(drop);
        });
        let address = receiver.recv_timeout(START).expect("anvil answers in time").expect("anvil says where it listens");
        anvil.url = format!("http://{address}");
        Some(anvil)
    }

    /// Returns the chain as a CAIP-2 identifier.
    #[must_use]
    pub fn of_chain(chain_id: u64) -> Option<Self> {
        Self::start(&["--chain-id", &chain_id.to_string()])
    }

    /// Returns its process ID.
    #[must_use]
    pub fn process(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Anvil {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
