//! Arrays, owners and views: what is kept alive, what is refused, and which elements are read.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use libcai::{
    Access, Array, ArrayRef, Bool, Builder, Complex, Consumer, ContiguousView, Device, Error,
    ImportOptions, Iter, Ix, IxDyn, Owner, Producer, Rows, Stream, View, ViewMut, sys,
};

/// Counts how many of its kind were dropped.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn counter() -> (Arc<AtomicUsize>, impl Fn() -> Counted) {
    let count = Arc::new(AtomicUsize::new(0));
    let made = count.clone();
    (count, move || Counted(made.clone()))
}

fn dropped(count: &AtomicUsize) -> usize {
    count.load(Ordering::Relaxed)
}

fn refused<T>(result: Result<T, Error>, status: i32, message: &str) {
    let error = result.err().expect("a failure");
    assert_eq!((error.status(), error.message()), (status, message), "{error:?}");
}

/// An array of `data` whose owner is `keep`.
fn array<T: libcai::Element>(
    data: &mut [T],
    shape: &[i64],
    strides: Option<&[i64]>,
    keep: Counted,
) -> Result<Array, Error> {
    let mut builder =
        Builder::new(data.as_mut_ptr(), shape).device(Device::CPU).stream(Stream::NONE);
    if let Some(strides) = strides {
        builder = builder.strides(strides);
    }
    // SAFETY: the tests pass strides that stay inside of `data`, which outlives the array.
    unsafe { builder.build(keep) }
}

#[test]
fn threads_may_have_all_types() {
    fn shared<T: Send + Sync>() {}
    shared::<Array>();
    shared::<ArrayRef>();
    shared::<Owner>();
    shared::<Error>();
    shared::<View<'_, f32, Ix<2>>>();
    shared::<ViewMut<'_, f32, IxDyn>>();
    shared::<Consumer<'_>>();
    shared::<Producer<'_>>();
    shared::<Stream<'_>>();
    shared::<Iter<'_, f32, Ix<2>>>();
    shared::<Rows<'_, f32, IxDyn>>();
    shared::<ContiguousView<'_, f32, 2>>();
    shared::<ImportOptions>();
}

#[test]
fn an_object_is_dropped_once_with_the_last_reference() {
    let (count, counted) = counter();
    let first = array(&mut [1u8, 2], &[2], None, counted()).unwrap();
    let second = first.clone();
    let third = second.share().unwrap();
    let owner = first.owner();
    drop((first, second, third));
    assert_eq!(dropped(&count), 0);
    drop(owner);
    assert_eq!(dropped(&count), 1);

    let raw = array(&mut [1u8, 2], &[2], None, counted()).unwrap().into_raw();
    assert_eq!(dropped(&count), 1);
    // SAFETY: the array was given up with its reference.
    drop(unsafe { Array::from_raw(raw) }.unwrap());
    assert_eq!(dropped(&count), 2);
}

#[test]
fn several_threads_read_and_release() {
    let (count, counted) = counter();
    let values = vec![1u32, 2, 3, 4];
    let data = values.as_ptr().cast_mut();
    let builder = Builder::new(data, &[4]).device(Device::CPU).stream(Stream::NONE);
    // SAFETY: the owner has the values.
    let mut array = unsafe { builder.build((values, counted())) }.unwrap();
    array.attach(counted()).unwrap();
    let sum = |array: &ArrayRef| array.view::<u32, Ix<1>>().unwrap().iter().sum::<u32>();
    std::thread::scope(|scope| {
        let view = array.view::<u32, Ix<1>>().unwrap();
        for _ in 0..3 {
            let (clone, owner) = (array.clone(), array.owner());
            scope.spawn(move || assert_eq!((sum(&clone.share().unwrap()), view[[3]]), (10, 4)));
            scope.spawn(move || drop(owner));
        }
    });
    assert_eq!(dropped(&count), 0);
    std::thread::spawn(move || assert_eq!(sum(&array), 10)).join().unwrap();
    assert_eq!(dropped(&count), 2);
}

