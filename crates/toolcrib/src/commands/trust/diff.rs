//! `diff`: compares the committed, the served and the local manifest.

use std::path::PathBuf;

use alloy_primitives::B256;
use clap::Args;
use serde_json::{Value, json};
use toolcrib_core::canon::Canonical;
use toolcrib_core::codes;
use toolcrib_core::json::{self, Document};
use toolcrib_judge::evidence::Evidence;
use toolcrib_judge::explain::{Diff, diff};
use toolcrib_verify::{Depth, Onchain};

use super::{EgressArgs, explain_hash, show, verifier};
use crate::input::Source;
use crate::onchain::{OnChain, failed};
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::{Printer, shown};

/// Arguments of `diff`.
#[derive(Args, Debug)]
pub(crate) struct Compare {
    /// Tool: a reference, or an id with --network [see `help references`]
    #[arg(value_name = "TOOL")]
    pub(crate) tool: String,
    /// Local manifest to compare as well
    #[arg(long, value_name = "FILE")]
    pub(crate) manifest: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) onchain: OnChain,
    #[command(flatten)]
    pub(crate) reach: EgressArgs,
}

/// A manifest to compare.
struct Side {
    document: Option<Document>,
    hash: Option<B256>,
    /// Why there is no hash.
    trouble: Option<Failure>,
}

/// Compares.
pub(crate) async fn run(arguments: &Compare, printer: &mut Printer) -> Result<Done, Stop> {
    let local = match &arguments.manifest {
        Some(path) => Some(Side::of(&Source::from_argument(path).read()?)),
        None => None,
    };
    let (registry, id) = arguments.onchain.connect_for(&arguments.tool, printer).await?;
    let verifier = verifier(&arguments.reach)?;
    let evidence = verifier.gather(&Onchain::new(registry, id), Depth::Checks).await.map_err(failed)?;
    let tool = evidence.tool.map(|tool| tool.to_string()).unwrap_or_default();
    let Some(committed) = evidence.config().map(|config| config.manifest_hash) else {
        printer.result(&format!("{tool} is not registered\n"))?;
        return Ok(Done::new(Exit::No, json!({ "tool": tool, "onchain": null })));
    };
    let served = Side::served(&evidence);

    let changes = match (local.as_ref().and_then(|side| side.document.as_ref()), &served.document) {
        (Some(before), Some(after)) => Some(diff(before.root(), after.root())),
        _ => None,
    };
    let exit = exit(committed, &served, local.as_ref());
    if let Some(trouble) = served.trouble.as_ref().filter(|trouble| codes::fetch::is_transient(trouble.code)) {
        printer.failure(trouble)?;
    }
    let path = arguments.manifest.as_ref().map(|path| path.display().to_string());
    printer.result(&text(&tool, committed, &served, local.as_ref(), path.as_deref(), changes.as_ref(), printer))?;
    Ok(Done::new(exit, data(&tool, committed, &served, local.as_ref(), path.as_deref(), changes.as_ref())))
}

impl Side {
    fn of(bytes: &[u8]) -> Self {
        let limits = json::Limits { max_bytes: json::MAX_BYTES, max_depth: json::MAX_DEPTH };
        let document = json::read(bytes, limits).document;
        let hash = document.as_ref().and_then(Canonical::of).map(|canonical| canonical.hash());
        let trouble = hash.is_none().then(|| {
            Failure::new(codes::explain::NOT_A_MANIFEST, "the manifest has no canonical form")
                .hint("run `toolcrib lint` on it to see the problems")
        });
        Self { document, hash, trouble }
    }

    fn served(evidence: &Evidence) -> Self {
        match explain_hash::served(evidence) {
            Ok(bytes) => Self::of(bytes),
            Err(trouble) => Self { document: None, hash: None, trouble: Some(trouble) },
        }
    }
}

/// The exit code: equal, different, or could not tell because the user's network may be the cause.
fn exit(committed: B256, served: &Side, local: Option<&Side>) -> Exit {
    let is_same = |side: &Side| side.hash == Some(committed);
    match &served.trouble {
        Some(trouble) if codes::fetch::is_transient(trouble.code) => Exit::CouldNotTell,
        _ if is_same(served) && local.is_none_or(is_same) => Exit::Yes,
        _ => Exit::No,
    }
}

fn text(
    tool: &str,
    committed: B256,
    served: &Side,
    local: Option<&Side>,
    path: Option<&str>,
    changes: Option<&Diff>,
    printer: &Printer,
) -> String {
    let paint = printer.paint();
    let mut lines = vec![paint.strong(&shown(tool)), format!("  onchain  {committed}")];
    let mut side = |name: &str, side: &Side| {
        let word = match (side.hash, &side.trouble) {
            (Some(hash), _) if hash == committed => format!("{hash}  {}", paint.good("as onchain")),
            (Some(hash), _) => format!("{hash}  {}", paint.error("differs")),
            (None, Some(trouble)) => format!("{}: {}", trouble.code, shown(&trouble.message)),
            (None, None) => "unknown".to_owned(),
        };
        lines.push(format!("  {name:7}  {word}"));
    };
    side("served", served);
    if let Some(local) = local {
        side("local", local);
        if let (Some(a), Some(b)) = (served.hash, local.hash)
            && a != committed
            && b != committed
        {
            lines.push(format!("  served and local are {}", if a == b { "equal" } else { "different too" }));
        }
    }
    if let Some(changes) = changes.filter(|changes| !changes.is_empty()) {
        lines.push(format!("differences from {} to the served manifest:", shown(path.unwrap_or_default())));
        show::changes(&mut lines, changes);
    }
    if served.hash.is_some_and(|hash| hash != committed) {
        lines.push(format!("{}: `toolcrib explain hash {}` explains the difference", paint.hint("hint"), shown(tool)));
    }
    lines.join("\n") + "\n"
}

fn data(tool: &str, committed: B256, served: &Side, local: Option<&Side>, path: Option<&str>, changes: Option<&Diff>) -> Value {
    let side = |side: &Side| {
        json!({
            "hash": side.hash,
            "code": side.trouble.as_ref().map(|trouble| trouble.code.id()),
            "message": side.trouble.as_ref().map(|trouble| trouble.message.as_str()),
        })
    };
    let mut local_data = local.map(side);
    if let Some(Value::Object(object)) = &mut local_data {
        object.insert("path".to_owned(), json!(path));
    }
    let same = |a: Option<B256>, b: Option<B256>| a.zip(b).map(|(a, b)| a == b);
    let local_hash = local.and_then(|local| local.hash);
    json!({
        "tool": tool,
        "onchain": { "hash": committed },
        "served": side(served),
        "local": local_data,
        "equal": {
            "onchain_served": same(Some(committed), served.hash),
            "onchain_local": same(Some(committed), local_hash),
            "served_local": same(served.hash, local_hash),
        },
        "diff": changes.map(explain_hash::diff_data),
    })
}
