//! DNS dynamic updates (RFC 2136), signed with a shared key (TSIG, RFC 8945).

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use alloy_primitives::Bytes;
use async_trait::async_trait;
use hickory_proto::op::{Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::TXT;
use hickory_proto::rr::rdata::tsig::TsigAlgorithm;
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType, TSigner};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};
use toolcrib_core::agent::txt::answers::check_size;
use toolcrib_core::clock::Clock;
use toolcrib_core::codes;

use super::{RecordChange, TxtWriter, WriteError, Written};
use crate::txt::SettingError;
use crate::txt::dns::decode_base64;

/// Time limit of one response. Updating a signed zone includes a signature.
pub const UPDATE_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum wait until the server itself returns the new records.
const READ_BACK_WAIT: Duration = Duration::from_secs(5);

/// Pause between two queries.
const READ_BACK_PAUSE: Duration = Duration::from_millis(200);

/// Default TTL of added records: short, because a pointer changes with every version of the manifest.
pub const DEFAULT_TTL: u32 = 300;

/// Maximum clock difference in seconds, as recommended in RFC 8945 §10.
const FUDGE: u16 = 300;

/// Maximum length of a character-string in a TXT record (RFC 1035 §3.3).
const MAX_STRING_BYTES: usize = 255;

/// A TSIG key: `[hmac-sha256:]<name>:<base64>`, as in `nsupdate -y`.
#[derive(Clone)]
pub struct TsigKey(TSigner);

impl FromStr for TsigKey {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Self, SettingError> {
        let refuse = |reason| Err(SettingError::new(reason));
        let parts: Vec<&str> = text.trim().split(':').collect();
        let (algorithm, name, secret) = match parts[..] {
            [name, secret] => ("hmac-sha256", name, secret),
            [algorithm, name, secret] => (algorithm, name, secret),
            _ => return refuse("a TSIG key is hmac-sha256:<name>:<base64>"),
        };
        let algorithm = match algorithm.to_ascii_lowercase().as_str() {
            "hmac-sha256" => TsigAlgorithm::HmacSha256,
            "hmac-sha384" => TsigAlgorithm::HmacSha384,
            "hmac-sha512" => TsigAlgorithm::HmacSha512,
            _ => return refuse("the algorithm of a TSIG key is hmac-sha256, hmac-sha384 or hmac-sha512"),
        };
        let Ok(name) = Name::from_ascii(name) else { return refuse("the name of a TSIG key is not a DNS name") };
        let Some(secret) = decode_base64(secret).filter(|secret| !secret.is_empty()) else {
            return refuse("the secret of a TSIG key is not base64");
        };
        match TSigner::new(secret, algorithm, name, FUDGE) {
            Ok(signer) => Ok(Self(signer)),
            Err(_) => refuse("the algorithm of the TSIG key is not supported"),
        }
    }
}

/// Writes only the name of the key.
impl fmt::Debug for TsigKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TsigKey({})", self.0.signer_name())
    }
}

/// The server for updates, and how to sign them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct UpdateSettings {
    /// The primary server of the zone.
    pub server: SocketAddr,
    /// The zone, such as `exampleagent.agt` or `agt`. `None`: the name itself.
    pub zone: Option<String>,
    /// The key.
    pub key: TsigKey,
    /// The TTL of added records in seconds.
    pub ttl: u32,
    /// Time limit of one response.
    pub timeout: Duration,
}

impl UpdateSettings {
    /// Settings for the zone with the same name, with default limits.
    pub const fn new(server: SocketAddr, key: TsigKey) -> Self {
        Self { server, zone: None, key, ttl: DEFAULT_TTL, timeout: UPDATE_TIMEOUT }
    }
}

/// Sends changes to a name server.
///
/// The update is atomic, with the prerequisite that the TXT records are still those that were read just before.
pub struct UpdateWriter {
    name: String,
    settings: UpdateSettings,
    clock: Box<dyn Clock + Send + Sync>,
}

impl UpdateWriter {
    /// Creates a writer. Signatures use the time of `clock`.
    pub fn new(settings: UpdateSettings, clock: impl Clock + Send + Sync + 'static) -> Self {
        Self { name: format!("update:{}", settings.server), settings, clock: Box::new(clock) }
    }

