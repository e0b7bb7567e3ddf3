//! A row of the matrix: what is registered, what the network and the server do, and what must come of it.

use std::time::Duration;

use alloy_primitives::B256;
use serde_json::Value as Json;
use toolcrib_core::codes::Code;
use toolcrib_fetch::{Limits, ResolveError};
use toolcrib_judge::Step as Failing;

use toolcrib_testkit::registry;
use toolcrib_testkit::servers::{Authority, Leaf, Script, Step, answer, ok, quick};

/// The host of a row in texts that are given to it; `ADDR` is the public address that its server is reached at.
const HOST: &str = "HOST";

/// One case.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) host: String,
    pub(crate) address: String,
    pub(crate) uri: String,
    pub(crate) body: Vec<u8>,
    /// What the bytes become once the host is known.
    settled: Option<Change>,
    /// The committed hash, when it is not that of the body.
    pub(crate) committed: Option<B256>,
    /// Committed to the manifest as it was before the server changed it.
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
    /// Connections of the second verification.
    pub(crate) dials_again: usize,
    /// Refused for something that came up after the fetch.
    pub(crate) fetched: bool,
}

/// Changes the bytes of a row.
type Change = Box<dyn FnOnce(Vec<u8>) -> Vec<u8>>;

/// Makes the server of a row.
pub(crate) type Make = Box<dyn FnOnce(&Place<'_>) -> Script>;

/// What a server is made from.
pub(crate) struct Place<'a> {
    pub(crate) authority: &'a Authority,
    /// A good certificate for the row's host.
    pub(crate) leaf: &'a Leaf,
    pub(crate) host: &'a str,
    pub(crate) body: &'a [u8],
}

/// What became of the registration.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    Registered,
    Deregistered,
    Never,
}

/// What happens between the first and the second read of the configuration.
pub(crate) enum Between {
    Nothing,
    /// Before each read another hash.
    AlwaysAnotherHash,
    /// The creator commits to what is served.
    Commits,
    /// The creator commits to what is served, and moves.
    Moves(String),
    /// The creator removes the tool.
    Removes,
}

/// What the resolver knows about the host.
pub(crate) enum Dns {
    /// Answers one after the other, the last one stays.
    Answers(Vec<Result<Vec<String>, ResolveError>>),
    /// There is no such name.
    Nothing,
    /// No answer ever comes.
    Never,
}

/// How an address fails.
#[derive(Clone, Copy)]
pub(crate) enum Dead {
    Refuses,
    Unreachable,
    Silent,
}

/// What must come of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    /// All four checks pass and every rule is kept.
    Verified,
    /// All four checks pass and a rule is broken: not usable.
    Flawed(Code),
    /// Check number, step and code of the reason.
    Refused(Option<u8>, Failing, Code),
}

impl Row {
    /// An honest tool at a host of its own. The rest spoils it.
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

    /// Puts host and address into every text.
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

    /// Under a host of its choice.
    pub(crate) fn host(mut self, host: &str) -> Self {
        self.host = host.to_owned();
        self
    }

    /// Registered with this URI, byte for byte.
    pub(crate) fn uri(mut self, uri: &str) -> Self {
        self.uri = uri.to_owned();
        self
    }

    /// With a field of the manifest changed.
    pub(crate) fn with(self, key: &str, value: Json) -> Self {
        self.manifest(|manifest| manifest[key] = value)
    }

    /// Without a field of the manifest.
    pub(crate) fn without(self, key: &str) -> Self {
        self.manifest(|manifest| drop(manifest.as_object_mut().expect("an object").shift_remove(key)))
    }

    /// With a changed manifest.
    pub(crate) fn manifest(self, change: impl FnOnce(&mut Json)) -> Self {
        let mut manifest = serde_json::from_slice(&self.body).expect("still a manifest");
        change(&mut manifest);
        self.body(manifest.to_string())
    }

    /// Serving these bytes, to which it is committed if they have a hash.
    pub(crate) fn body(mut self, body: impl AsRef<[u8]>) -> Self {
        self.body = body.as_ref().to_vec();
        self
    }

