//! The class `libcai.Array`: its attributes, its methods and its exchange tables.

use std::ffi::{CStr, c_int, c_void};
use std::mem::offset_of;
use std::ptr;

use crate::error::Result;
use crate::python::capsules::{DLPACK_CAPSULE, EXCHANGE_CAPSULE};
use crate::python::class::{Attribute, Contents, Ending, Instance, Method, entry};
use crate::python::export::array_interface::array_interface;
use crate::python::export::arrow;
use crate::python::export::attributes::{array, device, dtype, shape, strides};
use crate::python::export::buffer::{self, buffer, int_ptr, offset};
use crate::python::export::cai_dict::cuda_array_interface;
use crate::python::export::dlpack::{dlpack, dlpack_device};
use crate::python::export::exchange_table::{DLPACK_EXCHANGE, EXCHANGE};
use crate::python::export::object::{Exported, shown};
use crate::python::export::pep3118;
use crate::python::export::sycl::sycl_usm_array_interface;
use crate::python::py::{Lent, Name, Obj, Owned, Py};

// SAFETY: zeros are no array. Rust does not use `weak_references`.
unsafe impl Contents for Exported {
    const NAME: &'static CStr = c"libcai.Array";
    const DOC: &'static CStr =
        c"An array, in the memory of a GPU or of the host, that a library exported.";
    const WEAK_REFERENCES: usize = offset_of!(Exported, weak_references);

    fn attributes() -> &'static [Attribute<Self>] {
        &ATTRIBUTES
    }

    fn methods() -> &'static [Method<Self>] {
        &METHODS
    }

    fn complete(py: Py, class: Obj) -> Result<()> {
        let publish = |attribute: Name, table: *const c_void, name| {
            // SAFETY: the table of this name, which lives as long as the process.
            let capsule = unsafe { py.capsule(table.cast_mut(), name, None) }?;
            class.set_attr(py, attribute, capsule.obj())
        };
        publish(py.names.exchange, ptr::from_ref(&EXCHANGE).cast(), EXCHANGE_CAPSULE)?;
        let table = ptr::from_ref(&DLPACK_EXCHANGE).cast();
        publish(py.names.dlpack_exchange, table, DLPACK_CAPSULE)
    }

    fn repr<'py>(py: Py<'py>, this: Instance<'_, Self>) -> Result<Owned<'py>> {
        match this.read() {
            Some(array) => py.string(shown("libcai.Array", &array).as_str().as_bytes()),
            None => py.string(b"<libcai.Array, empty>"),
        }
    }

    fn len(_: Py, this: Instance<'_, Self>) -> Result<usize> {
        this.array()?.len()
    }

    fn lend<'py>(py: Py<'py>, this: Instance<'_, Self>, flags: c_int) -> Result<Lent<'py>> {
        pep3118::lend(py, this, flags)
    }

    #[inline(always)]
    fn finalize(&mut self, _: Ending) {
        self.end();
    }
}

static ATTRIBUTES: [Attribute<Exported>; 14] = [
    Attribute::optional(
        c"__cuda_array_interface__",
        cuda_array_interface,
        c"The CUDA Array Interface.",
    ),
    Attribute::optional(
        c"__sycl_usm_array_interface__",
        sycl_usm_array_interface,
        c"The SYCL USM array interface.",
    ),
    Attribute::optional(
        c"__array_interface__",
        array_interface,
        c"NumPy's array interface, for host memory.",
    ),
    Attribute::optional(
        c"__arrow_c_array__",
        arrow::host_method,
        c"The method of Arrow's PyCapsule interface, for host memory.",
    ),
    Attribute::optional(c"shape", shape, c"The extents."),
    Attribute::optional(c"strides", strides, c"The strides in bytes."),
    Attribute::optional(c"dtype", dtype, c"The type as a numpy.dtype; without NumPy, the typestr."),
    Attribute::optional(c"device", device, c"The device, such as 'cuda:0', or None."),
    Attribute::optional(c"buffer", buffer, c"The buffer interface: the object itself."),
    Attribute::optional(c"_ptr", buffer::ptr, c"The buffer interface: the cl_mem."),
    Attribute::optional(c"int_ptr", int_ptr, c"The cl_mem, under pyopencl's name."),
    Attribute::optional(c"offset", offset, c"The buffer interface: bytes from the buffer's start."),
    Attribute::optional(c"release", buffer::release, c"The buffer interface: gives up the buffer."),
    Attribute::END,
];

static METHODS: [Method<Exported>; 5] = [
    Method::with_keywords(
        c"__dlpack__",
        entry!(Exported => dlpack, arguments),
        c"__dlpack__($self, /, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n\
          A DLPack capsule, ordered before `stream`.",
    ),
    Method::new(
        c"__dlpack_device__",
        entry!(Exported => dlpack_device),
        c"__dlpack_device__($self, /)\n--\n\nDevice type and number of DLPack.",
    ),
    Method::with_keywords(
        c"__arrow_c_device_array__",
        entry!(Exported => arrow::device_array, arguments),
        c"__arrow_c_device_array__($self, /, requested_schema=None, **kwargs)\n--\n\n\
          Capsules of Arrow's structures.",
    ),
    Method::with_keywords(
        c"__array__",
        entry!(Exported => array, arguments),
        c"__array__($self, dtype=None, /, *, copy=None)\n--\n\n\
          For NumPy: raises TypeError unless the array is in host memory.",
    ),
    Method::END,
];
