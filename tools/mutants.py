"""Breaks one thing at a time in the library, and looks whether a test fails.

    make mutants                                  all of them; `python tools/mutants.py NAME...` for some
    python tools/mutants.py --random 20           some, which CI runs; --seed repeats them
    python tools/mutants.py --check               only whether each text still occurs once in its file

Each mutant is a text that occurs once in a file, and what takes its place. It is built in a copy of the tree under
build/mutants. Then the tests of its part run until one fails: for streams (the list below) the programs of
capi-tests/sync under two schedules; for the rest (mutants_plain.py) the programs of capi-tests; for Python objects
(mutants_python.py) the tests in tests/python that are named there. Prints what survived, and fails if anything did.
"""

import argparse
import concurrent.futures
import os
import pathlib
import random
import shutil
import subprocess
import sys
import sysconfig
import time

import mutants_plain
import mutants_python

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/python"))
from commands import CUDA_SIM, SIM  # noqa: E402

COPY = ROOT / "build/mutants"
BUILT = ROOT / "target/release"
SITE = pathlib.Path(sysconfig.get_path("purelib"))

ORDER, CONSUME, PRODUCE, QUEUE = (
    f"src/sync/{name}.rs" for name in ("order", "consume", "produce", "release_queue")
)
STREAM, CONTEXT, EVENTS, POINTER = (f"src/driver/{name}.rs" for name in ("stream", "context", "events", "pointer"))
DEVICE, OWNER, FFI, POLICY = "src/validate/device.rs", "src/owner/mod.rs", "src/ffi/sync.rs", "src/sync/policy.rs"
PENDING = "src/sync/pending_work.rs"
DRIVER, KNOWN = "src/driver/load.rs", "src/driver/known_streams.rs"
ARRAY_CONTEXT, IDENTITY = "src/sync/array_context.rs", "src/sync/identity.rs"
AR_EXPORT, HOST_COPY, IPC, IPC_BYTES = "src/arrow/export.rs", "src/copy/mod.rs", "src/ipc/mod.rs", "src/ipc/bytes.rs"
DRIVER_COPY = "src/driver/copy.rs"

