//! The GPU that tests run on.

use ex_burn_engine::gpu::Adapter;

/// The first GPU, or the first of the kind that `EX_BURN_TEST_DEVICE` names, as `vulkan`. `None` where there is none; where one was
/// asked for, by a kind or by `gpu`, that is an error.
pub(crate) fn adapter() -> Option<Adapter> {
    let kind = std::env::var("EX_BURN_TEST_DEVICE").unwrap_or_default();
    let any = kind.is_empty() || kind == "gpu";
    let adapter = Adapter::all().into_iter().find(|adapter| any || adapter.api() == kind);
    assert!(adapter.is_some() || kind.is_empty(), "no {kind} was found");
    if adapter.is_none() {
        eprintln!("no GPU: nothing was tested");
    }
    adapter
}
