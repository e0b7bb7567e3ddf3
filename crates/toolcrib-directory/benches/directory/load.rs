//! Requests that come when they come, whether or not the ones before are answered.
//!
//! Each has a moment at which it is due, and its latency counts from there: a server that stops for a second is charged with everything
//! that came meanwhile. Connections are kept open. Threads and not tasks wait for the moments, since timers of a runtime are too coarse.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Connections. When all of them wait for an answer, what is due next waits too, and is charged for it.
const CONNECTIONS: usize = 32;

/// How long one answer may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// What came of some requests.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// In milliseconds, by kind and sorted.
    pub(crate) times: Vec<(&'static str, Vec<f64>)>,
    pub(crate) errors: u64,
    pub(crate) bytes: u64,
}

impl Outcome {
    pub(crate) fn all(&self) -> Vec<f64> {
        let mut all: Vec<f64> = self.times.iter().flat_map(|(_, times)| times.iter().copied()).collect();
        all.sort_by(f64::total_cmp);
        all
    }
}

/// The time that so large a share is below.
pub(crate) fn share(times: &[f64], share: f64) -> f64 {
    times.get(((times.len() as f64 * share) as usize).min(times.len().saturating_sub(1))).copied().unwrap_or_default()
}

/// Asks `rate` times a second for so many seconds. `address` gives the kind and the path of a request by its number.
pub(crate) fn ask(port: u16, rate: u64, seconds: u64, address: impl Fn(u64) -> (&'static str, String) + Sync) -> Outcome {
    let (next, all) = (AtomicU64::new(0), rate * seconds);
    let outcome: Mutex<Outcome> = Mutex::default();
    let begun = Instant::now() + Duration::from_millis(50);
    std::thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            scope.spawn(|| {
                let mut connection = None;
                let mut mine: Vec<(&'static str, f64)> = Vec::new();
                let (mut errors, mut bytes) = (0, 0);
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= all {
                        break;
                    }
                    let due = begun + Duration::from_nanos(number * 1_000_000_000 / rate);
                    let (kind, path) = address(number);
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                    match get(&mut connection, port, &path) {
                        Ok(length) => bytes += length as u64,
                        Err(_) => {
                            errors += 1;
                            connection = None;
                        }
                    }
                    mine.push((kind, due.elapsed().as_secs_f64() * 1e3));
                }
                let mut outcome = outcome.lock().expect("nobody panics");
                outcome.errors += errors;
                outcome.bytes += bytes;
                for (kind, time) in mine {
                    match outcome.times.iter_mut().find(|(name, _)| *name == kind) {
                        Some((_, times)) => times.push(time),
                        None => outcome.times.push((kind, vec![time])),
                    }
                }
            });
        }
    });
    let mut outcome = outcome.into_inner().expect("nobody panics");
    outcome.times.iter_mut().for_each(|(_, times)| times.sort_by(f64::total_cmp));
    outcome.times.sort_by_key(|(kind, _)| *kind);
    outcome
}

/// Asks once, and gives the length of a good answer's body.
pub(crate) fn get(connection: &mut Option<TcpStream>, port: u16, path: &str) -> std::io::Result<usize> {
    let bad = || std::io::Error::other("not an answer");
    let stream = match connection {
        Some(stream) => stream,
        None => {
            let stream = TcpStream::connect(("127.0.0.1", port))?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            connection.insert(stream)
        }
    };
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").as_bytes())?;
    let mut seen = Vec::with_capacity(16 * 1024);
    let mut buffer = [0; 16 * 1024];
    let (head, length) = loop {
        let count = stream.read(&mut buffer)?;
        seen.extend_from_slice(buffer.get(..count).filter(|some| !some.is_empty()).ok_or_else(bad)?);
        if let Some(end) = seen.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&seen[..end]).to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
            if !head.starts_with("http/1.1 200 ") {
                return Err(bad());
            }
            break (end + 4, length.ok_or_else(bad)?);
        }
    };
    while seen.len() < head + length {
        let count = stream.read(&mut buffer)?;
        seen.extend_from_slice(buffer.get(..count).filter(|some| !some.is_empty()).ok_or_else(bad)?);
    }
    Ok(length)
}
