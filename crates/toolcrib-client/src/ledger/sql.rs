//! The SQL implementation of the ledger.

use std::time::Duration;

use alloy_primitives::{Address, B256};
use toolcrib_core::caip::ToolRef;
use toolcrib_core::clock::UnixTime;
use toolcrib_core::url::Origin;
use toolcrib_store::Database;
use toolcrib_store::database::{Cell, FromCell, FromRow as _, Value};
use toolcrib_x402::Version;
use toolcrib_x402::asset::is_test_chain;

use super::{
    Budget, DAY, Entry, Evidence, HOUR, KEEP_DAYS, KeptRequest, LEASE_SECONDS, MAX_ENTRIES, MAX_KEPT_BODY, MAX_LIST,
    MAX_REDEEMABLE_SECONDS, PRUNE_BATCH, PaymentId, REDEEMABLE_SECONDS, RESUMABLE_SECONDS, Signing, Spend, SpendError, State,
    Totals,
    statements::{self as sql, EntryRow, SpentRow},
};
use crate::{SpendPolicy, Usdc};

/// Attempts of a step that conflicts with other processes: with backoff that doubles from four milliseconds, about a second.
const ATTEMPTS: u32 = 9;

/// Longest note in characters. It may contain a server's text.
const MAX_NOTE_CHARS: usize = 300;

/// The spend ledger. Clones, and every process that opens the same database, share it.
#[derive(Clone, Debug)]
pub struct Ledger {
    database: Database,
}

/// Retries a step on conflicts. A step is one transaction, so a failed attempt leaves nothing behind.
macro_rules! step {
    ($step:expr) => {{
        let mut attempt = 0;
        loop {
            attempt += 1;
            match $step.await {
                Err(SpendError::Store(error)) if error.is_retryable() && attempt < ATTEMPTS => {
                    tokio::time::sleep(Duration::from_millis(2 << attempt)).await;
                }
                done => break done,
            }
        }
    }};
}

impl Ledger {
    /// Opens the ledger, and creates its tables if they are missing.
    pub async fn open(database: Database) -> Result<Self, SpendError> {
        database.migrate(sql::MODULE, sql::MIGRATIONS).await?;
        Ok(Self { database })
    }

    /// Reserves money, or refuses: checks the policy's lists and limits, and all its budgets, in one transaction.
    pub async fn reserve(&self, spend: &Spend, policy: &SpendPolicy, now: UnixTime) -> Result<PaymentId, SpendError> {
        policy.check(spend)?;
        let id = PaymentId::random()?;
        step!(self.try_reserve(id, spend, policy, now))?;
        Ok(id)
    }

    /// Returns why [`reserve`](Self::reserve) would refuse now, and reserves nothing.
    pub async fn check(&self, spend: &Spend, policy: &SpendPolicy, now: UnixTime) -> Result<(), SpendError> {
        policy.check(spend)?;
        let (asset, recipient, tool) = (text(spend.asset), text(spend.recipient), spend.tool_text());
        let spent = spent_values(spend, [&recipient, &tool, &asset], now.seconds())?;
        let rows = step!(async { Ok::<_, SpendError>(self.database.fetch(&sql::SPENT, &spent).await?) })?;
        within_budgets(&SpentRow::from_row(rows.first().ok_or(corrupt("totals"))?)?, spend, policy)
    }

