//! Arrays and cudarc's slices, on a driver: `cuda-sim run` runs the program (`tests/python`).
#![cfg(feature = "cudarc")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtr};
use libcai::cudarc::{Imported, array_of};
use libcai::{Access, Array, Bool, Builder, Consumer, Device, Error, Producer, Stream, sys};

/// Counts how many of its kind were dropped.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn stream() -> Arc<CudaStream> {
    CudaContext::new(0).unwrap().new_stream().unwrap()
}

/// An array over six floats of a slice, described otherwise by `change`.
fn other(
    slice: &CudaSlice<f32>,
    change: impl Fn(Builder<'static>) -> Builder<'static>,
    keep: Counted,
) -> Array {
    let on = slice.stream().clone();
    let (address, _recorded) = slice.device_ptr(&on);
    let builder = Builder::new(address as *mut f32, &[3])
        .device(Device::cuda(0))
        .stream(libcai::cudarc::stream(&on));
    // SAFETY: the tests describe elements inside of the slice, which outlives the array.
    unsafe { change(builder).build((keep, on.clone())) }.unwrap()
}

fn refused(result: Result<Imported<f32>, Error>, status: i32, field: &str) {
    let error = result.err().expect("a failure");
    assert_eq!((error.status(), error.field()), (status, field), "{error}");
}

#[test]
fn what_is_refused_is_released() {
    let (mine, theirs) = (stream(), stream());
    let slice = theirs.clone_htod(&[1.0f32; 8]).unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let changed = |change: &dyn Fn(Builder<'static>) -> Builder<'static>| {
        other(&slice, change, Counted(count.clone()))
    };
    let read = |array| Imported::<f32>::read(array, &mine);
    let far = changed(&|builder| builder.device(Device::cuda(7)));
    refused(read(far), sys::CAI_ERR_CONVERT_DEVICE, "device");
    let host = Array::from_vec(vec![1.0f32], &[1]).unwrap();
    refused(read(host), sys::CAI_ERR_CONVERT_DEVICE, "device");
    let gaps = changed(&|builder| builder.strides(&[8]));
    refused(read(gaps), sys::CAI_ERR_CONVERT_CONTIGUOUS, "strides");
    let swapped = changed(&|builder| builder.typestr(">f4", 0));
    refused(read(swapped), sys::CAI_ERR_CONVERT_BYTE_ORDER, "typestr");
    let on = slice.stream().clone();
    let address = slice.device_ptr(&on).0 as usize + 2;
    let odd = Builder::new(address as *mut f32, &[3]).device(Device::cuda(0)).stream(Stream::NONE);
    // SAFETY: the address is inside of the slice, whose data is not read through the array.
    let odd = unsafe { odd.build(Counted(count.clone())) }.unwrap();
    refused(read(odd), sys::CAI_ERR_ALIGNMENT, "data");
    let mask = Builder::new((address - 2) as *mut Bool, &[3]);
    // SAFETY: three bytes are there.
    let mask = unsafe { mask.device(Device::cuda(0)).stream(Stream::NONE).build(()) }.unwrap();
    let masked = Builder::new((address - 2) as *mut f32, &[3]);
    let masked = masked.device(Device::cuda(0)).stream(Stream::NONE).mask(&mask);
    // SAFETY: three floats are there.
    let masked = unsafe { masked.build(Counted(count.clone())) }.unwrap();
    refused(read(masked), sys::CAI_ERR_CONVERT_MASK, "mask");
    let read_only = changed(&Builder::read_only);
    // SAFETY: refused.
    let failed = unsafe { Imported::<f32>::write(read_only, &mine) };
    refused(failed, sys::CAI_ERR_READONLY, "flags");
    assert_eq!(count.load(Ordering::Relaxed), 6);
}

#[test]
fn an_array_that_does_not_state_its_device_is_taken() {
    let (mine, theirs) = (stream(), stream());
    let slice = theirs.clone_htod(&[1.0f32, 2.0, 3.0]).unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let unknown = |builder: Builder<'static>| builder.device(Device::UNKNOWN);
    let array = other(&slice, unknown, Counted(count.clone()));
    let imported = Imported::<f32>::read(array, &mine).unwrap();
    assert_eq!(mine.clone_dtoh(&imported.as_view()).unwrap(), [1.0, 2.0, 3.0]);
    drop(imported);
    mine.synchronize().unwrap();
    let empty = Builder::new(std::ptr::null_mut::<f32>(), &[0, 3]).stream(Stream::NONE);
    // SAFETY: there is no data.
    let empty = unsafe { empty.build(()) }.unwrap();
    assert_eq!(Imported::<f32>::read(empty, &mine).unwrap().as_view().len(), 0);
    let host = Box::new([1.0f32; 3]);
    let lost = Builder::new(host.as_ptr().cast_mut(), &[3]).stream(Stream::NONE);
    // SAFETY: three floats are there.
    let lost = unsafe { lost.build(host) }.unwrap();
    refused(Imported::<f32>::read(lost, &mine), sys::CAI_ERR_CONVERT_DEVICE, "device");
}

#[test]
fn slices_and_shapes() {
    let mine = stream();
    let slice = mine.alloc_zeros::<f32>(6).unwrap();
    assert_eq!(array_of(slice, &[4, 2]).unwrap_err().status(), sys::CAI_ERR_ARGUMENT);
    let array = Array::try_from(mine.alloc_zeros::<f32>(6).unwrap()).unwrap();
    assert_eq!((array.shape(), array.device()), (&[6][..], Device::cuda(0)));
    assert_eq!(array.stream(), libcai::cudarc::stream(&mine));
    assert_eq!(array.to_vec::<f32>().unwrap(), [0.0; 6]);
    // SAFETY: nothing else accesses the data.
    unsafe { array.copy_from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]) }.unwrap();
    assert_eq!(array.to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
}

/// Streams that live shorter than the program: borrowed for work, promised for an export.
#[test]
fn a_stream_is_kept_by_the_array_that_states_it() {
    let (mine, theirs) = (stream(), stream());
    let mut array = array_of(theirs.alloc_zeros::<f32>(4).unwrap(), &[4]).unwrap();
    array.attach(mine.clone()).unwrap();
    let on = libcai::cudarc::stream(&mine);
    // SAFETY: the array keeps the stream.
    let export = unsafe { Stream::from_raw(on.as_raw()) };
    let work = Consumer::begin(&array, on, Access::Write).unwrap();
    work.end().unwrap();
    let producer = Producer::new(export).pending(libcai::cudarc::stream(&theirs)).pending(on);
    producer.export(&mut array).unwrap();
    assert_eq!(array.stream(), on);
    let kept = Arc::downgrade(&mine);
    drop((mine, theirs));
    assert!(kept.upgrade().is_some());
    assert_eq!(
        std::thread::spawn(move || array.to_vec::<f32>()).join().unwrap().unwrap(),
        [0.0; 4]
    );
    assert!(kept.upgrade().is_none());
}
