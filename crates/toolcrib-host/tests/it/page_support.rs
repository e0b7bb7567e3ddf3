//! A settings page over real HTTP, and a browser with scripted requests.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use toolcrib_host::local::audit::{Filter, Options, SyncPolicy};
use toolcrib_host::local::permissions::Policy;
use toolcrib_host::local::{Host, HostSettings};
use toolcrib_host::page::{Page, PageEnd};

use crate::local_support::private_folder;
use toolcrib_testkit::clock::MovingClock;
use toolcrib_testkit::local_tools::closed;

/// A host with its page.
pub(crate) struct Stage {
    pub(crate) place: TempDir,
    pub(crate) clock: Arc<MovingClock>,
    pub(crate) host: Arc<Host>,
    pub(crate) address: SocketAddr,
    /// Path and query of the printed URL.
    pub(crate) login: String,
    pub(crate) serving: JoinHandle<PageEnd>,
    _stop: oneshot::Sender<()>,
}

/// A tool whose program is a Python script. Members of `more` replace those of the manifest.
pub(crate) fn manifest(id: &str, more: Json) -> Json {
    let mut manifest = json!({
        "id": id, "name": "Greeter", "description": "Greets people.", "version": "1.2.3",
        "functions": [
            {"name": "hello", "description": "Says hello.", "parameters": {"type": "object"}, "effects": {"readOnly": true, "openWorld": false}},
            {"name": "wipe", "description": "Removes everything.", "parameters": {"type": "object"}},
        ],
        "credentials": [{"name": "api_key", "label": "Key of the service", "description": "From your account page.", "required": true}],
        "runtime": {"kind": "exec", "command": ["python3", "main.py"]},
    });
    for (key, value) in more.as_object().unwrap() {
        manifest[key] = value.clone();
    }
    manifest
}

/// Writes a tool into a folder of tools.
pub(crate) fn write_tool(tools: &Path, id: &str, manifest: &Json) {
    let folder = tools.join(id);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("manifest.json"), manifest.to_string()).unwrap();
    fs::write(folder.join("main.py"), "pass\n").unwrap();
}

impl Stage {
    /// A page over the tool `greeter`.
    pub(crate) async fn open() -> Self {
        Self::with(|tools| write_tool(tools, "greeter", &manifest("greeter", json!({}))), None).await
    }