    async fn try_reserve(&self, id: PaymentId, spend: &Spend, policy: &SpendPolicy, now: UnixTime) -> Result<(), SpendError> {
        let now = now.seconds();
        let mut transaction = self.database.begin().await?;
        transaction.execute(sql::TURN, &[]).await?;
        let oldest = now.saturating_sub(KEEP_DAYS * DAY);
        transaction.execute(sql::PRUNE, &[Value::Integer(oldest), Value::Integer(PRUNE_BATCH)]).await?;
        let kept = [now.saturating_sub(RESUMABLE_SECONDS), now].map(Value::Integer);
        transaction.execute(sql::FORGET, &kept).await?;
        let count = transaction.fetch_optional(sql::COUNT, &[]).await?.map_or(Ok(0), |row| row.scalar::<i64>())?;
        if count >= MAX_ENTRIES {
            return Err(SpendError::Full);
        }
        let chain = i64::try_from(spend.chain).map_err(|_| SpendError::Amount)?;
        let (asset, recipient, payer) = (text(spend.asset), text(spend.recipient), text(spend.payer));
        let tool = spend.tool_text();
        let spent = spent_values(spend, [&recipient, &tool, &asset], now)?;
        let row = transaction.fetch_optional(&sql::SPENT, &spent).await?.ok_or(corrupt("totals"))?;
        within_budgets(&SpentRow::from_row(&row)?, spend, policy)?;
        let (id, origin) = (id.to_string(), spend.origin.to_string());
        let values = [
            Value::Text(&id),
            Value::Integer(spend.amount.column()),
            Value::Integer(chain),
            Value::Text(&asset),
            Value::Text(&recipient),
            Value::Text(&payer),
            Value::Text(&tool),
            Value::Text(&origin),
            Value::Boolean(spend.tool.is_some()),
            Value::Integer(now),
            Value::Integer(now.saturating_add(LEASE_SECONDS)),
        ];
        transaction.execute(sql::RESERVE, &values).await?;
        transaction.commit().await?;
        Ok(())
    }

    /// Records that the wallet is about to be asked. From here on the payment counts as spent, whatever happens to this process.
    pub async fn sign(&self, id: PaymentId, signing: &Signing<'_>, now: UnixTime) -> Result<(), SpendError> {
        let name = id.to_string();
        let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let values = [
            Value::Text(&name),
            Value::Integer(now.seconds()),
            Value::Bytes(signing.nonce.as_slice()),
            Value::Integer(whole(signing.valid_before)),
            Value::Integer(whole(signing.from_block)),
            Value::Text(signing.method),
            Value::Text(signing.url),
            Value::OptionalBytes(Some(signing.body).filter(|body| body.len() <= MAX_KEPT_BODY)),
            Value::Integer(signing.version.number().into()),
        ];
        match self.change(sql::SIGN, &values).await? {
            1 => Ok(()),
            _ => Err(SpendError::Lapsed { id }),
        }
    }

    /// Stores the signed payment, before it is sent, so that it can be sent again.
    pub async fn attach(&self, id: PaymentId, payment: &str, salt: Option<B256>, now: UnixTime) -> Result<(), SpendError> {
        let name = id.to_string();
        let salt = Value::OptionalBytes(salt.as_ref().map(|salt| salt.as_slice()));
        let values = [Value::Text(&name), Value::Integer(now.seconds()), Value::Text(payment), salt];
        self.changed(id, sql::ATTACH, &values).await
    }

    /// Stores how to redeem the result: the server's retry token, and for how many seconds it keeps the result, at most
    /// [`MAX_REDEEMABLE_SECONDS`].
    pub async fn keep_redemption(
        &self,
        id: PaymentId,
        token: Option<&str>,
        seconds: Option<i64>,
        now: UnixTime,
    ) -> Result<(), SpendError> {
        let name = id.to_string();
        let seconds = seconds.filter(|seconds| *seconds > 0).map(|seconds| seconds.min(MAX_REDEEMABLE_SECONDS));
        let until = seconds.map_or(0, |seconds| now.seconds().saturating_add(seconds));
        let values =
            [Value::Text(&name), Value::Integer(now.seconds()), Value::Text(token.unwrap_or_default()), Value::Integer(until)];
        self.changed(id, sql::REDEMPTION, &values).await
    }

    /// Records a settlement. The request and the signature are kept for as long as the server keeps the result, or for
    /// [`REDEEMABLE_SECONDS`].
    pub async fn settle(
        &self,
        id: PaymentId,
        transaction: Option<B256>,
        evidence: Evidence,
        note: &str,
        now: UnixTime,
    ) -> Result<(), SpendError> {
        let (name, note) = (id.to_string(), shortened(note));
        let values = [
            Value::Text(&name),
            Value::Integer(now.seconds()),
            Value::OptionalBytes(transaction.as_ref().map(|hash| hash.as_slice())),
            Value::Boolean(evidence == Evidence::Chain),
            Value::Text(&note),
            Value::Integer(now.seconds().saturating_add(REDEEMABLE_SECONDS)),
        ];
        self.changed(id, sql::SETTLE, &values).await
    }

