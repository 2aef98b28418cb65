"""Finding the CUDA driver, and everything that can be wrong with it: missing, a stub, old, forked, going away.
Each case is a process of its own that uses the library through ctypes, as a stranger would."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap

import pytest

from commands import BUILT, CUDA, LIBRARY, ROOT, TESTS, compile, output_of, run

PRELUDE = """
import ctypes as c, os, sys
sys.path.insert(0, {folder!r})
import cai_ctypes
cai = cai_ctypes.declare(c.CDLL({library!r}))
error = cai_ctypes.Error()
READ, WRITE, NONE = 1, 2, 2**64 - 1
shape = (c.c_int64 * 1)(4)
data = c.create_string_buffer(16)

def array(stream):
    a = cai_ctypes.Array()
    a.struct_size, a.version, a.stream = c.sizeof(a), 3, stream
    a.data, a.ndim, a.typestr = c.addressof(data), 1, b"<i4"
    a.shape = c.cast(shape, type(a.shape))
    return a

def begin(stream, consumer, flags=READ):
    code = cai.cai_array_consume_begin(c.byref(array(stream)), consumer, flags, c.byref(error))
    return code, (error.message.decode() if code else "")

def is_loaded(name="libcuda"):
    return name in open("/proc/self/maps").read()

def threads():
    # How many the library has started.
    names = [open("/proc/self/task/" + task + "/comm").read().strip() for task in os.listdir("/proc/self/task")]
    return names.count("cai-release")

class Driver:
    def __init__(self):
        self.cuda = c.CDLL("libcuda.so.1")
        context = c.c_void_p()
        assert self.cuda.cuInit(0) == 0
        assert self.cuda.cuDevicePrimaryCtxRetain(c.byref(context), 0) == 0
        assert self.cuda.cuCtxSetCurrent(context) == 0
    def stream(self):
        stream = c.c_void_p()
        assert self.cuda.cuStreamCreate(c.byref(stream), 1) == 0
        return stream.value
