//! Attribute names and dictionary keys as interned Python strings.

use std::mem::offset_of;
use std::ptr;

use crate::python::py::{Attached, Name};

macro_rules! names {
    ($($field:ident = $text:literal;)*) => {
        /// Names as interned Python strings, so that most comparisons are of pointers.
        #[repr(C)]
        pub struct Names { $(pub $field: Name,)* }

        impl Names {
            /// Interns the names.
            pub fn new(attached: Attached) -> Option<Self> {
                // A few strings leak if there is no memory.
                Some(Names { $($field: Name::new(attached, $text)?,)* })
            }
        }
    };
}

impl Names {
    /// Returns the keys of the dictionaries, which come first.
    #[inline(always)]
    pub fn keys(&self) -> &[Name; KEYS] {
        const { assert!(offset_of!(Names, syclobj) == (KEYS - 1) * size_of::<Name>()) };
        // SAFETY: the members are names in the order of the declaration, and at least as many.
        unsafe { &*ptr::from_ref(self).cast() }
    }
}

pub(crate) const KEYS: usize = 10;

names! {
    shape = c"shape";
    typestr = c"typestr";
    data = c"data";
    version = c"version";
    strides = c"strides";
    stream = c"stream";
    descr = c"descr";
    mask = c"mask";
    offset = c"offset";
    syclobj = c"syclobj";
    cuda_array_interface = c"__cuda_array_interface__";
    sycl_usm_array_interface = c"__sycl_usm_array_interface__";
    array_interface = c"__array_interface__";
    array_struct = c"__array_struct__";
    arrow_array = c"__arrow_c_array__";
    arrow_device_array = c"__arrow_c_device_array__";
    dlpack = c"__dlpack__";
    dlpack_device = c"__dlpack_device__";
    dlpack_exchange = c"__dlpack_c_exchange_api__";
    exchange = c"__cai_exchange_api__";
    max_version = c"max_version";
    module = c"__module__";
    name = c"__name__";
    buffer = c"buffer";
    base_data = c"base_data";
    ptr = c"_ptr";
    int_ptr = c"int_ptr";
    fields = c"fields";
    dtype = c"dtype";
    str = c"str";
    context = c"context";
    queue = c"queue";
    get_capsule = c"_get_capsule";
    sycl_device = c"sycl_device";
    sycl_device_type = c"SyclDevice";
    sycl_platform = c"sycl_platform";
    default_context = c"default_context";
    get_device_id = c"get_device_id";
    requires_grad = c"requires_grad";
    basicsize = c"__basicsize__";
    isbuiltin = c"isbuiltin";
    dictoffset = c"__dictoffset__";
    get_attribute = c"__getattribute__";
    missing = c"__missing__";
    mro = c"__mro__";
    get = c"__get__";
    is_conj = c"is_conj";
    is_neg = c"is_neg";
    cuda_stream = c"__cuda_stream__";
    torch_stream = c"cuda_stream";
    stream_ptr = c"ptr";
    handle = c"handle";
    value = c"value";
    device = c"device";
    device_index = c"device_index";
    device_id = c"device_id";
    index = c"index";
    id = c"id";
    readonly = c"readonly";
    stream_id = c"stream_id";
    event = c"event";
    new_empty = c"new_empty";
    empty_array = c"empty";
    empty_like = c"_empty_like";
    array_namespace = c"__array_namespace__";
    empty = c"";
}
