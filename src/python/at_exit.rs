//! Registers functions with Python's module `atexit`.

use std::ptr;

use crate::python::capi::{Capi, MethodDef};

/// Asks the interpreter to call a function before it ends. If that fails, it is not called.
///
/// # Safety
/// The calling thread is attached, and no exception is set.
pub unsafe fn register(capi: &Capi, method: &'static MethodDef) {
    // SAFETY: the thread is attached (this function's contract). What is created is released, and
    // a failure of any step leaves NULL, which is passed to none of the others.
    unsafe {
        let module = (capi.import)(c"atexit".as_ptr());
        let name = (capi.str_from)(c"register".as_ptr(), 8);
        let function = (capi.function_new)(ptr::from_ref(method), ptr::null_mut(), ptr::null_mut());
        let arguments = (capi.tuple_new)(1);
        let made = [module, name, function, arguments];
        if made.iter().all(|object| !object.is_null()) {
            (capi.incref)(function);
            (capi.tuple_set)(arguments, 0, function);
            let register = (capi.get_attr)(module, name);
            if !register.is_null() {
                let registered = (capi.call)(register, arguments, ptr::null_mut());
                if !registered.is_null() {
                    (capi.decref)(registered);
                }
                (capi.decref)(register);
            }
        }
        for object in made {
            if !object.is_null() {
                (capi.decref)(object);
            }
        }
        (capi.error_clear)();
    }
}