"""


def python(body, check=True, **env):
    here = str(pathlib.Path(__file__).parent)
    library = os.environ.get("CAI_LIBRARY", str(BUILT / "libcai.so"))
    text = PRELUDE.format(folder=here, library=library) + textwrap.dedent(body)
    return run(sys.executable, "-c", text, check=check, env=env)


def test_the_longest_path(driver):
    """As long as a path can be, and not one character is lost."""
    path = driver + "/."
    path += "/." * ((4095 - len(path + "/libcuda.so.1")) // 2)
    path += "/" * (4095 - len(path + "/libcuda.so.1")) + "/libcuda.so.1"
    assert len(path) == 4095
    python("assert begin(1, 1)[0] != 0\ndriver = Driver()\nassert begin(1, 1)[0] == 0, begin(1, 1)", CAI_CUDA_DRIVER=path,
                  LD_LIBRARY_PATH=driver)  # fmt: skip


def test_memory_that_the_current_context_cannot_reach(built):
    """The driver knows the memory, and refuses the current context a pointer to it."""
    python("""
        cuda, memory = Driver().cuda, c.c_uint64()
        assert cuda.cuMemAlloc_v2(c.byref(memory), c.c_size_t(16)) == 0
        here = array(NONE)
        here.data, here.device.type = memory.value, 2
        assert cai.cai_array_validate(c.byref(here), 4, c.byref(error)) == 0, error.message
        c.CDLL(os.environ["CAI_CUDA_DRIVER"]).shim_arm(1)
        code = cai.cai_array_validate(c.byref(here), 4, c.byref(error))
        assert code == cai_ctypes.abi.CAI_ERR_NOT_ACCESSIBLE and error.field == b"data", (code, error.message)
        assert error.driver_code == 1
        """, CAI_CUDA_DRIVER=str(built.shim), SHIM="cuPointerGetAttribute:1:1", LD_LIBRARY_PATH=str(built.driver))


def test_memory_of_a_device_that_is_not_a_peer(driver):
    """The simulated driver refuses the pointer until the contexts are peers."""
    python("""
        cuda = Driver().cuda
        first, second, memory = c.c_void_p(), c.c_void_p(), c.c_uint64()
        assert cuda.cuDevicePrimaryCtxRetain(c.byref(first), 0) == 0
        assert cuda.cuDevicePrimaryCtxRetain(c.byref(second), 1) == 0
        assert cuda.cuCtxSetCurrent(second) == 0
        assert cuda.cuMemAlloc_v2(c.byref(memory), c.c_size_t(16)) == 0
        there = array(NONE)
        there.data, there.device.type, there.device.id = memory.value, 2, 1
        assert cai.cai_array_validate(c.byref(there), 4, c.byref(error)) == 0, error.message
        assert cuda.cuCtxSetCurrent(first) == 0
        code = cai.cai_array_validate(c.byref(there), 4, c.byref(error))
        assert code == cai_ctypes.abi.CAI_ERR_NOT_ACCESSIBLE and error.field == b"data", (code, error.message)
        assert error.driver_code == 1
        assert cuda.cuCtxEnablePeerAccess(second, 0) == 0
        assert cai.cai_array_validate(c.byref(there), 4, c.byref(error)) == 0, error.message
        """, CAI_CUDA_DRIVER=f"{driver}/libcuda.so.1", CUDASIM_DEVICES="2", LD_LIBRARY_PATH=driver)


# --- not there --------------------------------------------------------------------------------------------------


def test_no_driver(tmp_path):
    """A status that says what was looked for; all that needs no driver works; the next call looks again."""
    rubbish = tmp_path / "rubbish.so"
    rubbish.write_text("not a library")
    for path in ["/nowhere/libcuda.so.1", str(rubbish)]:
        python("""
            for _ in range(3):
                code, why = begin(0x1000, 0x2000)
                assert code == 301 and os.environ["CAI_CUDA_DRIVER"] in why and "CAI_CUDA_DRIVER" in why, why
            assert begin(NONE, 0x2000) == (0, "") and begin(0x2000, 0x2000) == (0, "")
            a = array(0x1000)
            assert cai.cai_array_validate(c.byref(a), 1, c.byref(error)) == 0
            assert cai.cai_array_validate(c.byref(a), 4, c.byref(error)) == 301
            assert cai.cai_array_produce(c.byref(a), None, 0, NONE, 0, c.byref(error)) == 0 and a.stream == NONE
            assert threads() == 0
            """, CAI_CUDA_DRIVER=path)


def test_a_driver_that_comes_later(driver):
    python(f"""
        assert begin(0x1000, 0x2000)[0] == 301
        os.environ["CAI_CUDA_DRIVER"] = {driver + "/libcuda.so.1"!r}
        assert begin(1, 2)[0] == 307, error.message  # found; but no context is current
        """, CAI_CUDA_DRIVER="/nowhere")


@pytest.mark.parametrize(("variable", "code"), [({"CUDASIM_STUB": "1"}, 34), ({"CUDASIM_DEVICES": "0"}, 100)])
def test_a_driver_that_does_not_start(driver, variable, code):
    python(f"""
        for _ in range(2):
            found, why = begin(0x1000, 0x2000)
            assert found == 301 and error.driver_code == {code} and "[cuInit]" in why, why
        """, LD_LIBRARY_PATH=driver, **variable)


# --- nothing before it is needed --------------------------------------------------------------------------------


def test_nothing_before_it_is_needed(driver):
    python("""
        owner, a = c.c_void_p(), array(NONE)
        assert cai.cai_owner_create(None, cai_ctypes.DESTROY(0), c.byref(owner), None) == 0
        assert begin(NONE, 5)[0] == 0 and begin(5, 5)[0] == 0
        assert cai.cai_array_validate(c.byref(a), 0, None) == 0
        assert cai.cai_owner_release_after(owner, NONE, None) == 0
        assert not is_loaded() and threads() == 0
        d = Driver()
        one, two = d.stream(), d.stream()
        assert begin(one, two)[0] == 0
        assert threads() == 0
        assert cai.cai_owner_create(None, cai_ctypes.DESTROY(0), c.byref(owner), None) == 0
        assert cai.cai_owner_release_after(owner, two, None) == 0
        import time
        for _ in range(1000):  # a thread names itself
            if threads() == 1:
                break
            time.sleep(0.001)
        assert threads() == 1
        """, LD_LIBRARY_PATH=driver)


# --- old --------------------------------------------------------------------------------------------------------

CASES = {
    "exchange": ["handles", "two_devices", "legacy_of_two_devices", "legacy_producer_with_pool_memory",
                 "readers_at_once_then_a_writer", "conservative", "host_waits", "stale_handle", "green_contexts",
                 "events_of_a_context_that_came_back", "no_current_context"],
    "produce": ["join_7_9_15_into_3", "release_after_work", "release_after_a_context_is_gone",
                "pointer_attributes", "checks_of_memory", "checks_of_streams", "checks_of_pieces"],
    "capture": ["both_in_one_capture", "waiting_from_inside_a_capture", "graph_keeps_an_owner",
                "captures_of_other_threads_survive", "producer_alone", "consumer_alone"],
}  # fmt: skip

# What the programs themselves use cannot be taken away.
LIBRARY_ONLY = [
    "cuGetErrorName", "cuGetErrorString", "cuDevicePrimaryCtxRelease_v2", "cuCtxGetId", "cuCtxRecordEvent",
    "cuCtxWaitEvent", "cuStreamGetCtx", "cuStreamGetCtx_v2", "cuStreamGetId", "cuStreamGetFlags", "cuStreamIsCapturing",
    "cuStreamGetCaptureInfo_v2", "cuThreadExchangeStreamCaptureMode", "cuEventDestroy_v2", "cuEventQuery",
    "cuEventSynchronize", "cuUserObjectCreate", "cuUserObjectRelease", "cuGraphRetainUserObject",
    "cuPointerGetAttributes", "cuPointerGetAttribute", "cuMemGetAddressRange_v2",
]  # fmt: skip


COUNTED = ["cuDevicePrimaryCtxRelease_v2", "cuStreamGetCtx_v2"]


@pytest.mark.parametrize("missing", LIBRARY_ONLY)
def test_old_drivers(built, missing):
    """Without a function the library does without it, or says which one is missing: it never races or crashes."""
    for program, cases in CASES.items():
        for case in cases:
            done = built.run(
                program, case, check=False, CAI_CUDA_DRIVER=str(built.shim_without(missing)), schedule="lazy"
            )
            missed = "CAI_ERR_DRIVER_FUNCTION" in done.stderr
            # Without numbers, a stream that came back cannot be distinguished from the one before.
            unnoticed = missing == "cuStreamGetId" and re.search(
                r"CAI_OK, expected CAI_ERR_STREAM|stream_id != 0", done.stderr
            )
            # Before CUDA 10.1 a thread cannot protect the captures of others from its calls.
            unprotected = missing == "cuThreadExchangeStreamCaptureMode" and re.search(
                r"CAI_ERR_CAPTURE:|: 901$", done.stderr, re.M
            )
            # A case that counts the calls of the function that is missing, or that it would lead to.
            counted = missing in COUNTED and "not true: COUNTED" in done.stderr
            expected = missed or unnoticed or unprotected or counted
            assert done.returncode == 0 or (done.returncode == 1 and expected), f"{case}: {output_of(done)}"


# --- forked -----------------------------------------------------------------------------------------------------


def test_after_a_fork(driver):
    """The child gets CAI_ERR_FORKED; functions that need no driver work there."""
    body = """
        d = Driver()
        one, two = d.stream(), d.stream()
        owner, gone = c.c_void_p(), []
        count = c.CFUNCTYPE(None, c.c_void_p)(lambda _: gone.append(1))
        assert cai.cai_owner_create(None, count, c.byref(owner), None) == 0
        if {used}:
            assert begin(one, two)[0] == 0
        child = os.fork()
        if child == 0:
            code, why = begin(one, two)
            assert code == 303 and "fork" in why, (code, why)
            assert begin(NONE, two)[0] == 0 and begin(two, two)[0] == 0
            assert cai.cai_owner_release_after(owner, two, c.byref(error)) == 303 and gone == []
            cai.cai_owner_release(owner)
            assert gone == [1]
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert begin(one, two)[0] == 0 and gone == []
    """
    for used in (True, False):
        python(body.format(used=used), LD_LIBRARY_PATH=driver)


def test_a_fork_before_the_driver(driver):
    python("""
        assert begin(NONE, 5)[0] == 0
        child = os.fork()
        d = Driver()
        one, two = d.stream(), d.stream()
        assert begin(one, two) == (0, "")
        if child == 0:
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        """, LD_LIBRARY_PATH=driver)


# --- a fork while the driver is searched --------------------------------------------------------------------


@pytest.fixture(scope="session")
def ending(tmp_path_factory):
    """The driver of ending_driver.c."""
    target = tmp_path_factory.mktemp("ending") / "libcuda.so.1"
    source = TESTS / "ending_driver.c"
    return compile(source, target, "-shared", "-g", "-O1", "-Wall", "-Wextra", "-Werror", library=None)


def test_a_fork_during_the_search(ending):
    """Another thread was starting the driver when the process forked: the child never waits for it."""
    python(f"""
        import signal, threading
        cuda = c.CDLL({str(ending)!r})
        found = []
        searcher = threading.Thread(target=lambda: found.append(begin(0x1000, 0x2000)))
        searcher.start()
        while not cuda.ending_driver_waits():
            os.sched_yield()
        owner = c.c_void_p()
        assert cai.cai_owner_create(None, cai_ctypes.DESTROY(0), c.byref(owner), None) == 0
        for _ in range(3):
            child = os.fork()
            if child == 0:
                signal.alarm(60)  # where it hangs
                for _ in range(2):
                    code, why = begin(0x1000, 0x2000)
                    assert code == 303 and "fork" in why, (code, why)
                    assert cai.cai_owner_release_after(owner, 0x2000, None) == 303
                    streams, a = (c.c_uint64 * 1)(0x3000), array(NONE)
                    assert cai.cai_array_produce(c.byref(a), streams, 1, 0x1000, 0, None) == 303
                assert begin(NONE, 0x2000) == (0, "")
                os._exit(7)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        cuda.ending_driver_go()
        searcher.join()
        assert found == [(0, "")] and begin(0x1000, 0x2000) == (0, "")
        """, CAI_CUDA_DRIVER=str(ending), ENDING_DRIVER="cuInit:wait")


# --- calls that report the failure of earlier work ------------------------------------------------------------

LATE = """
        shim = c.CDLL({shim!r})
        d = Driver()
        first, second, current = c.c_void_p(), c.c_void_p(), c.c_void_p()
        assert d.cuda.cuCtxGetCurrent(c.byref(first)) == 0
        assert d.cuda.cuDevicePrimaryCtxRetain(c.byref(second), 1) == 0
        mode = c.c_int(1)  # thread-local
        assert d.cuda.cuThreadExchangeStreamCaptureMode(c.byref(mode)) == 0
        a = array(1)  # the legacy default stream of another context
        a.context = second.value
        shim.shim_arm(1)
        codes = [cai.cai_array_consume_begin(c.byref(a), d.stream(), READ, c.byref(error)),
                 cai.cai_array_synchronize(c.byref(a), READ, c.byref(error))]
        assert shim.shim_fired() and {codes}, codes
        mode = c.c_int(0)
        assert d.cuda.cuThreadExchangeStreamCaptureMode(c.byref(mode)) == 0 and mode.value == 1
        assert d.cuda.cuCtxGetCurrent(c.byref(current)) == 0 and current.value == first.value
        assert d.cuda.cuCtxPopCurrent_v2(c.byref(current)) == 0 and current.value == first.value
        assert d.cuda.cuCtxGetCurrent(c.byref(current)) == 0 and current.value is None
