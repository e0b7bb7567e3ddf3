//! `tools`: finds tools in a directory, with the options of the reference command line.

use clap::{Args, Subcommand};
use toolcrib_core::caip::ToolRef;
use toolcrib_core::codes;
use toolcrib_http::percent_encode;

use super::show::{ListRequest, Printing, ask};
use super::source::DirectoryArgs;
use crate::outcome::{Done, Failure, Stop};
use crate::printer::Printer;
use crate::settings::Settings;

/// What to do with tools.
#[derive(Debug, Subcommand)]
pub(crate) enum ToolsCommand {
    /// Search tools by words
    Search(Box<SearchTools>),
    /// List tools, newest first
    List(ListTools),
    /// Show a tool with its verdict and reasons
    Get(OneTool),
    /// List proven calls of a tool
    Activity(ToolActivity),
    /// List the registry events of a tool
    History(ToolHistory),
}

/// Arguments of `tools search`.
#[derive(Args, Debug)]
pub(crate) struct SearchTools {
    /// Search words; order and small typos do not matter
    #[arg(long, short = 'Q', value_name = "WORDS")]
    pub(crate) query: Option<String>,
    /// Chain of the registry: id or name
    #[arg(long, value_name = "CHAIN")]
    pub(crate) registry_chain: Option<String>,
    /// Tags that all must match, comma-separated
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub(crate) tags: Vec<String>,
    /// Access: `open`, `nft_gated`, `token_gated`, `subscription` or `gated`
    #[arg(long, value_name = "KIND")]
    pub(crate) access_type: Option<String>,
    /// Creator of the tools
    #[arg(long, value_name = "0x…")]
    pub(crate) creator: Option<String>,
    /// Only tools gated by this collection
    #[arg(long, value_name = "0x…")]
    pub(crate) collection: Option<String>,
    /// Order: `relevance`, `newest` or `most_used`
    #[arg(long, value_name = "ORDER")]
    pub(crate) sort_by: Option<String>,
    /// Show how words, meaning and each ranking signal add to the score
    #[arg(long)]
    pub(crate) explain: bool,
    #[command(flatten)]
    pub(crate) page: Paging,
    #[command(flatten)]
    pub(crate) from: DirectoryArgs,
    #[command(flatten)]
    pub(crate) printing: Printing,
}

/// Arguments of `tools list`.
#[derive(Args, Debug)]
pub(crate) struct ListTools {
    /// Order: `newest` or `oldest`
    #[arg(long, value_name = "ORDER")]
    pub(crate) sort_by: Option<String>,
    /// Access: `open`, `nft_gated`, `token_gated`, `subscription` or `gated`
    #[arg(long = "type", value_name = "KIND")]
    pub(crate) kind: Option<String>,
    #[command(flatten)]
    pub(crate) page: Paging,
    #[command(flatten)]
    pub(crate) from: DirectoryArgs,
    #[command(flatten)]
    pub(crate) printing: Printing,
}

/// A part of a list.
#[derive(Args, Debug)]
pub(crate) struct Paging {
    /// Maximum number of results
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=200))]
    pub(crate) limit: u32,
    /// Cursor of the next page
    #[arg(long, value_name = "CURSOR")]
    pub(crate) next: Option<String>,
    /// Include unverified tools; do not use this for agents
    #[arg(long)]
    pub(crate) include_unverified: bool,
}

/// A tool.
#[derive(Args, Debug)]
pub(crate) struct Named {
    /// Tool: a reference, or chain, registry and id
    #[arg(value_name = "TOOL", num_args = 1..=3, required = true)]
    pub(crate) tool: Vec<String>,
}

/// Arguments of `tools get`.
#[derive(Args, Debug)]
pub(crate) struct OneTool {
    #[command(flatten)]
    pub(crate) named: Named,
    #[command(flatten)]
    pub(crate) from: DirectoryArgs,
    #[command(flatten)]
    pub(crate) printing: Printing,
}

/// Arguments of `tools activity`.
#[derive(Args, Debug)]
pub(crate) struct ToolActivity {
    #[command(flatten)]
    pub(crate) named: Named,
    /// Include payments of the tool's own creator
    #[arg(long)]
    pub(crate) include_creator_payments: bool,
    /// Maximum number of results
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) limit: u32,
    /// Number of results to skip
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) offset: u32,
    #[command(flatten)]
    pub(crate) from: DirectoryArgs,
    #[command(flatten)]
    pub(crate) printing: Printing,
}

/// Arguments of `tools history`.
#[derive(Args, Debug)]
pub(crate) struct ToolHistory {
    #[command(flatten)]
    pub(crate) named: Named,
    /// Maximum number of results
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=200))]
    pub(crate) limit: u32,
    /// Cursor of the next page
    #[arg(long, value_name = "CURSOR")]
    pub(crate) next: Option<String>,
    #[command(flatten)]
    pub(crate) from: DirectoryArgs,
    #[command(flatten)]
    pub(crate) printing: Printing,
}

