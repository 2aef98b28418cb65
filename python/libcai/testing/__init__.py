"""Checks for the authors of types that exchange GPU arrays.

    check_producer(make, on=..., late=...)
    check_consumer(take, on=...)

`python -m libcai check MODULE:EXPRESSION` does the first. Nothing but the standard library is needed; the order of
streams is checked under cuda-sim. `pytest --pyargs libcai.testing` tests the checks themselves.
"""

from ._consumer import check_consumer
from ._producer import Faults, check_producer
from ._report import Report, Result

__all__ = ["Faults", "Report", "Result", "check_consumer", "check_producer"]
