"""The race checker of the simulated driver, asked from within a process: fixtures for a `conftest.py`."""

import ctypes

import pytest


class Api(ctypes.Structure):
    """As cudasim_api in cudasim.h."""

    _fields_ = [("struct_size", ctypes.c_uint32), ("version", ctypes.c_uint32)] + [
        (name, ctypes.c_void_p)
        for name in (
            "register_kernels launch host_access hb_before hb_after suballoc subfree name_stream label races step "
            "host_address take_report fail_kernel"
        ).split()
    ]


class Simulator:
    def __init__(self):
        driver = ctypes.CDLL("libcuda.so.1")
        driver.cudasim_get_api.restype = ctypes.POINTER(Api)
        self.api = driver.cudasim_get_api(1).contents

    def take_report(self):
        """How many races were found since the last call, and what they are."""
        function = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t)(self.api.take_report)
        text = ctypes.create_string_buffer(1 << 16)
        return function(text, len(text)), text.value.decode()

    def host_read(self, address, nbytes):
        function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32, ctypes.c_char_p)
        function(self.api.host_access)(address, nbytes, 1, None)


class Driver(Simulator):
    """The driver, with a context that is current."""

    def __init__(self):
        super().__init__()
        self.cuda, self.context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), 0)
        self.call("cuCtxSetCurrent", self.context)

    def call(self, name, *arguments):
        code = getattr(self.cuda, name)(*arguments)
        assert code == 0, f"{name}: {code}"

    def stream(self):
        """One that waits for no default stream."""
        stream = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(stream), 1)
        return stream.value


@pytest.fixture(scope="session")
def simulator():
    return Simulator()


@pytest.fixture(autouse=True)
def no_races(simulator):
    """A correct program is silent. Tests that provoke a race take its report."""
    yield
    count, text = simulator.take_report()
    assert count == 0, text
