//! Objects: bytes under a key, in a folder or in any S3-compatible service.
//!
//! The crate `object_store` does the work. This module configures it (certificates, retries, syncing, whether plain HTTP is allowed),
//! limits everything that is read, and adds the one operation that folders lack: replacing an object only if it did not change since it was
//! read ([`Objects::replace`]).

use std::fmt;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, Checksum};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    BackoffConfig, GetOptions, ObjectStore, ObjectStoreExt as _, PutMode, PutPayload, RetryConfig, UpdateVersion, WriteMultipart,
};
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncWriteExt as _;

mod connector;
mod error;
mod folder;
mod location;

pub use error::Error;
pub use location::ObjectsLocation;

use connector::Connector;
use location::{Bucket, Kind};

/// Bytes of one part of an upload. S3 accepts parts from 5 MiB on, and ten thousand of them.
const PART_BYTES: usize = 8 << 20;

/// Concurrent parts of an upload.
const PARTS_AT_ONCE: usize = 4;

/// Retries of a request after an error of the server or the network, and their time limit.
const RETRIES: usize = 3;
const RETRY_FOR: Duration = Duration::from_secs(20);

/// Environment variables that configure S3, with AWS's names. `AWS_CA_BUNDLE` names a file of further certificate authorities.
pub const S3_VARIABLES: &[&str] = &[
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_ENDPOINT_URL_STS",
    "AWS_ALLOW_HTTP",
    "AWS_VIRTUAL_HOSTED_STYLE_REQUEST",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
];

/// An object store, or a prefix of one. Cheap to clone.
#[derive(Clone)]
pub struct Objects {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    /// The folder, where replacing needs a lock.
    folder: Option<Arc<FilePath>>,
    name: Arc<str>,
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Objects({})", self.name)
    }
}

/// The version of an object when it was read (ETag).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version(UpdateVersion);

/// An object in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its key, below the prefix of the store.
    pub key: String,
    /// Its size in bytes.
    pub size: u64,
    /// When it was written, in seconds, by the store's clock.
    pub modified: i64,
}

impl Objects {
    /// Opens a store. `variable` returns the values of [`S3_VARIABLES`]. A missing folder is created; a service is not contacted yet.
    pub fn open(location: &ObjectsLocation, variable: impl Fn(&str) -> Option<String>) -> Result<Self, Error> {
        let name = location.to_string().into();
        match &location.0 {
            Kind::Folder(folder) => {
                std::fs::create_dir_all(folder)?;
                let folder: PathBuf = folder.canonicalize()?;
                // A row of the database refers to the object once it is written, so the object must be on disk as well.
                let store = LocalFileSystem::new_with_prefix(&folder)?.with_fsync(true);
                Ok(Self { store: Arc::new(store), prefix: Path::default(), folder: Some(folder.into()), name })
            }
            Kind::S3(bucket) => Ok(Self {
                store: Arc::new(s3(bucket, variable)?),
                prefix: Path::from(bucket.prefix.as_str()),
                folder: None,
                name,
            }),
        }
    }

    /// Returns the part of this store below a prefix.
    #[must_use]
    pub fn below(&self, prefix: &str) -> Self {
        Self { prefix: Path::from(format!("{}/{prefix}", self.prefix)), ..self.clone() }
    }

