"""Assertions that XGBoost's package carries (`xgboost.testing`), of what goes through its reader of array interfaces. They run
on the host: this build has no CUDA."""

import inspect

import numpy as np
import pytest
import xgboost
from xgboost.testing import (
    basic_models, data, data_iter, intercept, multi_target, ordinal, predict, quantile_dmatrix, ranking, updater, utils, with_skl,
)  # fmt: skip

MODULES = basic_models, data_iter, intercept, multi_target, ordinal, predict, quantile_dmatrix, ranking, updater, with_skl
# Train for ten seconds and more.
SLOW = "run_deterministic", "run_specified_cat", "run_training_continuation"


def of_a_device():
    for module in MODULES:
        for name, function in vars(module).items():
            own = inspect.isfunction(function) and function.__module__ == module.__name__ and name.startswith(("run_", "check_"))
            if own and name not in SLOW and list(inspect.signature(function).parameters) == ["device"]:
                yield pytest.param(function, id=f"{module.__name__.split('.')[-1]}.{name}")


@pytest.mark.parametrize("function", list(of_a_device()))
def test_of_a_device(function):
    function("cpu")


@pytest.mark.parametrize("matrix", [xgboost.DMatrix, xgboost.QuantileDMatrix])
def test_types(matrix):
    for first, second in data.np_dtypes(64, 16):
        assert utils.predictor_equal(matrix(first), matrix(second))


@pytest.mark.parametrize("matrix", [xgboost.DMatrix, xgboost.QuantileDMatrix])
def test_base_margin(matrix):
    data.run_base_margin_info(np.asarray, matrix, "cpu")


def test_infinity():
    data.check_inf(np.random.default_rng(0))


@pytest.mark.parametrize("tree_method", ["hist", "approx"])
def test_cuts(tree_method):
    updater.check_get_quantile_cut(tree_method, "cpu")


@pytest.mark.parametrize("tree_method", ["hist", "approx"])
@pytest.mark.parametrize("extmem", [False, True])
def test_categories(tree_method, extmem):
    options = {"device": "cpu", "tree_method": tree_method, "extmem": extmem}
    updater.check_categorical_ohe(rows=64, cols=5, rounds=3, cats=9, **options)
    updater.check_categorical_missing(64, 5, 9, **options)
