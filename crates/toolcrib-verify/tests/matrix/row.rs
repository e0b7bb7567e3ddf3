//! A row of the matrix: the registration, the behaviour of network and server, and the expected result.

use std::time::Duration;

use alloy_primitives::B256;
use serde_json::Value as Json;
use toolcrib_core::codes::Code;
use toolcrib_fetch::{Limits, ResolveError};
use toolcrib_judge::Step as Failing;

use toolcrib_testkit::registry;
use toolcrib_testkit::servers::{Authority, Leaf, Script, Step, answer, ok, quick};

/// Placeholder for the host of a row; `ADDR` is the placeholder for its server's public address.
const HOST: &str = "HOST";

/// One test case.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) host: String,
    pub(crate) address: String,
    pub(crate) uri: String,
    pub(crate) body: Vec<u8>,
    /// Changes the bytes once the host is known.
    settled: Option<Change>,
    /// The committed hash, if it is not that of the body.
    pub(crate) committed: Option<B256>,
    /// Whether the hash is that of the manifest before the server changed it.
    to_honest: bool,
    pub(crate) account: usize,
    pub(crate) life: Life,
    pub(crate) predicate: Option<Vec<u8>>,
    pub(crate) between: Between,
    pub(crate) dns: Dns,
    pub(crate) failing: Vec<(String, Dead)>,
    pub(crate) server: Option<Make>,
    pub(crate) dev: bool,
    pub(crate) limits: Limits,
    pub(crate) waits: bool,
    pub(crate) expect: Expect,
    pub(crate) again: Option<Expect>,
    pub(crate) codes: Vec<Code>,
    pub(crate) says: Option<String>,
    pub(crate) window: Option<u64>,
    pub(crate) reads: Option<usize>,
    pub(crate) dials: Option<usize>,
    /// Number of connections of the second verification.
    pub(crate) dials_again: usize,
    /// Whether the refusal comes after the fetch.
    pub(crate) fetched: bool,
}

/// A function that changes the bytes of a row.
type Change = Box<dyn FnOnce(Vec<u8>) -> Vec<u8>>;

/// A function that creates the server of a row.
pub(crate) type Make = Box<dyn FnOnce(&ServerParts<'_>) -> Script>;

/// The arguments for creating a server.
pub(crate) struct ServerParts<'a> {
    pub(crate) authority: &'a Authority,
    /// A valid certificate for the row's host.
    pub(crate) leaf: &'a Leaf,
    pub(crate) host: &'a str,
    pub(crate) body: &'a [u8],
}

/// What happens to the registration.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    Registered,
    Deregistered,
    Never,
}

/// What happens between the first and the second read of the configuration.
pub(crate) enum Between {
    Nothing,
    /// Another hash before each read.
    AlwaysAnotherHash,
    /// The creator commits to the served manifest.
    Commits,
    /// The creator commits to the served manifest, and changes the URI.
    Moves(String),
    /// The creator deregisters the tool.
    Removes,
}

/// DNS responses for the host.
pub(crate) enum Dns {
    /// These responses in sequence; the last one repeats.
    Answers(Vec<Result<Vec<String>, ResolveError>>),
    /// The name does not exist.
    Nothing,
    /// No response at all.
    Never,
}

/// How an address fails.
#[derive(Clone, Copy)]
pub(crate) enum Dead {
    Refuses,
    Unreachable,
    Silent,
}

/// The expected result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    /// All four checks and every rule pass.
    Verified,
    /// All four checks pass, but a rule is violated, so that the tool is not usable.
    Flawed(Code),
    /// Check number, step and code of the reason.
    Refused(Option<u8>, Failing, Code),
}

