//! Views of arrays that cudarc's functions take.

use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use ::cudarc::driver::{
    CudaStream, DevicePtr, DevicePtrMut, DeviceSlice, LaunchArgs, PushKernelArg, SyncOnDrop,
};

use super::is_per_thread;

/// The elements of an [`Imported`](super::Imported) for reading on the stream that the view was
/// made for, in place of a `CudaView`: cudarc's functions take it, and kernels as an argument.
///
/// On another stream, a function of cudarc blocks the host until the work on both is done. A kernel
/// must be launched on the view's own stream; on cudarc's per-thread default stream, it must be
/// done when the view is dropped.
#[derive(Debug)]
pub struct View<'a, T>(pub(super) Elements<'a, T>);

/// The elements of an [`Imported`](super::Imported) for reading and writing, in place of a
/// `CudaViewMut`. Otherwise as [`View`].
#[derive(Debug)]
pub struct ViewMut<'a, T>(pub(super) Elements<'a, T>);

#[derive(Debug)]
pub(super) struct Elements<'a, T> {
    pub(super) address: u64,
    pub(super) length: usize,
    pub(super) stream: Arc<CudaStream>,
    pub(super) data: PhantomData<&'a [T]>,
}

impl<T> Elements<'_, T> {
    /// Returns the address for work on a stream, which is enqueued before the result is dropped.
    fn on<'b>(&'b self, stream: &'b CudaStream) -> (u64, SyncOnDrop<'b>) {
        if is_per_thread(stream) || *stream != *self.stream {
            if !is_per_thread(&self.stream) {
                // What is before the view is before its stream.
                self.stream.synchronize().expect("the stream that a view was made for");
            }
            return (self.address, SyncOnDrop::sync_stream(stream));
        }
        (self.address, SyncOnDrop::Record(None))
    }

    fn slice(&self, range: impl RangeBounds<usize>) -> Elements<'_, T> {
        let start = match range.start_bound() {
            Bound::Included(&first) => first,
            Bound::Excluded(&before) => before + 1,
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&last) => last + 1,
            Bound::Excluded(&end) => end,
            Bound::Unbounded => self.length,
        };
        assert!(start <= end && end <= self.length, "elements {start} to {end} of {}", self.length);
        Elements {
            address: self.address + (start * size_of::<T>()) as u64,
            length: end - start,
            stream: self.stream.clone(),
            data: PhantomData,
        }
    }
}

macro_rules! views {
    ($($name:ident),*) => {$(
        impl<T> $name<'_, T> {
            /// Returns the number of elements.
            #[must_use]
            pub fn len(&self) -> usize {
                self.0.length
            }

            /// Returns true if there are no elements.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Returns some of the elements, for reading. Panics if there are not as many.
            #[must_use]
            pub fn slice(&self, range: impl RangeBounds<usize>) -> View<'_, T> {
                View(self.0.slice(range))
            }
        }

        impl<T> DeviceSlice<T> for $name<'_, T> {
            fn len(&self) -> usize {
                self.0.length
            }

            fn stream(&self) -> &Arc<CudaStream> {
                &self.0.stream
            }
        }

        impl<T> DevicePtr<T> for $name<'_, T> {
            fn device_ptr<'a>(&'a self, stream: &'a CudaStream) -> (u64, SyncOnDrop<'a>) {
                self.0.on(stream)
            }
        }
    )*};
}

views!(View, ViewMut);

impl<T> ViewMut<'_, T> {
    /// Returns some of the elements, for writing. Panics if there are not as many.
    #[must_use]
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> ViewMut<'_, T> {
        ViewMut(self.0.slice(range))
    }
}

impl<T> DevicePtrMut<T> for ViewMut<'_, T> {
    fn device_ptr_mut<'a>(&'a mut self, stream: &'a CudaStream) -> (u64, SyncOnDrop<'a>) {
        self.0.on(stream)
    }
}

// SAFETY: the argument of the kernel is the address, which the view holds as long as the launch
// borrows it. The launch is on the stream of the view: its caller states that.
unsafe impl<'a, 'b: 'a, 'c: 'b, T> PushKernelArg<&'b View<'c, T>> for LaunchArgs<'a> {
    #[inline(always)]
    fn arg(&mut self, view: &'b View<'c, T>) -> &mut Self {
        PushKernelArg::<&'b u64>::arg(self, &view.0.address)
    }
}

// SAFETY: as for `View`, and nothing else uses the elements while this is borrowed.
unsafe impl<'a, 'b: 'a, 'c: 'b, T> PushKernelArg<&'b mut ViewMut<'c, T>> for LaunchArgs<'a> {
    #[inline(always)]
    fn arg(&mut self, view: &'b mut ViewMut<'c, T>) -> &mut Self {
        PushKernelArg::<&'b u64>::arg(self, &view.0.address)
    }
}