# Left out, because no test can detect it: an event that is kept before the wait (another thread would have to take it
# in between); what relaxed mode allows outside of captures, beyond queries and synchronization; the id of a context
# that is gone, which other answers of the driver give away as well; an ordinary allocation that happens to lie behind
# mapped pieces; waiting for copies to pageable memory, which the driver does by itself; an event that is never
# destroyed, because the driver does not count them.
MUTANTS = [
    # --- the one step
    ("no record", EVENTS, "let mut call = from.try_record(self, event);", "let mut call = self.init(0);"),
    ("no record for a default stream", EVENTS, "let recorded = stream.try_record(self, event.handle());", "let recorded = self.init(0);"),
    ("no record at first", EVENTS, "        stream.record(self, event.handle())?;\n", ""),
    ("no wait", EVENTS, "            call = to.try_wait(self, event);", "            call = self.init(0);"),
    ("no wait at first", ORDER, "let waits = to.try_wait(thread, event.handle());", "let waits = thread.init(0);"),
    ("slot of an event lost", EVENTS, "                bucket.events.give_back(slot, event);\n                return", "                let _ = slot;\n                return"),
    ("no wait of a default stream", ORDER, "    if to.is_default() {\n        to.wait(thread, event.handle(), 0)?;\n", "    if to.is_default() {\n"),
    ("no context for the event", EVENTS, "        let _entered = self.enter(context)?;\n        let event = self.event(context)?;", "        let event = self.event(context)?;"),
    ("event lost", ORDER, "    event.keep();\n    Ok(())", "    std::mem::forget(event);\n    Ok(())"),
    ("from not checked", ORDER, "    let id = from.checked_id(thread)?;\n", "    let id = 0;\n"),
    ("to not checked", ORDER, "    to.check_id(thread)?;\n    match thread.pass", "    match thread.pass"),
    ("captures not asked about", ORDER, "let states = (from.capture_here(thread)?, to.capture_here(thread)?);", "let states = (Capture::None, Capture::None);"),
    ("not relaxed in a capture", ORDER, "thread.relaxed(|| wait(thread, from, to, 0))", "wait(thread, from, to, 0)"),
    ("two captures merged", STREAM, "if own == other {", "if own == other || own != other {"),
    ("joined without being asked", ORDER, "(Capture::Active, Capture::None) if flags & abi::CAI_CAPTURE_JOIN != 0 =>", "(Capture::Active, Capture::None) =>"),
    ("external without being asked", ORDER, "(Capture::None, Capture::Active) if flags & abi::CAI_CAPTURE_EXTERNAL != 0 =>", "(Capture::None, Capture::Active) =>"),
    ("external event not given to the graph", ORDER, "let event = release_queue::keep_event_in(thread, graph, event)?;", "let _ = graph; let event = event.give(); let _ = thread.event_destroy(event);"),
    ("external wait not external", ORDER, "    to.wait(thread, event, EXTERNAL)\n}", "    to.wait(thread, event, 0)\n}"),
    ("event not waited for", ORDER, "((Capture::None, Capture::None), _) => to.wait(thread, event, 0),", "((Capture::None, Capture::None), _) => { let _ = (thread, event, to); Ok(()) }"),
    ("broken captures overlooked", ORDER, "if from == Capture::Invalidated || to == Capture::Invalidated {", "if from == Capture::Invalidated && to == Capture::Invalidated {"),
    ("producer and consumer swapped in refusals", ORDER, "    if producer_captures {", "    if !producer_captures {"),
    ("mixed producers called consumer", ORDER, "abi::CAI_ERR_CAPTURE_STREAMS,", "abi::CAI_ERR_CAPTURE_CONSUMER,"),
    # --- the consumer
    ("begin forgotten", CONSUME, "    order(thread, producer, consumer, Direction::ProducerThenConsumer, flags)", "    let _ = (thread, consumer); Ok(())"),
    ("end forgotten", CONSUME, "    order(thread, consumer, producer, Direction::ConsumerThenProducer, flags)\n", "    let _ = (consumer, flags);\n    Ok(())\n"),
    ("end the wrong way round", CONSUME, "order(thread, consumer, producer, Direction::ConsumerThenProducer, flags)", "order(thread, producer, consumer, Direction::ConsumerThenProducer, flags)"),
    ("readers of writable arrays wait for the event only", CONSUME, "        && array.flags & abi::CAI_ARRAY_READONLY != 0\n", ""),
    ("event never waited for", CONSUME, "    if event_suffices(array, flags) {\n        let state", "    if false {\n        let state"),
    ("unknown stream, event not waited for", CONSUME, "    if begins && !array.event.is_null() {\n", "    if false {\n"),
    ("unknown stream, event in place of the context", CONSUME, "        && !(begins && event_suffices(array, flags));", "        && !(begins && !array.event.is_null());"),
    ("readers wait for each other", CONSUME, "        if state == Capture::None {\n            return wait_for", "        if state == Capture::Invalidated {\n            return wait_for"),
    ("default streams are all the same", CONSUME, "        && consumer > abi::CAI_STREAM_PER_THREAD\n", ""),
    ("mask not ordered", CONSUME, "    unsafe { masks(local, |mask| one(phase, mask, consumer, flags)) }", "    Ok(())"),
    ("mask not waited for by the host", CONSUME, "    unsafe { masks(local, |mask| synchronize_one(mask, flags)) }", "    Ok(())"),
    ("read-only written", CONSUME, "    writable(local, flags)?;\n    one(", "    one("),
    ("versions without streams", CONSUME, "if array.version < 3 && !unknown {", "if false && !unknown {"),
    ("ignore ignored", CONSUME, "    if policy & abi::CAI_SYNC_IGNORE != 0 {", "    if policy & abi::CAI_SYNC_IGNORE != 0 && false {"),
    ("conservative ignored", CONSUME, "    let conservative = policy::in_force(flags)? & abi::CAI_SYNC_CONSERVATIVE != 0\n", "    let conservative = false\n"),
    ("context not recorded", CONSUME, "let recorded = thread.context_record(context, event.handle());", "let recorded = thread.init(0);"),
    ("context does not wait", CONSUME, "let waits = thread.context_wait(context, event.handle());", "let waits = thread.init(0);"),
    ("other devices' streams", CONSUME, "    if !has_streams(array) {\n        return", "    if false {\n        return"),
    ("context of the array ignored", ARRAY_CONTEXT, "        if !array.context.is_null() {\n            return found(array.context.cast());\n        }\n", ""),
    ("context of the memory ignored", ARRAY_CONTEXT, "                _ if !context.is_null() => {\n                    Ok(Some(ArrayContext { driver, context, primary: None }))\n                }\n", ""),
    ("current context ignored", ARRAY_CONTEXT, "let is_other = !current.is_null() && current != first.context;", "let is_other = false && current != first.context;"),
    ("current context beside a stated one", ARRAY_CONTEXT, "let current = if array.context.is_null() { thread.current()? } else { first.context };", "let current = thread.current()?;"),
    ("id of the current context ignored", ARRAY_CONTEXT, "if array.stream_id != 0 && second.id(thread)? == array.stream_id =>", "if false && second.id(thread)? == array.stream_id =>"),
    ("captured in one of two contexts", ARRAY_CONTEXT, "        (Capture::Active, _) | (_, Capture::Active) => {", "        (Capture::Active, Capture::Invalidated) => {"),
    ("device of the memory ignored", ARRAY_CONTEXT, "Some(device) => ArrayContext::primary(driver, device).map(Some),", "Some(_) => Ok(None),"),
    ("primary context not released", ARRAY_CONTEXT, "            self.driver.release_primary(device);", "            let _ = device;"),
    ("empty arrays ordered", CONSUME, "if array.stream == abi::CAI_STREAM_NONE || array.data.is_null() {", "if array.stream == abi::CAI_STREAM_NONE {"),
    ("another thread's stream taken", CONSUME, "    if stream.has_id() && stream.capture(thread)? == Capture::None {\n        stream.check_id(thread)?;\n    }\n", "    let _ = (thread, stream);\n"),
    ("host does not wait", CONSUME, "                producer.check_id(thread)?;\n                producer.synchronize(thread)", "                producer.check_id(thread)"),
    ("host waits for a dead stream", CONSUME, "                producer.check_id(thread)?;\n                producer.synchronize(thread)", "                producer.synchronize(thread)"),
    ("host does not wait for the event", CONSUME, "                if by_event {\n                    return thread.relaxed(|| thread.event_synchronize(array.event.cast()).ok());\n                }", "                if by_event {\n                    return Ok(());\n                }"),
    ("host waits in a capture", CONSUME, "match producer.capture(thread)? {", "match Capture::None {"),
    # --- what the fast path must not overlook
    ("fast path, masks", CONSUME, "        && local.mask.is_null()\n", ""),
    ("fast path, read-only", CONSUME, "        && !breaks_read_only(local, flags)\n", ""),
    ("fast path, flags of the array", CONSUME, "        && local.flags & !abi::CAI_ARRAY_READONLY == 0;", ";"),
    ("settled below version 3", CONSUME, "        && array.version >= 3\n        && has_streams(array)", "        && has_streams(array)"),
    ("settled on other devices", CONSUME, "        && array.version >= 3\n        && has_streams(array)", "        && array.version >= 3"),
    # --- identities
    ("identity not written", IDENTITY, "    array.stream_id = id;", "    let _ = id;"),
    ("identity without its context", IDENTITY, "        array.context = context;\n", "        let _ = context;\n"),
    ("identity written again", IDENTITY, "    if array.stream_id != 0 || array.data.is_null() {", "    if array.data.is_null() {"),
    # --- the producer
    ("nothing joined", PRODUCE, "            order_in(thread, &from, &to, states, Direction::Producers, flags)?;\n", "            if false { order_in(thread, &from, &to, states, Direction::Producers, flags)?; }\n"),
    ("only the first joined", PRODUCE, "streams[..index].contains(&value)", "index > 0"),
    ("joined twice", PRODUCE, "if value == export || streams[..index].contains(&value) {", "if value == export {"),
    ("event not recorded", PRODUCE, "        stream.record(thread, array.event.cast())?;", ""),
    ("number forgotten", PRODUCE, "    array.stream_id = id;", "    let _ = id;"),
    ("context forgotten", PRODUCE, "    array.context = context.cast();", "    let _ = context;"),
    ("none not said", PRODUCE, "        array.stream = abi::CAI_STREAM_NONE;\n", ""),
    ("export-none ignored", PRODUCE, " || policy::in_force(flags)? & abi::CAI_SYNC_EXPORT_NONE != 0 {", " {"),
    ("identity asked in a capture", STREAM, "if state == Capture::None { query() } else { thread.relaxed(query) }", "if state == Capture::None || state != Capture::None { query() } else { thread.relaxed(query) }"),
    # --- release
    ("released at once", PENDING, "            Said::Nothing => return Answer::Unknown,", "            Said::Nothing => return self.nothing_runs(),"),
    ("one answer is believed", PENDING, "        if before != Some(claim) {", "        if before == Some(claim) {"),
    ("a lost event is believed", PENDING, "INVALID_HANDLE | CAPTURED_EVENT => Said::Claims(Claim::Lost),", "INVALID_HANDLE | CAPTURED_EVENT => Said::Complete,"),
    ("no memory in owners", "src/sync/element.rs", "if !inside.is_null() {\n                return", "if inside.is_null() {\n                return"),
    ("never released", QUEUE, "        let (owner, _) = Space::empty(node);\n        owner::release(owner);", "        let _ = Space::empty(node);"),
    ("not recorded", QUEUE, "let event = thread.record(&stream, stream.checked_id(thread)?)?;", "let event = { let _entered = thread.enter(context)?; thread.event(context)? };"),
    ("graph does not keep the owner", QUEUE, "unsafe { keep_in(driver, graph, owner, Content::Graph) }?;", "let _ = graph; unsafe { owner::release(owner) };"),
    ("graph's owner never released", QUEUE, "            } else {\n                release(node);\n            }\n        }\n    }\n}\n", "            }\n        }\n    }\n}\n"),
    ("refused owner released all the same", QUEUE, "unsafe { (*node).is_armed.store(false, Ordering::Release) };", ""),
    ("asking breaks captures", PENDING, "driver.relaxed(|| self.ask_driver(driver))", "(|| self.ask_driver(driver))()"),
    ("broken capture released", QUEUE, "match stream.capture(thread)? {\n        Capture::None", "match if stream.capture(thread)? == Capture::Active { Capture::Active } else { Capture::None } {\n        Capture::None"),
    ("without a stream not released", QUEUE, "        unsafe { owner::release(owner) };\n        return Ok(());", "        return Ok(());"),
    ("what was kept goes first", OWNER, "let first = unsafe { ptr::replace(&raw mut (*callback).first, null_mut()) };\n", "struct Last(*mut cai_owner);\n    impl Drop for Last {\n        fn drop(&mut self) { if !self.0.is_null() { unsafe { release(self.0) } } }\n    }\n    let _last = Last(unsafe { ptr::replace(&raw mut (*callback).first, null_mut()) });\n    let first: *mut cai_owner = null_mut();\n"),
    ("array released twice", FFI, "        unsafe { super::array::clear(array) };\n        if owner.is_null() {", "        if owner.is_null() {"),
    ("released before the work in the current context", "src/sync/release_in_order.rs", "let is_other = !current.is_null() && ", "let is_other = current.is_null() && "),
    ("released before the work of another thread", "src/sync/release_in_order.rs", "with_stream(thread, array, |stream| same_thread(thread, &stream))?;\n    }", "}"),
    ("released at once after a stream of another thread", "src/sync/release_in_order.rs", "            abi::CAI_ERR_STREAM_THREAD => {\n", "            abi::CAI_ERR_STREAM_THREAD => {\n                unsafe { owner::release(owner) };\n                return;\n            }\n            abi::CAI_ERR_ARGUMENT => {\n"),
    # --- contexts, streams, events
    ("context not pushed", CONTEXT, "            false => self.context_push(context),\n        };\n        let entered = Entered { thread: self, before: Some(before) };", "            false => return Ok(Entered { thread: self, before: None }),\n        };\n        let entered = Entered { thread: self, before: Some(before) };"),
    ("context not popped", CONTEXT, "            false => thread.context_pop(&raw mut out),", "            false => {\n                let _: *mut CUcontext = &raw mut out;\n                return;\n            }"),
    # --- HIP
    ("HIP's streams given to CUDA", "src/driver/table.rs", "abi::CAI_DEVICE_ROCM | abi::CAI_DEVICE_ROCM_HOST => Api::Hip,", "abi::CAI_DEVICE_ROCM | abi::CAI_DEVICE_ROCM_HOST => Api::Cuda,"),
    ("HIP gets stream 1", STREAM, "let is_null = value == CAI_STREAM_LEGACY && thread.is_hip();", "let is_null = false;"),
    ("HIP's device not set", CONTEXT, "            true => self.driver.set_current(context),", "            true => return Ok(Entered { thread: self, before: None }),"),
    ("HIP's device stays set", CONTEXT, "            true => thread.driver.set_current(before),", "            true => return,"),
    ("HIP's stream on the current device", CONTEXT, "return if found.is_missing() {", "return if found.is_ok() {"),
    ("HIP's array on the current device", ARRAY_CONTEXT, "if array.device.r#type == abi::CAI_DEVICE_ROCM && array.device.id >= 0 {\n            return ArrayContext::primary(driver, array.device.id);", "if array.device.r#type == abi::CAI_DEVICE_ROCM && array.device.id >= 0 {\n            return found(thread.some_current()?);"),
    ("a context of HIP taken for a device", CONTEXT, "i32::try_from(context.addr().wrapping_sub(1)).unwrap_or(-1)", "context.addr().wrapping_sub(1) as i32"),
    ("a dead stream of HIP taken for a context", "src/driver/result.rs", "(self.code == CONTEXT_IS_DESTROYED && self.api == Api::Hip)", "(self.code == CONTEXT_IS_DESTROYED && false)"),
    ("current context from before", CONTEXT, "        self.current.set(Some(context));\n        Ok(entered)", "        Ok(entered)"),
    ("green context taken for its primary one", CONTEXT, "            if !green.is_null() {", "            if false {"),
    ("events of one context for all", EVENTS, "let bucket = if context_id != 0 { bucket_of(context_id) } else { None };", "let bucket = bucket_of(1);"),
    ("events found by handle", EVENTS, "let bucket = if context_id != 0 { bucket_of(context_id) } else { None };", "let bucket = bucket_of(context as u64);"),
    ("streams mixed up", KNOWN, "(unchanged && found == id && id != 0)", "(unchanged && found != 0 && id != 0)"),
    ("numbers not compared", STREAM, "return if found == self.id || found == 0 {", "return if found != 0 || found == 0 {"),
    ("default streams in the current context", STREAM, "let context = if is_default(value) { thread.some_current()? } else { ptr::null_mut() };\n        Ok(Stream", "let context = if is_default(value) { thread.some_current()? } else { ptr::null_mut() };\n        let context = if value == 1 { ptr::null_mut() } else { context };\n        Ok(Stream"),
    ("not relaxed while the host waits", STREAM, "thread.relaxed(|| thread.stream_synchronize(self.handle()).ok())", "thread.stream_synchronize(self.handle()).ok()"),
    ("mode not put back", DRIVER, "        for _ in 0..2 {", "        for _ in 0..0 {"),
    # --- memory
    ("end not looked at", POINTER, "if start <= low && high <= end {", "if start <= low {"),
    ("beginning not looked at", POINTER, "if start <= low && high <= end {", "if high <= end {"),
    ("pieces not joined", POINTER, "    if !in_pieces(info) {\n        return Ok(false);\n    }", "    return Ok(false);\n    #[allow(unreachable_code)]"),
    ("kind not compared", DEVICE, "    if !same_kind {", "    if !same_kind && false {"),
    ("device not compared", DEVICE, "!info.managed && stated.id != info.device.id {", "!info.managed && stated.id < info.device.id {"),
    ("context of the stream not compared", DEVICE, "if !array.context.is_null() && array.context != context.cast() {", "if false && array.context != context.cast() {"),
    ("managed forgotten", POINTER, "_ if managed => abi::CAI_DEVICE_CUDA_MANAGED,\n", ""),
    ("unknown memory taken for the device's", POINTER, "        _ => abi::CAI_DEVICE_CPU,\n    }", "        _ => abi::CAI_DEVICE_CUDA,\n    }"),
    ("process-wide policy ignored", POLICY, "    Ok((flags & BITS) | process()?)", "    Ok(flags & BITS)"),
    ("one call cannot differ", POLICY, "    if flags & abi::CAI_SYNC_THIS_CALL != 0 {", "    if false {"),
    # --- Arrow
    ("Arrow: event not kept", AR_EXPORT, "let (event, kept) = unsafe { mark::of(array) }?.keep()?;", "let (event, kept) = (array.event, None);"),
    ("Arrow: event not given back", AR_EXPORT, "    drop(kept);\n", "    std::mem::forget(kept);\n"),
    # --- copies to the host
    ("copies: pending work", HOST_COPY, "    unsafe { consume::synchronize(array, flags) }?;\n", "    let _ = flags;\n"),
    ("copies: pending work on a stream", HOST_COPY, "    unsafe { consume::exchange(Phase::Begin, array, stream, flags) }?;\n", ""),
    ("copies: next work of the producer", HOST_COPY, "        unsafe { consume::exchange(Phase::End, array, stream, flags) }?;\n", ""),
    ("copies: pageable memory left to the stream", HOST_COPY, "device.r#type == abi::CAI_DEVICE_CUDA_HOST\n", "device.r#type != abi::CAI_DEVICE_CUDA_HOST\n"),
    ("copies: elements not gathered yet", HOST_COPY, "let returns = work.may_return && plan.direct && {", "let returns = work.may_return && {"),
    ("copies: host in a capture", HOST_COPY, "if state != Capture::None && !returns {", "if false {"),
    ("copies: lowest byte on a device", HOST_COPY, "lowest + offset as u64, rows)", "lowest + offset as u64 + 4, rows)"),
    ("copies: device", HOST_COPY, "        device: cai_device { r#type: abi::CAI_DEVICE_CPU, id: 0 },\n", ""),
    ("copies: stream not stated", HOST_COPY, "        copy.array.stream = stream;\n", ""),
    ("copies: id of the stream", HOST_COPY, "        copy.array.stream_id = id;\n", "        let _ = id;\n"),
    ("copies: context of the stream", HOST_COPY, "        copy.array.context = context.cast();\n", "        let _ = context;\n"),
    ("copies back: not left to the stream", HOST_COPY, "device_type, stream, flags, may_return: true };", "device_type, stream, flags, may_return: false };"),
    ("copies back: the host's rows", DRIVER_COPY, "srcPitch: if to_host { pitch } else { width },", "srcPitch: pitch,"),
    ("copies back: the device's rows", DRIVER_COPY, "dstPitch: if to_host { width } else { pitch },", "dstPitch: width,"),
    ("copies back: half of a row", DRIVER_COPY, "copy_to_device(device, host, count, self.stream)", "copy_to_device(device, host, count / 2, self.stream)"),
    ("copies: kind of the memory", HOST_COPY, "        copy.array.device.r#type = abi::CAI_DEVICE_CUDA_HOST;\n", ""),
    # --- other processes
    ("JSON: masks on other streams", "src/json.rs", "            unsafe { mark::wait_for_masks(&array) }?;\n", ""),
    ("IPC: borrowed arrays", IPC, "        owner::not_borrowed(array.owner)?;\n", ""),
    ("IPC: fields", IPC, "        if dtype::has_fields(array) {", "        if false {"),
    ("IPC: fields with codes", IPC, "        if field.raw.dtype_code != abi::CAI_DTYPE_NONE {", "        if false {"),
    ("IPC: codes in nested fields", IPC, "        if let Some(nested) = field.nested()? {", "        if let Some(nested) = None::<Descr> {"),
    ("IPC: long fields", IPC, "    if length > CAI_IPC_FIELDS {", "    if length > CAI_IPC_FIELDS + 1 {"),
    ("IPC: other devices", IPC, "        if !may_be_cuda(array.device.r#type) {", "        if false {"),
    ("IPC: masks", IPC, "            if next.mask.is_null() {", "            if true {"),
    ("IPC: path of a mask", IPC, "described(allocations, part).map_err(|failure| failure.in_mask(depth))", "described(allocations, part).map_err(|failure| failure.in_mask(depth.min(1)))"),
    ("IPC: addresses of no elements", IPC, "        if !array.data.is_null() {", "        if true {"),
    ("IPC: one allocation twice", IPC, "position(|known| known.base == info.base)", "position(|_| false)"),
    ("IPC: two descriptors", IPC, "        if kind.needs_descriptor() && self.places.all().iter().any(is_other) {", "        if false {"),
    ("IPC: two pools", IPC, "!info.pool.is_null() && known.pool == info.pool;", "!info.pool.is_null();"),
    ("IPC: two pieces", IPC, "!info.pool.is_null() && known.pool == info.pool;", "known.pool == info.pool;"),
    ("IPC: writable", IPC, "is_readonly: array.flags & abi::CAI_ARRAY_READONLY != 0,", "is_readonly: false,"),
    ("IPC: strides", IPC, "strides: layout.strides.map(copy),", "strides: layout.strides.map(|_| [4; DIMENSIONS]),"),
    ("IPC: types with a code", IPC, "dtype_code: array.dtype_code,", "dtype_code: 0,"),
    ("IPC: offset", IPC, "part.offset = (array.data as u64).wrapping_sub(info.base as u64);", "part.offset = 0;"),
    ("IPC: no event", IPC, "            if array.stream != abi::CAI_STREAM_NONE {", "            if false {"),
    ("IPC: events of finished work", IPC, "            if array.stream != abi::CAI_STREAM_NONE {", "            if true {"),
    ("IPC: no reference", IPC, "        unsafe { owner::retain(owner) }?;\n", ""),
    ("IPC: below the allocation", IPC, "    if low < start || high > end {", "    if high > end {"),
    ("IPC: above the allocation", IPC, "    if low < start || high > end {", "    if low < start {"),
    ("IPC: unknown streams", IPC, "let unknown = if is_conservative { abi::CAI_SYNC_CONSERVATIVE } else { 0 };", "let unknown = if is_conservative { 0 } else { 0 };"),
    ("IPC: unknown streams of masks", IPC, "self.is_conservative |= array.stream", "self.is_conservative = array.stream"),
    ("IPC: pending work", IPC, "    unsafe { consume::exchange(Phase::Begin, array, stream.value(), flags) }?;\n", "    let _ = (array, flags);\n"),
    ("IPC: event not recorded", IPC, "stream.record(&event).map(|()| event)", "{ let _ = stream; Ok(event) }"),
    ("IPC: event destroyed with the export", IPC, "                let raw = event.into_raw();\n", "                let raw = event.into_raw();\n                drop(SharedEvent::from_raw(raw));\n"),
    ("IPC: elements and memory", IPC, "    if allocation.is_some() != (span.upper > 0) {", "    if false {"),
    ("IPC: bytes that contradict themselves", IPC, "        if ends(part.offset, span).is_none_or(|(_, high)| high > allocation.size) {", "        if false {"),
    ("IPC: no descriptor", IPC, "        if descriptor < 0 && message.needs_descriptor() {", "        if false {"),
    ("IPC: device of the memory", IPC, "    if info.device != device {", "    if false {"),
    ("IPC: end of what is mapped", IPC, "    if !is_inside {", "    if false {"),
    ("IPC: context", IPC, "    array.context = memory.context().cast();\n", ""),
    ("IPC: events without a stream", IPC, "                    array.stream = abi::CAI_STREAM_UNKNOWN;\n", "                    array.stream = abi::CAI_STREAM_LEGACY;\n"),
    ("IPC: fields on the other side", IPC, "        array.descr = fields.descr;\n", "        let _ = (&array.descr, fields.descr);\n"),
    ("IPC: masks on the other side", IPC, "        part.mask = array;\n", ""),
    ("IPC: never closed", IPC, "    drop(unsafe { Box::from_raw(opened.cast::<Opened>()) });", "    let _ = opened.cast::<Opened>();"),
    ("IPC: read-only on the other side", IPC, "flags: if part.is_readonly { abi::CAI_ARRAY_READONLY } else { 0 },", "flags: 0,"),
    ("IPC: other bytes", IPC_BYTES, "        if reader.take()? != MAGIC {", "        if reader.take()? == [0; 8] {"),
    ("IPC: other versions", IPC_BYTES, "        if version != VERSION {", "        if false {"),
    ("IPC: unknown kinds of memory", IPC_BYTES, "            _ => return malformed(\"bytes\", \"an unknown kind of memory\"),", "            _ => MemoryKind::Mapped,"),
    ("IPC: limits of numbers", IPC_BYTES, "        if value > limit { malformed(\"bytes\", what) } else { Ok(value) }", "        if false { malformed(\"bytes\", what) } else { Ok(value) }"),
    ("IPC: length that the bytes state", IPC_BYTES, "        if length != bytes.len() {", "        if false {"),
    ("IPC: bytes behind the end", IPC_BYTES, "        if reader.0.len() != text {", "        if reader.0.len() < text {"),
    ("IPC: order of allocations", IPC_BYTES, "            let part = reader.part(allocation_count.min(used + 1))?;", "            let part = reader.part(allocation_count)?;"),
    ("IPC: allocations without use", IPC_BYTES, "if used != allocation_count || (has_event && used == 0) || count == 0 {", "if (has_event && used == 0) || count == 0 {"),
    ("IPC: events without use", IPC_BYTES, "if used != allocation_count || (has_event && used == 0) || count == 0 {", "if used != allocation_count || count == 0 {"),
    ("IPC: no array", IPC_BYTES, "if used != allocation_count || (has_event && used == 0) || count == 0 {", "if used != allocation_count || (has_event && used == 0) {"),
]  # fmt: skip