"""


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize(
    ("function", "codes"),
    [
        # The call fails, for the driver's error may mean anything; the caller's state is as it was.
        ("cuCtxPushCurrent_v2", "max(codes) == 306"),
        ("cuCtxPopCurrent_v2", "max(codes) == 0"),
        ("cuThreadExchangeStreamCaptureMode", "True"),
    ],
)
def test_late_errors(built, function, number, codes):
    if function.startswith("cuThread") and number == 3:
        pytest.skip("two calls only")
    python(
        LATE.format(shim=str(built.shim), codes=codes),
        LD_LIBRARY_PATH=built.driver,
        CAI_CUDA_DRIVER=str(built.shim),
        CUDASIM_DEVICES="2",
        SHIM=f"{function}:{number}:+700",
    )


@pytest.mark.parametrize("function", ["cuUserObjectCreate", "cuGraphRetainUserObject"])
def test_late_errors_of_graphs(built, function):
    """The call did its work, and reports a failure."""
    python(f"""
        import time
        shim = c.CDLL({str(built.shim)!r})
        d = Driver()
        owner, gone, graph = c.c_void_p(), [], c.c_void_p()
        count = c.CFUNCTYPE(None, c.c_void_p)(lambda _: gone.append(1))
        assert cai.cai_owner_create(None, count, c.byref(owner), None) == 0
        stream = c.c_void_p(d.stream())
        assert d.cuda.cuStreamBeginCapture_v2(stream, 0) == 0
        shim.shim_arm(1)
        code = cai.cai_owner_release_after(owner, stream.value, c.byref(error))
        shim.shim_arm(0)
        assert (code != 0) == (shim.shim_fired() != 0), error.message
        # What the graph has is not this caller's to release.
        assert shim.shim_count(b"cuUserObjectRelease") == {int(function == "cuUserObjectCreate")}
        if code:
            assert cai.cai_owner_release_after(owner, stream.value, c.byref(error)) == 0
        assert d.cuda.cuStreamEndCapture(stream, c.byref(graph)) == 0
        assert gone == []
        assert d.cuda.cuGraphDestroy(graph) == 0
        for _ in range(1000):
            if gone:
                break
            time.sleep(0.01)
        assert gone == [1], gone
        """, LD_LIBRARY_PATH=built.driver, CAI_CUDA_DRIVER=str(built.shim), SHIM=f"{function}:1:+700")


# --- release_after needs --------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["cuEventQuery", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2"])
def test_release_after_says_what_it_needs(built, missing):
    """An owner that could never be released stays the caller's."""
    python(f"""
        d = Driver()
        owner, gone = c.c_void_p(), []
        count = c.CFUNCTYPE(None, c.c_void_p)(lambda _: gone.append(1))
        assert cai.cai_owner_create(None, count, c.byref(owner), None) == 0
        assert cai.cai_owner_release_after(owner, d.stream(), c.byref(error)) == 302
        assert b"{missing}" in error.message, error.message
        assert gone == []
        cai.cai_owner_release(owner)
        assert gone == [1]
        """, LD_LIBRARY_PATH=built.driver, CAI_CUDA_DRIVER=str(built.shim_without(missing)))


