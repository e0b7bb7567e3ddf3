//! Lints: URLs that are legal but will not work as intended, or try to attack someone.

use super::{HttpsUrl, display};
use crate::codes;
use crate::finding::Finding;

/// Returns the findings about a valid URL.
pub(super) fn findings(url: &HttpsUrl) -> impl Iterator<Item = Finding> {
    // The other hosts have no labels to decode.
    let lookalikes = if url.host().contains("xn--") { display::display_host(url.host()).findings } else { Vec::new() };
    [host(url), template_segment(url), shell_text(url)].into_iter().flatten().chain(lookalikes)
}

/// Names that are not reachable from outside (RFC 6761, RFC 6762, RFC 8375, RFC 7686, ICANN's `.internal`), and names that home routers and
/// companies use in the same way.
const RESERVED_SUFFIXES: &[&str] = &[
    "localhost",
    "local",
    "internal",
    "test",
    "invalid",
    "home.arpa",
    "onion",
    "alt",
    "localdomain",
    "lan",
    "home",
    "corp",
    "intranet",
];

/// RFC 2606.
const EXAMPLE_SUFFIXES: &[&str] = &["example", "example.com", "example.net", "example.org"];

/// Tunnels, paste bins, gists and request catchers. Their names change owners, or anyone can write there.
const EPHEMERAL_SUFFIXES: &[&str] = &[
    // Tunnels
    "trycloudflare.com",
    "ngrok.io",
    "ngrok.app",
    "ngrok.dev",
    "ngrok-free.app",
    "ngrok-free.dev",
    "ngrok.pizza",
    "loca.lt",
    "localtunnel.me",
    "localhost.run",
    "lhr.life",
    "serveo.net",
    "serveousercontent.com",
    "tunnelmole.net",
    "bore.pub",
    "pinggy.link",
    "pinggy.online",
    "pinggy.io",
    "devtunnels.ms",
    "tunnelto.dev",
    "telebit.io",
    "localxpose.io",
    "loclx.io",
    "playit.gg",
    "portmap.io",
    "zrok.io",
    "instatunnel.my",
    "expose.dev",
    "sharedwithexpose.com",
    "tunnel.pyjam.as",
    "srv.us",
    // Editors and sandboxes in the cloud: up only while they are open
    "app.github.dev",
    "gitpod.io",
    "gitpod.dev",
    "csb.app",
    "codesandbox.io",
    "stackblitz.io",
    "webcontainer.io",
    "webcontainer-api.io",
    "repl.co",
    "replit.dev",
    "glitch.me",
    "cloudshell.dev",
    // Request catchers and echo servers
    "webhook.site",
    "requestbin.com",
    "requestbin.net",
    "requestcatcher.com",
    "pipedream.net",
    "beeceptor.com",
    "mockbin.io",
    "mockable.io",
    "mocky.io",
    "hookbin.com",
    "hookdeck.events",
    "smee.io",
    "typedwebhook.tools",
    "webhook.cool",
    "webhook-test.com",
    "ptsv2.com",
    "ptsv3.com",
    "reqbin.com",
    "postman-echo.com",
    "mock.pstmn.io",
    "reqres.in",
    "httpbin.org",
    "httpbingo.org",
    "postb.in",
    "canarytokens.com",
    "dnslog.cn",
    "ceye.io",
    "interact.sh",
    "oast.fun",
    "oast.live",
    "oast.me",
    "oast.online",
    "oast.pro",
    "oast.site",
    "oastify.com",
    "burpcollaborator.net",
    // Paste bins and mutable stores
    "pastebin.com",
    "paste.ee",
    "dpaste.org",
    "dpaste.com",
    "hastebin.com",
    "rentry.co",
    "rentry.org",
    "controlc.com",
    "paste.rs",
    "pastes.io",
    "sprunge.us",
    "ix.io",
    "termbin.com",
    "privatebin.net",
    "ghostbin.com",
    "justpaste.it",
    "telegra.ph",
    "codepad.org",
    "ideone.com",
    "gist.github.com",
    "gist.githubusercontent.com",
    "jsonbin.io",
    "npoint.io",
    "jsonblob.com",
    "extendsclass.com",
    "mantledb.sh",
    "transfer.sh",
    "0x0.st",
    "catbox.moe",
    "file.io",
    "tmpfiles.org",
    "temp.sh",
    "keyvalue.xyz",
    "kvdb.io",
    "jsonkeeper.com",
    "mocki.io",
];

/// Services whose names encode an address (`10.0.0.1.nip.io`), so that the author of a name chooses its target.
const ADDRESS_SUFFIXES: &[&str] = &["nip.io", "sslip.io", "xip.io", "localtest.me", "lvh.me", "vcap.me"];