def run(*command, **more):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, errors="replace", **more)


def build():
    profile = {"lto": "false", "opt-level": "0", "codegen-units": "64", "incremental": "true"}
    options = [word for name, value in profile.items() for word in ("--config", f"profile.release.{name}={value}")]
    done = run("cargo", "rustc", "-q", "--release", "--lib", "--crate-type", "cdylib", *options,
               cwd=COPY, env={**os.environ, "CARGO_TARGET_DIR": str(COPY / "target")})  # fmt: skip
    return done.returncode == 0, done.stderr


class Streams:
    """The programs of capi-tests/sync, on the simulated driver."""

    PROGRAMS = ["exchange", "produce", "capture", "events", "release", "hip"]
    # These show the changes of one module, and only these run for it.
    OF_MODULES = {"src/arrow": ["arrow"], "src/copy": ["copies"], "src/driver/copy": ["copies"], "src/ipc": ["ipc", "ipc_masks"]}
    # Some things show only where the driver refuses.
    REFUSALS = [
        ("exchange", "legacy_consumer", "lazy", 2, "cuCtxPopCurrent_v2:1:400"),
        ("capture", "graph_keeps_an_owner", "lazy", 2, "cuGraphRetainUserObject:1:2"),
        ("hip", "handles", "lazy", 2, "hipEventRecord:1:709"),
        ("release", "IN_ORDER_HANDLE_NO_CAPTURE_GLOBAL", "lazy", 2, "cuEventQuery:1:709"),
        ("release", "IN_ORDER_HANDLE_NO_CAPTURE_GLOBAL", "lazy", 2, "cuEventQuery:1:400"),
    ]

    def __init__(self, mutants):
        driver = run(CUDA_SIM, "libdir").stdout.strip()
        sync = ROOT / "capi-tests/sync"
        run("gcc", "-std=gnu11", "-O1", "-shared", "-fPIC", sync / "shim.c", "-o", COPY / "libshim.so", "-Wl,--no-as-needed",
            "-L", driver, "-lcuda", "-ldl")  # fmt: skip
        run("gcc", "-std=gnu11", "-O1", "-shared", "-fPIC", "-DHIP", sync / "shim.c", sync / "hip_on_cuda.c", "-isystem",
            SITE / "nvidia/cu13/include", "-o", COPY / "libhip.so", "-Wl,--no-as-needed", "-L", driver, "-lcuda", "-ldl")  # fmt: skip
        self.all = list(self.REFUSALS)
        for name in [*self.PROGRAMS, *(name for names in self.OF_MODULES.values() for name in names)]:
            done = run("gcc", "-std=gnu11", "-g", "-O1", "-isystem", SITE / "nvidia/cu13/include", "-I", ROOT / "include",
                       "-I", SIM / "include", sync / f"{name}.c", "-o", COPY / name, "-L", BUILT, "-lcai", "-L", driver,
                       "-lcuda", "-lpthread", "-ldl", f"-Wl,-rpath,{COPY}")  # fmt: skip
            assert done.returncode == 0, done.stderr
            cases = run(CUDA_SIM, "run", "--", COPY / name, "list").stdout.split()
            self.all += [(name, case, schedule, 2) for case in cases for schedule in ("lazy", "threads")]

    def jobs(self, path, tests):
        wanted = next((programs for part, programs in self.OF_MODULES.items() if path.startswith(part)), self.PROGRAMS)
        return [job for job in self.all if job[0] in wanted]

    def test(self, job):
        program, case, schedule, devices, *refusal = job
        # Half of the runs are observed by the race checker; in the other half the library takes its fast path.
        exchanges = "hidden" if schedule == "lazy" else "seen"
        env = {**os.environ, "CAI_CUDA_DRIVER": str(COPY / "libshim.so"), "CAI_HIP_DRIVER": str(COPY / "libhip.so"),
               "SHIM": "".join(refusal), "CUDASIM_EXCHANGES": exchanges}  # fmt: skip
        if not refusal:
            del env["SHIM"]
        try:
            done = run(CUDA_SIM, "run", "--print=exit", f"--schedule={schedule}", f"--devices={devices}", "--",
                       COPY / program, case, env=env, timeout=60)  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"{program} {case}: hangs"
        return None if done.returncode == 0 else f"{program} {case}"


