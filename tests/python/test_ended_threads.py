"""Threads that end inside the library: CPython up to 3.13 ends every thread that asks for its lock once the interpreter
ends, and drivers and destroy functions may end the thread that calls them. Only that thread ends. ended_threads.c in
capi-tests has the cases that need neither Python nor a driver."""

import sys

import pytest

from test_driver import ending, python  # noqa: F401
from commands import compile


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="PyGILState_Ensure crashes while CPython deletes its interpreter")
def test_exit_with_python_functions_pending(driver):
    """The release thread calls functions of ctypes while the interpreter ends."""
    for _ in range(3):
        python("""
            destroy = cai_ctypes.DESTROY(lambda context: None)
            d = Driver()
            stream = d.stream()
            for _ in range(200):
                owner = c.c_void_p()
                assert cai.cai_owner_create(None, destroy, c.byref(owner), None) == 0
                assert cai.cai_owner_release_after(owner, stream, c.byref(error)) == 0
            """, LD_LIBRARY_PATH=driver)


def test_a_python_function_due_after_the_interpreter(driver, tmp_path):
    """The work ends once the interpreter is gone: a function of ctypes is not called any more."""
    source, library = tmp_path / "late.c", tmp_path / "late.so"
    source.write_text("""
        #include <unistd.h>
        static volatile int is_open;
        void gate(void *unused) { (void)unused; while (!is_open) usleep(1000); }
        void after_python(void) { is_open = 1; usleep(300000); }
        """)
    compile(source, library, "-shared", "-Wall", "-Wextra", "-Werror", library=None)
    python(f"""
        destroy = cai_ctypes.DESTROY(lambda context: None)
        d, late, owner = Driver(), c.CDLL({str(library)!r}), c.c_void_p()
        stream = d.stream()
        c.pythonapi.Py_AtExit.argtypes = [c.c_void_p]
        assert c.pythonapi.Py_AtExit(c.cast(late.after_python, c.c_void_p)) == 0
        assert cai.cai_owner_create(None, destroy, c.byref(owner), None) == 0
        d.cuda.cuLaunchHostFunc.argtypes = [c.c_void_p] * 3
        assert d.cuda.cuLaunchHostFunc(stream, c.cast(late.gate, c.c_void_p), None) == 0
        assert cai.cai_owner_release_after(owner, stream, c.byref(error)) == 0
        """, LD_LIBRARY_PATH=driver)


def test_exit_while_threads_import(driver):
    """Threads that are in the middle of an import, in the producer's Python code."""
    for _ in range(3):
        python("""
            import threading
            py = c.PyDLL(cai._name)
            py.cai_array_from_python.argtypes = [c.py_object, c.c_void_p, c.c_void_p, c.c_void_p]
            cai.cai_array_release.argtypes = [c.c_void_p]
            class Key(str):
                pass
            class Producer:
                @property
                def __cuda_array_interface__(self):
                    sum(range(100))  # gives other threads a chance
                    return {Key("shape"): (1,), "typestr": "<i4", "data": (c.addressof(data), False), "version": 3}
            producer, going = Producer(), threading.Semaphore(0)
            def work():
                import_one = py.cai_array_from_python
                going.release()
                while True:
                    a = cai_ctypes.Array()
                    a.struct_size = c.sizeof(a)
                    assert import_one(producer, None, c.byref(a), None) == 0
                    cai.cai_array_release(c.byref(a))
            sys.setswitchinterval(1e-5)
            for _ in range(4):
                threading.Thread(target=work, daemon=True).start()
            for _ in range(4):
                going.acquire()
            """)


@pytest.mark.parametrize("how", ["exit", "cancel"])
@pytest.mark.parametrize(
    "function",
    ["cuStreamSynchronize", "cuStreamWaitEvent", "cuEventRecord", "cuEventCreate", "cuStreamIsCapturing",
     "cuStreamGetCtx_v2", "cuPointerGetAttributes"],
)  # fmt: skip
def test_a_driver_that_ends_the_thread(ending, tmp_path, function, how):  # noqa: F811
    """In the middle of every kind of exchange. The library works on in other threads."""
    python(f"""
        owner, a = c.c_void_p(), array(0x1000)
        assert cai.cai_owner_create(None, cai_ctypes.DESTROY(0), c.byref(owner), None) == 0
        address = c.addressof(a)
        calls = [
            (cai.cai_array_consume_begin, address, 0x2000, READ, 0),
            (cai.cai_array_consume_end, address, 0x2000, READ, 0),
            (cai.cai_array_synchronize, address, READ, 0, 0),
            (cai.cai_owner_release_after, owner.value, 0x2000, 0, 0),
            (cai.cai_array_validate, address, 4, 0, 0),
        ]
        # A thread without Python in it, which could end with the thread.
        run = c.CDLL({str(ending)!r}).ending_driver_run
        run.argtypes = [c.c_void_p] + [c.c_size_t] * 4
        results = [(call.__name__, run(c.cast(call, c.c_void_p), *arguments)) for call, *arguments in calls]
        assert any(ended for _, ended in results), results
        del os.environ["ENDING_DRIVER"]
        assert begin(0x1000, 0x2000) == (0, "")
        assert cai.cai_array_synchronize(c.byref(a), READ, None) == 0
        """, CAI_CUDA_DRIVER=str(ending), ENDING_DRIVER=f"{function}:{how}")