impl Row {
    /// An honest tool at its own host. The other methods break it.
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            host: String::new(),
            address: String::new(),
            uri: "https://HOST/.well-known/ai-tool/word-count.json".to_owned(),
            body: registry::manifest("https://HOST/word-count").to_string().into_bytes(),
            settled: None,
            committed: None,
            to_honest: false,
            account: 0,
            life: Life::Registered,
            predicate: None,
            between: Between::Nothing,
            dns: Dns::Answers(vec![Ok(vec!["ADDR".to_owned()])]),
            failing: Vec::new(),
            server: Some(Box::new(|place| Script::tls(place.leaf, vec![Step::ReadRequest, Step::send(ok(place.body))]))),
            dev: false,
            limits: Limits::default(),
            waits: false,
            expect: Expect::Verified,
            again: None,
            codes: Vec::new(),
            says: None,
            window: None,
            reads: None,
            dials: None,
            dials_again: 0,
            fetched: false,
        }
    }

    /// Replaces the placeholders of host and address in every text.
    pub(crate) fn settle(&mut self, number: usize) {
        if self.host.is_empty() {
            self.host = format!("r{number}.example.com");
        }
        self.address = format!("5.6.{}.{}", number / 250, number % 250 + 1);
        self.uri = self.uri.replace(HOST, &self.host).replace("ADDR", &self.address);
        let text = |bytes: &[u8]| {
            String::from_utf8(bytes.to_vec()).map(|text| text.replace(HOST, &self.host).replace("ADDR", &self.address))
        };
        if let Ok(body) = text(&self.body) {
            self.body = body.into_bytes();
        }
        if self.to_honest {
            let honest = registry::manifest(&format!("https://{}/word-count", self.host));
            self.committed = Some(registry::hash_of(honest.to_string().as_bytes()));
        }
        if let Some(change) = self.settled.take() {
            self.body = change(std::mem::take(&mut self.body));
        }
        if let Between::Moves(uri) = &mut self.between {
            *uri = uri.replace(HOST, &self.host);
        }
        if let Dns::Answers(answers) = &mut self.dns {
            for address in answers.iter_mut().flatten().flatten() {
                *address = address.replace("ADDR", &self.address);
            }
        }
    }

    /// Sets the host.
    pub(crate) fn host(mut self, host: &str) -> Self {
        self.host = host.to_owned();
        self
    }

    /// Registers this URI, byte for byte.
    pub(crate) fn uri(mut self, uri: &str) -> Self {
        self.uri = uri.to_owned();
        self
    }

    /// Changes a field of the manifest.
    pub(crate) fn with(self, key: &str, value: Json) -> Self {
        self.manifest(|manifest| manifest[key] = value)
    }

    /// Removes a field of the manifest.
    pub(crate) fn without(self, key: &str) -> Self {
        self.manifest(|manifest| drop(manifest.as_object_mut().expect("an object").shift_remove(key)))
    }

    /// Changes the manifest.
    pub(crate) fn manifest(self, change: impl FnOnce(&mut Json)) -> Self {
        let mut manifest = serde_json::from_slice(&self.body).expect("still a manifest");
        change(&mut manifest);
        self.body(manifest.to_string())
    }

    /// Serves these bytes, and commits to them if they have a hash.
    pub(crate) fn body(mut self, body: impl AsRef<[u8]>) -> Self {
        self.body = body.as_ref().to_vec();
        self
    }

    /// Serves changed bytes, and commits to them if they have a hash.
    pub(crate) fn bytes(self, change: impl FnOnce(Vec<u8>) -> Vec<u8>) -> Self {
        let body = change(self.body.clone());
        self.body(body)
    }

    /// Commits to another hash.
    pub(crate) fn committed(mut self, hash: B256) -> Self {
        self.committed = Some(hash);
        self
    }

    /// Commits to the honest manifest, whatever is served.
    pub(crate) const fn committed_to_honest(mut self) -> Self {
        self.to_honest = true;
        self
    }

    /// Changes the served bytes when the host is known.
    pub(crate) fn settled_bytes(mut self, change: impl FnOnce(Vec<u8>) -> Vec<u8> + 'static) -> Self {
        self.settled = Some(Box::new(change));
        self
    }

    pub(crate) fn by(mut self, account: usize) -> Self {
        self.account = account;
        self
    }

    pub(crate) fn life(mut self, life: Life) -> Self {
        self.life = life;
        self
    }

    /// Uses a predicate whose code is replaced after the registration.
    pub(crate) fn predicate(mut self, code: Vec<u8>) -> Self {
        self.predicate = Some(code);
        self
    }

    pub(crate) fn between(mut self, between: Between) -> Self {
        self.between = between;
        self
    }

    /// Sets the host's addresses.
    pub(crate) fn dns(self, addresses: &[&str]) -> Self {
        self.lookups(vec![Ok(addresses.to_vec())])
    }

    pub(crate) fn lookups(mut self, answers: Vec<Result<Vec<&str>, ResolveError>>) -> Self {
        let owned = |answer: Vec<&str>| answer.into_iter().map(str::to_owned).collect();
        self.dns = Dns::Answers(answers.into_iter().map(|answer| answer.map(owned)).collect());
        self
    }

    pub(crate) fn unknown_host(mut self) -> Self {
        self.dns = Dns::Nothing;
        self
    }

    pub(crate) fn dns_never_answers(mut self) -> Self {
        self.dns = Dns::Never;
        self.waits()
    }

    pub(crate) fn dead(mut self, address: &str, how: Dead) -> Self {
        self.failing.push((address.to_owned(), how));
        self
    }

    /// Uses a server with a valid certificate that reads the request and continues with these steps.
    pub(crate) fn steps(self, steps: impl FnOnce(&ServerParts<'_>) -> Vec<Step> + 'static) -> Self {
        self.script(|place| Script::tls(place.leaf, [vec![Step::ReadRequest], steps(place)].concat()))
    }

    /// Uses a server that responds with these bytes.
    pub(crate) fn sends(self, bytes: impl AsRef<[u8]>) -> Self {
        let bytes = bytes.as_ref().to_vec();
        self.steps(move |_| vec![Step::Send(bytes)])
    }

    /// Uses a server that responds with another status and an honest body.
    pub(crate) fn status(self, status: &'static str, headers: &'static str) -> Self {
        self.steps(move |place| vec![Step::send(answer(status, headers, place.body))])
    }

    pub(crate) fn script(mut self, make: impl FnOnce(&ServerParts<'_>) -> Script + 'static) -> Self {
        self.server = Some(Box::new(make));
        self
    }

    /// Uses the development environment of this computer.
    pub(crate) fn dev(mut self) -> Self {
        self.dev = true;
        self
    }

    /// Expects a timeout, so it uses shorter limits than usual.
    pub(crate) fn waits(mut self) -> Self {
        self.waits = true;
        self.limits = quick();
        self
    }

    pub(crate) fn refused(mut self, check: u8, step: Failing, code: Code) -> Self {
        self.expect = Expect::Refused(Some(check), step, code);
        self
    }

    /// Expects a refusal before the four checks.
    pub(crate) fn gone(mut self, step: Failing, code: Code) -> Self {
        self.expect = Expect::Refused(None, step, code);
        self
    }

    pub(crate) fn flawed(mut self, code: Code) -> Self {
        self.expect = Expect::Flawed(code);
        self
    }

    /// Verifies a second time, with another expected result.
    pub(crate) fn then(mut self, check: u8, step: Failing, code: Code) -> Self {
        self.again = Some(Expect::Refused(Some(check), step, code));
        self
    }

    /// Expects the refusal after the fetch.
    pub(crate) fn after_fetch(mut self) -> Self {
        self.fetched = true;
        self
    }

    /// Expects this finding among all.
    pub(crate) fn finds(mut self, code: Code) -> Self {
        self.codes.push(code);
        self
    }

    /// Expects this text in the first finding.
    pub(crate) fn says(mut self, text: &str) -> Self {
        self.says = Some(text.to_owned());
        self
    }

    /// Expects a freshness window of this many seconds.
    pub(crate) fn window(mut self, seconds: u64) -> Self {
        self.window = Some(seconds);
        self
    }

    /// Expects this number of configuration reads; the default is one.
    pub(crate) fn reads(mut self, reads: usize) -> Self {
        self.reads = Some(reads);
        self
    }

    /// Expects this number of connections; the default is one.
    pub(crate) fn dials(mut self, dials: usize) -> Self {
        self.dials = Some(dials);
        self
    }

    /// The time limit.
    pub(crate) const fn within(&self) -> Duration {
        self.limits.total
    }
}
