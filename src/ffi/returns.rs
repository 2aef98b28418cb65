//! The statuses that the manual of each exported function lists. Debug builds check that it returns no
//! other, so each test shows where a list is incomplete.

use crate::abi::{self, cai_status};
use crate::error::Failure;

// The functions and their statuses, which the build script reads from the manuals.
include!(concat!(env!("OUT_DIR"), "/returns.rs"));

/// Panics if the manual of a function does not list its failure. `closure` is the name of a closure
/// in the function. A module may have the name of a function, so the last part that is one counts.
pub fn check(closure: &str, failure: &Failure) {
    let status = failure.status();
    // Any function returns these two: for a defect, and if there is no memory for the message.
    if status == abi::CAI_ERR_INTERNAL || failure.details().is_none() {
        return;
    }
    let find = |name| RETURNS.iter().find(|(function, _)| *function == name);
    let is_listed = closure.rsplit("::").find_map(find).is_some_and(|(_, list)| {
        // An empty list: the function returns no status.
        list.is_empty()
            || list.contains(&status)
            || failure.is_foreign() && list.contains(&abi::CAI_STATUS_THIRD_PARTY)
    });
    let expected = failure.details().map_or("", |details| details.expected.as_str());
    assert!(is_listed, "{closure} does not list status {status}: expected {expected}");
}

#[cfg(test)]
mod tests {
    use crate::argument::Out;
    use crate::error::Failure;
    use crate::ffi::guard::guard_local;

    #[test]
    #[should_panic(expected = "cai_sync_policy_set::{{closure}} does not list status 101")]
    fn another_status_is_noticed() {
        fn cai_sync_policy_set() {
            guard_local(Out::NONE, || Err(Failure::null("policy")));
        }
        cai_sync_policy_set();
    }
}
