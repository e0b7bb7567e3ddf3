//! {{name}}: a tool for agents, its manifest, and who may call it.

pub mod gate;
pub mod tool;

use toolcrib_core::canon::Sealed;
use toolcrib_core::tool::{ToolBuilder, ToolManifest};
use toolcrib_gate::{Context, Gate, Tool, ToolError, Tools};

/// The name under which callers find the tool.
pub const NAME: &str = "{{name}}";

/// The last part of the manifest's address.
pub const SLUG: &str = "{{slug}}";

/// What the tool does, for people and for agents that choose among tools.
pub const DESCRIPTION: &str = "{{description}}";

/// Where callers reach the tool. The manifest is served below it, at /.well-known/ai-tool/{{slug}}.json.
pub const ORIGIN: &str = "{{origin}}";

/// The account that registers the tool.
pub const CREATOR: &str = "{{creator}}";
//#if nft

/// The collection whose holders may call.
pub const COLLECTION: &str = "{{collection}}";
//#end

/// The manifest: everything that callers are promised. Its hash is what gets registered.
pub fn manifest() -> Sealed<ToolManifest> {
    let builder = described();
//#if paid
    // {{price}} USDC on chain {{chain}} for each call.
    let builder = builder.price(
        "{{amount}}",
        "{{asset}}",
        "{{recipient}}",
        "x402",
    );
//#end
//#if nft
    // Holders of a token of this collection may call; the registered predicate decides.
    let builder = builder.requirement([{{kind}}], &collection(), &format!("Holders of {COLLECTION}"));
//#end
    sealed(builder)
}

/// The manifest without what it asks of callers, for tests of the tool itself.
pub fn free_manifest() -> Sealed<ToolManifest> {
    sealed(described())
}

/// The tool behind its gate. Without calls, only the manifest is served: so it can be registered first.
pub fn tools(gate: Gate, takes_calls: bool) -> Tools {
    let served = Tool::new(manifest()).slug(SLUG).gate(gate);
    let served = if takes_calls { served.handler(tool::answer) } else { served.handler(not_yet) };
    Tools::new(ORIGIN).tool(served)
}

fn described() -> ToolBuilder {
    let creator = CREATOR.parse().expect("CREATOR is an address");
    ToolBuilder::new(NAME, DESCRIPTION, &format!("{ORIGIN}/{SLUG}"), creator)
        .inputs::<tool::Input>()
        .outputs::<tool::Output>()
        .version(env!("CARGO_PKG_VERSION"))
        .tag("text")
}

fn sealed(builder: ToolBuilder) -> Sealed<ToolManifest> {
    let built = builder.build().unwrap_or_else(|findings| panic!("the manifest breaks a rule: {findings:#?}"));
    built.manifest
}
//#if nft

/// The collection, as requirements are written: 32 bytes, the address at their end.
fn collection() -> [u8; 32] {
    let mut word = [0; 32];
    let digits = COLLECTION.trim_start_matches("0x");
    for (at, byte) in word[12..].iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).expect("COLLECTION is an address");
    }
    word
}
//#end

async fn not_yet(_: tool::Input, _: Context) -> Result<tool::Output, ToolError> {
    Err(ToolError::unavailable("the tool is not registered yet"))
}
