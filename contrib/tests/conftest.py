"""The adapters' tests use helpers of the library's own. ../rules.mk says which run where."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/python"))