class Plain:
    """The programs of capi-tests, which need no driver."""

    def __init__(self, mutants):
        sources = sorted([*(ROOT / "capi-tests").glob("*.c"), *(ROOT / "capi-tests").glob("*.cpp")])
        folder = COPY / "plain"
        folder.mkdir(exist_ok=True)
        done = list(pool().map(lambda source: self.compile(source, folder / source.stem), sources))
        assert all(code == 0 for code, _ in done), done
        self.all = [source.stem for source in sources]

    def compile(self, source, program):
        compiler = ["g++", "-std=c++17"] if source.suffix == ".cpp" else ["gcc", "-std=c99"]
        done = run(*compiler, "-g", "-O0", "-I", ROOT / "include", "-I", ROOT / "capi-tests", source, "-o", program, "-L", BUILT,
                   "-lcai", "-lpthread", "-ldl", f"-Wl,-rpath,{COPY}")  # fmt: skip
        return done.returncode, done.stderr

    def jobs(self, path, tests):
        first = next((names for part, names in mutants_plain.PROGRAMS.items() if path.startswith(part)), [])
        return first + [name for name in self.all if name not in first]

    def test(self, program):
        try:
            done = run(COPY / "plain" / program, timeout=60)
        except subprocess.TimeoutExpired:
            return f"{program}: hangs"
        return None if done.returncode == 0 else program