# --- going away -------------------------------------------------------------------------------------------------


def test_late_calls(built, tmp_path):
    """Calls from handlers that run after the driver's own: a status, no crash."""
    source = tmp_path / "late.c"
    source.write_text("""
        #include "sync_test.h"
        static CUstream one, two;
        static cai_array array;
        static cai_owner *owner;
        static void late(void) {
            cai_status status = cai_array_consume_begin(&array, as_value(two), CAI_ACCESS_READ, NULL);
            if (status != CAI_ERR_DRIVER_EXIT) _exit(3);
            status = cai_owner_release_after(owner, as_value(two), NULL);
            if (status != CAI_ERR_DRIVER_EXIT) _exit(4);
            cai_owner_release(owner);
            puts("late");
        }
        int main(void) {
            atexit(late); /* registered first, so it runs last */
            set_up();
            one = new_stream();
            two = new_stream();
            array = array_of(new_buffer(), as_value(one));
            if (cai_array_consume_begin(&array, as_value(two), CAI_ACCESS_READ, NULL) != CAI_OK) return 1;
            if (cai_owner_create(NULL, NULL, &owner, NULL) != CAI_OK) return 1;
            return 0;
        }
        """)
    program = built.compile(source, tmp_path / "late")
    done = run(program, env={"LD_LIBRARY_PATH": built.driver}, check=False)
    assert (done.returncode, done.stdout) == (0, "late\n"), output_of(done)