    async fn apply(&self, change: &RecordChange) -> Result<Written, WriteError> {
        let name = dns_name(change.domain.as_str())?;
        let zone = match &self.settings.zone {
            Some(zone) => dns_name(zone)?,
            None => name.clone(),
        };
        if !zone.zone_of(&name) {
            return Err(error("the name is not in the zone of the settings"));
        }
        let current = self.read(&name).await?;
        let existing: Vec<Bytes> = current.iter().map(joined).collect();
        let expected = change.applied_to(&existing)?;
        let goes: Vec<&TXT> = current.iter().filter(|txt| change.remove.contains(&joined(txt))).collect();
        let comes: Vec<&Bytes> = change.add.iter().filter(|record| !existing.contains(record)).collect();
        if !goes.is_empty() || !comes.is_empty() {
            let request = update(&zone, &name, &current, &goes, &comes, self.settings.ttl);
            let answer = self.exchange(request, true).await?;
            if answer.metadata.response_code != ResponseCode::NoError {
                return Err(error(format!("the server answered {}", answer.metadata.response_code)));
            }
        }
        self.read_back(&name, expected).await
    }

    /// Queries the records until they are the expected ones: servers that sign a zone publish an update a moment later.
    async fn read_back(&self, name: &Name, mut expected: Vec<Bytes>) -> Result<Written, WriteError> {
        let until = Instant::now() + READ_BACK_WAIT;
        expected.sort();
        expected.dedup();
        loop {
            let mut found: Vec<Bytes> = self.read(name).await?.iter().map(joined).collect();
            found.sort();
            found.dedup();
            if found == expected {
                return Ok(Written { read_back: Some(found) });
            }
            if Instant::now() > until {
                let message = "the server has other records than those that were written";
                return Err(WriteError::new(codes::agent::TXT_READ_BACK, message));
            }
            sleep(READ_BACK_PAUSE).await;
        }
    }

    /// The server's own TXT records.
    async fn read(&self, name: &Name) -> Result<Vec<TXT>, WriteError> {
        let mut request = Message::query();
        request.metadata.recursion_desired = false;
        request.add_query(Query::query(name.clone(), RecordType::TXT));
        let answer = self.exchange(request, false).await?;
        match answer.metadata.response_code {
            ResponseCode::NoError | ResponseCode::NXDomain => {}
            code => return Err(error(format!("the server answered {code} to a query for the records"))),
        }
        if answer.answers.iter().any(|record| record.record_type() == RecordType::CNAME) {
            return Err(error("the name is an alias of another one"));
        }
        let records: Vec<TXT> = answer
            .answers
            .into_iter()
            .filter(|record| record.name == *name)
            .filter_map(|record| match record.data {
                RData::TXT(txt) => Some(txt),
                _ => None,
            })
            .collect();
        let sizes: Vec<Bytes> = records.iter().map(joined).collect();
        check_size(&sizes).map_err(|fault| WriteError::new(fault.code, fault.message))?;
        Ok(records)
    }

    async fn exchange(&self, request: Message, sign: bool) -> Result<Message, WriteError> {
        match timeout(self.settings.timeout, self.exchange_unbounded(request, sign)).await {
            Ok(answer) => answer,
            Err(_) => Err(error("the server did not answer in time")),
        }
    }

    /// Exchanges one message over one TCP connection.
    async fn exchange_unbounded(&self, mut request: Message, sign: bool) -> Result<Message, WriteError> {
        let verifier = if sign {
            let now = u64::try_from(self.clock.now().seconds()).unwrap_or_default();
            request.finalize(&self.settings.key.0, now).map_err(|_| error("the update cannot be signed"))?
        } else {
            None
        };
        let bytes = request.to_vec().map_err(|_| error("the update cannot be encoded"))?;
        let length = u16::try_from(bytes.len()).map_err(|_| error("the update is larger than a DNS message"))?;
        let unreachable = |source: std::io::Error| error(format!("{}: {source}", self.settings.server));
        let mut stream = TcpStream::connect(self.settings.server).await.map_err(unreachable)?;
        let framed = [&length.to_be_bytes()[..], &bytes].concat();
        stream.write_all(&framed).await.map_err(unreachable)?;
        let length = stream.read_u16().await.map_err(unreachable)?;
        let mut answer = vec![0; usize::from(length)];
        stream.read_exact(&mut answer).await.map_err(unreachable)?;
        let message = match verifier {
            Some(mut verifier) => match verifier.verify(&answer) {
                Ok(answer) => answer.into_message(),
                // Servers do not sign the rejection of an unknown key: it is reported, and changes nothing.
                Err(_) => match Message::from_vec(&answer) {
                    Ok(plain) if plain.metadata.response_code != ResponseCode::NoError => {
                        return Err(error(format!("the server refused the signature: {}", plain.metadata.response_code)));
                    }
                    _ => return Err(error("the signature of the answer is wrong")),
                },
            },
            None => Message::from_vec(&answer).map_err(|_| error("the answer cannot be read"))?,
        };
        let fits = message.metadata.id == request.metadata.id
            && message.metadata.message_type == MessageType::Response
            && message.metadata.op_code == request.metadata.op_code
            && !message.metadata.truncation
            && (message.queries.is_empty() || message.queries == request.queries);
        if fits { Ok(message) } else { Err(error("the answer is one to another request")) }
    }
}