    /// Returns its location, without credentials.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn path(&self, key: &str) -> Path {
        Path::from(format!("{}/{key}", self.prefix))
    }

    /// Writes an object atomically. On return it is durable.
    pub async fn put(&self, key: &str, bytes: impl Into<Bytes>) -> Result<(), Error> {
        self.store.put(&self.path(key), PutPayload::from_bytes(bytes.into())).await?;
        Ok(())
    }

    /// Reads an object of at most `most` bytes. `None` if it does not exist.
    pub async fn get(&self, key: &str, most: u64) -> Result<Option<Bytes>, Error> {
        Ok(self.read(key, most).await?.map(|(bytes, _)| bytes))
    }

    /// Reads an object with its version for [`replace`](Self::replace).
    pub async fn read(&self, key: &str, most: u64) -> Result<Option<(Bytes, Version)>, Error> {
        let result = match self.store.get_opts(&self.path(key), GetOptions::default()).await {
            Err(error) if is_absent(&error) => return Ok(None),
            other => other?,
        };
        let too_large = || Error::Damaged { key: key.to_owned(), reason: "it is larger than expected" };
        let size = result.meta.size;
        if size > most {
            return Err(too_large());
        }
        let mut version = Version(UpdateVersion { e_tag: result.meta.e_tag.clone(), version: result.meta.version.clone() });
        let mut bytes = Vec::with_capacity(usize::try_from(size).map_err(|_| too_large())?);
        let mut stream = result.into_stream();
        while let Some(chunk) = stream.try_next().await.map_err(|error| cut(key, error))? {
            if (bytes.len() + chunk.len()) as u64 > most {
                return Err(too_large());
            }
            bytes.extend_from_slice(&chunk);
        }
        if bytes.len() as u64 != size {
            return Err(Error::Damaged { key: key.to_owned(), reason: "it is truncated" });
        }
        if self.folder.is_some() {
            version = folder::version(&bytes);
        }
        Ok(Some((bytes.into(), version)))
    }

    /// Writes an object if it did not change since it was read, or if it still does not exist. Returns `false` if it has changed.
    pub async fn replace(&self, key: &str, read: Option<&Version>, bytes: impl Into<Bytes>) -> Result<bool, Error> {
        let bytes = bytes.into();
        if let Some(folder) = &self.folder {
            let (folder, path, read) = (Arc::clone(folder), self.path(key), read.cloned());
            return folder::replace(folder, path, read, bytes).await;
        }
        let mode = match read {
            Some(Version(version)) => PutMode::Update(version.clone()),
            None => PutMode::Create,
        };
        match self.store.put_opts(&self.path(key), PutPayload::from_bytes(bytes), mode.into()).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::Precondition { .. } | object_store::Error::AlreadyExists { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the size of an object in bytes. `None` if it does not exist.
    pub async fn size(&self, key: &str) -> Result<Option<u64>, Error> {
        match self.store.head(&self.path(key)).await {
            Err(error) if is_absent(&error) => Ok(None),
            other => Ok(Some(other?.size)),
        }
    }

    /// Removes an object, if it exists.
    pub async fn delete(&self, key: &str) -> Result<(), Error> {
        match self.store.delete(&self.path(key)).await {
            Err(error) if is_absent(&error) => Ok(()),
            other => Ok(other?),
        }
    }

    /// Lists all objects below a prefix.
    pub fn list(&self, prefix: &str) -> impl Stream<Item = Result<Entry, Error>> + Send + use<> {
        let base = self.prefix.clone();
        self.store.list(Some(&self.path(prefix))).map(move |meta| {
            let meta = meta?;
            let key = meta.location.as_ref().strip_prefix(base.as_ref()).unwrap_or(meta.location.as_ref());
            Ok(Entry { key: key.trim_start_matches('/').to_owned(), size: meta.size, modified: meta.last_modified.timestamp() })
        })
    }

    /// Uploads a file as an object: in parts if it is large. The object exists only after the last part.
    pub async fn upload(&self, key: &str, file: &FilePath) -> Result<(), Error> {
        use tokio::io::AsyncReadExt as _;
        let mut file = tokio::fs::File::open(file).await?;
        let size = file.metadata().await?.len();
        if size <= PART_BYTES as u64 {
            let mut bytes = Vec::with_capacity(size as usize);
            file.read_to_end(&mut bytes).await?;
            return self.put(key, bytes).await;
        }
        let upload = self.store.put_multipart(&self.path(key)).await?;
        let mut writer = WriteMultipart::new_with_chunk_size(upload, PART_BYTES);
        let copied = async {
            let mut buffer = vec![0; PART_BYTES];
            loop {
                let read = file.read(&mut buffer).await?;
                if read == 0 {
                    return Ok(());
                }
                writer.wait_for_capacity(PARTS_AT_ONCE).await?;
                writer.write(&buffer[..read]);
            }
        };
        match copied.await {
            Ok(()) => writer.finish().await.map(drop).map_err(Error::from),
            Err(error) => {
                // Uploaded parts are removed if possible; services remove the rest by a lifecycle rule of the bucket.
                let _ = writer.abort().await;
                Err(error)
            }
        }
    }

    /// Downloads an object into a new file, and checks size and hash. The file is on disk when this returns.
    pub async fn download(&self, key: &str, size: u64, sha256: &[u8; 32], file: &FilePath) -> Result<(), Error> {
        let result = match self.store.get(&self.path(key)).await {
            Err(error) if is_absent(&error) => return Err(Error::Absent { key: key.to_owned() }),
            other => other?,
        };
        let damaged = |reason| Error::Damaged { key: key.to_owned(), reason };
        if result.meta.size != size {
            return Err(damaged("its size differs"));
        }
        let mut out = tokio::fs::OpenOptions::new().write(true).create_new(true).open(file).await?;
        let (mut hash, mut length) = (Sha256::new(), 0);
        let mut stream = result.into_stream();
        while let Some(chunk) = stream.try_next().await.map_err(|error| cut(key, error))? {
            length += chunk.len() as u64;
            if length > size {
                return Err(damaged("it is larger than expected"));
            }
            hash.update(&chunk);
            out.write_all(&chunk).await?;
        }
        if length != size {
            return Err(damaged("it is truncated"));
        }
        if <[u8; 32]>::from(hash.finalize()) != *sha256 {
            return Err(damaged("its hash differs"));
        }
        Ok(out.sync_all().await?)
    }

    /// Removes what interrupted uploads have left in a folder, if it is older than this. Services use a lifecycle rule of the bucket.
    pub async fn sweep(&self, older: Duration) -> Result<u64, Error> {
        match &self.folder {
            Some(folder) => folder::sweep(Arc::clone(folder), older).await,
            None => Ok(0),
        }
    }
}

/// Returns the name of bytes: their SHA-256 in hexadecimal digits.
pub fn name_of(sha256: &[u8; 32]) -> String {
    sha256.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the SHA-256 of bytes.
pub fn hash_of(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Whether the object is missing. A missing bucket differs only in the text of the service.
fn is_absent(error: &object_store::Error) -> bool {
    matches!(error, object_store::Error::NotFound { .. }) && !error.to_string().contains("NoSuchBucket")
}

/// The client retries responses that ended early if it can; what remains means that the object is incomplete.
fn cut(key: &str, error: object_store::Error) -> Error {
    tracing::debug!(key, %error, "reading an object failed before its end");
    error.into()
}

fn s3(bucket: &Bucket, variable: impl Fn(&str) -> Option<String>) -> Result<impl ObjectStore, Error> {
    let unusable = |reason| Error::Location { reason };
    let authorities = variable("AWS_CA_BUNDLE").map(std::fs::read).transpose();
    let authorities = authorities.map_err(|_| unusable("the file in AWS_CA_BUNDLE cannot be read"))?;
    let retry = RetryConfig { backoff: BackoffConfig::default(), max_retries: RETRIES, retry_timeout: RETRY_FOR };
    let mut builder = AmazonS3Builder::new()
        .with_http_connector(Connector::new(authorities.as_deref())?)
        .with_retry(retry)
        // The service verifies the upload with this.
        .with_checksum_algorithm(Checksum::SHA256)
        .with_bucket_name(&bucket.name)
        .with_region(bucket.region(&variable));
    for name in S3_VARIABLES {
        let key: Result<AmazonS3ConfigKey, _> = name.to_ascii_lowercase().parse();
        if let (Some(value), Ok(key)) = (variable(name), key) {
            builder = builder.with_config(key, value);
        }
    }
    let said = |name: &str| variable(name);
    let endpoint = bucket.endpoint.clone().or_else(|| said("AWS_ENDPOINT_URL_S3")).or_else(|| said("AWS_ENDPOINT_URL"));
    if let Some(endpoint) = endpoint {
        let url = reqwest::Url::parse(&endpoint).map_err(|_| unusable("its endpoint is not a URL"))?;
        if url.username() != "" || url.password().is_some() {
            return Err(unusable("its endpoint contains credentials"));
        }
        let is_here = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
        let may_be_plain = is_here || variable("AWS_ALLOW_HTTP").is_some_and(|value| value == "true");
        match url.scheme() {
            "https" => {}
            "http" if may_be_plain => builder = builder.with_allow_http(true),
            "http" => return Err(unusable("plain http is allowed only for this machine, unless AWS_ALLOW_HTTP is true")),
            _ => return Err(unusable("its endpoint is neither https nor http")),
        }
        // The URL takes precedence over the environment.
        builder = builder.with_config(AmazonS3ConfigKey::S3Endpoint, endpoint.trim_end_matches('/'));
    }
    builder.build().map_err(|error| Error::Refused { detail: error.to_string() })
}
