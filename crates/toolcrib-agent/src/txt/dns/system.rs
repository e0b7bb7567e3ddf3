//! The operating system's name servers.

use std::fs::File;
use std::io::Read as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use super::DnsServer;

/// The file with the name servers on Unix systems.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// Maximum number of bytes read from that file. Real ones have a few hundred.
const MAX_BYTES: u64 = 64 * 1024;

/// Maximum number of servers: the limit of the C library.
const MAX_SERVERS: usize = 3;

/// Reads the servers of the operating system. Without any, localhost is used, as in the C library.
pub(super) fn servers() -> Result<Vec<DnsServer>, String> {
    read(Path::new(RESOLV_CONF))
}

fn read(path: &Path) -> Result<Vec<DnsServer>, String> {
    let mut text = String::new();
    match File::open(path) {
        Ok(file) => drop(file.take(MAX_BYTES).read_to_string(&mut text).map_err(|error| format!("{}: {error}", path.display()))?),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && cfg!(unix) => {}
        Err(error) => return Err(format!("{}: {error}", path.display())),
    }
    Ok(parse(&text))
}

fn parse(text: &str) -> Vec<DnsServer> {
    let mut servers: Vec<_> = text
        .lines()
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            // Addresses with a zone (`fe80::1%eth0`) belong to an interface and are skipped.
            (words.next()? == "nameserver").then(|| words.next()?.parse::<IpAddr>().ok()).flatten()
        })
        .take(MAX_SERVERS)
        .map(|address| DnsServer::udp(SocketAddr::new(address, 53)))
        .collect();
    if servers.is_empty() {
        servers.push(DnsServer::udp(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 53)));
    }
    servers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        parse(text).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn servers_are_taken_in_their_order() {
        let text = "# comment\nsearch example.com\nnameserver 192.0.2.1\n nameserver\t2001:db8::1 # x\nnameserver fe80::1%eth0\noptions x\n";
        assert_eq!(shown(text), ["udp://192.0.2.1", "udp://[2001:db8::1]"]);
        assert_eq!(shown(&"nameserver 192.0.2.1\n".repeat(9)).len(), MAX_SERVERS);
        assert_eq!(shown(""), ["udp://127.0.0.1"]);
        assert_eq!(shown("nameserver\nnameserver x\nnameservers 192.0.2.1"), ["udp://127.0.0.1"]);
    }

    #[test]
    fn a_missing_file_means_this_machine() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(&folder.path().join("none")).unwrap().len(), 1);
        assert!(read(folder.path()).is_err());
    }
}