# --- what users override ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "ignored", "policy"),
    [("", False, 0), ("1", False, 0), ("ignore", True, 16), ("0", True, 48), ("export-none", False, 32),
     ("ignore, conservative", True, 80)],
)  # fmt: skip
def test_environment(driver, text, ignored, policy):
    python(f"""
        d = Driver()
        found = c.c_uint32()
        assert cai.cai_sync_policy_get(c.byref(found), None) == 0 and found.value == {policy}
        one, two = d.stream(), d.stream()
        assert begin(one, two) == (0, "")
        assert begin(0x10 if {ignored} else one, two) == (0, "")  # a handle that must not be used
        streams, a = (c.c_uint64 * 1)(one), array(0)
        assert cai.cai_array_produce(c.byref(a), streams, 1, one, 0, None) == 0
        assert a.stream == (NONE if {policy} & 32 else one)
        assert cai.cai_sync_policy_set(0, None) == 0
        assert cai.cai_sync_policy_get(c.byref(found), None) == 0 and found.value == 0
        """, LD_LIBRARY_PATH=driver, CAI_SYNC=text)


def test_environment_with_a_typing_error(driver):
    python("""
        d = Driver()
        code, why = begin(d.stream(), d.stream())
        assert code == 603 and '"ingore"' in why and "ignore" in why, why
        assert begin(NONE, 5)[0] == 0
        assert cai.cai_sync_policy_set(0, None) == 0
        assert begin(d.stream(), d.stream())[0] == 0
        """, LD_LIBRARY_PATH=driver, CAI_SYNC="ingore")


