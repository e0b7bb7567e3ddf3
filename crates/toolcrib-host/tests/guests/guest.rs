//! A WebAssembly component for tests, which compile it for `wasm32-wasip2`. It does what the argument `do` says, including attacks.

use std::io::Write as _;
use std::net::ToSocketAddrs as _;

fn main() {
    let mut message = String::new();
    std::io::stdin().read_line(&mut message).expect("a line");
    let path = member(&message, "path");
    match member(&message, "do") {
        "greet" => {
            eprintln!("a line of the log with {}", member(&message, "token"));
            println!("{{\"id\":1,\"progress\":1,\"total\":2,\"message\":\"half\"}}");
            answer(Ok::<_, String>("hello".to_owned()));
        }
        "environment" => {
            let (variables, arguments) = (std::env::vars().count(), std::env::args().count());
            answer(Ok::<_, String>(format!("{variables} {arguments}")));
        }
        "read" => answer(std::fs::read_to_string(path)),
        "write" => answer(std::fs::write(path, "written").map(|()| "written".to_owned())),
        "link" => answer(std::fs::hard_link(path, member(&message, "to")).map(|()| "linked".to_owned())),
        "connect" => answer(std::net::TcpStream::connect(path).map(|_| "connected".to_owned())),
        "listen" => answer(std::net::TcpListener::bind("127.0.0.1:0").map(|_| "listening".to_owned())),
        "datagram" => answer(std::net::UdpSocket::bind("127.0.0.1:0").map(|_| "bound".to_owned())),
        "resolve" => answer("localhost:80".to_socket_addrs().map(|addresses| format!("{}", addresses.count()))),
        "start" => answer(std::process::Command::new("sh").arg("-c").arg("true").status().map(|status| status.to_string())),
        "loop" => loop {
            std::hint::black_box(0);
        },
        "sleep" => std::thread::sleep(std::time::Duration::from_secs(3_600)),
        "allocate" => {
            let mut all: Vec<Vec<u8>> = Vec::new();
            for _ in 0..8 * 1_024 {
                all.push(vec![1; 1 << 20]);
            }
            answer(Ok::<_, String>(format!("{} MiB", all.len())));
        }
        "flood" => loop {
            // Without a line feed: 10 GiB if nothing stops it.
            std::io::stdout().write_all(&[b'x'; 1 << 16]).expect("a write");
            std::io::stdout().flush().expect("a write");
        },
        "lines" => loop {
            println!("noise");
        },
        "log" => {
            for _ in 0..100_000 {
                eprintln!("noise");
            }
            answer(Ok::<_, String>("quiet".to_owned()));
        }
        "after" => {
            answer(Ok::<_, String>("early".to_owned()));
            loop {
                std::hint::black_box(0);
            }
        }
        "recurse" => answer(Ok::<_, String>(format!("{}", recurse(1)))),
        "panic" => panic!("on purpose"),
        "exit" => std::process::exit(3),
        _ => {}
    }
}

/// The text of a member, wherever it is in the message.
fn member<'m>(message: &'m str, name: &str) -> &'m str {
    let start = format!("\"{name}\":\"");
    let value = message.split_once(&start).map_or("", |(_, rest)| rest);
    value.split('"').next().unwrap_or_default()
}

fn answer<E: std::fmt::Display>(result: Result<String, E>) {
    match result {
        Ok(text) => println!("{{\"id\":1,\"result\":{{\"ok\":\"{}\"}}}}", text.trim()),
        Err(error) => println!("{{\"id\":1,\"result\":{{\"failed\":\"{}\"}}}}", error.to_string().replace('"', "'")),
    }
}

fn recurse(depth: u64) -> u64 {
    let room = std::hint::black_box([depth; 64]);
    room[1] + if depth == u64::MAX { 0 } else { recurse(depth + 1) }
}