    /// Records that the outcome is unknown. `stated` is a transaction that the server names and the chain does not show yet.
    pub async fn unknown(&self, id: PaymentId, stated: Option<B256>, note: &str, now: UnixTime) -> Result<(), SpendError> {
        let (name, note) = (id.to_string(), shortened(note));
        let stated = Value::OptionalBytes(stated.as_ref().map(|hash| hash.as_slice()));
        self.changed(id, sql::UNKNOWN, &[Value::Text(&name), Value::Integer(now.seconds()), Value::Text(&note), stated]).await
    }

    /// Records that the chain does not show the settlement that a server has stated.
    pub(crate) async fn reopen(&self, id: PaymentId, note: &str, now: UnixTime) -> Result<(), SpendError> {
        let (name, note) = (id.to_string(), shortened(note));
        self.changed(id, sql::REOPEN, &[Value::Text(&name), Value::Integer(now.seconds()), Value::Text(&note)]).await
    }

    /// Releases the money. Only for payments that were never signed, or that can never settle according to the chain.
    pub(crate) async fn release(&self, id: PaymentId, note: &str, now: UnixTime) -> Result<(), SpendError> {
        let (name, note) = (id.to_string(), shortened(note));
        self.changed(id, sql::RELEASE, &[Value::Text(&name), Value::Integer(now.seconds()), Value::Text(&note)]).await
    }

    /// Returns a payment.
    pub async fn entry(&self, id: PaymentId) -> Result<Entry, SpendError> {
        let name = id.to_string();
        let rows = step!(async { Ok::<_, SpendError>(self.database.fetch(sql::ENTRY, &[Value::Text(&name)]).await?) })?;
        rows.first().map_or(Err(SpendError::NotFound { id }), |row| entry(EntryRow::from_row(row)?))
    }

    /// Returns the newest payments.
    pub async fn newest(&self, limit: usize) -> Result<Vec<Entry>, SpendError> {
        self.list(sql::NEWEST, limit).await
    }

    /// Returns payments with an open outcome, the oldest first.
    pub async fn open_payments(&self, limit: usize) -> Result<Vec<Entry>, SpendError> {
        self.list(sql::OPEN, limit).await
    }

    /// Returns what currently counts as spent, of real money.
    pub async fn totals(&self, now: UnixTime) -> Result<Totals, SpendError> {
        self.totals_of(false, now).await
    }

    /// Returns what currently counts as spent, of test money. The limits are the same, but the two are counted separately.
    pub async fn test_totals(&self, now: UnixTime) -> Result<Totals, SpendError> {
        self.totals_of(true, now).await
    }

    async fn totals_of(&self, is_test: bool, now: UnixTime) -> Result<Totals, SpendError> {
        let now = now.seconds();
        let values = [
            Value::Integer(now.saturating_sub(HOUR)),
            Value::Integer(now.saturating_sub(DAY)),
            Value::Integer(now),
            Value::Text(""),
            Value::Text(""),
            Value::Integer(0),
            Value::Text(""),
            Value::Boolean(is_test),
        ];
        let rows = step!(async { Ok::<_, SpendError>(self.database.fetch(&sql::SPENT, &values).await?) })?;
        let row = rows.first().ok_or(corrupt("totals"))?;
        let SpentRow { hour, day, open, .. } = SpentRow::from_row(row)?;
        Ok(Totals { hour, day, open })
    }

    async fn list(&self, statement: &'static str, limit: usize) -> Result<Vec<Entry>, SpendError> {
        let limit = Value::Integer(limit.min(MAX_LIST) as i64);
        let rows = step!(async { Ok::<_, SpendError>(self.database.fetch(statement, &[limit]).await?) })?;
        EntryRow::from_rows(&rows).map(|row| entry(row?)).collect()
    }

    async fn change(&self, statement: &'static str, values: &[Value<'_>]) -> Result<u64, SpendError> {
        step!(async { Ok::<_, SpendError>(self.database.execute(statement, values).await?) })
    }

    /// Changes exactly one row, or returns why not.
    async fn changed(&self, id: PaymentId, statement: &'static str, values: &[Value<'_>]) -> Result<(), SpendError> {
        match self.change(statement, values).await? {
            1 => Ok(()),
            _ => Err(SpendError::State { id, state: self.entry(id).await?.state }),
        }
    }
}