/// Runs the command.
pub(crate) async fn run(command: &ToolsCommand, settings: &Settings, printer: &mut Printer) -> Result<Done, Stop> {
    let (question, from, printing) = match command {
        ToolsCommand::Search(arguments) => (search(arguments), &arguments.from, &arguments.printing),
        ToolsCommand::List(arguments) => (list(arguments), &arguments.from, &arguments.printing),
        ToolsCommand::Get(arguments) => {
            let path = arguments.named.path("")?;
            (ListRequest { path, query: Vec::new(), rows: None, columns: &[] }, &arguments.from, &arguments.printing)
        }
        ToolsCommand::Activity(arguments) => (activity(arguments)?, &arguments.from, &arguments.printing),
        ToolsCommand::History(arguments) => (history(arguments)?, &arguments.from, &arguments.printing),
    };
    let source = from.open(settings).await?;
    ask(&source, &question, printing, printer).await
}

fn search(arguments: &SearchTools) -> ListRequest<'_> {
    let said = [
        ("query", &arguments.query),
        ("registry_chain", &arguments.registry_chain),
        ("access_type", &arguments.access_type),
        ("creator", &arguments.creator),
        ("collection", &arguments.collection),
        ("sort_by", &arguments.sort_by),
    ];
    let mut query: Vec<_> = said.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))).collect();
    query.extend(arguments.tags.iter().map(|tag| ("tags", tag.clone())));
    if arguments.explain {
        query.push(("explain", "true".to_owned()));
    }
    arguments.page.add(&mut query);
    let columns: &[&str] = match arguments.explain {
        true => &[
            "name",
            "tool_id",
            "score",
            "explanation.text",
            "explanation.meaning",
            "explanation.trust",
            "explanation.usage",
            "explanation.creator",
            "explanation.health",
            "explanation.age",
            "explanation.recency",
            "explanation.reputation",
        ],
        false => &["name", "description", "access_type", "registry_chain", "registry_addr", "tool_id"],
    };
    ListRequest { path: "/api/v2/tools/search".to_owned(), query, rows: Some("results"), columns }
}

fn list(arguments: &ListTools) -> ListRequest<'_> {
    let said = [("sort_by", &arguments.sort_by), ("type", &arguments.kind)];
    let mut query: Vec<_> = said.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))).collect();
    arguments.page.add(&mut query);
    let columns = &["registry_chain", "registry_addr", "tool_id", "endpoint_domain", "manifest_hash_verified", "created_at"];
    ListRequest { path: "/api/v2/tools".to_owned(), query, rows: Some("tools"), columns }
}

fn activity(arguments: &ToolActivity) -> Result<ListRequest<'_>, Failure> {
    let mut query = vec![("limit", arguments.limit.to_string()), ("offset", arguments.offset.to_string())];
    if arguments.include_creator_payments {
        query.push(("include_creator_payments", "true".to_owned()));
    }
    let columns = &["timestamp", "type", "paid", "caller_address", "amount", "asset", "chain_id", "tx_hash"];
    Ok(ListRequest { path: arguments.named.path("/activity")?, query, rows: Some("activity"), columns })
}

fn history(arguments: &ToolHistory) -> Result<ListRequest<'_>, Failure> {
    let mut query = vec![("limit", arguments.limit.to_string())];
    query.extend(arguments.next.clone().map(|next| ("cursor", next)));
    let columns = &["timestamp", "kind", "block_number", "metadata_uri", "manifest_hash", "predicate"];
    Ok(ListRequest { path: arguments.named.path("/history")?, query, rows: Some("events"), columns })
}

impl Paging {
    fn add(&self, query: &mut Vec<(&str, String)>) {
        query.push(("limit", self.limit.to_string()));
        query.extend(self.next.clone().map(|next| ("cursor", next)));
        if self.include_unverified {
            query.push(("include_unverified", "true".to_owned()));
        }
    }
}

impl Named {
    /// The path of the tool in a directory, followed by `part`.
    fn path(&self, part: &str) -> Result<String, Failure> {
        let [chain, registry, id] = match self.tool.as_slice() {
            [reference] => {
                let tool = ToolRef::parse(reference).map_err(|fault| {
                    Failure::new(fault.code(), format!("`{reference}` is not a tool reference"))
                        .hint("write eip155:8453/erc8257:0x…/7, or chain, registry and id")
                })?;
                [tool.chain.to_string(), tool.registry.to_checksum(None), tool.id.to_string()]
            }
            [chain, registry, id] => [chain.clone(), registry.clone(), id.clone()],
            _ => {
                let what = "expected a tool reference, or chain, registry and id";
                return Err(Failure::new(codes::cli::USAGE, what));
            }
        };
        Ok(format!("/api/v2/tools/{}/{}/{}{part}", percent_encode(&chain), percent_encode(&registry), percent_encode(&id)))
    }
}
