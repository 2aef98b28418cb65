"""Under `cuda-sim run`, as interop/, whose table of libraries these tests use."""

import sys

import pytest
from commands import ROOT
from race_checker import no_races, simulator  # noqa: F401

sys.path.insert(0, str(ROOT / "interop"))


@pytest.fixture(params=["cpu", "cuda"])
def device(request):
    yield request.param
    if request.param == "cuda":
        import torch

        torch.cuda.synchronize()
