"""`python -m cuda_sim`: the command `cuda-sim`."""

from cuda_sim import _cuda_sim

if __name__ == "__main__":
    _cuda_sim()
