//! State, logs and receipts of a registry agree about the same tools, on real nodes.

use std::time::Duration;

use alloy_primitives::{B256, U256};
use toolcrib_chain::registry::{ChainEvent, LogQuery, MAX_COMPARED, Registry, ToolState, state_digest};
use toolcrib_chain::transaction::Call;
use toolcrib_chain::wallet::LocalWallet;

use toolcrib_testkit::nodes::{Node, deploy};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn digests_and_receipts_agree_with_single_reads() {
    for node in Node::each(31_337).await {
        let chain = node.chain().await;
        let registry = Registry::new(chain.clone(), deploy(&chain, "ToolRegistry", &[]).await);
        let creator = LocalWallet::development(0).expect("a phrase");
        let send = async |call: Call| {
            let receipt = chain.send(&creator, &call, Duration::from_secs(20)).await.expect("mined");
            receipt.block_number.expect("a block")
        };
        let predicate = deploy(&chain, "DenyAllPredicate", &[]).await;
        for n in 0..5_u8 {
            let uri = format!("https://tools.example/{}", "x".repeat(usize::from(n) * 40));
            send(registry.register(&uri, B256::repeat_byte(n + 1), (n == 2).then_some(predicate))).await;
        }
        let before = chain.block_number().await.expect("a head");
        send(registry.deregister(U256::from(4))).await;
        let block = send(registry.update(U256::from(1), "https://tools.example/new", B256::repeat_byte(9))).await;

        let digests = registry.state_digests_at(U256::from(1), 7, block).await.expect("an answer").expect("digests");
        assert_eq!(digests.len(), 7);
        for (id, digest) in (1_u64..).zip(&digests) {
            let id = U256::from(id);
            let state = registry.tool_at(id, block).await.expect("a state");
            assert_eq!(state_digest(id, &state), *digest, "{id} {state:?}");
        }
        assert!(matches!(registry.tool_at(U256::from(6), block).await.expect("a state"), ToolState::NotFound));
        // An old block has another state.
        let old = registry.state_digests_at(U256::from(1), 1, before).await.expect("an answer").expect("digests");
        assert_ne!(old[0], digests[0]);
        assert_eq!(registry.tool_count_at(before).await.expect("a count"), U256::from(5));
        let most = registry.state_digests_at(U256::from(1), MAX_COMPARED, block).await.expect("an answer").expect("digests");
        assert_eq!((most.len(), &most[..7]), (usize::from(MAX_COMPARED), &digests[..]));

        let query = LogQuery { from: 0, to: block, registry: true, predicates: &[], max_bytes: usize::MAX };
        let page = registry.logs(&query).await.expect("logs");
        assert_eq!(page.logs.len(), 7);
        for number in 0..=block {
            let header = chain.header(number).await.expect("an answer").expect("a header");
            let own: Vec<_> = page.logs.iter().filter(|log| log.block == number).cloned().collect();
            assert!(!registry.is_promised_more(&header, &own, &[predicate]));
            assert_eq!(registry.is_promised_more(&header, &[], &[]), !own.is_empty());
            let receipts = registry.receipt_logs(&header, &[]).await.expect("an answer").expect("receipts");
            assert_eq!(receipts.bloom, header.bloom);
            let same = |log: &toolcrib_chain::registry::ChainLog| (log.event.clone(), log.log_index, log.transaction);
            assert_eq!(receipts.page.logs.iter().map(same).collect::<Vec<_>>(), own.iter().map(same).collect::<Vec<_>>());
        }
        let one = registry.through(3).tool_logs(U256::from(1), 0, block, usize::MAX).await.expect("logs");
        assert_eq!(one.logs.len(), 2);
        assert!(one.logs.iter().all(|log| matches!(&log.event, ChainEvent::Registry(event) if event.id() == U256::from(1))));
    }
}
