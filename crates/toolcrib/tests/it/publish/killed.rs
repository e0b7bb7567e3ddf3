//! `publish` is killed with SIGKILL at every step, and repeated: there is one registration with the right hash.
//!
//! A proxy between the program and its node stops at the n-th request, once before the node gets it and once after, so that the response
//! is lost. The process is killed there. By increasing n until a run completes, every state that a crash can leave on the chain and in the
//! journal is tested.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::world::{PublishSetup, strs};

/// More requests than any run makes; beyond this, the loop is endless.
const MAX_QUESTIONS: usize = 200;

/// Time limit of one run on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// When a process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// Before the node gets the request.
    Before,
    /// After the node's response, which the process does not get.
    After,
}

/// A proxy in front of a node that blocks at one request.
struct Proxy {
    url: String,
    silent: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
}

impl Proxy {
    fn new(node: &str, stop: usize, moment: Moment) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let (silent, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let node = node.strip_prefix("http://").expect("a plain URL").to_owned();
        let proxy = Self { url, silent: silent.clone(), asked: asked.clone() };
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (node, silent, asked) = (node.clone(), silent.clone(), asked.clone());
                thread::spawn(move || relay(stream, &node, stop, moment, &silent, &asked));
            }
        });
        proxy
    }
}

/// Forwards requests and responses until one side disconnects, or the moment has come.
fn relay(client: TcpStream, node: &str, stop: usize, moment: Moment, silent: &AtomicBool, asked: &AtomicUsize) -> io::Result<()> {
    let upstream = TcpStream::connect(node)?;
    let (mut from_client, mut from_node) = (BufReader::new(client.try_clone()?), BufReader::new(upstream.try_clone()?));
    let (mut to_client, mut to_node) = (client, upstream);
    loop {
        let question = message(&mut from_client)?;
        let number = asked.fetch_add(1, Ordering::SeqCst) + 1;
        let fall_silent = || -> io::Result<()> {
            silent.store(true, Ordering::SeqCst);
            Err(io::ErrorKind::Interrupted.into())
        };
        if silent.load(Ordering::SeqCst) || (number == stop && moment == Moment::Before) {
            fall_silent().or_else(|_| hold(&mut from_client))?;
        }
        to_node.write_all(&question)?;
        let answer = message(&mut from_node)?;
        if number == stop && moment == Moment::After {
            fall_silent().or_else(|_| hold(&mut from_client))?;
        }
        to_client.write_all(&answer)?;
    }
}

/// Waits until the other side disconnects.
fn hold(stream: &mut impl Read) -> io::Result<()> {
    while stream.read(&mut [0; 1024])? > 0 {}
    Err(io::ErrorKind::ConnectionAborted.into())
}

