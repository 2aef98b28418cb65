//! Arrays and cudarc's slices, on a driver: `cuda-sim run` runs the program (`tests/python`).
#![cfg(feature = "cudarc")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cudarc::driver::result::{malloc_managed, memset_d8_async};
use cudarc::driver::sys::{
    CUgraphInstantiate_flags, CUmemAttach_flags, CUstream, CUstreamCaptureMode,
};
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
    let view = imported.view(&mine).unwrap();
    assert_eq!(mine.clone_dtoh(&view).unwrap(), [1.0, 2.0, 3.0]);
    drop(imported);
    mine.synchronize().unwrap();
    let empty = Builder::new(std::ptr::null_mut::<f32>(), &[0, 3]).stream(Stream::NONE);
    // SAFETY: there is no data.
    let empty = unsafe { empty.build(()) }.unwrap();
    assert_eq!(Imported::<f32>::read(empty, &mine).unwrap().view(&mine).unwrap().len(), 0);
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

const N: usize = 4096;

/// The streams of one context that a test takes for each part: two handles, the legacy default
/// stream and the per-thread one.
fn streams() -> Vec<Arc<CudaStream>> {
    let context = CudaContext::new(0).unwrap();
    let handle = || context.new_stream().unwrap();
    vec![handle(), handle(), context.default_stream(), context.per_thread_stream()]
}

/// Every combination of the streams of the producer, of the import, of a view, and of another one.
fn each_combination(body: impl Fn([&Arc<CudaStream>; 4])) {
    let streams = streams();
    for index in 0..streams.len().pow(4) {
        let at = |place: u32| &streams[index / streams.len().pow(place) % streams.len()];
        body([at(0), at(1), at(2), at(3)]);
    }
}

/// An array of a producer that has just written it, on its stream.
fn written(value: f32, on: &Arc<CudaStream>) -> Array {
    // SAFETY: written next.
    let mut slice = unsafe { on.alloc::<f32>(N) }.unwrap();
    on.memset_zeros(&mut slice).unwrap();
    on.memcpy_htod(&[value; N], &mut slice).unwrap();
    Array::try_from(slice).unwrap()
}

fn filled(value: f32, imported: &mut Imported<f32>, on: &Arc<CudaStream>) {
    let source = on.clone_htod(&[value; N]).unwrap();
    on.memcpy_dtod(&source, &mut imported.view_mut(on).unwrap()).unwrap();
}

fn is_full(value: f32, slice: &CudaSlice<f32>) -> bool {
    slice.stream().clone_dtoh(slice).unwrap().iter().all(|element| *element == value)
}

/// Readers on every stream wait for the producer; the producer's next work, and the end of the
/// memory, wait for them.
#[test]
fn readers_are_ordered_on_every_stream() {
    each_combination(|[producer, own, one, other]| {
        let array = written(1.0, producer);
        let imported = Imported::<f32>::read(array.clone(), own).unwrap();
        let copied = |on: &Arc<CudaStream>| on.clone_dtod(&imported.view(on).unwrap()).unwrap();
        let there = || copied(other);
        let there = std::thread::scope(|scope| scope.spawn(there).join().unwrap());
        let copies = [copied(one), there];
        drop(imported);
        // SAFETY: nothing else accesses the data.
        let mut again = unsafe { Imported::<f32>::write(array, producer) }.unwrap();
        filled(2.0, &mut again, producer);
        drop(again);
        // The memory of the array, which may be the next one's.
        let next = written(3.0, producer);
        assert!(copies.iter().all(|copy| is_full(1.0, copy)));
        drop(next);
    });
}

/// Data written on one stream is read and written on the others, and by the producer.
#[test]
fn writers_are_ordered_on_every_stream() {
    each_combination(|[producer, own, one, other]| {
        let array = written(1.0, producer);
        // SAFETY: nothing else accesses the data.
        let mut imported = unsafe { Imported::<f32>::write(array.clone(), own) }.unwrap();
        filled(2.0, &mut imported, one);
        let copy = other.clone_dtod(&imported.view(other).unwrap()).unwrap();
        filled(3.0, &mut imported, other);
        drop(imported);
        let read = Imported::<f32>::read(array, producer).unwrap();
        let last = producer.clone_dtod(&read.view(producer).unwrap()).unwrap();
        assert!(is_full(2.0, &copy) && is_full(3.0, &last));
    });
}

/// An array that states no stream cannot make anything wait later.
#[test]
fn a_writer_without_a_stream_to_make_wait() {
    let streams = streams();
    for own in &streams {
        for one in &streams {
            let slice = own.clone_htod(&[1.0f32; N]).unwrap();
            own.synchronize().unwrap();
            let address = slice.device_ptr(own).0 as *mut f32;
            let builder = Builder::new(address, &[N as i64]).device(Device::cuda(0));
            // SAFETY: the array keeps the slice.
            let array = unsafe { builder.stream(Stream::NONE).build(slice) }.unwrap();
            // SAFETY: nothing else accesses the data.
            let mut imported = unsafe { Imported::<f32>::write(array.clone(), own) }.unwrap();
            filled(2.0, &mut imported, one);
            drop(imported);
            for reader in &streams {
                let read = Imported::<f32>::read(array.clone(), reader).unwrap();
                assert!(is_full(2.0, &reader.clone_dtod(&read.view(reader).unwrap()).unwrap()));
            }
        }
    }
}

