//! Recipients that are bound to an endpoint: what the challenge says about them, and where their signatures are valid.

use alloy_primitives::Address;
use serde_json::json;
use toolcrib_core::caip::ToolRef;
use toolcrib_gate::{EndpointRecipient, Recipient, Tools};
use toolcrib_x402::recipient::EndpointBinding;
use toolcrib_x402::{Authorization, Version};

use crate::world::{
    ORIGIN, Runs, World, authorization, base_domain, counting, creator, fresh, header, holder, post, serve, sign,
};

/// Another scheme of deriving a recipient.
#[derive(Debug)]
struct Fixed(Address);

impl Recipient for Fixed {
    fn pay_to(&self, _: &str, _: ToolRef, operator: Address) -> Address {
        assert_eq!(operator, creator());
        self.0
    }
}

// attack: T3, T21
#[tokio::test]
async fn a_signature_for_one_endpoint_is_worth_nothing_at_another() {
    let world = World::start().await;
    let (id, runs) = (world.tool_for_holders().await, Runs::default());
    let gate = || world.gate(id).recipient(EndpointRecipient);
    let at = serve(
        Tools::new(ORIGIN)
            .tool(counting("one", gate(), &runs))
            .tool(counting("two", gate(), &runs))
            .tool(counting("operated", gate().pay_to(Address::repeat_byte(9)), &runs))
            .tool(counting("plain", world.gate(id), &runs))
            .tool(counting("fixed", world.gate(id).recipient(Fixed(Address::repeat_byte(5))), &runs)),
    )
    .await;
    let tool = world.registry.reference(id);
    let mut recipients = Vec::new();
    for (path, operator) in [("/one", creator()), ("/two", creator()), ("/operated", Address::repeat_byte(9))] {
        let challenges = post(at, path, &[], &json!({})).await.challenges();
        // What a client computes from the manifest and the reference that it has verified.
        let expected = EndpointBinding { endpoint: format!("{ORIGIN}{path}"), tool, operator };
        for challenge in &challenges {
            assert_eq!(challenge.accepts[0].pay_to.evm_address(), Some(expected.pay_to()), "{path}");
        }
        assert_eq!(EndpointBinding::announced(&challenges[1].extensions), Some(expected.clone()), "{path}");
        recipients.push((challenges, expected.pay_to()));
    }
    let plain = post(at, "/plain", &[], &json!({})).await.challenges();
    assert_eq!(
        (plain[1].accepts[0].pay_to.evm_address(), EndpointBinding::announced(&plain[1].extensions)),
        (Some(creator()), None)
    );
    let fixed = post(at, "/fixed", &[], &json!({})).await.challenges();
    assert_eq!(
        (fixed[1].accepts[0].pay_to.evm_address(), EndpointBinding::announced(&fixed[1].extensions)),
        (Some(Address::repeat_byte(5)), None)
    );

    let (challenges, to) = &recipients[0];
    for version in [Version::V1, Version::V2] {
        let signed = Authorization { to: *to, ..authorization(holder(), fresh()) };
        let value = header(challenges, version, signed, sign(holder(), &signed, &base_domain()));
        let call = async |path: &str| post(at, path, &[(version.payment_header(), &value)], &json!({"text": "a"})).await;
        for other in ["/two", "/operated", "/plain", "/fixed"] {
            assert_eq!(call(other).await.verdict(), (402, "payment.pay_to_differs".to_owned()), "{other}");
        }
        assert_eq!(call("/one").await.status, 200);
        // One for the operator is not one for the endpoint.
        let signed = authorization(holder(), fresh());
        let value = header(challenges, version, signed, sign(holder(), &signed, &base_domain()));
        let answer = post(at, "/one", &[(version.payment_header(), &value)], &json!({"text": "a"})).await;
        assert_eq!(answer.verdict(), (402, "payment.pay_to_differs".to_owned()));
    }
    assert_eq!(runs.count(), 2);

    for gate in [world.gate(id).recipient(Fixed(Address::ZERO)), gate().pay_to(Address::ZERO)] {
        let errors = Tools::new(ORIGIN).tool(counting("word-count", gate, &runs)).build().expect_err("nobody's account");
        assert_eq!(errors.0[0].code().id(), "gate.challenge");
    }
}
