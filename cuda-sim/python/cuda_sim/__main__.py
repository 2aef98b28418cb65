"""`python -m cuda_sim`: the command `cuda-sim`."""

from cuda_sim import _cuda_sim

_cuda_sim()