    /// Serving what is made of the honest bytes.
    pub(crate) fn bytes(self, change: impl FnOnce(Vec<u8>) -> Vec<u8>) -> Self {
        let body = change(self.body.clone());
        self.body(body)
    }

    /// Committed to something else.
    pub(crate) fn committed(mut self, hash: B256) -> Self {
        self.committed = Some(hash);
        self
    }

    /// Committed to the honest manifest, whatever is served.
    pub(crate) const fn committed_to_honest(mut self) -> Self {
        self.to_honest = true;
        self
    }

    /// Serving what is made of the honest bytes when the host is known.
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

    /// Behind a predicate whose code becomes this after the registration.
    pub(crate) fn predicate(mut self, code: Vec<u8>) -> Self {
        self.predicate = Some(code);
        self
    }

    pub(crate) fn between(mut self, between: Between) -> Self {
        self.between = between;
        self
    }

    /// Whose host has these addresses.
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

    /// A server with a good certificate that reads the request and goes on with these steps.
    pub(crate) fn steps(self, steps: impl FnOnce(&Place<'_>) -> Vec<Step> + 'static) -> Self {
        self.script(|place| Script::tls(place.leaf, [vec![Step::ReadRequest], steps(place)].concat()))
    }

    /// A server that answers with these bytes.
    pub(crate) fn sends(self, bytes: impl AsRef<[u8]>) -> Self {
        let bytes = bytes.as_ref().to_vec();
        self.steps(move |_| vec![Step::Send(bytes)])
    }

    /// A server that answers with another status and an honest body.
    pub(crate) fn status(self, status: &'static str, headers: &'static str) -> Self {
        self.steps(move |place| vec![Step::send(answer(status, headers, place.body))])
    }

    pub(crate) fn script(mut self, make: impl FnOnce(&Place<'_>) -> Script + 'static) -> Self {
        self.server = Some(Box::new(make));
        self
    }

    /// In the development world of this machine.
    pub(crate) fn dev(mut self) -> Self {
        self.dev = true;
        self
    }

    /// Ends by running into a limit of time, so these are shorter than usual.
    pub(crate) fn waits(mut self) -> Self {
        self.waits = true;
        self.limits = quick();
        self
    }

    pub(crate) fn refused(mut self, check: u8, step: Failing, code: Code) -> Self {
        self.expect = Expect::Refused(Some(check), step, code);
        self
    }

    /// Refused before the four checks.
    pub(crate) fn gone(mut self, step: Failing, code: Code) -> Self {
        self.expect = Expect::Refused(None, step, code);
        self
    }

    pub(crate) fn flawed(mut self, code: Code) -> Self {
        self.expect = Expect::Flawed(code);
        self
    }

    /// Verified a second time with another outcome.
    pub(crate) fn then(mut self, check: u8, step: Failing, code: Code) -> Self {
        self.again = Some(Expect::Refused(Some(check), step, code));
        self
    }

    /// Refused for something that came up after the fetch.
    pub(crate) fn after_fetch(mut self) -> Self {
        self.fetched = true;
        self
    }

    /// With this finding among all.
    pub(crate) fn finds(mut self, code: Code) -> Self {
        self.codes.push(code);
        self
    }

    /// The first finding says so.
    pub(crate) fn says(mut self, text: &str) -> Self {
        self.says = Some(text.to_owned());
        self
    }

    /// The answer holds for so many seconds.
    pub(crate) fn window(mut self, seconds: u64) -> Self {
        self.window = Some(seconds);
        self
    }

    /// The configuration is read so many times; once unless told.
    pub(crate) fn reads(mut self, reads: usize) -> Self {
        self.reads = Some(reads);
        self
    }

    /// So many connections are asked for; one unless told.
    pub(crate) fn dials(mut self, dials: usize) -> Self {
        self.dials = Some(dials);
        self
    }

    /// The longest it may take.
    pub(crate) const fn within(&self) -> Duration {
        self.limits.total
    }
}
