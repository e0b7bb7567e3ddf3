//! The location of objects, as an operator writes it in the settings.

use std::fmt;
use std::path::{Path, PathBuf};

use super::Error;

/// The region for services that have none: most of them ignore it, but a signature needs one.
const DEFAULT_REGION: &str = "us-east-1";

/// The location of objects: a folder, or a bucket of any S3-compatible service. It contains no credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectsLocation(pub(super) Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Folder(PathBuf),
    S3(Bucket),
}

/// A bucket and a prefix in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bucket {
    pub(super) name: String,
    pub(super) prefix: String,
    pub(super) endpoint: Option<String>,
    pub(super) region: Option<String>,
}

impl ObjectsLocation {
    /// Stores objects as files in a folder.
    pub fn folder(path: impl Into<PathBuf>) -> Self {
        Self(Kind::Folder(path.into()))
    }

    /// Parses a setting: `file:///PATH`, or `s3://BUCKET/PREFIX` with `endpoint` and `region` as optional parameters. Credentials are
    /// refused.
    pub fn parse(setting: &str) -> Result<Self, Error> {
        let refuse = |reason| Err(Error::Location { reason });
        let Ok(url) = reqwest::Url::parse(setting) else { return refuse("it is not a URL") };
        if !url.username().is_empty() || url.password().is_some() {
            return refuse("the URL must not contain credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY instead");
        }
        if url.fragment().is_some() {
            return refuse("it has a fragment");
        }
        match url.scheme() {
            "file" => match url.to_file_path() {
                Ok(path) if url.query().is_none() => Ok(Self::folder(path)),
                _ => refuse("write file:///PATH, an absolute path without parameters"),
            },
            "s3" => Self::bucket(&url),
            _ => refuse("write file:///PATH or s3://BUCKET/PREFIX"),
        }
    }

    fn bucket(url: &reqwest::Url) -> Result<Self, Error> {
        let refuse = |reason| Err(Error::Location { reason });
        let name = url.host_str().unwrap_or_default();
        let is_plain = |text: &str, more: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || more.as_bytes().contains(&b));
        if url.port().is_some() || !(3..=63).contains(&name.len()) || !is_plain(name, ".-_") {
            return refuse("a bucket has 3 to 63 letters, digits, dots and dashes");
        }
        let prefix = url.path().trim_matches('/');
        if !is_plain(prefix, "/.-_=")
            || prefix.split('/').any(|part| matches!(part, "." | "..") || (part.is_empty() && !prefix.is_empty()))
        {
            return refuse("a prefix has letters, digits, dots, dashes and slashes");
        }
        let mut bucket = Bucket { name: name.to_owned(), prefix: prefix.to_owned(), endpoint: None, region: None };
        for (key, value) in url.query_pairs() {
            match &*key {
                "endpoint" => bucket.endpoint = Some(value.into_owned()),
                "region" => bucket.region = Some(value.into_owned()),
                _ => return refuse("only the parameters endpoint and region are allowed; credentials come from the environment"),
            }
        }
        Ok(Self(Kind::S3(bucket)))
    }

    /// Returns the folder, if it is one.
    pub fn path(&self) -> Option<&Path> {
        match &self.0 {
            Kind::Folder(path) => Some(path),
            Kind::S3(_) => None,
        }
    }
}

impl Bucket {
    /// Returns the region of the URL, or else of the environment.
    pub(super) fn region(&self, variable: impl Fn(&str) -> Option<String>) -> String {
        let said = self.region.clone().or_else(|| variable("AWS_REGION")).or_else(|| variable("AWS_DEFAULT_REGION"));
        said.unwrap_or_else(|| DEFAULT_REGION.to_owned())
    }
}

impl fmt::Display for ObjectsLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Folder(path) => write!(f, "file://{}", path.display()),
            Kind::S3(Bucket { name, prefix, .. }) if prefix.is_empty() => write!(f, "s3://{name}"),
            Kind::S3(Bucket { name, prefix, .. }) => write!(f, "s3://{name}/{prefix}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_and_shown() {
        for (setting, shown) in [
            ("file:///var/lib/toolcrib/objects", "file:///var/lib/toolcrib/objects"),
            ("s3://evidence", "s3://evidence"),
            ("s3://evidence/", "s3://evidence"),
            ("s3://evidence/a/b/", "s3://evidence/a/b"),
            ("s3://evidence/a?region=eu-central-1&endpoint=https%3A%2F%2Fminio.example%3A9000", "s3://evidence/a"),
        ] {
            assert_eq!(ObjectsLocation::parse(setting).unwrap().to_string(), shown, "{setting}");
        }
        let location = ObjectsLocation::parse("s3://evidence/a?endpoint=https://minio.example:9000&region=x").unwrap();
        let Kind::S3(bucket) = location.0 else { panic!("a bucket") };
        assert_eq!((bucket.endpoint.as_deref(), bucket.region.as_deref()), (Some("https://minio.example:9000"), Some("x")));
    }

    #[test]
    fn other_settings_are_refused_without_repeating_them() {
        for setting in [
            "",
            "/var/lib/hidden",
            "file://host/hidden",
            "file:///a?key=hidden",
            "s3://AKIA:hidden@bucket/x",
            "s3://bucket?secret_access_key=hidden",
            "s3://bucket/a/../hidden",
            "s3://bucket/a//hidden",
            "s3://b",
            "s3://bucket:9000/hidden",
            "https://bucket.s3.amazonaws.com/hidden",
            "s3://bucket/#hidden",
        ] {
            let parsed = ObjectsLocation::parse(setting);
            // URL parsing resolves `..`: what is left is an ordinary prefix.
            if setting.contains("..") {
                assert_eq!(parsed.unwrap().to_string(), "s3://bucket/hidden");
                continue;
            }
            let error = parsed.expect_err(setting);
            assert_eq!(error.code().id(), "objects.location", "{setting}");
            assert!(!format!("{error} {error:?}").contains("hidden"), "{error:?}");
        }
    }
}
