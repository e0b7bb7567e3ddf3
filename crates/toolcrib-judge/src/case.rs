//! The steps of judging evidence, one method each, and their findings.

use alloy_primitives::Address;
use toolcrib_core::checked::Outcome;
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes;
#[cfg(feature = "attestation")]
use toolcrib_core::finding::Severity;
use toolcrib_core::finding::{Finding, Mode};
use toolcrib_core::hex::{self, Hex};
use toolcrib_core::json::Value;
use toolcrib_core::registry::known::known_fault;
#[cfg(feature = "attestation")]
use toolcrib_core::tool::Attestation;
use toolcrib_core::tool::ToolManifest;
use toolcrib_core::url::well_known::{self, WellKnown, check_origin_binding};
use toolcrib_core::url::{HttpsUrl, ip};

use super::{AccessReport, CLOCK_SKEW, Check, Creators, Failed, Freshness, Hashes, Policy, Step, TierReport, Untrusted};
#[cfg(feature = "attestation")]
use crate::attestation::{self, Attested};
#[cfg(feature = "attestation")]
use crate::evidence::AttestationFetch;
use crate::evidence::{Evidence, Exchange, FORMAT, Method, PredicateFacts, Proxy, Requirements, ToolConfig, ToolState};
use crate::signals;

/// The chain id of the development environment.
const DEV_CHAIN: u64 = 31_337;

/// Findings so far, and the progress of the checks.
#[derive(Default)]
pub(super) struct Case {
    /// The findings, each with the step that fails by it.
    findings: Vec<(Option<Step>, Finding)>,
    /// The first failing step.
    pub(super) failed: Option<Failed>,
    /// Which of the four checks were completed.
    made: [bool; 4],
}

/// The served manifest, parsed.
pub(super) struct Served {
    pub(super) outcome: Outcome<ToolManifest>,
    pub(super) hash: Option<alloy_primitives::B256>,
    pub(super) creator: Option<Address>,
    pub(super) endpoint: Option<HttpsUrl>,
    pub(super) max_age: Option<u64>,
}

/// The trust in the environment claims of a verified manifest.
#[derive(Default)]
pub(super) struct Trust {
    pub(super) tier: TierReport,
    #[cfg(feature = "attestation")]
    pub(super) attested: Option<Attested>,
}

impl Case {
    /// Checks that the evidence is of this version and not from the future.
    pub(super) fn evidence(&mut self, evidence: &Evidence, now: UnixTime) {
        if evidence.format != FORMAT {
            let finding = Finding::new(codes::verify::FORMAT).expected(FORMAT.to_string()).got(evidence.format.to_string());
            self.fail(Step::Evidence, finding);
        }
        if evidence.gathered_at.since(now) > CLOCK_SKEW {
            let finding = Finding::new(codes::verify::FROM_THE_FUTURE)
                .expected(format!("at most {CLOCK_SKEW} seconds after {now}"))
                .got(evidence.gathered_at.to_string());
            self.fail(Step::Evidence, finding);
        }
    }