    pub(crate) async fn with(fill: impl FnOnce(&Path), policy: Option<&str>) -> Self {
        let (place, clock) = (private_folder(), Arc::new(MovingClock::new()));
        let (tools, state) = (place.path().join("tools"), place.path().join("state"));
        fs::create_dir(&tools).unwrap();
        fill(&tools);
        let closed = closed(vec![tools], &state, clock.clone(), Options::default().with_sync(SyncPolicy::Never));
        let permissions = match policy {
            Some(policy) => closed.permissions.with_policy(policy.parse::<Policy>().unwrap()),
            None => closed.permissions,
        };
        let settings = HostSettings { permissions, path: "/usr/bin:/bin".into(), ..closed };
        let host = Arc::new(Host::open(settings).unwrap());
        let page = Page::bind(Arc::clone(&host), "127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = page.address();
        let login = page.url().strip_prefix(&format!("http://{address}")).unwrap().to_owned();
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn(page.serve(async move { drop(stopped.await) }));
        Self { place, clock, host, address, login, serving, _stop: stop }
    }

    pub(crate) fn tools(&self) -> PathBuf {
        self.place.path().join("tools")
    }

    /// Replaces a file of the tool `greeter`.
    pub(crate) fn change(&self, file: &str, text: &str) {
        fs::write(self.tools().join("greeter").join(file), text).unwrap();
        assert!(self.host.reload());
    }

    pub(crate) fn content(&self) -> String {
        self.host.tools().tools()["greeter"].content().to_string()
    }

    /// Rules, credentials and the number of log lines: everything that a request could change.
    pub(crate) fn state(&self) -> (String, String, usize) {
        let file = |name: &str| fs::read_to_string(self.place.path().join("state").join(name)).unwrap_or_default();
        (file("permissions.json"), file("secrets.json"), self.host.audit().read(&Filter::default(), 1_000).unwrap().entries.len())
    }

    pub(crate) async fn send(&self, request: &str) -> PageResponse {
        send(self.address, request.as_bytes()).await
    }

    /// Sends a request without a session, with these header lines.
    pub(crate) async fn get(&self, path: &str, headers: &str) -> PageResponse {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{headers}\r\n", self.address)).await
    }

    /// Signs in like a browser.
    pub(crate) async fn sign_in(&self) -> Browser {
        let answer = self.get(&self.login, "Sec-Fetch-Site: none\r\n").await;
        assert_eq!(answer.status, 303, "{answer:?}");
        let cookie = answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
        let base = answer.header("location").unwrap().trim_end_matches('/').to_owned();
        let mut browser = Browser { address: self.address, base, cookie, csrf: String::new() };
        let page = browser.get("/").await;
        assert_eq!(page.status, 200, "{page:?}");
        browser.csrf = page.body.split("name=\"csrf\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
        assert_eq!(browser.csrf.len(), 64);
        browser
    }
}

/// A signed-in browser.
pub(crate) struct Browser {
    pub(crate) address: SocketAddr,
    /// The folder of the page.
    pub(crate) base: String,
    /// Name and value of the cookie.
    pub(crate) cookie: String,
    pub(crate) csrf: String,
}

impl Browser {
    pub(crate) async fn get(&self, path: &str) -> PageResponse {
        let Self { address, base, cookie, .. } = self;
        let request = format!(
            "GET {base}{path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nCookie: {cookie}\r\nSec-Fetch-Site: same-origin\r\n\r\n"
        );
        send(self.address, request.as_bytes()).await
    }

    /// The request of a form, with a browser's headers.
    pub(crate) fn form(&self, action: &str, fields: &[(&str, &str)]) -> Request {
        let mut body = format!("csrf={}", self.csrf);
        for (name, value) in fields {
            body += &format!("&{name}={}", encoded(value));
        }
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        Request {
            path: format!("{}/change/{action}", self.base),
            headers: vec![
                header("Host", &self.address.to_string()),
                header("Origin", &format!("http://{}", self.address)),
                header("Sec-Fetch-Site", "same-origin"),
                header("Cookie", &self.cookie),
                header("Content-Type", "application/x-www-form-urlencoded"),
            ],
            body,
        }
    }

    /// Submits a form that must succeed, and follows the redirect.
    #[track_caller]
    pub(crate) fn submit<'b>(
        &'b self,
        action: &'b str,
        fields: &'b [(&'b str, &'b str)],
    ) -> impl Future<Output = PageResponse> + use<'b> {
        let place = std::panic::Location::caller();
        async move {
            let answer = self.form(action, fields).send(self.address).await;
            assert_eq!(answer.status, 303, "{place}: {answer:?}");
            let location = answer.header("location").unwrap().split('#').next().unwrap().to_owned();
            let page = self.get(location.strip_prefix(&self.base).unwrap()).await;
            assert_eq!(page.status, 200, "{place}: {page:?}");
            page
        }
    }
}

/// A request that a test can modify before sending.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Request {
    /// Replaces or removes a header.
    pub(crate) fn header(mut self, name: &str, value: Option<&str>) -> Self {
        self.headers.retain(|(own, _)| own != name);
        self.headers.extend(value.map(|value| (name.to_owned(), value.to_owned())));
        self
    }

    pub(crate) async fn send(&self, address: SocketAddr) -> PageResponse {
        let mut text = format!("POST {} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", self.path, self.body.len());
        for (name, value) in &self.headers {
            text += &format!("{name}: {value}\r\n");
        }
        text += &format!("\r\n{}", self.body);
        send(address, text.as_bytes()).await
    }
}

/// A raw response.
#[derive(Debug)]
pub(crate) struct PageResponse {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl PageResponse {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    #[track_caller]
    pub(crate) fn has(&self, parts: &[&str]) {
        for part in parts {
            assert!(self.body.contains(part), "{part:?} is not in {}", self.body);
        }
    }

    #[track_caller]
    pub(crate) fn lacks(&self, parts: &[&str]) {
        for part in parts {
            assert!(!self.body.contains(part) && !self.head.contains(part), "{part:?} is in {self:?}");
        }
    }
}

pub(crate) async fn send(address: SocketAddr, request: &[u8]) -> PageResponse {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        // A server that rejects a request early need not read all of it.
        let _ = stream.write_all(request).await;
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes).await;
        bytes
    };
    let bytes = timeout(Duration::from_secs(60), exchange).await.unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    PageResponse { status, head: head.to_owned(), body: body.to_owned() }
}

/// A value as browsers encode it.
pub(crate) fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b' ' => "+".to_owned(),
            byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect()
}