/// Parts of a host in unfilled templates.
const PLACEHOLDER_LABELS: &[&str] = &[
    "your-domain",
    "yourdomain",
    "your-host",
    "yourhost",
    "your-app",
    "your-site",
    "yoursite",
    "my-domain",
    "mydomain",
    "changeme",
    "change-me",
];

fn host(url: &HttpsUrl) -> Option<Finding> {
    let host = url.host();
    let under = |suffixes: &'static [&'static str]| suffixes.iter().copied().find(|suffix| is_under(host, suffix));
    let code = if url.host_ip().is_some() {
        codes::url::IP_HOST
    } else if under(RESERVED_SUFFIXES).is_some() {
        codes::url::RESERVED_HOST
    } else if !host.contains('.') {
        codes::url::DOTLESS_HOST
    } else if under(EXAMPLE_SUFFIXES).is_some() {
        codes::url::EXAMPLE_HOST
    } else if under(EPHEMERAL_SUFFIXES).or_else(|| under(ADDRESS_SUFFIXES)).is_some() {
        codes::url::EPHEMERAL_HOST
    } else if is_preview(host) {
        codes::url::PREVIEW_HOST
    } else if host.split('.').any(|label| PLACEHOLDER_LABELS.contains(&label)) {
        codes::url::PLACEHOLDER_HOST
    } else {
        return None;
    };
    Some(Finding::new(code).got(host))
}

/// Whether a host is the name of one build, branch or pull request at a hosting service. Only names with a marker of the service are
/// detected: a hash that could be a word of the author's does not count.
fn is_preview(host: &str) -> bool {
    let below = |suffix: &str| host.strip_suffix(suffix).and_then(|rest| rest.strip_suffix('.'));
    if let Some(name) = below("vercel.app") {
        // <project>-git-<branch>-<team>
        name.contains("-git-")
    } else if let Some(name) = below("netlify.app").or_else(|| below("web.app")) {
        // <branch or build>--<site>; <site>--<channel>-<hash>
        name.contains("--")
    } else if let Some(name) = below("pages.dev") {
        // <branch or build>.<project>
        name.contains('.')
    } else if let Some(name) = ["onrender.com", "up.railway.app", "herokuapp.com", "fly.dev"].into_iter().find_map(below) {
        // <service>-pr-<number>, with a suffix at some
        name.split("-pr-").skip(1).any(|after| after.starts_with(|c: char| c.is_ascii_digit()))
    } else {
        false
    }
}

/// Whether `host` is `suffix` or a name below it.
pub(super) fn is_under(host: &str, suffix: &str) -> bool {
    host.strip_suffix(suffix).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// `:name` as a complete path segment, as routers write parameters. Braces are already a fault of the grammar.
fn template_segment(url: &HttpsUrl) -> Option<Finding> {
    let is_parameter = |segment: &&str| {
        segment.strip_prefix(':').is_some_and(|name| name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'))
    };
    url.path().split('/').find(is_parameter).map(|segment| Finding::new(codes::url::TEMPLATE_SEGMENT).got(segment))
}

/// Words that start a command line. They count only where a shell would start a command, and legitimate parameters do not have them.
const COMMANDS: &[&str] = &[
    "bash",
    "calc",
    "cat",
    "chmod",
    "cmd",
    "curl",
    "echo",
    "eval",
    "exec",
    "iex",
    "id",
    "iwr",
    "nc",
    "node",
    "notepad",
    "open",
    "perl",
    "php",
    "ping",
    "powershell",
    "pwsh",
    "python",
    "python3",
    "rm",
    "sh",
    "sleep",
    "start",
    "sudo",
    "touch",
    "wget",
    "whoami",
    "zsh",
];

/// `$(` starts a command in a shell, `';` closes a quoted argument and the command. URLs use neither, while `OData` and matrix parameters
/// do use `;`, `$` and quotes on their own.
const SHELL_PAIRS: &[&str] = &["$(", "';"];

fn shell_text(url: &HttpsUrl) -> Option<Finding> {
    let text = &url.normalized()[url.host_end..];
    let pair = || SHELL_PAIRS.iter().copied().find(|pair| text.contains(pair));
    let found = pair().or_else(|| commands_after(text, ";")).or_else(|| commands_after(text, "&&"))?;
    Some(
        Finding::new(codes::url::SHELL_TEXT)
            .message(format!("the URL contains text that a shell could run: `{found}`"))
            .got(text),
    )
}

/// The first command that follows `separator`. `;id=1` is a parameter; `;id;` and `;id` are commands.
fn commands_after(text: &str, separator: &str) -> Option<&'static str> {
    text.split(separator).skip(1).find_map(|after| {
        let end = after.bytes().position(|b| !b.is_ascii_alphanumeric()).unwrap_or(after.len());
        let (word, next) = after.split_at(end);
        COMMANDS.iter().copied().find(|command| !next.starts_with('=') && word.eq_ignore_ascii_case(command))
    })
}