impl fmt::Debug for UpdateWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpdateWriter").field("settings", &self.settings).finish_non_exhaustive()
    }
}

#[async_trait]
impl TxtWriter for UpdateWriter {
    fn name(&self) -> &str {
        &self.name
    }

    async fn write(&self, change: &RecordChange) -> Result<Written, WriteError> {
        self.apply(change).await
    }
}

/// An update with the prerequisite that the TXT records are `current` (RFC 2136 §2.4.2), which removes `goes` and adds `comes`.
fn update(zone: &Name, name: &Name, current: &[TXT], goes: &[&TXT], comes: &[&Bytes], ttl: u32) -> Message {
    let mut message = Message::query();
    message.metadata.op_code = OpCode::Update;
    message.metadata.recursion_desired = false;
    message.add_query(Query::query(zone.clone(), RecordType::SOA));
    let record = |ttl: u32, txt: &TXT| Record::from_rdata(name.clone(), ttl, RData::TXT(txt.clone()));
    if current.is_empty() {
        let mut none = Record::update0(name.clone(), 0, RecordType::TXT);
        none.dns_class = DNSClass::NONE;
        message.add_answer(none);
    }
    message.add_answers(current.iter().map(|txt| record(0, txt)));
    message.add_authorities(goes.iter().map(|txt| {
        let mut gone = record(0, txt);
        gone.dns_class = DNSClass::NONE;
        gone
    }));
    message.add_authorities(comes.iter().map(|bytes| {
        let txt = TXT::from_bytes(bytes.chunks(MAX_STRING_BYTES).collect());
        record(ttl, &txt)
    }));
    message
}

fn joined(txt: &TXT) -> Bytes {
    txt.txt_data.concat().into()
}

fn dns_name(text: &str) -> Result<Name, WriteError> {
    let mut name = Name::from_ascii(text).map_err(|_| error("a name is not one of DNS"))?;
    name.set_fqdn(true);
    Ok(name)
}

fn error(message: impl AsRef<str>) -> WriteError {
    WriteError::new(codes::agent::TXT_UPDATE_FAILED, message)
}

#[cfg(test)]
mod tests {
    use toolcrib_core::clock::{FixedClock, UnixTime};

    use super::*;

    #[test]
    fn keys_are_read_and_never_shown() {
        let key: TsigKey = "hmac-sha512:update-key:c2VjcmV0LXNlY3JldC1zZWNyZXQ=".parse().unwrap();
        assert_eq!(format!("{key:?}"), "TsigKey(update-key.)");
        assert!("update-key:c2VjcmV0".parse::<TsigKey>().is_ok());
        for bad in ["", "x", "a:b:c:d", "hmac-md5:k:c2VjcmV0", "k:", "k:!!", "..:c2VjcmV0"] {
            assert!(bad.parse::<TsigKey>().is_err(), "{bad}");
        }
        let settings = UpdateSettings::new(SocketAddr::from(([127, 0, 0, 1], 53)), key);
        let clock = FixedClock(UnixTime::from_seconds(0));
        assert!(!format!("{:?}", UpdateWriter::new(settings, clock)).contains("secret"));
    }

    #[test]
    fn an_update_holds_only_for_the_records_that_were_read() {
        let (zone, name) = (Name::from_ascii("agt.").unwrap(), Name::from_ascii("a.agt.").unwrap());
        let old = TXT::from_bytes(vec![b"agt-manifest=", b"x"]);
        let new = Bytes::from(vec![b'y'; 300]);
        let message = update(&zone, &name, std::slice::from_ref(&old), &[&old], &[&new], 60);
        assert_eq!(message.queries[0].query_type(), RecordType::SOA);
        assert_eq!((message.answers[0].dns_class, message.answers[0].ttl), (DNSClass::IN, 0));
        assert_eq!((message.authorities[0].dns_class, message.authorities[0].ttl), (DNSClass::NONE, 0));
        assert_eq!(message.authorities[0].data, RData::TXT(old));
        let RData::TXT(added) = &message.authorities[1].data else { panic!("{message:?}") };
        assert_eq!(added.txt_data.iter().map(|string| string.len()).collect::<Vec<_>>(), [255, 45]);
        assert_eq!(message.authorities[1].ttl, 60);
        let empty = update(&zone, &name, &[], &[], &[&new], 60);
        assert_eq!(empty.answers[0].dns_class, DNSClass::NONE);
        assert!(Message::from_vec(&empty.to_vec().unwrap()).is_ok());
    }
}
