//! The RPC API of Kubo and of compatible nodes and services.

use std::time::Duration;

use serde_json::Value;
use toolcrib_fetch::{Configured, ConfiguredUrl, Headers};

use super::{PinError, Pinned, REQUEST_TIME, answer, bearer, limits, same_cid};
use crate::ipfs::cid::{Cid, Codec};
use crate::ipfs::hash::HashFunction;
use crate::ipfs::pack::Packed;

/// A node with Kubo's RPC API, such as `http://127.0.0.1:5001`.
#[derive(Clone, Debug)]
pub struct Kubo {
    client: Configured,
    url: ConfiguredUrl,
    headers: Headers,
    time_limit: Duration,
}

impl Kubo {
    /// Uses the node at `url`, with a bearer token if it requires one.
    pub fn new(client: Configured, url: ConfiguredUrl, token: Option<&str>) -> Result<Self, PinError> {
        Ok(Self { client, url, headers: bearer(token)?, time_limit: REQUEST_TIME })
    }

    /// Sets the time limit of each request; the default is 30 seconds.
    #[must_use]
    pub const fn time_limit(mut self, time: Duration) -> Self {
        self.time_limit = time;
        self
    }

    /// Imports the blocks as one archive and pins the root (`dag/import`).
    pub async fn import(&self, packed: &Packed) -> Result<Pinned, PinError> {
        let query = [("pin-roots", "true".to_owned()), ("stats", "false".to_owned())];
        let lines = self.call("dag/import", &query, Some(("file.car", &packed.to_car()))).await?;
        let roots: Vec<&Value> = lines.iter().filter_map(|line| line.get("Root")).collect();
        let [root] = roots.as_slice() else { return Err(self.malformed("it does not name one root")) };
        same_cid(&self.url.origin(), packed.root(), root.pointer("/Cid/~1"))?;
        if root.get("PinErrorMsg").and_then(Value::as_str).is_some_and(|message| !message.is_empty()) {
            return Err(PinError::Failed { service: self.url.origin(), cid: packed.root().clone() });
        }
        Ok(self.pinned(packed.root()))
    }

    /// Puts each block and pins the root (`block/put`, `pin/add`), for nodes without `dag/import`.
    pub async fn put(&self, packed: &Packed) -> Result<Pinned, PinError> {
        for block in packed.blocks() {
            let query = [
                ("cid-codec", block.cid.codec().name().to_owned()),
                ("mhtype", block.cid.hash().name().to_owned()),
                ("pin", "false".to_owned()),
            ];
            let lines = self.call("block/put", &query, Some(("block", &block.bytes))).await?;
            same_cid(&self.url.origin(), &block.cid, lines.first().and_then(|line| line.get("Key")))?;
        }
        let query = [("arg", packed.root().to_string()), ("recursive", "true".to_owned())];
        let lines = self.call("pin/add", &query, None).await?;
        same_cid(&self.url.origin(), packed.root(), lines.first().and_then(|line| line.pointer("/Pins/0")))?;
        Ok(self.pinned(packed.root()))
    }

    /// Calls a command with an optional file, and parses the response as lines of JSON.
    async fn call(&self, command: &str, query: &[(&str, String)], file: Option<(&str, &[u8])>) -> Result<Vec<Value>, PinError> {
        let segments: Vec<String> = ["api", "v0"].into_iter().chain(command.split('/')).map(str::to_owned).collect();
        let url = self.url.below(&segments, query)?;
        let exchange = match file {
            Some((name, bytes)) => {
                let (content_type, body) = multipart(name, bytes);
                let headers = self.headers.clone().with("content-type", &content_type)?;
                self.client.post(&url, &headers, &body, limits(self.time_limit)).await
            }
            None => self.client.post(&url, &self.headers, b"", limits(self.time_limit)).await,
        };
        let response = answer(&self.url.origin(), &exchange)?;
        let lines: Result<Vec<Value>, _> = serde_json::Deserializer::from_slice(response.body.as_bytes()).into_iter().collect();
        lines.map_err(|_| self.malformed("it is not JSON"))
    }

    fn pinned(&self, cid: &Cid) -> Pinned {
        Pinned { service: self.url.origin(), cid: cid.clone(), request: None }
    }

    fn malformed(&self, reason: &'static str) -> PinError {
        PinError::Malformed { service: self.url.origin(), reason }
    }
}

/// A multipart form with one file: its content type and body. The boundary is the hash of the file, which the file cannot contain.
fn multipart(name: &str, bytes: &[u8]) -> (String, Vec<u8>) {
    let boundary = Cid::of(Codec::Raw, HashFunction::Sha2_256, bytes).to_string();
    let head = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\nContent-Type: application/octet-stream\r\n\r\n"
    );
    let body = [head.as_bytes(), bytes, format!("\r\n--{boundary}--\r\n").as_bytes()].concat();
    (format!("multipart/form-data; boundary={boundary}"), body)
}
