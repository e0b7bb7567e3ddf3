//! Images come from the directory, whatever their servers do, and their servers learn nothing about visitors.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::http::StatusCode;
use toolcrib_directory::{Auth, Directory, Options, Rate};

use crate::shelf::{Ask, Reply, Shelf, Stock, open, path};
use toolcrib_testkit::servers::{Script, Server, Step, World, answer};

/// A PNG of one pixel.
const PNG: &[u8] =
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\0\0\0\x0aIDATx\x9cc\0\x01\0\0\x05\0\x01\
    \x0d\x0a\x2d\xb4\0\0\0\0IEND\xaeB`\x82";

/// Another image: the start of a GIF of two by two pixels.
const GIF: &[u8] = b"GIF89a\x02\0\x02\0\0\0\0;";

fn served(bytes: &'static [u8]) -> Vec<u8> {
    // Whatever a server declares plays no part.
    answer("200 OK", "Content-Type: text/html\r\nX-Secret: of-the-author\r\nSet-Cookie: a=b\r\n", bytes)
}

async fn shelf(world: &World, options: Options) -> Shelf {
    Shelf::with_images(options, world.builder().concurrency(Directory::IMAGE_FETCHES).build().expect("a client")).await
}

fn with_image(id: u64, url: &str) -> Stock {
    Stock::good(id, "Picture").manifest(|manifest| manifest.image = Some(url.to_owned()))
}

/// The address of a tool's image, as the API has it.
async fn image_of(shelf: &Shelf, id: u64) -> String {
    shelf.get(&path(id)).await.json()["image_url"].as_str().expect("an image").to_owned()
}

/// The same without asking the API, which gives none for what is not fetched.
fn icon(id: u64) -> String {
    format!("{}/icon", path(id).replace("/api/v2/tools", "/images"))
}

fn is_placeholder(reply: &Reply) -> bool {
    reply.header("content-type") == "image/svg+xml" && reply.header("etag") == "\"placeholder-1\""
}

/// Fails unless an answer has every header that keeps it inert, and nothing of the server that it came from.
fn is_inert(reply: &Reply) {
    assert_eq!(reply.header("content-security-policy"), "default-src 'none'; sandbox");
    assert_eq!(reply.header("x-content-type-options"), "nosniff");
    assert_eq!(reply.header("cross-origin-resource-policy"), "cross-origin");
    for foreign in ["x-secret", "set-cookie", "location"] {
        assert_eq!(reply.header(foreign), "", "{foreign}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_asks_no_server_but_this_one() {
    let world = World::new();
    let server = world.honest("icons.example", |_| served(PNG)).await;
    let shelf = shelf(&world, open()).await;
    shelf.put(&with_image(1, "https://icons.example/i.png")).await;
    for page in [path(1).replace("/api/v2", ""), "/".to_owned()] {
        let reply = shelf.get(&page).await;
        let policy = reply.header("content-security-policy");
        let sources = policy.split(';').find_map(|part| part.trim().strip_prefix("img-src ")).expect("a source of images");
        assert_eq!(sources, "'self'", "{page}");
        let text = reply.text();
        let images: Vec<&str> = text.split("src=\"").skip(1).map(|rest| rest.split('"').next().expect("an end")).collect();
        assert!(!images.is_empty() && images.iter().all(|source| source.starts_with("/images/")), "{page}: {images:?}");
        assert!(!text.contains("icons.example"), "{page} names the author's server");
    }
    assert_eq!(server.accepted(), 0, "nothing is fetched for a page by itself");
    let image = shelf.get(&image_of(&shelf, 1).await).await;
    assert_eq!((image.status, image.header("content-type"), image.body.as_slice()), (StatusCode::OK, "image/png", PNG));
    is_inert(&image);
    let requests = server.requests();
    assert_eq!(requests.len(), 1);
    for header in ["referer", "cookie", "x-forwarded-for", "forwarded", "accept-language", "origin"] {
        assert_eq!(requests[0].header(header), None, "{header} says something about a visitor");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_fetch_serves_all_visitors_until_the_manifest_changes() {
    let world = World::new();
    let steps = vec![Step::ReadRequest, Step::Sleep(Duration::from_millis(300)), Step::answer(|_| served(PNG))];
    let server = world.serve("icons.example", Script::tls(&world.authority.leaf(&["icons.example"]), steps)).await;
    let shelf = shelf(&world, open()).await;
    shelf.put(&with_image(1, "https://icons.example/i.png")).await;
    let address = image_of(&shelf, 1).await;
    let asking = (0..20).map(|visitor| Ask::get(&address).from(&format!("192.0.2.{visitor}")).of(&shelf.router));
    let replies = futures_util::future::join_all(asking).await;
    assert!(replies.iter().all(|reply| reply.body == PNG));
    assert_eq!(server.requests().len(), 1, "they share one fetch");
    // A visitor who goes away does not stop it for the others.
    shelf.put(&with_image(2, "https://icons.example/other.png")).await;
    let other = image_of(&shelf, 2).await;
    let gone = tokio::time::timeout(Duration::from_millis(50), shelf.get(&other)).await;
    assert!(gone.is_err());
    assert_eq!(shelf.get(&other).await.body, PNG);
    assert_eq!(server.requests().len(), 2);

    let known = Ask::get(&address).header("if-none-match", replies[0].header("etag")).of(&shelf.router).await;
    assert_eq!((known.status, known.body.len()), (StatusCode::NOT_MODIFIED, 0));
    assert!(!replies[0].header("etag").starts_with("W/") && replies[0].header("cache-control").contains("max-age=3600"));
    let head = Ask::get(&address).method(axum::http::Method::HEAD).of(&shelf.router).await;
    assert_eq!((head.status, head.body.len()), (StatusCode::OK, 0));

    shelf.put(&with_image(1, "https://icons.example/new.png")).await;
    let renewed = image_of(&shelf, 1).await;
    assert_ne!(renewed, address, "browsers ask again");
    assert_eq!(shelf.get(&renewed).await.body, PNG);
    assert_eq!(server.requests().last().expect("one more").path(), "/new.png");
    let metrics = shelf.get("/metrics").await.text();
    for line in ["image_hits_total", "image_misses_total", "images_failed_total 0", "images_limited_total 0", "image_cache_bytes"]
    {
        assert!(metrics.contains(&format!("toolcrib_directory_{line}")), "{line}\n{metrics}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_an_image_is_a_placeholder_of_ours() {
    let world = World::new();
    let mut servers: Vec<Server> = Vec::new();
    let large: &'static [u8] = Box::leak([PNG, &[0; 1024 * 1024]].concat().into_boxed_slice());
    let huge = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\x01\0\0\0\x01\0\0\x08\x06\0\0\0";
    let drip = Step::Drip(vec![b' '; 100_000], Duration::from_millis(100));
    let head = b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: 100000\r\n\r\n".to_vec();
    let reply = |bytes: &'static [u8]| vec![Step::ReadRequest, Step::answer(move |_| served(bytes))];
    let scripts = [
        ("svg", reply(b"<svg xmlns=\"http://www.w3.org/2000/svg\" onload=\"alert(1)\"/>")),
        ("html", reply(b"<!doctype html><script>alert(1)</script>")),
        ("large", reply(large)),
        ("huge", reply(huge)),
        ("empty", reply(b"")),
        ("missing", vec![Step::ReadRequest, Step::answer(|_| answer("404 Not Found", "", PNG))]),
        (
            "moved",
            vec![Step::ReadRequest, Step::answer(|_| answer("302 Found", "Location: https://fine.example/i.png\r\n", PNG))],
        ),
        ("packed", vec![Step::ReadRequest, Step::answer(|_| answer("200 OK", "Content-Encoding: gzip\r\n", PNG))]),
        ("reset", vec![Step::ReadRequest, Step::Reset]),
        ("drip", vec![Step::ReadRequest, Step::Send(head), drip]),
    ];
    let shelf = shelf(&world, open()).await;
    let fine = world.honest("fine.example", |_| served(GIF)).await;
    let mut urls = Vec::new();
    for (name, steps) in scripts {
        let host = format!("{name}.example");
        servers.push(world.serve(&host, Script::tls(&world.authority.leaf(&[&host]), steps)).await);
        urls.push(format!("https://{host}/i.png"));
    }
    // Addresses that the egress policy refuses, and names that do not exist.
    world.recorder.host("private.example", &["10.0.0.1"]);
    urls.extend(["private.example", "127.0.0.1", "[::1]", "none.example"].map(|host| format!("https://{host}/i.png")));
    urls.push("ipfs://bafkreigerz3nhhy7zonh55srsphplgwzr7ai2lctakkvqvalxxlfuikvk4".to_owned());
    urls.extend(["data:image/png;base64,AAAA", "data:image/png,%89PNG"].map(str::to_owned));
    for (at, url) in urls.iter().enumerate() {
        let id = at as u64 + 1;
        shelf.put(&with_image(id, url)).await;
        let reply = shelf.get(&icon(id)).await;
        assert_eq!(reply.status, StatusCode::OK, "{url}");
        assert!(is_placeholder(&reply), "{url}: {:?}", reply.headers);
        assert_eq!(reply.header("cache-control"), "public, max-age=60", "{url}");
        is_inert(&reply);
    }
    assert_eq!(fine.accepted(), 0, "no redirect is followed");
    assert!(
        world.recorder.dialled().iter().all(|address| address.ip().to_string().starts_with("5.")),
        "nothing private is dialled"
    );
    // A failure is kept: asking again makes no request.
    let asked: usize = servers.iter().map(Server::accepted).sum();
    assert!(is_placeholder(&shelf.get(&icon(1)).await));
    assert_eq!(servers.iter().map(Server::accepted).sum::<usize>(), asked);
    assert!(shelf.get("/metrics").await.text().contains("toolcrib_directory_images_failed_total 12"));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_verified_tools_make_the_directory_fetch() {
    let world = World::new();
    let server = world.honest("icons.example", |_| served(PNG)).await;
    let shelf = shelf(&world, open()).await;
    let url = "https://icons.example/i.png";
    shelf.put(&with_image(1, url)).await;
    let address = image_of(&shelf, 1).await;
    // The manifest is known, and no longer what the registry says.
    shelf.put(&with_image(1, url).with(|_, listing| (listing.verified, listing.conformant) = (false, false))).await;
    assert!(shelf.get(&path(1)).await.json().get("image_url").is_none());
    assert!(is_placeholder(&shelf.get(&address).await));
    shelf.put(&with_image(2, url).with(|stock, _| stock.hash = alloy_primitives::B256::repeat_byte(7))).await;
    shelf.put(&Stock::bad(3)).await;
    for id in [2, 3] {
        assert!(is_placeholder(&shelf.get(&icon(id)).await), "{id}");
    }
    assert_eq!(server.accepted(), 0);
    // The address names a tool, and nothing else.
    for wrong in ["/9/icon", "/1/other", "/x/icon", "/1/icon/https://icons.example/i.png"] {
        let reply = shelf.get(&format!("{}{wrong}", path(1).replace("/api/v2/tools", "/images").trim_end_matches("/1"))).await;
        assert!(reply.status.is_client_error(), "{wrong}: {}", reply.status);
    }
    let asked = shelf.get(&format!("{address}&url=https://icons.example/x.png")).await;
    assert!(is_placeholder(&asked));
    assert_eq!(server.accepted(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn images_of_manifests_and_of_a_gateway_are_served_too() {
    let world = World::new();
    let gateway = world.honest("ipfs.example", |_| served(PNG)).await;
    let options = Options { ipfs_gateway: Some("https://ipfs.example/ipfs/".to_owned()), ..open() };
    let shelf = shelf(&world, options).await;
    shelf.put(&with_image(1, "ipfs://bafkreigerz3nhhy7zonh55srsphplgwzr7ai2lctakkvqvalxxlfuikvk4/i.png")).await;
    assert_eq!(shelf.get(&image_of(&shelf, 1).await).await.body, PNG);
    let asked = gateway.requests()[0].path().to_owned();
    assert_eq!(asked, "/ipfs/bafkreigerz3nhhy7zonh55srsphplgwzr7ai2lctakkvqvalxxlfuikvk4/i.png");
    // A GIF that calls itself a PNG is served as what it is.
    let inline = "data:image/png;base64,R0lGODlhAgACAAAAADs=";
    shelf.put(&with_image(2, inline)).await;
    let reply = shelf.get(&image_of(&shelf, 2).await).await;
    assert_eq!((reply.header("content-type"), reply.body.as_slice()), ("image/gif", GIF));
    is_inert(&reply);
}

#[tokio::test(flavor = "multi_thread")]
async fn fetches_are_limited_by_visitor_and_by_host() {
    let world = World::new();
    let count = Arc::new(AtomicUsize::new(0));
    let (a, b) = (count.clone(), count.clone());
    let _one = world.honest("one.example", move |_| (a.fetch_add(1, Ordering::SeqCst), served(PNG)).1).await;
    let _two = world.honest("two.example", move |_| (b.fetch_add(1, Ordering::SeqCst), served(PNG)).1).await;
    let limits = Options { images_per_address: Rate::per_hour(4), images_per_host: Rate::per_hour(3), ..open() };
    let shelf = shelf(&world, limits).await;
    for id in 1..=9 {
        let host = if id <= 5 { "one.example" } else { "two.example" };
        shelf.put(&with_image(id, &format!("https://{host}/{id}.png"))).await;
    }
    let ask = async |id: u64, visitor: &str| Ask::get(&image_of(&shelf, id).await).from(visitor).of(&shelf.router).await;
    for id in 1..=3 {
        assert_eq!(ask(id, "192.0.2.1").await.body, PNG, "{id}");
    }
    let host = ask(4, "192.0.2.1").await;
    assert!(is_placeholder(&host) && host.header("cache-control") == "no-store", "the host had its share");
    let visitor = ask(6, "192.0.2.1").await;
    assert!(is_placeholder(&visitor) && visitor.header("cache-control") == "no-store", "the visitor had a share");
    assert_eq!(ask(1, "192.0.2.1").await.body, PNG, "what is kept costs nothing");
    assert_eq!(ask(7, "192.0.2.2").await.body, PNG, "another visitor, another host");
    assert_eq!(count.load(Ordering::SeqCst), 4);
    assert!(shelf.get("/metrics").await.text().contains("toolcrib_directory_images_limited_total 2"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_directory_closes_its_images() {
    let world = World::new();
    let server = world.honest("icons.example", |_| served(PNG)).await;
    let shelf = shelf(&world, Options { auth: Auth::Required, ..open() }).await;
    shelf.put(&with_image(1, "https://icons.example/i.png")).await;
    let refused = shelf.get(&icon(1)).await;
    assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
    assert!(refused.header("www-authenticate").starts_with("Basic"));
    assert_eq!(server.accepted(), 0);
}
