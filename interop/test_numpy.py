"""NumPy reads host memory only."""

import numpy as np
import pytest
from cai_python import give, make


def test_numpy_does_not_take_device_memory():
    with make() as array:
        with pytest.raises((TypeError, ValueError, RuntimeError, BufferError)):
            np.from_dlpack(give(array))
        with pytest.raises(TypeError, match="expected host memory: copy it"):
            np.asarray(give(array))
