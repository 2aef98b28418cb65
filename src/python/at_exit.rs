//! The function that CPython calls before an interpreter ends.

use crate::error::Result;
use crate::python::class::{Function, entry};
use crate::python::py::{Owned, Py};

static AT_EXIT: Function = Function::new(c"libcai_at_exit", entry!(at_exit));

/// The interpreter is about to end.
fn at_exit(py: Py<'_>) -> Result<Owned<'_>> {
    py.decref.only_if_attached();
    py.deferred.close();
    py.release_deferred();
    Ok(py.none().share(py))
}

/// Asks the interpreter to call the function. If that fails, it is not called. An exception that is
/// set already is the caller's.
pub fn register(py: Py) {
    py.keeping_exception(|| {
        let register = || -> Result<Owned> {
            let function = AT_EXIT.make(py, None, None)?;
            let register = py.import(c"atexit")?.obj().attr(py, &py.string(b"register")?)?;
            register.obj().call(py, [function.obj()])
        };
        if register().is_err() {
            py.clear();
        }
    });
}
