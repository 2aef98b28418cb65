//! Exchanges of many arrays at once: the rules of [`consume`], with one event for each stream.

use std::mem::MaybeUninit;

use crate::abi::{CAI_OK, CAI_STREAM_NONE, cai_array};
use crate::argument::{Given, In};
use crate::error::{Failure, Result};
use crate::read::Unchecked;
use crate::sync::batch::Batch;
use crate::sync::consume::{self, Phase};
use crate::sync::notify::{self, Kind};

/// Arrays, of which each may be NULL.
pub type Arrays<'a> = &'a [In<'a, cai_array>];

/// Makes a consumer's stream wait for the work on all arrays, and stops at the first failure.
pub fn begin(arrays: Arrays, consumer: u64, flags: u32) -> Result<()> {
    consume::check_exchange(consumer, flags)?;
    let batch = &Batch::default();
    all_or_none(Kind::Begin, arrays, consumer, flags, |array| {
        if is_fast_path(array, consumer, flags) {
            return Ok(());
        }
        read(array, |array| {
            consume::exchange_with(Some(batch), Phase::Begin, array, consumer, flags)
        })
    })
}

/// Makes the streams of all arrays wait for the consumer's, also after a failure. Returns the first.
pub fn end(arrays: Arrays, consumer: u64, flags: u32) -> Result<()> {
    consume::check_exchange(consumer, flags)?;
    let batch = &Batch::default();
    let mut first = Ok(());
    for (index, &array) in arrays.iter().enumerate() {
        if is_fast_path(array, consumer, flags) && !notify::is_watched() {
            continue;
        }
        let result = read(array, |array| {
            let result = consume::exchange_with(Some(batch), Phase::End, array, consumer, flags);
            report(Kind::End, array, consumer, flags, &result);
            result
        });
        first = first.and(result.map_err(|failure| failure.in_array(index)));
    }
    first
}

/// Blocks the host until the work on all arrays is done, and stops at the first failure.
pub fn synchronize(arrays: Arrays, flags: u32) -> Result<()> {
    consume::check_synchronize(flags)?;
    let batch = &Batch::default();
    all_or_none(Kind::Synchronize, arrays, CAI_STREAM_NONE, flags, |array| {
        read(array, |array| consume::synchronize_with(Some(batch), array, flags))
    })
}

/// Calls `body` for each array. The observer hears of the one that fails, or else of all: only then
/// is the consumer allowed to use them.
fn all_or_none(
    kind: Kind,
    arrays: Arrays,
    consumer: u64,
    flags: u32,
    mut body: impl FnMut(In<cai_array>) -> Result<()>,
) -> Result<()> {
    let watched = |array: In<cai_array>, result: &Result<()>| {
        // What cannot be read is not reported.
        let _ = read(array, |array| {
            report(kind, array, consumer, flags, result);
            Ok(())
        });
    };
    for (index, &array) in arrays.iter().enumerate() {
        let result = body(array);
        if result.is_err() {
            watched(array, &result);
            return result.map_err(|failure| failure.in_array(index));
        }
    }
    if notify::is_watched() {
        arrays.iter().for_each(|&array| watched(array, &Ok(())));
    }
    Ok(())
}

fn is_fast_path(array: In<cai_array>, consumer: u64, flags: u32) -> bool {
    let same = array.optional().and_then(Given::of_this_size);
    same.is_some_and(|array| consume::is_fast_path(array, consumer, flags))
}

fn read(array: In<cai_array>, body: impl FnOnce(Unchecked) -> Result<()>) -> Result<()> {
    let mut scratch = MaybeUninit::uninit();
    let given = array.optional().ok_or_else(|| Failure::null(""))?;
    body(given.unchecked(&mut scratch)?)
}

fn report(kind: Kind, array: Unchecked, consumer: u64, flags: u32, result: &Result<()>) {
    if notify::is_watched() {
        let status = result.as_ref().map_or_else(Failure::status, |()| CAI_OK);
        notify::array(kind, array, consumer, flags, status);
    }
}
