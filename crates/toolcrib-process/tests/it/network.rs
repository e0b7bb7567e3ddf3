//! Sockets of all kinds.

use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};

use toolcrib_process::{Network, Policy};

use crate::{allowed, attack, attack_if, program, quoted, run, sandboxed};

fn ports(ports: &[u16]) -> Policy {
    Policy { network: Network::Ports(ports.to_vec()), ..Policy::default() }
}

fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    (listener, port)
}

#[tokio::test]
async fn tcp_reaches_the_allowed_ports_and_no_others() {
    let (_listener, port) = listener();
    let other = if port == 443 { 444 } else { 443 };
    let connect = format!("import socket\nsocket.create_connection(('127.0.0.1', {port}), 5)");
    attack(&connect, Policy::default()).await;
    attack(&connect, ports(&[other])).await;
    attack(&connect, ports(&[])).await;
    allowed(&connect, ports(&[other, port])).await;
    allowed(&connect, Policy { network: Network::Any, ..Policy::default() }).await;
    let listen = "import socket\ns = socket.socket()\ns.bind(('127.0.0.1', 0))\ns.listen()";
    attack(listen, Policy::default()).await;
    attack(listen, ports(&[port])).await;
    // TCP Fast Open connects without a call of `connect`.
    let fast_open = format!("import socket\ns = socket.socket()\ns.sendto(b'x', 0x20000000, ('127.0.0.1', {port}))");
    attack_if(&fast_open, ports(&[other]), Some("TCP Fast Open is turned off")).await;
}

#[tokio::test]
async fn udp_and_other_protocols_are_denied_unless_the_network_is_open() {
    let server = UdpSocket::bind("127.0.0.1:0").expect("a port");
    server.set_nonblocking(true).expect("set");
    let port = server.local_addr().expect("an address").port();
    let send =
        format!("import socket\nsocket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'secret', ('127.0.0.1', {port}))");
    for policy in [Policy::default(), ports(&[port, 53])] {
        attack(&send, policy).await;
        let mut bytes = [0; 16];
        assert_eq!(server.recv(&mut bytes).expect("the one without a sandbox"), 6);
        assert!(server.recv(&mut bytes).is_err(), "nothing came out of the sandbox");
    }
    allowed(&send, Policy { network: Network::Any, ..Policy::default() }).await;
    let unavailable = Some("this kernel or user has no such sockets");
    for socket in [
        "socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP",
        "socket.AF_INET, socket.SOCK_STREAM, 262",
        "socket.AF_NETLINK, socket.SOCK_RAW, 0",
        "socket.AF_PACKET, socket.SOCK_RAW, 0",
        "socket.AF_VSOCK, socket.SOCK_STREAM, 0",
        "socket.AF_ALG, socket.SOCK_SEQPACKET, 0",
    ] {
        let statements = format!("import socket\nsocket.socket({socket})");
        attack_if(&statements, Policy::default(), unavailable).await;
        attack_if(&statements, ports(&[port]), unavailable).await;
    }
}

#[tokio::test]
async fn services_on_unix_sockets_are_out_of_reach() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, datagrams) = (folder.path().join("service"), folder.path().join("datagrams"));
    let _service = UnixListener::bind(&path).expect("bound");
    let _datagrams = UnixDatagram::bind(&datagrams).expect("bound");
    let name = format!("toolcrib-test-{}", std::process::id());
    let _abstract = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).expect("a name")).expect("bound");
    // Even if the files may be read and written.
    let policy = || Policy { write: vec![folder.path().to_path_buf()], ..Policy::default() };
    let connect = |address: &str| format!("import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect({address})");
    attack(&connect(&quoted(&path)), policy()).await;
    attack(&connect(&format!("'\\0{name}'")), policy()).await;
    // A pair of connected stream sockets is allowed, but a datagram socket could be connected elsewhere.
    let pair = format!(
        "import socket\na, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\na.sendto(b'x', {})",
        quoted(&datagrams)
    );
    attack(&pair, policy()).await;
    allowed("import socket\na, b = socket.socketpair()\na.send(b'x')\nassert b.recv(1) == b'x'", policy()).await;
    let sockets = Policy { unix_sockets: true, ..policy() };
    allowed(&connect(&quoted(&path)), sockets.clone()).await;
    // Abstract names are not in any folder that could be allowed.
    attack(&connect(&format!("'\\0{name}'")), sockets).await;
}

/// The resolver of glibc uses UDP unless it is configured otherwise, which is only useful for a program that may connect to the DNS port.
#[tokio::test]
async fn names_are_resolved_over_tcp_where_only_tcp_is_allowed() {
    let told = |policy: Policy, own: Option<&'static str>| async move {
        let mut spec = sandboxed(program("/usr/bin/env", &[]), policy);
        spec.environment.extend(own.map(|value| ("RES_OPTIONS".into(), value.into())));
        let ran = run(&spec).await;
        ran.succeeded().lines().find_map(|line| line.strip_prefix("RES_OPTIONS=").map(str::to_owned))
    };
    assert_eq!(told(ports(&[53, 443]), None).await.as_deref(), Some("use-vc"));
    assert_eq!(told(ports(&[53]), Some("timeout:1")).await.as_deref(), Some("timeout:1"), "what the host says is not replaced");
    for policy in [ports(&[443]), ports(&[]), Policy::default(), Policy { network: Network::Any, ..Policy::default() }] {
        assert_eq!(told(policy.clone(), None).await, None, "{policy:?}");
    }
}