#[test]
fn owners_are_made_of_boxes_arcs_and_others() {
    let (count, counted) = counter();
    let shared = Arc::new(counted());
    for owner in [Owner::from(Box::new(counted())), Owner::from(shared.clone())] {
        drop(owner.clone());
        // SAFETY: the reference is given up and taken over.
        drop(unsafe { Owner::from_raw(owner.into_raw()) }.unwrap());
    }
    drop(Owner::new((counted(), vec![1])));
    assert_eq!(dropped(&count), 2);
    drop(shared);
    assert_eq!(dropped(&count), 3);
}

#[test]
fn a_destructor_that_panics_stops_at_the_owner() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("in a destructor");
        }
    }
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    drop(Owner::new(Panics));
    drop(Owner::from(Arc::new(Panics)));
    std::panic::set_hook(hook);
}

#[test]
fn a_failed_call_keeps_nothing() {
    let (count, counted) = counter();
    let failed = array(&mut [1u8, 2], &[-1], None, counted());
    refused(failed, sys::CAI_ERR_SHAPE_NEGATIVE, "shape[0]: found -1, expected at least 0");
    assert_eq!(dropped(&count), 1);
    let failed = array(&mut [1u8, 2], &[2], Some(&[1, 1]), counted());
    refused(failed, sys::CAI_ERR_ARGUMENT, "strides: found 2 strides, expected 1, as extents");
    assert_eq!(dropped(&count), 2);
    let builder = Builder::new(&mut 1u8, &[]).typestr("<f4567890123456789", 0);
    // SAFETY: a type that is too long is refused.
    let failed = unsafe { builder.build(counted()) };
    let message = "typestr: found 18 characters, expected at most 15 characters";
    refused(failed, sys::CAI_ERR_TYPESTR_LENGTH, message);
    assert_eq!(dropped(&count), 3);
    // SAFETY: the address is that of the only element.
    let failed = unsafe { Builder::new(&mut 1u8, &[]).device(Device::CPU).build(counted()) };
    assert_eq!(failed.unwrap_err().status(), sys::CAI_ERR_STREAM_ZERO);
    assert_eq!(dropped(&count), 4);

    // An invalid array that is handed over with its reference, and one without an owner.
    let mut raw = array(&mut [1u8, 2], &[2], None, counted()).unwrap().into_raw();
    raw.ndim = 65;
    // SAFETY: the reference is given up.
    let failed = unsafe { Array::from_raw(raw) };
    refused(failed, sys::CAI_ERR_NDIM, "ndim: found 65, expected 0 to 64");
    assert_eq!(dropped(&count), 5);
    let mut data = [1u8, 2];
    let lent = array(&mut data, &[2], None, counted()).unwrap();
    let mut raw = *lent.as_raw();
    raw.owner = std::ptr::null_mut();
    // SAFETY: borrowed arrays are refused.
    assert_eq!(unsafe { Array::from_raw(raw) }.unwrap_err().status(), sys::CAI_ERR_BORROWED);
    // SAFETY: the structure and its data outlive the reference.
    let borrowed = unsafe { ArrayRef::from_ptr(&raw) }.unwrap();
    assert_eq!(borrowed.view::<u8, Ix<1>>().unwrap()[[1]], 2);
    assert_eq!(borrowed.share().unwrap_err().status(), sys::CAI_ERR_BORROWED);
    // SAFETY: NULL is refused.
    let null = unsafe { ArrayRef::from_ptr(std::ptr::null()) };
    assert_eq!(null.err().unwrap().status(), sys::CAI_ERR_NULL_ARGUMENT);
    // SAFETY: NULL is refused.
    let null = unsafe { lent.clone().write_to(std::ptr::null_mut()) };
    assert_eq!(null.unwrap_err().field(), "out");
    drop(lent);
    assert_eq!(dropped(&count), 6);

    // SAFETY: a function that fails.
    let failed = unsafe {
        Array::receive(|_, error| {
            sys::cai_error_set(error, 0x10001, c"input".as_ptr(), c"not ready".as_ptr())
        })
    };
    refused(failed, 0x10001, "input: not ready");
    // SAFETY: functions that fail, and do not fill the error, or with another status.
    let (silent, other) = unsafe {
        (
            Array::receive(|_, _| sys::CAI_ERR_NDIM),
            Array::receive(|_, error| {
                sys::cai_error_set(error, sys::CAI_ERR_VALUE, c"x".as_ptr(), c"wrong".as_ptr());
                -1
            }),
        )
    };
    // SAFETY: a constant text.
    let message = unsafe { std::ffi::CStr::from_ptr(sys::cai_status_message(sys::CAI_ERR_NDIM)) };
    refused(silent, sys::CAI_ERR_NDIM, message.to_str().unwrap());
    refused(other, -1, "x: wrong");
}

