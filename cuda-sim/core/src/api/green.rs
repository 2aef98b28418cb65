//! Green contexts and the resources that they divide.

use super::contexts::record_all;
use super::devices;
use super::streams::{NON_BLOCKING, context_of, create_in};
use crate::api::macros::api;
use crate::capture;
use crate::ffi::{get, put, put_if, slice};
use crate::resources::{self, DevResource, GroupParams};
use crate::results::{Code, Result, refuse_if};
use crate::sim::{Green, Locked, new_context};

const DEFAULT_STREAM: u32 = 1;
/// The driver version since which a green context need not have a default stream.
const OPTIONAL_SINCE: i32 = 13030;

/// Returns the context that represents a green one.
fn find(sim: &Locked, green: u64) -> Result<u64> {
    sim.greens.get(green).copied().ok_or(Code::INVALID_CONTEXT)
}

/// Does the same for functions with another error for destroyed green contexts.
fn find_or_gone(sim: &Locked, green: u64) -> Result<u64> {
    let gone = sim.greens.was_made(green);
    find(sim, green).map_err(|code| if gone { Code::CONTEXT_IS_DESTROYED } else { code })
}

fn resource_of(sim: &mut Locked, context: u64, kind: u32) -> Result<DevResource> {
    let found = sim.context(context)?;
    resources::available(found.device, found.green.as_ref().map(|green| green.sms), kind)
}

fn create(sim: &mut Locked, to: *mut u64, descriptor: u64, device: i32, flags: u32) -> Result {
    devices::check(sim, device)?;
    let needed = if sim.config.driver_version < OPTIONAL_SINCE { DEFAULT_STREAM } else { 0 };
    if to.is_null() || flags & !DEFAULT_STREAM != 0 || flags & needed != needed {
        return Err(Code::INVALID_VALUE);
    }
    let (of, sms) = *sim.descriptors.get(descriptor).ok_or(Code::INVALID_VALUE)?;
    refuse_if(of != device, Code::INVALID_VALUE)?;
    let base = devices::retain_primary(sim, device)?;
    let (of_primary, version) = {
        let base = sim.context(base)?;
        (base.flags, base.api_version)
    };
    let handle = sim.greens.insert(0);
    let green = Green { handle, base, sms, default_stream: flags & DEFAULT_STREAM != 0 };
    let context = new_context(sim, device, of_primary, false, version, Some(green));
    if let Some(stands_for_it) = sim.greens.get_mut(handle) {
        *stands_for_it = context;
    }
    put(to, handle)
}

api! {
    fn cuDeviceGetDevResource(device: i32, to: *mut DevResource, kind: u32) |sim| {
        devices::check(sim, device)?;
        put(to, resources::available(device, None, kind)?)
    }
    fn cuCtxGetDevResource(context: u64, to: *mut DevResource, kind: u32) |sim| {
        put(to, resource_of(sim, context, kind)?)
    }
    fn cuGreenCtxGetDevResource(green: u64, to: *mut DevResource, kind: u32) |sim| {
        let context = find(sim, green)?;
        put(to, resource_of(sim, context, kind)?)
    }
    fn cuStreamGetDevResource / cuStreamGetDevResource_ptsz(
        stream: u64, to: *mut DevResource, kind: u32,
    ) |sim, default| {
        let context = context_of(sim, stream, default)?;
        put(to, resource_of(sim, context, kind)?)
    }
    fn cuDevSmResourceSplitByCount(
        groups: *mut DevResource, count: *mut u32, input: *const DevResource, remainder: *mut DevResource, flags: u32,
        least: u32,
    ) |sim| {
        let (capacity, input, number) = (get(count)?, get(input)?, sim.id());
        // Without an array for the groups, only their number is returned.
        // [cuDevSmResourceSplitByCount]
        let at_most = (!groups.is_null()).then_some(capacity);
        let (parts, left) = resources::split(&input, at_most, flags, least, number)?;
        if at_most.is_some() {
            for (at, part) in parts.iter().enumerate() {
                put(groups.wrapping_add(at), *part)?;
            }
        }
        put_if(remainder, left);
        put(count, parts.len() as u32)
    }
    fn cuDevSmResourceSplit(
        result: *mut DevResource, count: u32, input: *const DevResource, remainder: *mut DevResource, flags: u32,
        groups: *mut GroupParams,
    ) |sim| {
        refuse_if(flags != 0, Code::INVALID_VALUE)?;
        let (input, number) = (get(input)?, sim.id());
        let mut wanted = slice(groups.cast_const(), count as usize)?.to_vec();
        let made = !result.is_null();
        let (parts, left) = resources::split_groups(&input, &mut wanted, made, number)?;
        for (at, (part, group)) in parts.iter().zip(&wanted).enumerate() {
            put(groups.wrapping_add(at), *group)?;
            if made {
                put(result.wrapping_add(at), *part)?;
            }
        }
        put_if(remainder, left);
        Ok(())
    }
    fn cuDevResourceGenerateDesc(to: *mut u64, from: *const DevResource, count: u32) |sim| {
        refuse_if(to.is_null(), Code::INVALID_VALUE)?;
        let descriptor = resources::combine(slice(from, count as usize)?)?;
        put(to, sim.descriptors.insert(descriptor))
    }

    fn cuGreenCtxCreate(to: *mut u64, descriptor: u64, device: i32, flags: u32) |sim| {
        create(sim, to, descriptor, device, flags)
    }
    fn cuGreenCtxDestroy(green: u64) |sim| {
        let context = find_or_gone(sim, green)?;
        let device = sim.context(context)?.device;
        sim.detach(context);
        devices::release_primary(sim, device)
    }
    fn cuCtxFromGreenCtx(to: *mut u64, green: u64) |sim| { put(to, find(sim, green)?) }
    fn cuGreenCtxGetId(green: u64, id: *mut u64) |sim| {
        let context = if green == 0 { sim.execution_context()? } else { find_or_gone(sim, green)? };
        refuse_if(sim.green_of(context) == 0, Code::INVALID_CONTEXT)?;
        put(id, sim.context(context)?.id)
    }
    fn cuGreenCtxStreamCreate(to: *mut u64, green: u64, flags: u32, priority: i32) |sim| {
        let context = find(sim, green)?;
        sim.context_error(context)?;
        refuse_if(flags != NON_BLOCKING, Code::INVALID_VALUE)?;
        create_in(sim, to, context, flags, priority)
    }
    fn cuStreamGetGreenCtx(stream: u64, green: *mut u64) |sim| {
        let context = context_of(sim, stream, 1)?;
        put(green, sim.green_of(context))
    }
    fn cuGreenCtxRecordEvent(green: u64, event: u64) |sim| {
        let context = find(sim, green)?;
        record_all(sim, context, event)
    }
    fn cuGreenCtxWaitEvent(green: u64, event: u64) |sim| {
        let context = find(sim, green)?;
        capture::wait_in_context(sim, context, event)
    }
}