    /// Checks that the tool is registered, in a registry whose code is the pinned one.
    pub(super) fn registration<'e>(&mut self, evidence: &'e Evidence, policy: &Policy) -> Option<&'e ToolConfig> {
        let Some(chain) = &evidence.chain else {
            if evidence.tool.is_none() {
                self.add(Finding::new(codes::verify::NO_CHAIN));
            } else {
                self.inconsistent("the evidence names a tool, but has no chain reads");
            }
            return None;
        };
        if let Some(pin) = policy.pinned_registry_code {
            let finding = match chain.registry_code_hash {
                None => Some(Finding::new(codes::chain::REGISTRY_CODE).message("the registry's code was not read")),
                read => signals::registry_code(pin, read),
            };
            if let Some(finding) = finding {
                self.fail(Step::Registration, finding);
            }
        }
        if evidence.tool.is_none() || !(1..=2).contains(&chain.config.len()) {
            self.inconsistent("the configuration of a tool must be read once or twice");
            return None;
        }
        if let [first, second] = chain.config.as_slice() {
            self.add(
                Finding::new(codes::verify::REREAD)
                    .message(format!("the configuration was read at block {} and again at block {}", first.block, second.block)),
            );
        }
        match &chain.config.last()?.state {
            ToolState::Present(config) => {
                let pin = policy.pinned_manifest;
                if let Some(finding) = pin.and_then(|pin| signals::pinned_manifest(pin, config.manifest_hash)) {
                    self.add(finding);
                }
                Some(config)
            }
            ToolState::NotFound => {
                self.fail(Step::Registration, Finding::new(codes::chain::TOOL_NOT_FOUND));
                None
            }
            ToolState::Deregistered => {
                self.fail(Step::Registration, Finding::new(codes::chain::TOOL_DEREGISTERED));
                None
            }
        }
    }

    /// Checks grammar and path of the metadata URI. Without a chain, the requested URL is used instead.
    pub(super) fn metadata_uri(&mut self, evidence: &Evidence) -> Option<WellKnown> {
        let uri = evidence.metadata_uri()?;
        match WellKnown::parse(uri) {
            Ok(well_known) => {
                if let Some(finding) = well_known::lint_normalisation(uri, &well_known) {
                    self.add(finding);
                }
                for finding in well_known.url().lints() {
                    self.add(finding);
                }
                Some(well_known)
            }
            Err(faults) => {
                for fault in faults {
                    self.fail(Step::MetadataUri, fault.finding(uri));
                }
                None
            }
        }
    }

    /// Checks that the manifest was fetched from the metadata URI. Returns the bytes.
    pub(super) fn fetch<'e>(&mut self, evidence: &'e Evidence, well_known: Option<&WellKnown>) -> Option<&'e [u8]> {
        let Some(exchange) = &evidence.manifest else {
            if well_known.is_some() {
                self.fail(Step::Fetch, Finding::new(codes::verify::NO_MANIFEST));
            }
            return None;
        };
        // The fetcher recorded the URL that it fetched; an invalid URI has no normal form to compare with.
        if let Some(reason) = contradiction(evidence, exchange, well_known) {
            self.inconsistent(reason);
            return None;
        }
        if let Some(failure) = &exchange.failure {
            let step = if failure.code.info().check == Some(2) { Step::Egress } else { Step::Fetch };
            self.fail(step, failure.finding());
            return None;
        }
        let Some(response) = exchange.complete().filter(|response| response.status == 200) else {
            self.inconsistent("a fetch without a failure must have status 200");
            return None;
        };
        if !response.header("content-type").any(is_json) {
            let found = response.header("content-type").next().unwrap_or("none");
            self.add(Finding::new(codes::verify::CONTENT_TYPE).expected("application/json").got(found));
        }
        self.made[0] = true;
        Some(response.body.as_bytes())
    }

    /// Checks that the bytes are strict JSON, NFC and lowercase hex; any other violation only makes the manifest not conformant.
    pub(super) fn manifest(&mut self, bytes: &[u8]) -> Served {
        let checked = ToolManifest::parse(bytes, Mode::Consumer);
        for finding in checked.findings {
            match Step::of_manifest(&finding) {
                Some(step) => self.fail(step, finding),
                None => self.add(finding),
            }
        }
        match checked.outcome {
            Outcome::Conformant(sealed) => Served {
                hash: Some(sealed.hash()),
                creator: Some(sealed.creator()),
                endpoint: Some(sealed.endpoint().clone()),
                max_age: sealed.max_age(),
                outcome: Outcome::Conformant(sealed),
            },
            Outcome::Flawed(sealed) => {
                let root = sealed.value().root();
                let text = |key: &str| root.get(key).and_then(Value::as_str);
                Served {
                    hash: Some(sealed.hash()),
                    creator: text("creatorAddress").and_then(lowercase_address),
                    endpoint: text("endpoint").and_then(|endpoint| HttpsUrl::parse(endpoint).ok()),
                    max_age: root.get("maxAge").and_then(Value::as_u64),
                    outcome: Outcome::Flawed(sealed),
                }
            }
            Outcome::Unreadable => {
                Served { outcome: Outcome::Unreadable, hash: None, creator: None, endpoint: None, max_age: None }
            }
        }
    }

    /// Checks that the endpoint and the metadata URI have the same origin.
    pub(super) fn origin(&mut self, evidence: &Evidence, served: Option<&Served>) {
        let (Some(uri), Some(endpoint)) = (evidence.metadata_uri(), served.and_then(|served| served.endpoint.as_ref())) else {
            return;
        };
        self.made[1] = true;
        for finding in check_origin_binding(uri, endpoint).err().into_iter().flatten() {
            // Faults of the URI alone were reported before the fetch.
            if finding.code == codes::url::ORIGIN_HOST || finding.code == codes::url::ORIGIN_PORT {
                self.fail(Step::Origin, finding);
            }
        }
    }

    /// Checks that the hash is the committed one. A second read of the configuration counts if it still has the fetched URL.
    pub(super) fn hash(&mut self, evidence: &Evidence, hash: Hashes) {
        let (Some(committed), Some(served)) = (hash.committed, hash.served) else { return };
        self.made[2] = true;
        if committed != served {
            let finding = Finding::new(codes::verify::HASH_MISMATCH).expected(committed.to_string()).got(served.to_string());
            self.fail(Step::Hash, finding);
        }
        if let Some([first, second]) = evidence.chain.as_ref().map(|chain| chain.config.as_slice()) {
            let uri = |state: &ToolState| match state {
                ToolState::Present(config) => Some(config.metadata_uri.clone()),
                _ => None,
            };
            let (before, after) = (uri(&first.state), uri(&second.state));
            if before != after {
                let finding =
                    Finding::new(codes::verify::URI_CHANGED).expected(before.unwrap_or_default()).got(after.unwrap_or_default());
                self.fail(Step::Hash, finding);
            }
        }
    }

    /// Checks that the creator in the manifest is the registering account.
    pub(super) fn creator(&mut self, creator: Creators) {
        let (Some(onchain), Some(declared)) = (creator.onchain, creator.declared) else { return };
        self.made[3] = true;
        if onchain != declared {
            self.fail(
                Step::Creator,
                Finding::new(codes::verify::CREATOR_MISMATCH)
                    .message(format!("the manifest names {declared:#x} as creator, but {onchain:#x} registered the tool"))
                    .expected(format!("{onchain:#x}"))
                    .got(format!("{declared:#x}")),
            );
        }
    }

    /// Checks for how long the result is valid.
    pub(super) fn freshness(&mut self, evidence: &Evidence, policy: &Policy, max_age: Option<u64>, now: UnixTime) -> Freshness {
        let own = policy.window();
        let window = max_age.map_or(own, |max_age| max_age.min(own));
        if window < own {
            self.add(
                Finding::new(codes::verify::MAX_AGE)
                    .message(format!("`maxAge` shortens the freshness window from {own} to {window} seconds")),
            );
        }
        let seconds = i64::try_from(window).unwrap_or(i64::MAX);
        let age = now.since(evidence.gathered_at);
        let fresh = age <= seconds && age >= -CLOCK_SKEW;
        if age > seconds {
            self.add(
                Finding::new(codes::verify::STALE)
                    .message(format!("the evidence is {age} seconds old, the limit is {window}"))
                    .expected(format!("at most {window} seconds"))
                    .got(format!("{age} seconds")),
            );
        }
        let expires_at = evidence.gathered_at.seconds().saturating_add(seconds).saturating_add(1);
        Freshness { gathered_at: evidence.gathered_at, window, expires_at: UnixTime::from_seconds(expires_at), fresh }
    }

    /// Reports who may use the tool, and the findings about its predicate.
    pub(super) fn access(&mut self, evidence: &Evidence, config: &ToolConfig, served: Option<&Served>) -> AccessReport {
        let facts = evidence
            .chain
            .as_ref()
            .and_then(|chain| chain.predicate.as_ref())
            // Facts about another contract do not apply to this tool.
            .filter(|facts| Some(facts.address) == config.access_predicate);
        if let Some(facts) = facts {
            self.predicate(facts);
            let chain_id = evidence.tool.map_or(0, |tool| tool.chain);
            for finding in signals::collections(chain_id, facts.contracts.iter().map(|fact| (fact.address, fact.has_code))) {
                self.add(finding);
            }
            if let Some(fault) = known_fault(chain_id, &facts.address, facts.code_hash.as_ref()) {
                self.add(Finding::new(fault.code()).message(fault.to_string()).got(format!("{:#x}", facts.address)));
            }
        }
        if let Some(Served { outcome: Outcome::Conformant(manifest), .. }) = served {
            self.access_block(manifest, config, facts);
        }
        AccessReport {
            predicate: config.access_predicate,
            predicate_is_proxy: facts.is_some_and(|facts| facts.proxy.as_ref().is_some_and(Proxy::is_mutable)),
            predicate_name: facts.and_then(|facts| facts.name.as_deref()).map(Untrusted::new),
            requirements: facts.map(|facts| facts.requirements.clone()),
        }
    }

    /// Compares the manifest's access block with the chain, which decides.
    fn access_block(&mut self, manifest: &ToolManifest, config: &ToolConfig, facts: Option<&PredicateFacts>) {
        let Some(block) = manifest.access() else { return };
        let listed = match (config.access_predicate, facts.map(|facts| &facts.requirements)) {
            (None, _) => None,
            (Some(_), Some(listed @ Requirements::Listed { .. })) => Some(listed),
            // A list that could not be read is not a difference.
            (Some(_), _) => return,
        };
        if let Some(finding) = signals::access(Some(&Requirements::stated(block)), listed) {
            self.add(finding);
        }
    }

    fn predicate(&mut self, facts: &PredicateFacts) {
        let found = signals::predicate(
            &signals::Predicate {
                address: facts.address,
                code_hash: facts.code_hash,
                implementation: facts.proxy.as_ref().filter(|proxy| proxy.is_mutable()).map(|proxy| proxy.target),
                advertised: facts.erc165,
            },
            None,
        );
        for finding in found {
            self.add(finding);
        }
        if facts.code_hash.is_none() {
            return;
        }
        match &facts.requirements {
            Requirements::Failed => self.add(Finding::new(codes::predicate::INTROSPECTION_FAILED)),
            Requirements::OverLimit => self.add(Finding::new(codes::predicate::INTROSPECTION_OVER_LIMIT)),
            Requirements::Listed { entries, .. } if entries.iter().any(|entry| entry.kind.is_zero()) => {
                self.add(Finding::new(codes::predicate::INCOMPLETE));
            }
            Requirements::Listed { .. } | Requirements::NoCode => {}
        }
        if facts.name.is_none() {
            self.add(Finding::new(codes::predicate::NAME_MISSING));
        }
    }

    /// Returns the trust in the environment of a verified tool: none without a verified report.
    #[cfg(feature = "attestation")]
    pub(super) fn trust(&mut self, evidence: &Evidence, manifest: &ToolManifest, policy: &Policy, now: UnixTime) -> Trust {
        let Some(claims) = manifest.verifiability() else { return Trust::default() };
        let attested = match (claims.attestation().filter(|_| claims.execution().is_isolated()), &evidence.attestation) {
            (Some(claim), Some(fetch)) => self.report(claim, fetch, manifest, policy, now),
            _ => None,
        };
        for finding in attested.iter().flat_map(Attested::findings) {
            // Findings about the environment do not affect the four checks.
            self.add(finding.clone().severity(finding.severity.min(Severity::Warning)));
        }
        let effective = attestation::effective_tier(claims, attested.as_ref());
        let tier = TierReport { declared: effective.declared, claimed: effective.claimed, effective: effective.tier };
        if attested.is_none() && tier.claimed > tier.effective {
            self.add(Finding::new(codes::attestation::UNVERIFIED_CLAIM).message("no attestation report was fetched"));
        }
        Trust { tier, attested }
    }

    /// Verifies the fetched report, if it came from the URL in the manifest.
    #[cfg(feature = "attestation")]
    fn report(
        &mut self,
        claim: Attestation<'_>,
        fetch: &AttestationFetch,
        manifest: &ToolManifest,
        policy: &Policy,
        now: UnixTime,
    ) -> Option<Attested> {
        let named = claim.endpoint().and_then(|endpoint| HttpsUrl::parse(endpoint).ok())?;
        if fetch.exchange.url != named.normalized() {
            self.add(Finding::new(codes::attestation::UNVERIFIED_CLAIM).message("the report was fetched from another URL"));
            return None;
        }
        if let Some(failure) = &fetch.exchange.failure {
            self.add(failure.finding().severity(Severity::Warning));
            return None;
        }
        let response = fetch.exchange.complete().filter(|response| response.status == 200)?;
        let report = attestation::Report { body: response.body.as_bytes(), content_type: response.header("content-type").next() };
        let claim = attestation::Claim::of(claim, manifest.endpoint().normalized());
        Some(attestation::verify(&report, &claim, &policy.attestation, now, fetch.nonce.as_ref().map(|nonce| &nonce[..])))
    }

    /// Returns no trust in the environment of a verified tool: this build cannot verify reports.
    #[cfg(not(feature = "attestation"))]
    pub(super) fn trust(&mut self, _: &Evidence, manifest: &ToolManifest, _: &Policy, _: UnixTime) -> Trust {
        let Some(claims) = manifest.verifiability() else { return Trust::default() };
        let (declared, claimed) = (claims.declared_tier(), claims.effective_tier());
        Trust { tier: TierReport { declared, claimed, ..TierReport::default() } }
    }

    /// Reports signs of a takeover in the server's certificate.
    #[cfg(feature = "attestation")]
    pub(super) fn certificate(&mut self, evidence: &Evidence) {
        let registration = evidence.chain.as_ref().and_then(|chain| chain.registration);
        let tls = evidence.manifest.as_ref().and_then(|exchange| exchange.tls.as_ref());
        let (Some(registration), Some(tls)) = (registration, tls) else { return };
        let Some(certificate) = crate::certificate::read(tls.certificate.as_bytes()) else { return };
        for finding in signals::certificate(registration.at, &certificate, None) {
            self.add(finding);
        }
    }

    /// This build does not parse certificates.
    #[cfg(not(feature = "attestation"))]
    pub(super) const fn certificate(&self, _: &Evidence) {}

    /// The results of the four checks.
    pub(super) fn checks(&self) -> [Check; 4] {
        std::array::from_fn(|index| {
            let number = index + 1;
            let failed = self.findings.iter().any(|(step, _)| step.and_then(Step::check).map(usize::from) == Some(number));
            match (failed, self.made[index]) {
                (true, _) => Check::Failed,
                (false, true) => Check::Passed,
                (false, false) => Check::NotReached,
            }
        })
    }

    /// All findings: failing steps in their order, then the rest, most severe first.
    pub(super) fn into_findings(mut self) -> Vec<Finding> {
        self.findings.sort_by_key(|(step, finding)| (step.is_none(), *step, std::cmp::Reverse(finding.severity)));
        self.findings.into_iter().map(|(_, finding)| finding).collect()
    }

    /// Adds a finding that fails no step.
    pub(super) fn add(&mut self, finding: Finding) {
        self.findings.push((None, finding));
    }

    fn fail(&mut self, step: Step, finding: Finding) {
        if self.failed.is_none_or(|failed| step < failed.step) {
            self.failed = Some(Failed { step, code: finding.code });
        }
        self.findings.push((Some(step), finding));
    }

    fn inconsistent(&mut self, reason: &str) {
        self.fail(Step::Evidence, Finding::new(codes::verify::INCONSISTENT).message(format!("{reason}; the evidence does not")));
    }
}