/// Returns the arguments of [`sql::SPENT`] for a payment with this recipient, tool and token.
fn spent_values<'v>(spend: &Spend, texts: [&'v str; 3], now: i64) -> Result<[Value<'v>; 8], SpendError> {
    let [recipient, tool, asset] = texts.map(Value::Text);
    let chain = i64::try_from(spend.chain).map_err(|_| SpendError::Amount)?;
    let (hour, day) = (Value::Integer(now.saturating_sub(HOUR)), Value::Integer(now.saturating_sub(DAY)));
    let is_test = Value::Boolean(is_test_chain(spend.chain));
    Ok([hour, day, Value::Integer(now), recipient, tool, Value::Integer(chain), asset, is_test])
}

/// Whether a payment fits into what is left of each budget.
fn within_budgets(spent: &SpentRow, spend: &Spend, policy: &SpendPolicy) -> Result<(), SpendError> {
    let budgets = [
        (Budget::Hour, spent.hour, policy.per_hour),
        (Budget::Day, spent.day, policy.per_day),
        (Budget::Recipient, spent.to_recipient, policy.per_recipient_day),
        (Budget::Tool, spent.to_tool, policy.per_tool_day),
        (Budget::Asset, spent.of_asset, policy.per_asset_day),
    ];
    for (budget, spent, limit) in budgets {
        // Neither is above what `Usdc` takes and a database sums, so this does not overflow.
        if spent.get().saturating_add(spend.amount.get()) > limit.get() {
            let is_test = is_test_chain(spend.chain);
            return Err(SpendError::Budget { budget, amount: spend.amount, spent, limit, is_test });
        }
    }
    Ok(())
}

fn entry(row: EntryRow<'_>) -> Result<Entry, SpendError> {
    let address = |text: &str| text.parse::<Address>().map_err(|_| corrupt("address"));
    let filled = |text: &str| Some(text).filter(|text| !text.is_empty()).map(str::to_owned);
    let tool = if row.is_tool { Some(ToolRef::parse(row.tool).map_err(|_| corrupt("tool"))?) } else { None };
    let version = match row.version {
        1 => Some(Version::V1),
        2 => Some(Version::V2),
        _ => None,
    };
    let request = match (row.body, version, filled(row.payment)) {
        (Some(body), Some(version), Some(payment)) => Some(KeptRequest {
            method: row.method,
            url: row.url,
            body: body.to_vec(),
            version,
            payment,
            salt: row.salt,
            retry_token: filled(row.retry_token),
        }),
        _ => None,
    };
    Ok(Entry {
        id: PaymentId::parse(row.id).ok_or(corrupt("id"))?,
        state: State::from_column(row.state).ok_or(corrupt("state"))?,
        spend: Spend {
            amount: row.amount,
            chain: row.chain,
            asset: address(row.asset)?,
            recipient: address(row.recipient)?,
            payer: address(row.payer)?,
            tool,
            origin: Origin::parse(row.origin).map_err(|_| corrupt("origin"))?,
        },
        created_at: row.created_at,
        updated_at: row.updated_at,
        lease_until: row.lease_until,
        nonce: row.nonce,
        valid_before: row.valid_before,
        from_block: row.from_block,
        transaction: row.transaction_hash,
        note: row.note,
        is_confirmed: row.confirmed,
        redeemable_until: Some(row.redeemable_until).filter(|until| until.seconds() > 0),
        request,
    })
}

impl FromCell<'_> for Usdc {
    fn from_cell(cell: Cell<'_>) -> Result<Self, toolcrib_store::Error> {
        Self::from_column(i64::from_cell(cell)?).ok_or(cell.unexpected("an amount of USDC"))
    }
}

const fn corrupt(what: &'static str) -> SpendError {
    SpendError::Store(toolcrib_store::Error::Corrupt { what })
}

fn text(address: Address) -> String {
    format!("{address:#x}")
}

fn shortened(note: &str) -> String {
    note.chars().take(MAX_NOTE_CHARS).collect()
}