def test_messages_name_the_call(driver):
    """Driver errors read `[call][NAME] text`, and carry the driver's number."""
    python("""
        d = Driver()
        one, two = d.stream(), d.stream()
        code, why = begin(one, two)
        assert code == 310 and error.driver_code == 400 and error.field == b"driver"
        assert "[cuEventRecord][CUDA_ERROR_INVALID_HANDLE]" in why, why
        assert begin(one, two)[0] == 0
        """, LD_LIBRARY_PATH=driver, CUDASIM_FAIL="cuEventRecord:1=400")


CALLS_BACK = """
#include <dlfcn.h>
#include <cai/cai.h>

/* A driver that calls the library while it is loaded and started, as tools inside of one may. */
static cai_status during[2];
static cai_status look(void) {
    cai_driver_info info;
    cai_status (*get)(cai_driver_info *, cai_error *) =
        (cai_status (*)(cai_driver_info *, cai_error *))dlsym(RTLD_DEFAULT, "cai_driver_info_get");
    return get(&info, NULL);
}
__attribute__((constructor)) static void load(void) { during[0] = look(); }
int cuInit(unsigned flags) { during[1] = look(); return 100; }
cai_status *seen(void) { return during; }
"""


def test_calls_from_inside_of_the_driver(tmp_path, library_path):
    """A call from code that the search itself runs gets a status; it does not wait for itself."""
    (tmp_path / "driver.c").write_text(CALLS_BACK)
    driver = compile(tmp_path / "driver.c", tmp_path / "libdriver.so", "-shared", library=None)
    code = f"""if True:
        import ctypes as c
        library = c.CDLL({library_path!r}, mode=c.RTLD_GLOBAL)
        info = c.create_string_buffer(512)
        outer = library.cai_driver_info_get(info, None)
        seen = c.CDLL({str(driver)!r}).seen
        seen.restype = c.POINTER(c.c_int32)
        print(outer, seen()[0], seen()[1])
        """
    done = run(sys.executable, "-c", code, env={"CAI_CUDA_DRIVER": str(driver)}, timeout=60)
    assert done.stdout == "301 301 301\n", done.stdout + done.stderr


