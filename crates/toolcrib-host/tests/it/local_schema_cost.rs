//! Hostile schemas of tools: rejected, or cheap to load and to validate with.

use std::time::Duration;

use serde_json::json;
use toolcrib_core::codes;
use toolcrib_host::local::CallError;
use toolcrib_host::local::audit::{Options, SyncPolicy};

use toolcrib_testkit::local_tools::hostile_schemas::{Hostile, all};
use toolcrib_testkit::local_tools::{open, request, settings, write_tool};

/// For an unoptimised build on a busy machine. An unbounded schema takes minutes; the benchmark `local` has the times.
const LIMIT: Duration = Duration::from_secs(3);

/// Loads a tool and validates the arguments of a call. `None` if it is rejected, otherwise whether the arguments are valid.
fn load_and_check(hostile: &Hostile) -> Option<bool> {
    let place = tempfile::tempdir().unwrap();
    let (root, state) = (place.path().join("tools"), place.path().join("state"));
    write_tool(&root, "hostile", &json!({"kind": "exec", "command": ["true"]}), &hostile.parameters, &[]);
    // No rule allows the call, so nothing is started.
    let host = open(settings(vec![root], &state, &[], Options::default().with_sync(SyncPolicy::Never)));
    let tools = host.tools();
    if let [problem] = tools.problems() {
        assert_eq!(problem.error.code(), codes::host::MANIFEST_INVALID, "{}", hostile.name);
        assert!(!problem.error.findings().is_empty(), "{} is refused without a reason", hostile.name);
        return None;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    match runtime.block_on(host.call(request("hostile", hostile.arguments.clone()))) {
        Err(CallError::Arguments { violations }) => {
            assert!(!violations.is_empty(), "{}", hostile.name);
            Some(false)
        }
        Err(CallError::Denied { .. }) => Some(true),
        other => panic!("{}: {other:?}", hostile.name),
    }
}

// req: LOCAL-008
#[test]
fn a_hostile_schema_is_refused_or_cheap() {
    for hostile in all() {
        let checked = toolcrib_testkit::assert_faster_than(LIMIT, hostile.name, || load_and_check(&hostile));
        if let Some(loads) = hostile.loads {
            assert_eq!(checked.is_some(), loads, "{}", hostile.name);
        }
        // All arguments but one violate their schema, if it loads.
        let fits = hostile.name == "a chain of 8 doublings" || hostile.name == "distinct elements";
        assert!(checked.is_none_or(|found| found == fits), "{}: {checked:?}", hostile.name);
    }
}
