"""Checks for the authors of types that exchange GPU arrays.

    check_producer(make, on=..., late=...)

`python -m libcai check MODULE:EXPRESSION` does the same. Nothing but the standard library is needed; the order of
streams is checked under cuda-sim. `pytest --pyargs libcai.testing` tests the checks themselves.
"""

from ._producer import Faults, check_producer
from ._report import Report, Result

__all__ = ["Faults", "Report", "Result", "check_producer"]