# --- more rights than the user ------------------------------------------------------------------------------------

RIGHTS = """
#include <cai/cai.h>
#include <stdio.h>
int main(void) {
    uint32_t policy = 0;
    cai_driver_info info;
    cai_error error = {0};
    cai_status synced = cai_sync_policy_get(&policy, NULL);
    cai_status found = cai_driver_info_get(&info, &error);
    printf("%d %u %d %s\\n", (int)synced, (unsigned)policy, (int)found, error.message);
}
"""


SIMULATED = """
#include <cuda.h>
#include <stdio.h>
int main(void) {
    int devices = 0;
    CUmodule module;
    CUfunction function;
    CUcontext context;
    if (cuInit(0) || cuDeviceGetCount(&devices) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context)) return 1;
    (void)(cuModuleLoadData(&module, "") || cuModuleGetFunction(&function, module, "absent"));
    printf("%d\\n", devices);
}
"""


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root makes a program of another user")
@pytest.mark.parametrize("what", ["library", "simulator"])
def test_set_user_id_programs_ignore_the_environment(driver, what):
    """Their user could otherwise name a library that runs with the rights of their owner, or a file that they write."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        folder.chmod(0o777)
        if what == "library":
            text, library, name = RIGHTS, LIBRARY, "libcai.so.1"
            variables = {"CAI_CUDA_DRIVER": "/nowhere/another.so", "CAI_SYNC": "conservative"}
            expected = "0 64 .*/nowhere/another.so", "0 0 (?!.*/nowhere)"
        else:
            text, library, name = SIMULATED, pathlib.Path(driver, "libcuda.so.1"), "libcuda.so.1"
            variables = {"CUDASIM_DEVICES": "3", "CUDASIM_MISSING_LOG": str(folder / "log")}
            expected = "3 kernel absent", "1 $"
        source, program = folder / "rights.c", folder / "rights"
        source.write_text(text)
        shutil.copy(library, folder / name)
        (folder / name).chmod(0o755)
        compile(source, program, "-isystem", CUDA, folder / name, f"-Wl,-rpath,{folder}", library=None)

        def output(mode):
            os.chown(program, 65533, 65533)
            program.chmod(mode)
            done = subprocess.run([program], user=65534, group=65534, extra_groups=[], env=variables, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            log = folder / "log"
            written = log.read_text() if log.exists() else ""
            log.unlink(missing_ok=True)
            return f"{done.stdout.strip()} {written}".strip("\n")

        plain = output(0o755)
        assert re.match(expected[0], plain), plain
        if os.statvfs(folder).f_flag & os.ST_NOSUID:
            pytest.skip("the file system has no set-user-id programs")
        more = output(0o4755)
        assert re.match(expected[1], more), more


def test_the_order_of_the_checks(driver):
    """The checks that call the driver, and one before and behind them, are tried in the order of the manual: of two that
    fail, the first is reported."""
    python(f"""
        import re
        text = open({str(ROOT / "include/cai/array.h")!r}).read().split("in this order:")[1].split("Thread safety")[0]
        order = re.findall("CAI_ERR_[A-Z_]+", text)
        cai.cai_status_name.restype = c.c_char_p
        cuda, first = Driver().cuda, c.c_void_p()
        cuda.cuCtxGetCurrent(c.byref(first))
        def made(call, *arguments):
            value = c.c_void_p()
            assert getattr(cuda, call)(c.byref(value), *arguments) == 0, call
            return value.value
        memory, stream = made("cuMemAlloc_v2", 16), made("cuStreamCreate", 0)
        no_peer, id = made("cuDevicePrimaryCtxRetain", 1), c.c_uint64()
        assert cuda.cuStreamGetId(c.c_void_p(stream), c.byref(id)) == 0
        def capture():
            assert cuda.cuStreamBeginCapture_v2(c.c_void_p(stream), 0) == 0
        mask = array(stream)
        mask.typestr, mask.data, mask.shape = b"<f4", memory, c.cast(shape, type(mask.shape))
        large, steps = (c.c_int64 * 1)(1000), (c.c_int64 * 1)(2)
        # The members that break a rule, and what has to be done before.
        BREAKS = {{
            "ALIGNMENT": dict(strides=c.cast(steps, type(mask.strides))),
            "NOT_DEVICE_POINTER": dict(data=c.addressof(data) & ~15),
            "DEVICE_MISMATCH": dict(device=cai_ctypes.Device(2, 1)),
            "NOT_ACCESSIBLE": dict(do=lambda: cuda.cuCtxSetCurrent(c.c_void_p(no_peer))),
            "OUT_OF_ALLOCATION": dict(shape=c.cast(large, type(mask.shape))),
            "STREAM_HANDLE": dict(stream=0x1230),
            "STREAM_STALE": dict(stream=stream, stream_id=id.value + 1),
            "STREAM_THREAD": dict(stream=2, stream_id=id.value),
            "STREAM_CONTEXT": dict(stream=stream, context=no_peer),
            "NO_CONTEXT": dict(stream=1, do=lambda: cuda.cuCtxSetCurrent(None)),
            "CAPTURE_LEGACY": dict(stream=1, do=capture),
            "MASK_TYPE": dict(mask=c.cast(c.pointer(mask), type(mask.mask))),
        }}
        def status(*breaks):
            a = array(stream)
            a.data, a.device = memory, cai_ctypes.Device(2, 0)
            cuda.cuCtxSetCurrent(first)
            for one in breaks:
                for member, value in one.items():
                    value() if member == "do" else setattr(a, member, value)
            found = cai.cai_array_validate(c.byref(a), 15, None)
            cuda.cuCtxSetCurrent(first)
            cuda.cuStreamEndCapture(c.c_void_p(stream), c.byref(c.c_void_p()))
            return cai.cai_status_name(found).decode().removeprefix("CAI_ERR_")
        assert status() == "CAI_OK"
        names = sorted(BREAKS, key=lambda name: order.index("CAI_ERR_" + name))
        # A green context that was destroyed is a case of capi-tests/sync/exchange.c.
        checks = order[order.index("CAI_ERR_ALIGNMENT") : order.index("CAI_ERR_MASK_VERSION")]
        assert [name for name in checks if name[8:] not in BREAKS] == ["CAI_ERR_STREAM_DETACHED"]
        assert [status(BREAKS[name]) for name in names] == names
        wrong = []
        for index, name in enumerate(names):
            for second in names[index + 1 :]:
                one, other = BREAKS[name], BREAKS[second]
                # Two that need different values of one member exclude each other.
                if all(one[member] == other[member] for member in one.keys() & other.keys()):
                    found = status(one, other)
                    if found != name:
                        wrong.append((name, second, found))
        assert not wrong, wrong
        """, CUDASIM_DEVICES="2", LD_LIBRARY_PATH=driver)
