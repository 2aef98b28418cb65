//! Waits and queries: after success, the thread knows what was enqueued when it called.

use crate::passed_on::passed_on;
use cudasim_core::clock::Clock;
use cudasim_core::follow::{notify, outside, refused};
use cudasim_core::results::Result;
use cudasim_core::sim::Locked;

/// Follows a wait. `known`: the knowledge of the calling thread after it.
fn wait(
    symbol: &'static str,
    default: u64,
    real: impl FnOnce() -> i32,
    known: impl FnOnce(&mut Locked, u64) -> Result<Vec<Clock>>,
) -> i32 {
    let mut clocks = Vec::new();
    notify(symbol, default, 0, |sim, default| {
        clocks = known(sim, default).unwrap_or_default();
        Ok(())
    });
    let result = outside(real);
    refused(symbol, result);
    if result == 0 && !clocks.is_empty() {
        notify(symbol, default, 0, |sim, _| {
            clocks.iter().for_each(|clock| sim.this_thread_learns(Some(clock)));
            Ok(())
        });
    }
    result
}

fn of_stream(sim: &mut Locked, stream: u64, default: u64) -> Result<Vec<Clock>> {
    if stream > 2 && sim.streams.get(stream).is_none() {
        // Nothing was enqueued on this stream yet, if it is one.
        return Ok(Vec::new());
    }
    let stream = sim.stream(stream, default)?;
    if sim.stream_mut(stream).lane.is_some() {
        return Ok(Vec::new());
    }
    sim.default_stream_rules_for_wait(stream);
    let actor = sim.stream_mut(stream).actor;
    Ok(sim.knowledge(actor).into_iter().collect())
}

fn of_event(sim: &mut Locked, event: u64, call: &'static str) -> Result<Vec<Clock>> {
    Ok(sim.counted(event, call, None).into_iter().collect())
}

fn of_context(sim: &mut Locked, context: u64) -> Result<Vec<Clock>> {
    let mut actors: Vec<_> =
        sim.streams_of(context).into_iter().map(|stream| sim.stream_mut(stream).actor).collect();
    actors.push(sim.contexts.get(context).and_then(|context| context.gone[1]));
    Ok(actors.into_iter().filter_map(|actor| sim.knowledge(actor)).collect())
}

passed_on! {
    fn cuStreamSynchronize / cuStreamSynchronize_ptsz(stream: u64) |real, default| {
        wait("cuStreamSynchronize", default, || real(stream), |sim, default| of_stream(sim, stream, default))
    }
    fn cuStreamQuery / cuStreamQuery_ptsz(stream: u64) |real, default| {
        wait("cuStreamQuery", default, || real(stream), |sim, default| of_stream(sim, stream, default))
    }
    fn cuEventSynchronize(event: u64) |real| {
        let call = "cuEventSynchronize";
        wait(call, 1, || real(event), |sim, _| of_event(sim, event, call))
    }
    fn cuEventQuery(event: u64) |real| {
        let call = "cuEventQuery";
        wait(call, 1, || real(event), |sim, _| of_event(sim, event, call))
    }
    fn cuCtxSynchronize() |real| {
        wait("cuCtxSynchronize", 1, || real(), |sim, _| {
            let context = sim.execution_context()?;
            of_context(sim, context)
        })
    }
    fn cuCtxSynchronize_v2(context: u64) |real| {
        wait("cuCtxSynchronize", 1, || real(context), |sim, _| {
            let context = if context == 0 { sim.execution_context()? } else { context };
            of_context(sim, context)
        })
    }
}