class Python:
    """The tests of Python objects that a mutant names."""

    def __init__(self, mutants):
        # Each list as it is: a test may pass only after those of another list.
        self.all = sorted({mutant[5] for mutant in mutants})

    def jobs(self, path, tests):
        return [tests]

    def test(self, tests):
        names = [f"tests/python/test_{name}.py" for name in tests.split()]
        done = run(sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *names, cwd=ROOT, timeout=600,
                   env={**os.environ, "CAI_LIBRARY": str(COPY / "libcai.so.1")})  # fmt: skip
        failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        if done.returncode == 0:
            return None
        return failed[0].split(" - ")[0] if failed else f"pytest ends with {done.returncode}"


def pool():
    return concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS", os.cpu_count() or 1)))


def first_failure(suite, jobs):
    """What fails first, without running all that come after it."""
    with pool() as threads:
        running = [threads.submit(suite.test, job) for job in jobs]
        found = None
        for done in concurrent.futures.as_completed(running):
            if done.cancelled():
                continue
            found = found or done.result()
            if found:
                for waiting in running:
                    waiting.cancel()
                break
        return found


def every_mutant():
    """(name, file, text, what takes its place, suite, tests)"""
    for mutant in MUTANTS:
        yield (*mutant, Streams, "")
    for mutant in mutants_plain.MUTANTS:
        yield (*mutant, Plain, "")
    for name, path, text, instead, tests in mutants_python.MUTANTS:
        yield name, path, text, instead, Python, tests