/// Returns how an exchange contradicts the rest of the evidence.
fn contradiction(evidence: &Evidence, exchange: &Exchange, well_known: Option<&WellKnown>) -> Option<&'static str> {
    if exchange.method != Method::Get {
        return Some("a manifest must be fetched with GET");
    }
    // Two reads may have different URIs; the fetch used the first.
    let first = evidence.chain.as_ref().and_then(|chain| chain.config.first());
    let asked = match first.map(|read| &read.state) {
        Some(ToolState::Present(config)) => WellKnown::parse(&config.metadata_uri).ok(),
        Some(_) => return Some("only a registered tool can have a fetched manifest"),
        None => well_known.cloned(),
    };
    let url = asked?;
    let url = url.url();
    if exchange.url != url.normalized() {
        return Some("the manifest must be fetched from the metadata URI");
    }
    let is_dev_tool = evidence.tool.is_some_and(|tool| tool.chain == DEV_CHAIN) && url.host().ends_with(".localhost");
    if exchange.dev && !is_dev_tool {
        return Some("the development exception applies only to hosts below localhost for tools on chain 31337");
    }
    let literal = url.host_ip();
    let mut reached = exchange.addresses.iter().copied().chain(exchange.connected.map(|address| address.ip())).chain(literal);
    if exchange.failure.is_none() && !exchange.dev && reached.any(|address| !ip::is_public(address)) {
        return Some("connections are allowed to public addresses only");
    }
    let known = |address: &std::net::SocketAddr| exchange.addresses.contains(&address.ip()) || literal == Some(address.ip());
    if exchange.connected.as_ref().is_some_and(|address| !known(address)) {
        return Some("the connection must use an address from the DNS lookup");
    }
    None
}

/// Whether a Content-Type is JSON.
fn is_json(value: &str) -> bool {
    let essence = value.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
        || (essence.len() > 5 && essence.get(essence.len() - 5..).is_some_and(|end| end.eq_ignore_ascii_case("+json")))
}

/// Parses an address in the only spelling that manifests may use.
fn lowercase_address(text: &str) -> Option<Address> {
    match Hex::of(text) {
        Hex::Lower(digits) if digits.len() == 40 => Address::try_from(hex::decode(digits)?.as_slice()).ok(),
        _ => None,
    }
}
