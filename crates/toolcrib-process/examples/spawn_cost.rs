//! Measures the cost of starting a program: directly, with a supervisor, sandboxed, and inside bubblewrap.
//!
//! `cargo run --release -p toolcrib-process --example spawn_cost -- target/release/toolcrib-launch`
#![expect(clippy::print_stdout, reason = "the numbers are the result")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use toolcrib_process::{Bubblewrap, Launcher, Limits, Policy, ProgramSpec, SandboxMode, spawn};

/// Starts of each kind. Enough for a median on a machine that is busy with other work as well.
const STARTS: usize = 40;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("the path of the launcher is missing")?;
    let launcher = Launcher::new(std::path::absolute(PathBuf::from(path))?, Vec::<String>::new());
    println!("{}", toolcrib_process::probe());
    let off = (SandboxMode::Off, Limits::UNLIMITED);
    let isolation = std::env::var_os("PATH").and_then(|path| Bubblewrap::find(std::env::split_paths(&path)));
    let mut kinds = vec![
        ("no launcher", off.clone(), None),
        ("supervisor, unsandboxed, unlimited", off, Some(&launcher)),
        ("sandbox, no limits", (SandboxMode::On(Policy::default()), Limits::UNLIMITED), Some(&launcher)),
        ("sandbox and limits", (SandboxMode::On(Policy::default()), Limits::default()), Some(&launcher)),
    ];
    if isolation.is_some() {
        kinds.push((
            "sandbox in bubblewrap",
            (SandboxMode::On(Policy { isolation, ..Policy::default() }), Limits::default()),
            Some(&launcher),
        ));
    }
    for (name, (sandbox, limits), launcher) in kinds {
        let spec = ProgramSpec { sandbox, limits, ..ProgramSpec::new("/bin/true") };
        let mut times: Vec<Duration> = Vec::new();
        for _ in 0..STARTS {
            let began = Instant::now();
            let ended = spawn(&spec, launcher)?.wait().await?;
            times.push(began.elapsed());
            assert!(ended.status.success(), "{name}: {ended:?}");
        }
        times.sort();
        println!("{name}: min {:.2?}, median {:.2?}", times[0], times[STARTS / 2]);
    }
    Ok(())
}
