//! The columns of each file, in the notation of Parquet. `docs/parquet.md` explains them; [`super::VERSION`] is their version.
//!
//! 256-bit integers are decimal digits, since no reader has a type for them; addresses and hashes are lower-case hexadecimal digits with
//! `0x`, so that they can be read, compared and joined with other tables. Times are in UTC.

/// One row for each tool of a registry.
pub(super) const TOOLS: &str = "message tools {
    required binary tool (UTF8);
    required int64 chain;
    required binary registry (UTF8);
    required binary tool_id (UTF8);
    required binary creator (UTF8);
    required binary metadata_uri (UTF8);
    required binary manifest_hash (UTF8);
    optional binary predicate (UTF8);
    required int64 registered_block;
    required int64 registered_at (TIMESTAMP(MILLIS,true));
    required int64 updated_block;
    required int64 updated_at (TIMESTAMP(MILLIS,true));
    optional int64 deregistered_block;
    optional int64 deregistered_at (TIMESTAMP(MILLIS,true));
    required int64 events;
    required boolean listed;
    optional binary verdict (UTF8);
    optional boolean verified;
    optional boolean conformant;
    optional int32 failed_check;
    optional binary failed_step (UTF8);
    optional binary failed_code (UTF8);
    optional int64 checked_at (TIMESTAMP(MILLIS,true));
    optional int64 expires_at (TIMESTAMP(MILLIS,true));
    optional binary tier (UTF8);
    optional binary access (UTF8);
    optional int64 health_checks;
    optional int64 health_answers;
    optional binary name (UTF8);
    optional binary description (UTF8);
    required group tags (LIST) { repeated group list { required binary element (UTF8); } }
    optional binary endpoint (UTF8);
    optional binary origin (UTF8);
    optional binary version (UTF8);
    required int64 paid_calls;
    required int64 payers;
    required int64 ranking_payers;
    required int64 creator_payers;
    required int64 volume_micro_usd;
    required int64 signed_calls;
    optional int64 last_used_at (TIMESTAMP(MILLIS,true));
}";

/// One row for each payment option of a verified manifest.
pub(super) const PRICES: &str = "message prices {
    required binary tool (UTF8);
    required int32 position;
    required binary protocol (UTF8);
    required binary amount (UTF8);
    required binary asset (UTF8);
    required binary recipient (UTF8);
    optional int64 chain;
    optional binary token (UTF8);
    optional binary symbol (UTF8);
    optional int32 decimals;
    optional int64 micro_usd (INTEGER(64,false));
}";

/// One row for each verdict that differs from the previous one.
pub(super) const VERDICTS: &str = "message verdicts {
    required binary tool (UTF8);
    required int64 number;
    required int64 at (TIMESTAMP(MILLIS,true));
    required binary verdict (UTF8);
    required boolean conformant;
    optional int32 failed_check;
    optional binary failed_step (UTF8);
    optional binary failed_code (UTF8);
    required binary manifest_hash (UTF8);
}";

/// One row for each proven call.
pub(super) const USAGE: &str = "message usage {
    required binary tool (UTF8);
    required binary id (UTF8);
    required boolean paid;
    required boolean counts;
    required int64 chain;
    required binary token (UTF8);
    required binary payer (UTF8);
    required binary nonce (UTF8);
    required binary recipient (UTF8);
    required binary amount (UTF8);
    optional binary transaction_hash (UTF8);
    required int64 at (TIMESTAMP(MILLIS,true));
    required int64 reported_at (TIMESTAMP(MILLIS,true));
    optional int64 latency_ms;
}";

/// One row for each tool that changed, in incremental exports.
pub(super) const CHANGED: &str = "message changed {
    required binary tool (UTF8);
    required boolean present;
}";

#[cfg(test)]
mod tests {
    use parquet::schema::parser::parse_message_type;

    #[test]
    fn schemas_can_be_read() {
        for schema in [super::TOOLS, super::PRICES, super::VERDICTS, super::USAGE, super::CHANGED] {
            let parsed = parse_message_type(schema).expect("a schema");
            assert!(parsed.get_fields().len() >= 2, "{schema}");
        }
    }

    #[test]
    fn every_column_is_documented() {
        let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/parquet.md")).expect("the page");
        for schema in [super::TOOLS, super::PRICES, super::VERDICTS, super::USAGE, super::CHANGED] {
            let parsed = parse_message_type(schema).expect("a schema");
            let section = page.split("\n## ").find(|section| section.starts_with(&format!("`{}.parquet`", parsed.name())));
            let section = section.unwrap_or_else(|| panic!("a section about {}", parsed.name()));
            for field in parsed.get_fields() {
                assert!(section.contains(&format!("| `{}` |", field.name())), "{}.{}", parsed.name(), field.name());
            }
        }
    }
}
