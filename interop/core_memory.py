"""Memory of cuda.core on the simulated device."""

import pytest
from cuda.core import Device


@pytest.fixture
def device():
    device = Device(0)
    device.set_current()
    return device


@pytest.fixture
def memory(device):
    stream = device.create_stream()
    buffer = device.allocate(4096, stream=stream)
    buffer.fill(1, stream=stream)
    stream.sync()
    yield buffer, stream
    buffer.close(stream)
    stream.sync()
