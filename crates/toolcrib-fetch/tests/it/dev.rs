//! The development environment applies where it should, and nowhere else.

use toolcrib_core::clock::FixedClock;
use toolcrib_core::codes::fetch as f;
use toolcrib_core::url::HttpsUrl;
use toolcrib_fetch::{CertificateDer, DevWorld, Target, Untrusted};

use toolcrib_testkit::servers::{Authority, NOW, Script, Server, Step, World, ok};

const HOST: &str = "weather.tool.localhost";

struct Dev {
    world: World,
    ca: Authority,
    fetch: Untrusted,
}

impl Dev {
    fn new() -> Self {
        let (world, ca) = (World::new(), Authority::new("development authority"));
        let fetch = world.builder().dev(DevWorld { ca: ca.der() }).build().expect("the authority is a certificate");
        Self { world, ca, fetch }
    }

    async fn get(&self, url: &str, chain: Option<u64>) -> toolcrib_judge::evidence::Exchange {
        let url = HttpsUrl::parse(url).expect("a URL");
        self.fetch.get(&Target::file(&url, chain)).await
    }

    async fn serve(&self, authority: &Authority, host: &str, address: &str) -> Server {
        let server = Server::start(Script::tls(&authority.leaf(&[host]), vec![Step::ReadRequest, Step::send(ok("{}"))])).await;
        self.world.recorder.route(address, server.address);
        server
    }
}

#[tokio::test]
async fn a_local_tool_of_the_development_chain() {
    let dev = Dev::new();
    let server = dev.serve(&dev.ca, HOST, "127.0.0.1").await;
    let exchange = dev.get(&format!("https://{HOST}:8443/a"), Some(31337)).await;
    assert!(exchange.complete().is_some() && exchange.dev, "{exchange:?}");
    assert_eq!(exchange.connected, Some("127.0.0.1:8443".parse().unwrap()));
    assert!(dev.world.recorder.lookups().is_empty(), "nobody is asked");
    assert_eq!(server.requests()[0].header("host"), Some("weather.tool.localhost:8443"));
}

#[tokio::test]
async fn other_chains_and_no_world_are_refused() {
    let dev = Dev::new();
    let server = dev.serve(&dev.ca, HOST, "127.0.0.1").await;
    let url = format!("https://{HOST}:8443/a");
    for (url, chain) in [(&*url, Some(1)), (&url, Some(8453)), (&url, None), ("https://localhost:8443/", Some(31337))] {
        let exchange = dev.get(url, chain).await;
        assert_eq!(exchange.failure.unwrap().code, f::LOCALHOST_REFUSED, "{url} {chain:?}");
        assert!(!exchange.dev);
    }
    let without = dev.world.fetch();
    let parsed = HttpsUrl::parse(&url).unwrap();
    assert_eq!(without.get(&Target::file(&parsed, Some(31337))).await.failure.unwrap().code, f::LOCALHOST_REFUSED);
    assert!(dev.world.recorder.lookups().is_empty() && dev.world.recorder.dialled().is_empty());
    assert_eq!(server.accepted(), 0);
}

#[tokio::test]
async fn each_world_has_its_own_authority() {
    // A public authority is not trusted for a local tool.
    let dev = Dev::new();
    let _server = dev.serve(&dev.world.authority, HOST, "127.0.0.1").await;
    let exchange = dev.get(&format!("https://{HOST}/"), Some(31337)).await;
    assert_eq!(exchange.failure.as_ref().unwrap().code, f::CERTIFICATE_UNKNOWN_ISSUER);
    assert!(exchange.dev);

    // The development authority is not trusted for a public tool, not even on its own chain.
    let dev = Dev::new();
    let public = "tools.example.com";
    dev.world.recorder.host(public, &["5.5.5.5"]);
    let _server = dev.serve(&dev.ca, public, "5.5.5.5").await;
    let exchange = dev.get(&format!("https://{public}/"), Some(31337)).await;
    assert_eq!(exchange.failure.as_ref().unwrap().code, f::CERTIFICATE_UNKNOWN_ISSUER);
    assert!(!exchange.dev);
}

#[tokio::test]
async fn a_public_host_of_the_development_chain_is_treated_as_ever() {
    let dev = Dev::new();
    let public = "tools.example.com";
    let _server = dev.serve(&dev.world.authority, public, "5.5.5.5").await;
    dev.world.recorder.host(public, &["5.5.5.5"]);
    let exchange = dev.get(&format!("https://{public}/"), Some(31337)).await;
    assert!(exchange.complete().is_some() && !exchange.dev, "{exchange:?}");
    dev.world.recorder.host(public, &["127.0.0.1"]);
    let exchange = dev.get(&format!("https://{public}/"), Some(31337)).await;
    assert_eq!(exchange.failure.unwrap().code, f::PRIVATE_ADDRESS);
    // A name that only looks like a local one.
    let exchange = dev.get("https://tool.localhost.example.com/", Some(31337)).await;
    assert_eq!(exchange.failure.unwrap().code, f::NO_SUCH_HOST);
}

#[test]
fn an_authority_must_be_a_certificate() {
    let world = DevWorld { ca: CertificateDer::from(b"no certificate".to_vec()) };
    let error = Untrusted::builder(FixedClock(NOW)).dev(world).build().unwrap_err();
    assert_eq!(error.code(), f::AUTHORITY_UNREADABLE);
}
