//! Advice about two accesses: calls that would have ordered them.

use crate::actor::Who;
use crate::race::Side;
use crate::rules::MissingCall;
use crate::site::Site;
use crate::waits::Wait;

/// Returns the missing call of the library, as a report names it.
pub fn missing_call(missing_call: MissingCall, first: &Site, second: &Site) -> String {
    let (of_first, of_second) = (first.stream.describe(), second.stream.describe());
    let is_host = |site: &Site| matches!(site.stream.who, Who::Host { .. });
    match missing_call {
        MissingCall::BeginOfSecond if is_host(second) => {
            "cai_array_synchronize(array) before the second; by hand: ".to_owned()
        }
        MissingCall::BeginOfSecond => {
            format!("cai_array_consume_begin(array, {of_second}) before the second; by hand: ")
        }
        MissingCall::BeginOrStream => format!(
            "cai_array_consume_begin(array, {of_second}) before the second, or, where that is the \
             producer's, {of_second} as the array's stream; by hand: "
        ),
        MissingCall::BeginOfFirst => format!(
            "cai_array_consume_begin(array, {of_first}) before the first and \
             cai_array_consume_end after it; by hand: "
        ),
        MissingCall::End => {
            format!("cai_array_consume_end(array, {of_first}) after the first; by hand: ")
        }
        MissingCall::Stream => format!(
            "{of_first} as the array's stream, in its dictionary or with cai_array_produce; by hand: "
        ),
        MissingCall::KnownStream => {
            "the array's stream (version 3 of its dictionary), CAI_SYNC_CONSERVATIVE, or \
             cai_array_synchronize; by hand: "
                .to_owned()
        }
        MissingCall::Join => format!(
            "{of_first} as the array's stream, or a wait of the array's stream for it, as \
             cai_array_produce makes it; by hand: "
        ),
        MissingCall::LaterEnd => format!(
            "cai_array_consume_end(array, {of_first}) came before the first, its place is \
             after it; by hand: "
        ),
    }
}

/// Returns the one call that would have ordered the two accesses.
pub fn missing(first: &Site, second: &Site) -> String {
    let (a, b) = (first.actor.describe(), second.actor.describe());
    if first.label.contains("cuMemFree") {
        return "The memory was freed: free it after the last use.".to_owned();
    }
    match (&first.actor.who, &second.actor.who) {
        (Who::Foreign { pid, .. }, _) => format!(
            "cuEventRecord of an interprocess event after the first, in process {pid}, and \
             cuStreamWaitEvent({b}, event) before the second; or process {pid} waits for its \
             stream before it notifies this one."
        ),
        (Who::Host { .. }, Who::Host { .. }) => {
            "Order the two threads: a lock, a join, or cudasim_hb_before and \
             cudasim_hb_after around what orders them already."
                .to_owned()
        }
        (Who::Host { .. }, _) => format!(
            "Enqueue the second on {b} after the first, from a thread that knows of it: \
             order the two host threads."
        ),
        (_, Who::Host { .. }) if second.label.contains("cuMemFreeHost") => {
            format!("cuStreamSynchronize({a}) before freeing.")
        }
        (_, Who::Host { .. }) if second.label.contains("cuMemFree") => format!(
            "cuStreamSynchronize({a}) before freeing; or free with cuMemFreeAsync on a stream \
             that waits for {a}."
        ),
        (_, Who::Host { .. }) => format!(
            "cuStreamSynchronize({a}), or cuEventSynchronize on an event recorded there after \
             the first."
        ),
        (Who::Branch { .. }, Who::Branch { .. }) => {
            "A dependency between the two nodes; in a capture, cuEventRecord after the first \
             and cuStreamWaitEvent before the second."
                .to_owned()
        }
        _ => format!(
            "cuEventRecord(event, {a}) after the first and cuStreamWaitEvent({b}, event) \
             before the second."
        ),
    }
}

/// Returns the order that is missing if another host thread has waited for the first access.
pub fn order_of_threads(waited: u64, thread: u64) -> String {
    format!(
        "Host thread {waited} has waited for the first: order it before host thread {thread}, by a \
         lock, a join, or cudasim_hb_before and cudasim_hb_after around what orders them already."
    )
}

pub fn side(site: &Site, mode: u32) -> Side {
    Side {
        mode,
        who: site.actor.describe(),
        label: site.label.to_string(),
        thread: site.thread,
        stack: site.stack,
        elsewhere: matches!(site.actor.who, Who::Foreign { .. }),
    }
}

/// Returns the record and the wait of an event that may run in either order.
pub fn calls(wait: &Wait) -> Box<[Side; 2]> {
    let call = |site: &Site| {
        let stream = if site.stream.actor() == site.actor.actor() {
            String::new()
        } else {
            format!(", {}", site.stream.describe())
        };
        let label = format!("{}(event {:#x}{stream})", site.label, wait.event);
        Side { label, ..side(site, 0) }
    };
    Box::new([call(&wait.record), call(&wait.wait)])
}
