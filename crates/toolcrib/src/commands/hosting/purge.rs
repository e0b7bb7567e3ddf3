//! `index purge`: purges changed pages from the cache in front of a directory.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use toolcrib_core::codes;
use toolcrib_directory::purge::{PurgeOptions, Purger, TellCache};
use toolcrib_fetch::SystemClock;
use toolcrib_fetch::{Configured, ConfiguredUrl, Headers, Limits};

use super::{logging, told_to_stop};
use crate::commands::discovery::{StoreArgs, index_failure};
use crate::env;
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::Printer;
use crate::secrets;

/// Most bytes of the response, which is not used.
const MAX_ANSWER_BYTES: usize = 64 << 10;

/// Placeholders for the keys in a template: as a JSON list, separated by spaces, separated by commas.
const PLACES: [&str; 3] = ["{json}", "{spaces}", "{commas}"];

/// Arguments of `index purge`.
#[derive(Args, Debug)]
pub(crate) struct Purge {
    /// Purge endpoint of the cache [env: `TOOLCRIB_PURGE_URL`]
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Request body; {json}, {spaces} or {commas} is replaced by the keys
    #[arg(long, value_name = "TEMPLATE", default_value = "{\"tags\":{json}}")]
    pub(crate) body: String,
    /// Request header with the same placeholders; repeatable
    #[arg(long = "header", value_name = "NAME=TEMPLATE")]
    pub(crate) headers: Vec<String>,
    /// Request header whose value is a secret in a variable; repeatable
    #[arg(long = "header-env", value_name = "NAME=VARIABLE")]
    pub(crate) secret_headers: Vec<String>,
    /// Name of the cache; each cache has its own cursor
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) name: String,
    /// Maximum keys per request
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub(crate) batch: u16,
    /// Maximum requests per second
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub(crate) per_second: u16,
    /// Seconds until each change is purged again
    ///
    /// Must exceed the lag of read replicas (`directory --max-read-lag`).
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=3_600))]
    pub(crate) settle: u16,
    #[command(flatten)]
    pub(crate) kept: StoreArgs,
    /// Stop after this many seconds instead of on Ctrl-C
    #[arg(long, value_name = "SECONDS")]
    pub(crate) exit_after: Option<u64>,
}

/// A cache, with its purge API as described by the arguments.
#[derive(Debug)]
struct Cache {
    client: Configured,
    url: ConfiguredUrl,
    body: String,
    headers: Vec<(String, String)>,
}

impl Purge {
    fn cache(&self) -> Result<Cache, Failure> {
        let unusable = |error: toolcrib_fetch::Error| Failure::new(error.code(), error.to_string());
        let url = self.url.clone().or_else(|| secrets::var(env::TOOLCRIB_PURGE_URL));
        let url =
            url.ok_or_else(|| Failure::new(codes::cli::USAGE, "no cache was given").hint("give --url or TOOLCRIB_PURGE_URL"))?;
        let pair = |flag: &str, text: &str| {
            let pair = text.split_once('=').map(|(name, rest)| (name.to_owned(), rest.to_owned()));
            pair.ok_or_else(|| Failure::new(codes::cli::USAGE, format!("{flag} expects NAME=VALUE")))
        };
        let mut headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        for text in &self.headers {
            headers.push(pair("--header", text)?);
        }
        for text in &self.secret_headers {
            let (name, variable) = pair("--header-env", text)?;
            let value = secrets::var(&variable);
            let missing = || Failure::new(codes::cli::SETTINGS, format!("environment variable {variable} is not set"));
            headers.push((name, value.ok_or_else(missing)?));
        }
        let templates = || std::iter::once(&self.body).chain(headers.iter().map(|(_, value)| value));
        if !templates().any(|template| PLACES.iter().any(|place| template.contains(place))) {
            let what = "neither body nor headers contain the keys to purge";
            return Err(Failure::new(codes::cli::USAGE, what).hint("use {json}, {spaces} or {commas} in --body or --header"));
        }
        let cache = Cache {
            client: Configured::builder(SystemClock).build().map_err(unusable)?,
            url: ConfiguredUrl::from_setting(&url).map_err(unusable)?,
            body: self.body.clone(),
            headers,
        };
        // Names and values that no header can have are found now.
        cache.headers(&["all".to_owned()]).map_err(unusable)?;
        Ok(cache)
    }
}

impl Cache {
    fn headers(&self, keys: &[String]) -> Result<Headers, toolcrib_fetch::Error> {
        self.headers.iter().try_fold(Headers::new(), |headers, (name, value)| headers.with(name, &filled(value, keys)))
    }
}

/// Fills the keys into a template. They consist of letters, digits and hyphens, so they need no escaping.
fn filled(template: &str, keys: &[String]) -> String {
    template.replace("{json}", &json!(keys).to_string()).replace("{spaces}", &keys.join(" ")).replace("{commas}", &keys.join(","))
}

impl TellCache for Cache {
    async fn drop_keys(&self, keys: &[String]) -> Result<(), String> {
        let mut limits = Limits::MANIFEST;
        limits.body = MAX_ANSWER_BYTES;
        let headers = self.headers(keys).map_err(|error| error.to_string())?;
        let exchange = self.client.post(&self.url, &headers, filled(&self.body, keys).as_bytes(), limits).await;
        match (&exchange.response, &exchange.failure) {
            (Some(response), _) if (200..=299).contains(&response.status) => Ok(()),
            (Some(response), _) => Err(format!("{} returned status {}", self.url, response.status)),
            (None, Some(failure)) => Err(format!("{}: {}", self.url, failure.finding().message)),
            (None, None) => Err(format!("{} did not answer", self.url)),
        }
    }
}

/// Follows the feed until Ctrl-C.
pub(crate) async fn run(arguments: &Purge, printer: &mut Printer) -> Result<Done, Stop> {
    logging::begin(printer);
    let cache = arguments.cache()?;
    let index = arguments.kept.open_existing().await?;
    let options = PurgeOptions {
        name: arguments.name.clone(),
        batch: usize::from(arguments.batch),
        every: Duration::from_secs(1) / u32::from(arguments.per_second),
        poll: Duration::from_millis(250),
        settle: Duration::from_secs(u64::from(arguments.settle)),
    };
    let (cache_url, database) = (cache.url.to_string(), index.database().clone());
    let purger = Purger::open(index, cache, options).await.map_err(|error| index_failure(&error))?;
    let data = json!({ "cache": cache_url });
    printer.result(&format!("purging {cache_url}\n"))?;
    printer.flush()?;
    printer.event(&json!({ "event": "ready", "data": data }))?;
    purger.run(told_to_stop(arguments.exit_after)).await;
    database.close().await;
    Ok(Done::new(Exit::Yes, Value::Null))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_put_where_a_template_wants_them() {
        let keys = ["all".to_owned(), "t-0123".to_owned()];
        assert_eq!(filled("{\"tags\":{json}}", &keys), r#"{"tags":["all","t-0123"]}"#);
        assert_eq!(filled("{spaces}", &keys), "all t-0123");
        assert_eq!(filled("x={commas}", &keys), "x=all,t-0123");
    }
}