#[test]
fn a_stream_that_is_captured_lives_until_the_release() {
    let (mine, theirs) = (stream(), stream());
    let slice = theirs.clone_htod(&[1.0f32; 3]).unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let array = other(&slice, |builder| builder.stream(Stream::NONE), Counted(count.clone()));
    let imported = Imported::<f32>::read(array, &mine).unwrap();
    let before = Arc::strong_count(&mine);
    mine.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED).unwrap();
    drop(imported);
    assert_eq!(count.load(Ordering::Relaxed), 0);
    assert!(Arc::strong_count(&mine) >= before, "the stream can be destroyed");
    let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    drop(mine.end_capture(flags).unwrap());
    drop(mine);
    for _ in 0..10_000 {
        if count.load(Ordering::Relaxed) == 1 {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("the array is not released");
}

/// A view on another stream than its own, and one that is used and dropped by another thread.
#[test]
fn a_view_on_another_stream_and_thread() {
    each_combination(|[producer, own, one, other]| {
        let array = written(1.0, producer);
        // SAFETY: nothing else accesses the data.
        let mut imported = unsafe { Imported::<f32>::write(array, own) }.unwrap();
        let mut view = imported.view_mut(one).unwrap();
        std::thread::scope(|scope| {
            let work = || {
                let source = other.clone_htod(&[2.0f32; N]).unwrap();
                other.memcpy_dtod(&source, &mut view).unwrap();
                let half = source.slice(..N / 2);
                one.memcpy_dtod(&half, &mut view.slice_mut(N / 2..)).unwrap();
                other.synchronize().unwrap();
            };
            scope.spawn(work).join().unwrap();
        });
        let view = imported.view(own).unwrap();
        let copy = own.clone_dtod(&view.slice(..N / 2)).unwrap();
        std::thread::scope(|scope| scope.spawn(|| drop(imported)).join().unwrap());
        assert!(is_full(2.0, &copy));
    });
}

/// The value of the per-thread stream means another one in each thread: its memory is freed after
/// the work on that of the thread which made it, and no other thread reads on its own.
#[test]
fn a_per_thread_stream_of_another_thread() {
    let context = CudaContext::new(0).unwrap();
    let array = written(1.0, &context.per_thread_stream());
    let on = context.new_stream().unwrap();
    let work = Consumer::begin(&array, libcai::cudarc::stream(&on), Access::Write).unwrap();
    // SAFETY: the array has as many bytes, and nothing else accesses them.
    unsafe { memset_d8_async(array.data() as u64, 7, N, on.cu_stream()) }.unwrap();
    work.end().unwrap();
    std::thread::spawn(move || drop(array)).join().unwrap();
    on.synchronize().unwrap();
    let array = written(1.0, &context.per_thread_stream());
    let read =
        move || refused(Imported::read(array, &stream()), sys::CAI_ERR_STREAM_THREAD, "stream");
    std::thread::spawn(read).join().unwrap();
}

/// The producer works on the second device with memory of the first, and states neither.
#[test]
fn a_default_stream_of_the_callers_context() {
    if CudaContext::device_count().unwrap() < 2 {
        return;
    }
    let (own, callers) = (CudaContext::new(0).unwrap(), CudaContext::new(1).unwrap());
    let legacy = 1 as CUstream;
    for on in [own.new_stream().unwrap(), own.default_stream(), own.per_thread_stream()] {
        own.bind_to_thread().unwrap();
        // SAFETY: the memory is never freed; nothing else accesses it.
        let memory = unsafe { malloc_managed(N, CUmemAttach_flags::CU_MEM_ATTACH_GLOBAL) }.unwrap();
        callers.bind_to_thread().unwrap();
        let filled = |value| {
            callers.bind_to_thread().unwrap();
            // SAFETY: as many bytes are there.
            unsafe { memset_d8_async(memory, value, N, legacy) }.unwrap();
        };
        filled(7);
        let device = Device { kind: sys::CAI_DEVICE_CUDA_MANAGED, id: 0 };
        let builder = Builder::new(memory as *mut u8, &[N as i64]).device(device);
        // SAFETY: there are N bytes, and the memory is never freed.
        let array = unsafe { builder.stream(Stream::LEGACY).build(()) }.unwrap();
        let imported = Imported::<u8>::read(array, &on).unwrap();
        let copy = on.clone_dtod(&imported.view(&on).unwrap()).unwrap();
        drop(imported);
        filled(8);
        let found = on.clone_dtoh(&copy).unwrap();
        assert!(found.iter().all(|byte| *byte == 7), "{found:?}");
    }
}

#[test]
fn views_that_are_refused() {
    let (mine, theirs) = (stream(), stream());
    let mut imported = Imported::<f32>::read(written(1.0, &theirs), &mine).unwrap();
    let error = imported.view_mut(&mine).err().unwrap();
    assert_eq!((error.status(), error.field()), (sys::CAI_ERR_READONLY, "array"));
    if CudaContext::device_count().unwrap() > 1 {
        let far = CudaContext::new(1).unwrap().new_stream().unwrap();
        let error = imported.view(&far).err().unwrap();
        assert_eq!((error.status(), error.field()), (sys::CAI_ERR_CONVERT_DEVICE, "stream"));
    }
    let view = imported.view(&mine).unwrap();
    assert_eq!((view.len(), view.is_empty(), view.slice(1..=2).len()), (N, false, 2));
    let out = std::panic::AssertUnwindSafe(|| view.slice(N..=N).len());
    assert!(std::panic::catch_unwind(out).is_err());
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