/// A C function that returns 0 has written its output.
#[test]
fn an_error_is_never_a_success() {
    let error = Error::custom(sys::CAI_OK, "x", "wrong");
    assert_eq!((error.status(), error.message()), (sys::CAI_ERR_ARGUMENT, "x: wrong"));
    let mut written = *error.as_raw();
    written.code = 0;
    // SAFETY: writable, and NULL, where nothing is written.
    let statuses = unsafe { (error.write_to(&mut written), error.write_to(std::ptr::null_mut())) };
    assert_eq!((statuses, written.code), ((error.status(), error.status()), error.status()));
}

/// A size that is not that of the value would have its release write beyond it.
#[test]
fn an_array_of_another_size_is_refused() {
    for size in [0, 120, 136, 512, u32::MAX] {
        let (count, counted) = counter();
        let mut raw = array(&mut [1u8, 2], &[2], None, counted()).unwrap().into_raw();
        raw.struct_size = size;
        let pair = (raw, [0x5au8; 512]);
        // SAFETY: the reference is given up.
        let error = unsafe { Array::from_raw(pair.0) }.unwrap_err();
        assert_eq!((error.status(), error.field()), (sys::CAI_ERR_STRUCT_SIZE, "struct_size"));
        assert_eq!((dropped(&count), pair.1), (1, [0x5a; 512]));
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri ends when memory runs out")]
fn a_copy_that_does_not_fit_in_memory_is_an_error() {
    let builder = Builder::new(&mut 1u16, &[1 << 40, 1 << 20]).strides(&[0, 0]);
    // SAFETY: all elements are the one.
    let many = unsafe { builder.device(Device::CPU).stream(Stream::NONE).build(()) }.unwrap();
    assert_eq!(many.len(), 1 << 60);
    assert_eq!(many.to_vec::<u16>().unwrap_err().status(), sys::CAI_ERR_NO_MEMORY);
}

#[test]
fn what_is_attached_is_dropped_after_the_data() {
    thread_local!(static ORDER: Cell<&'static str> = const { Cell::new("") });
    struct Data;
    impl Drop for Data {
        fn drop(&mut self) {
            ORDER.set("data");
        }
    }
    struct Pool;
    impl Drop for Pool {
        fn drop(&mut self) {
            assert_eq!(ORDER.replace("pool"), "data");
        }
    }
    let builder = Builder::new(&mut 1.5f64, &[]).device(Device::CPU).stream(Stream::NONE);
    // SAFETY: the element is not accessed after this statement.
    let mut array = unsafe { builder.build(Data) }.unwrap();
    array.attach(Pool).unwrap();
    drop(array);
    assert_eq!(ORDER.get(), "pool");
}

#[test]
fn elements_of_every_type_are_read() {
    fn same<T: libcai::Element + PartialEq + std::fmt::Debug>(values: &[T]) {
        let length = values.len() as i64;
        let array = Array::from_vec(values.to_vec(), &[length]).unwrap();
        assert_eq!(array.typestr(), T::TYPESTR);
        assert_eq!(array.view::<T, Ix<1>>().unwrap().as_slice(), Some(values));
        assert_eq!(array.to_vec::<T>().unwrap(), values);
        assert_eq!(array.layout().nbytes, length * size_of::<T>() as i64);
    }
    same(&[i8::MIN, 0, i8::MAX]);
    same(&[i16::MIN, 0, i16::MAX]);
    same(&[i32::MIN, 0, i32::MAX]);
    same(&[i64::MIN, 0, i64::MAX]);
    same(&[0, u8::MAX]);
    same(&[0, u16::MAX]);
    same(&[0, u32::MAX]);
    same(&[0, u64::MAX]);
    same(&[-0.5f32, f32::MAX]);
    same(&[-0.5f64, f64::MAX]);
    same(&[Bool::from(true), Bool::default(), Bool(7)]);
    same(&[Complex { re: 1.0f32, im: -2.0 }]);
    same(&[Complex { re: 1.0f64, im: -2.0 }]);
    same::<f32>(&[]);
    assert!(Bool(7).get() && !Bool(0).get());
}

#[test]
fn other_arrays_are_refused_by_views() {
    let (_, counted) = counter();
    let floats = Array::from_vec(vec![1.0f32, 2.0], &[2]).unwrap();
    let refuse = |result: Result<View<'_, f64, Ix<1>>, Error>, message| {
        refused(result, sys::CAI_ERR_CONVERT_TYPE, message);
    };
    refuse(floats.view(), "typestr: found <f4, expected <f8");
    let ndim = sys::CAI_ERR_CONVERT_NDIM;
    refused(floats.view::<f32, Ix<2>>(), ndim, "ndim: found 1, expected 2 dimensions");
    refused(floats.view::<f32, Ix<0>>(), ndim, "ndim: found 1, expected 0 dimensions");
    let matrix = Array::from_vec(vec![1.0f32, 2.0], &[2, 1]).unwrap();
    refused(matrix.view::<f32, Ix<1>>(), ndim, "ndim: found 2, expected 1 dimension");
    assert_eq!(floats.to_vec::<i32>().unwrap_err().status(), sys::CAI_ERR_CONVERT_TYPE);

    let mut data = [1.0f32, 2.0];
    let built = |change: &dyn Fn(Builder<'static>) -> Builder<'static>, data: *mut f32| {
        let builder = Builder::new(data, &[2]).device(Device::CPU).stream(Stream::NONE);
        // SAFETY: two floats are there, and no bytes of them are read as another type.
        unsafe { change(builder).build(()) }.unwrap()
    };
    let data = data.as_mut_ptr();
    let swapped = built(&|builder| builder.typestr(">f4", 0), data);
    let order = sys::CAI_ERR_CONVERT_BYTE_ORDER;
    let message = "typestr: found \">f4\", expected the byte order of this machine, '<'";
    refused(swapped.view::<f32, Ix<1>>(), order, message);
    let coded =
        built(&|builder| builder.typestr("<V2", sys::CAI_DTYPE_BFLOAT16).strides(&[2]), data);
    let message = "typestr: found <V2 with dtype_code 4, expected <u2";
    refused(coded.view::<u16, Ix<1>>(), sys::CAI_ERR_CONVERT_TYPE, message);
    // What makes no difference is accepted.
    let ordered = built(&|builder| builder.typestr("<u1", 0).strides(&[4]), data);
    assert_eq!(ordered.view::<u8, Ix<1>>().unwrap().len(), 2);

    let device = built(&|builder| builder.device(Device::cuda(0)), data);
    let message = "device.type: found 2, expected memory that the host can read; copy it with \
                   `to_vec`";
    refused(device.view::<f32, Ix<1>>(), sys::CAI_ERR_CONVERT_DEVICE, message);
    let unknown = built(&|builder| builder.device(Device::UNKNOWN), data);
    assert!(unknown.view::<f32, Ix<1>>().is_err());

    let odd = built(&|builder| builder.strides(&[3]), data);
    let message = "strides[0]: found 3, expected a multiple of 4";
    refused(odd.view::<f32, Ix<1>>(), sys::CAI_ERR_ALIGNMENT, message);
    // SAFETY: the address is inside of the data, which is not read.
    let odd = built(&|builder| builder.strides(&[0]), unsafe { data.byte_add(2) });
    let failed = odd.view::<f32, Ix<1>>().unwrap_err();
    assert_eq!((failed.status(), failed.field()), (sys::CAI_ERR_ALIGNMENT, "data"));

    let mask = Array::from_vec(vec![Bool(1), Bool(0)], &[2]).unwrap();
    let builder = Builder::new(data, &[2]).device(Device::CPU).stream(Stream::NONE).mask(&mask);
    // SAFETY: two floats are there.
    let masked = unsafe { builder.build(counted()) }.unwrap();
    drop(mask);
    refused(
        masked.view::<f32, Ix<1>>(),
        sys::CAI_ERR_CONVERT_MASK,
        "mask: found a mask, expected none",
    );
    let mask = masked.mask().unwrap();
    assert_eq!(mask.view::<Bool, Ix<1>>().unwrap()[[0]], Bool(1));
    mask.share().unwrap();

    let read_only = Array::from_owner(vec![1.0f32], &[1]).unwrap();
    // SAFETY: nothing else accesses the data.
    let failed = unsafe { read_only.view_mut::<f32, Ix<1>>() };
    refused(
        failed,
        sys::CAI_ERR_READONLY,
        "flags: found a read-only array, expected a writable one",
    );
    let message = "shape: found too many elements, expected 1, the length of the data";
    refused(Array::from_vec(vec![1u8], &[i64::MAX, 4]), sys::CAI_ERR_ARGUMENT, message);
    assert!(Array::from_owner::<u8, _>([1u8, 2], &[-2, -1]).is_err());
}

#[test]
fn an_array_inside_of_its_owner_is_read() {
    let array = Array::from_owner([1u16, 2, 3, 4], &[2, 2]).unwrap();
    let moved = Box::new(array);
    assert_eq!(moved.view::<u16, Ix<2>>().unwrap()[[1, 0]], 3);
}

#[test]
fn elements_are_written() {
    let array = Array::from_vec(vec![0i32; 6], &[2, 3]).unwrap();
    // SAFETY: this is the only reference to the data.
    let mut view = unsafe { array.view_mut::<i32, Ix<2>>() }.unwrap();
    view[[1, 2]] = 7;
    assert_eq!((view[[1, 2]], view.as_view()[[0, 0]]), (7, 0));
    view.as_mut_slice().unwrap()[0] = 3;
    assert_eq!(array.to_vec::<i32>().unwrap(), [3, 0, 0, 0, 0, 7]);
    let empty = Array::from_vec(Vec::<i32>::new(), &[0, 3]).unwrap();
    // SAFETY: there is no data.
    let mut view = unsafe { empty.view_mut::<i32, Ix<2>>() }.unwrap();
    assert!(view.as_mut_slice().unwrap().is_empty());
}

#[test]
fn slices_are_copied_to_arrays() {
    let (count, counted) = counter();
    let mut data = [0u16; 6];
    let columns = array(&mut data, &[3, 2], Some(&[2, 6]), counted()).unwrap();
    // SAFETY: in all calls here, nothing else accesses the data.
    unsafe {
        columns.copy_from_slice(&[1u16, 2, 3, 4, 5, 6]).unwrap();
        let error = columns.copy_from_slice(&[1u16; 5]).unwrap_err();
        assert_eq!(error.message(), "values: found 5 values, expected 6, as elements");
        let error = columns.copy_from_slice(&[1i16; 6]).unwrap_err();
        assert_eq!(error.status(), sys::CAI_ERR_CONVERT_TYPE);
        let read_only = Array::from_owner([1u8], &[1]).unwrap();
        let error = read_only.copy_from_slice(&[2u8]).unwrap_err();
        assert_eq!(error.status(), sys::CAI_ERR_READONLY);
        let empty = Array::from_vec(Vec::<f32>::new(), &[0, 3]).unwrap();
        empty.copy_from_slice::<f32>(&[]).unwrap();
    }
    assert_eq!(columns.to_vec::<u16>().unwrap(), [1, 2, 3, 4, 5, 6]);
    drop(columns);
    assert_eq!((data, dropped(&count)), ([1, 3, 5, 2, 4, 6], 1));
}

#[test]
#[should_panic(expected = "index [1, 3] is out of bounds of shape [2, 3]")]
fn an_index_is_checked() {
    let array = Array::from_vec(vec![0u8; 6], &[2, 3]).unwrap();
    let _ = array.view::<u8, Ix<2>>().unwrap()[[1, 3]];
}

#[test]
#[should_panic(expected = "index [2, 0] is out of bounds of shape [2, 3]")]
fn an_index_of_a_contiguous_view_is_checked() {
    let array = Array::from_vec(vec![0u8; 6], &[2, 3]).unwrap();
    let _ = ContiguousView::new(array.view::<u8, Ix<2>>().unwrap()).unwrap()[[2, 0]];
}

#[test]
#[should_panic(expected = "index [1] is out of bounds of shape [2, 3]")]
fn the_number_of_indices_is_checked() {
    let array = Array::from_vec(vec![0u8; 6], &[2, 3]).unwrap();
    let _ = array.view::<u8, IxDyn>().unwrap()[&[1][..]];
}

/// A small generator, so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % bound
    }
}

/// Every element of any view is the one that its indices and strides name, in C order.
#[test]
fn views_of_random_strides_read_the_elements_that_they_name() {
    let mut random = Random(7);
    for _ in 0..if cfg!(miri) { 25 } else { 2000 } {
        let ndim = random.below(5);
        let mut data: Vec<u32> = (0..2000).collect();
        let shape: Vec<i64> = (0..ndim).map(|_| random.below(5) as i64).collect();
        let strides: Vec<i64> = (0..ndim).map(|_| (random.below(41) as i64 - 20) * 4).collect();
        let start = 1000u32;
        // A pointer into all of the data: that of a slice is valid inside of the slice only.
        let middle = data.as_mut_ptr().wrapping_add(start as usize);
        let built =
            Builder::new(middle, &shape).strides(&strides).device(Device::CPU).stream(Stream::NONE);
        // SAFETY: at most 4 * 4 * 20 elements before and after the middle.
        let array = unsafe { built.build(()) }.unwrap();

        let mut expected: Vec<u32> = vec![start];
        for (extent, stride) in shape.iter().zip(&strides) {
            let step = |from: &u32, index: i64| (i64::from(*from) + index * stride / 4) as u32;
            expected =
                expected.iter().flat_map(|from| (0..*extent).map(move |i| step(from, i))).collect();
        }
        let view = array.view::<u32, IxDyn>().unwrap();
        assert_eq!(view.iter().copied().collect::<Vec<_>>(), expected);
        assert_eq!((view.len(), view.iter().len()), (expected.len(), expected.len()));
        let mut folded = Vec::new();
        view.iter().for_each(|element| folded.push(*element));
        assert_eq!(folded, expected);
        if expected.len() > 2 {
            let mut begun = view.iter();
            begun.next();
            let mut rest = Vec::new();
            begun.for_each(|element| rest.push(*element));
            assert_eq!(rest, expected[1..]);
        }
        let rows = view.rows();
        assert_eq!(
            rows.len(),
            if expected.is_empty() {
                0
            } else {
                expected.len() / view.rows().next().unwrap().len()
            }
        );
        let by_rows: Vec<u32> = rows.flat_map(|row| row.into_iter().copied()).collect();
        assert_eq!(by_rows, expected);
        assert_eq!(view.is_c_contiguous(), array.is_c_contiguous());
        if let Some(slice) = view.as_slice() {
            assert_eq!(slice, expected);
        }
        assert_eq!(array.to_vec::<u32>().unwrap(), expected);
        if let Ok(plane) = array.view::<u32, Ix<2>>() {
            let [rows, columns] = plane.shape();
            for index in (0..rows + 1).flat_map(|i| (0..columns + 1).map(move |j| [i, j])) {
                let inside = index[0] < rows && index[1] < columns;
                let there = inside.then(|| expected[index[0] * columns + index[1]]);
                assert_eq!((plane.get(index).copied(), view.get(&index).copied()), (there, there));
                if inside {
                    // SAFETY: both are below their extents.
                    assert_eq!(Some(*unsafe { plane.get_unchecked(index) }), there);
                }
                if let Some(dense) = ContiguousView::new(plane) {
                    assert_eq!(
                        (dense.get(index).copied(), dense.as_slice()),
                        (there, &expected[..])
                    );
                }
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "asks whether an observer is loaded, a call of dlopen")]
fn work_on_host_memory_needs_no_driver() {
    let mut array = Array::from_vec(vec![1u8], &[1]).unwrap();
    Producer::new(Stream::PER_THREAD).export(&mut array).unwrap();
    assert_eq!(array.stream(), Stream::NONE);
    drop(Consumer::begin(&array, Stream::PER_THREAD, Access::Write).unwrap());
    let read_only = Array::from_owner([1u8], &[1]).unwrap();
    let failed = Consumer::begin(&read_only, Stream::LEGACY, Access::ReadWrite);
    assert_eq!(failed.unwrap_err().status(), sys::CAI_ERR_READONLY);
    let failed = Consumer::begin(&array, Stream::NONE, Access::Read);
    assert_eq!(failed.unwrap_err().field(), "consumer_stream");
    let (count, counted) = counter();
    let mut data = [1u8];
    let kept = self::array(&mut data, &[1], None, counted()).unwrap();
    // SAFETY: 0 is refused.
    let (kept, error) = kept.release_after(unsafe { Stream::from_raw(0) }).unwrap_err();
    assert_eq!((error.name(), dropped(&count)), ("CAI_ERR_STREAM_ZERO", 0));
    kept.release_after(Stream::NONE).unwrap();
    assert_eq!(dropped(&count), 1);
}

#[test]
fn arrays_leave_by_other_protocols() {
    let (count, counted) = counter();
    let mut data = [1.0f32, 2.0, 3.0];
    let original = array(&mut data, &[3], None, counted()).unwrap();
    let tensor = original.to_dlpack(0).unwrap();
    drop(original);
    // SAFETY: the tensor is taken over.
    let array = unsafe { Array::from_dlpack(tensor, Stream::NONE) }.unwrap();
    assert_eq!(array.view::<f32, Ix<1>>().unwrap().as_slice(), Some(&[1.0, 2.0, 3.0][..]));
    let json = array.to_json().unwrap();
    assert!(json.contains(r#""typestr": "<f4""#) && json.contains(r#""shape": [3]"#), "{json}");
    assert_eq!(dropped(&count), 0);
    drop(array);
    assert_eq!(dropped(&count), 1);
    // A text that does not fit at first: the shape of 64 dimensions.
    let long = Array::from_vec(vec![1u8], &[1; 64]).unwrap();
    assert!(long.to_json().unwrap().matches("1,").count() >= 63);
}

#[test]
fn texts_for_people() {
    let array = Array::from_vec(vec![1u8, 2], &[2]).unwrap();
    let text = format!("{array:?}");
    assert!(
        text.contains(r#"shape: [2], typestr: "|u1""#) && text.contains("Stream::NONE"),
        "{text}"
    );
    let error = array.view::<u16, Ix<1>>().unwrap_err();
    let text = format!("{error:?}");
    assert!(
        text.starts_with(r#"Error { status: CAI_ERR_CONVERT_TYPE (703), field: "typestr""#),
        "{text}"
    );
    assert_eq!(error.driver_code(), 0);
}
