//! Three sample tools: one is open, one requires an NFT, one costs a cent.
//!
//! They do small, real work without network requests, with the same result for the same input.

use alloy_primitives::Address;
use serde_json::Value;
use toolcrib_chain::network::LOCAL_CHAIN_ID;
use toolcrib_core::canon::Sealed;
use toolcrib_core::finding::Finding;
use toolcrib_core::tool::{ToolBuilder, ToolManifest};
use toolcrib_gate::{Handler, NoHandler, Tool};
use toolcrib_x402::asset;

mod sun;
mod units;
mod words;

/// The price of a call in millionths of a dollar: a cent.
const PRICE: &str = "10000";

/// A sample tool.
#[derive(Debug)]
pub(crate) struct Sample {
    /// Its slug, which is also its name and the first part of its host.
    pub(crate) slug: &'static str,
    /// What it does, for its manifest.
    description: &'static str,
    /// Its access requirements.
    pub(crate) access: SampleAccess,
    /// A sample input, as JSON.
    pub(crate) example: &'static str,
    schemas: fn(ToolBuilder) -> ToolBuilder,
    handler: fn(Tool<NoHandler>) -> Tool<Handler>,
}

/// Access requirements of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SampleAccess {
    /// Every caller.
    Open,
    /// Callers with a token of the test collection.
    Holders,
    /// Callers who pay.
    Paid,
}

/// The samples, in the order in which they are registered.
pub(crate) const SAMPLES: [Sample; 3] = [
    Sample {
        slug: "word-count",
        description: "Counts the words, characters and lines of a text, and estimates how long it takes to read.",
        access: SampleAccess::Open,
        example: r#"{"text":"A counter where tools are kept."}"#,
        schemas: |builder| builder.inputs::<words::Input>().outputs::<words::Output>(),
        handler: |tool| tool.handler(words::count),
    },
    Sample {
        slug: "unit-conversion",
        description: "Converts a value between units of length, mass, volume or temperature.",
        access: SampleAccess::Holders,
        example: r#"{"value":26.2,"from":"mi","to":"km"}"#,
        schemas: |builder| builder.inputs::<units::Input>().outputs::<units::Output>(),
        handler: |tool| tool.handler(units::convert),
    },
    Sample {
        slug: "sun-times",
        description: "Computes when the sun rises and sets at a place on a day, to about two minutes, in UTC.",
        access: SampleAccess::Paid,
        example: r#"{"date":"2026-06-21","latitude":52.52,"longitude":13.4}"#,
        schemas: |builder| builder.inputs::<sun::Input>().outputs::<sun::Output>(),
        handler: |tool| tool.handler(sun::times),
    },
];

impl Sample {
    /// The host at which it is served.
    pub(crate) fn host(&self) -> String {
        format!("{}.tool.localhost", self.slug)
    }

    /// Returns its manifest for a port.
    pub(crate) fn manifest(&self, port: u16, creator: Address) -> Result<Sealed<ToolManifest>, Vec<Finding>> {
        let endpoint = format!("https://{}:{port}/call", self.host());
        let builder = ToolBuilder::new(self.slug, self.description, &endpoint, creator).version("1.0.0").tag("sample");
        let mut builder = (self.schemas)(builder);
        if let (SampleAccess::Paid, Some(token)) = (self.access, asset::usdc(LOCAL_CHAIN_ID)) {
            let (asset, payee) =
                (format!("eip155:{}/erc20:{:#x}", token.chain, token.address), format!("eip155:{}:{creator:#x}", token.chain));
            builder = builder.price(PRICE, &asset, &payee, "x402");
        }
        Ok(builder.build()?.manifest)
    }

    /// Returns the tool, without a gate.
    pub(crate) fn tool(&self, manifest: Sealed<ToolManifest>) -> Tool<Handler> {
        (self.handler)(Tool::new(manifest).slug(self.slug))
    }

    /// Returns a sample input.
    pub(crate) fn example(&self) -> Value {
        serde_json::from_str(self.example).unwrap_or_default()
    }
}

impl SampleAccess {
    /// The name for programs.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Holders => "nft",
            Self::Paid => "paid",
        }
    }

    /// The description for people.
    pub(crate) const fn described(self) -> &'static str {
        match self {
            Self::Open => "open to everybody",
            Self::Holders => "for holders of TestERC721; account 1 has one",
            Self::Paid => "0.01 test USDC a call; accounts 1 and 2 have 1,000",
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolcrib_core::schema::Validator;

    use super::*;

    #[test]
    fn manifests_are_sound_and_take_their_examples() {
        for sample in &SAMPLES {
            let manifest = sample.manifest(8443, Address::repeat_byte(7)).expect("a manifest without errors");
            let inputs = Validator::compile(manifest.inputs().expect("a schema")).expect("compiles");
            assert!(inputs.is_valid(&sample.example()), "{}", sample.slug);
            assert!(!inputs.is_valid(&json!({"other": 1})), "{}", sample.slug);
            assert_eq!(manifest.pricing().len(), usize::from(sample.access == SampleAccess::Paid));
            assert_eq!(manifest.name(), sample.slug);
        }
    }
}