def stale():
    """Mutants whose text is not in the file, or more than once; and names that are used twice."""
    seen = set()
    for name, path, text, *_ in every_mutant():
        count = (ROOT / path).read_text().count(text)
        if count != 1:
            yield f"{name}: the text occurs {count} times in {path}"
        if name in seen:
            yield f"{name}: two mutants have this name"
        seen.add(name)


def set_up():
    """A fresh copy of the sources. What cargo built before is kept, so that only changes are compiled."""
    COPY.mkdir(parents=True, exist_ok=True)
    for part in ("src", "include", "rust"):
        shutil.rmtree(COPY / part, ignore_errors=True)
        shutil.copytree(ROOT / part, COPY / part, ignore=shutil.ignore_patterns("target"))
    for part in ("Cargo.toml", "Cargo.lock", "build.rs", "README.md"):
        shutil.copy(ROOT / part, COPY / part)
    good, why = build()
    assert good, why
    link = COPY / "libcai.so.1"
    link.unlink(missing_ok=True)
    link.symlink_to(COPY / "target/release/libcai.so")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--random", type=int, metavar="COUNT")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--part", help="only files whose path begins so, such as src/validate")
    options = parser.parse_args()
    wrong = list(stale())
    print("\n".join(wrong), end="\n" if wrong else "")
    if options.check or wrong:
        return 1 if wrong else 0
    mutants = [mutant for mutant in every_mutant() if not options.names or mutant[0] in options.names]
    mutants = [mutant for mutant in mutants if mutant[1].startswith(options.part or "")]
    if options.random:
        mutants = random.Random(options.seed).sample(mutants, min(options.random, len(mutants)))
        print(f"{len(mutants)} mutants: --random {options.random} --seed {options.seed}", flush=True)
    set_up()
    suites = {kind: kind([mutant for mutant in mutants if mutant[4] is kind]) for kind in {mutant[4] for mutant in mutants}}
    for suite in suites.values():
        failing = first_failure(suite, suite.all)
        assert not failing, f"without a mutant: {failing}"
    killed, survived, other = 0, [], []
    for name, path, text, instead, kind, tests in mutants:
        original = (COPY / path).read_text()
        (COPY / path).write_text(original.replace(text, instead))
        good, why = build()
        if not good:
            other.append(f"{name}: does not build: {why[:160]}")
        else:
            found = first_failure(suites[kind], suites[kind].jobs(path, tests))
            print(f"{'killed' if found else 'SURVIVED'}: {name}{f' ({found})' if found else ''}", flush=True)
            killed += found is not None
            survived += [] if found else [name]
        (COPY / path).write_text(original)
    print(f"{killed} killed, {len(survived)} survived: {survived}")
    print("\n".join(other))
    return 1 if survived or other else 0


if __name__ == "__main__":
    sys.exit(main())