/// Reads one HTTP message with a content length.
fn message(stream: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut length = 0;
    loop {
        let start = bytes.len();
        if stream.read_until(b'\n', &mut bytes)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = String::from_utf8_lossy(&bytes[start..]).to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().map_err(io::Error::other)?;
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let head = bytes.len();
    bytes.resize(head + length, 0);
    stream.read_exact(&mut bytes[head..])?;
    Ok(bytes)
}

fn spawn(place: &PublishSetup, slug: &str, more: &[&str], node: &str) -> Child {
    let arguments = place.arguments(slug, &[more, &["--rpc-url", node]].concat());
    place.world.sandbox.command(&strs(&arguments)).spawn().expect("the program starts")
}

/// Kills the process when `is_time`; returns whether it exited before.
fn kill_when(mut victim: Child, is_time: impl Fn() -> bool) -> bool {
    let began = Instant::now();
    loop {
        if let Some(status) = victim.try_wait().expect("a process") {
            assert!(status.success(), "{:?}", victim.wait_with_output());
            return true;
        }
        if is_time() {
            victim.kill().expect("killed");
            victim.wait().expect("dead");
            return false;
        }
        assert!(began.elapsed() < PATIENCE, "neither done nor stopped");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Whether a transaction is in the journal, and there was time to send it.
fn is_sent(place: &PublishSetup) -> bool {
    let journal = place.world.sandbox.home().join(".local/state/toolcrib/journal");
    let entries = std::fs::read_dir(journal).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut entries = entries.filter(|path| path.extension().is_some_and(|ending| ending == "json"));
    let is_signed = entries.any(|path| std::fs::read_to_string(path).is_ok_and(|text| text.contains("\"signed\"")));
    if is_signed {
        thread::sleep(Duration::from_millis(300));
    }
    is_signed
}

/// Mines blocks until a run that must succeed ends, and returns its notes.
fn finish_mining(place: &PublishSetup, mut run: Child) -> String {
    let began = Instant::now();
    while run.try_wait().expect("a process").is_none() {
        assert!(began.elapsed() < PATIENCE, "never done");
        thread::sleep(Duration::from_millis(100));
        place.world.mine();
    }
    let output = run.wait_with_output().expect("ended");
    let (said, noted) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.contains("\nverified ("), "{said}{noted}");
    noted.into_owned()
}

/// Killed at every request of a run that registers with a gate: two transactions.
#[test]
fn killed_at_every_question_while_registering() {
    for moment in [Moment::Before, Moment::After] {
        let place = PublishSetup::new();
        let mut resumed = 0;
        for stop in 1..=MAX_QUESTIONS {
            let slug = format!("tide-{stop}");
            // Tools of earlier rounds are not read again; otherwise a run would grow with every round.
            let from = place.world.head().to_string();
            let gate = ["--nft-gate", "0x0241662C9c78b03677892e6272EEDd36B9e94107", "--from-block", &from];
            place.write_and_serve(&slug, "one");
            let proxy = Proxy::new(&place.world.url, stop, moment);
            let done = kill_when(spawn(&place, &slug, &gate, &proxy.url), || proxy.silent.load(Ordering::SeqCst));
            if stop % 2 == 0 && !done {
                // A changed file does not cause another registration.
                place.write_and_serve(&slug, "two");
            }
            let again = place.publish(&slug, &gate).code(0);
            assert!(again.stdout.contains("\nverified ("), "{moment:?} {stop}: {again:#?}");
            resumed += usize::from(again.stderr.contains("continuing unfinished work"));
            place.check_onchain(&slug, stop, stop);
            let gated = place.world.run(&["predicate", "requirements", &stop.to_string()]).stdout;
            assert!(gated.contains("0xbdf8c428"), "{moment:?} {stop}: {gated}");
            if done {
                assert!(again.stderr.contains("already committed"), "{again:#?}");
                assert!(stop > 15 && resumed >= 6, "{stop} questions, {resumed} times half done");
                break;
            }
            assert!(stop < MAX_QUESTIONS, "it never got through; {:?}", proxy.asked);
        }
    }
}

/// Killed at every request of a run that updates; the file changes once more before the command is repeated.
#[test]
fn killed_at_every_question_while_updating() {
    for moment in [Moment::Before, Moment::After] {
        let place = PublishSetup::new();
        place.write_and_serve("tide-table", "zero");
        place.publish("tide-table", &[]).code(0);
        for stop in 1..=MAX_QUESTIONS {
            place.write_and_serve("tide-table", &format!("{stop}"));
            let proxy = Proxy::new(&place.world.url, stop, moment);
            let done = kill_when(spawn(&place, "tide-table", &[], &proxy.url), || proxy.silent.load(Ordering::SeqCst));
            if stop % 2 == 0 {
                place.write_and_serve("tide-table", &format!("{stop}, changed again"));
            }
            let again = place.publish("tide-table", &[]).code(0);
            assert!(again.stdout.contains("\nverified ("), "{moment:?} {stop}: {again:#?}");
            place.check_onchain("tide-table", 1, 1);
            if done {
                assert!(stop > 10, "{stop} questions");
                break;
            }
            assert!(stop < MAX_QUESTIONS, "it never got through; {:?}", proxy.asked);
        }
    }
}

/// Killed while its registration waits for a block. The file changes, and the block is mined before or after the second run.
#[test]
fn killed_while_a_transaction_waits() {
    for mined_before in [true, false] {
        let place = PublishSetup::with(&["--block-time", "86400"]);
        place.write_and_serve("tide-table", "one");
        let victim = spawn(&place, "tide-table", &[], &place.world.url);
        assert!(!kill_when(victim, || is_sent(&place)));
        if mined_before {
            place.world.mine();
        }
        // A changed file does not cause another registration.
        place.write_and_serve("tide-table", "two");
        let noted = finish_mining(&place, spawn(&place, "tide-table", &[], &place.world.url));
        assert!(noted.contains("continuing unfinished work") && noted.contains("change the manifest"), "{noted}");
        place.check_onchain("tide-table", 1, 1);
    }
}

/// `register` is killed, and `publish` continues.
#[test]
fn what_another_command_began_is_finished() {
    let place = PublishSetup::with(&["--block-time", "86400"]);
    place.write_and_serve("tide-table", "one");
    let uri = place.uri("tide-table");
    let arguments = ["register", "--metadata", &uri, "--network", "local", "--rpc-url", &place.world.url, "--dev-ca", "ca.pem"];
    let mut command = place.world.sandbox.command(&[&arguments[..], &["--dev-account", "0", "--yes"]].concat());
    assert!(!kill_when(command.spawn().expect("the program starts"), || is_sent(&place)));
    place.write_and_serve("tide-table", "two");
    let noted = finish_mining(&place, spawn(&place, "tide-table", &["--resume"], &place.world.url));
    assert!(noted.contains("continuing unfinished work") && noted.contains("change the manifest"), "{noted}");
    place.check_onchain("tide-table", 1, 1);
}

/// Killed while the server is requested: before anything is signed, and when only the verification is left.
#[test]
fn killed_while_the_server_is_asked() {
    for request in [1, 2] {
        let place = PublishSetup::new();
        place.write_and_serve("tide-table", "one");
        place.server.hold.store(request, Ordering::SeqCst);
        let victim = spawn(&place, "tide-table", &[], &place.world.url);
        assert!(!kill_when(victim, || place.server.held.load(Ordering::SeqCst)), "request {request}");
        place.server.held.store(false, Ordering::SeqCst);
        place.check_count(request - 1);
        place.check_nothing_says_verified();
        let again = place.publish("tide-table", &[]).code(0);
        assert!(again.stdout.contains("\nverified ("), "{again:#?}");
        place.check_onchain("tide-table", 1, 1);
    }
}

/// Two at once: one does the work, the other reports that.
#[test]
fn two_at_once_register_once() {
    let place = PublishSetup::new();
    place.write_and_serve("tide-table", "one");
    place.server.hold.store(1, Ordering::SeqCst);
    let first = spawn(&place, "tide-table", &[], &place.world.url);
    let began = Instant::now();
    while !place.server.held.load(Ordering::SeqCst) {
        assert!(began.elapsed() < PATIENCE, "never asked");
        thread::sleep(Duration::from_millis(5));
    }
    let second = place.publish("tide-table", &[]).code(2);
    assert!(second.stderr.contains("author.busy"), "{}", second.stderr);
    place.server.held.store(false, Ordering::SeqCst);
    assert!(first.wait_with_output().expect("ended").status.success());
    place.check_onchain("tide-table", 1, 1);
}
