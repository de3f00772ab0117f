"""Settings of all tests."""

from __future__ import annotations

import os
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("project", deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
settings.load_profile("project")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import torch
    import transformers

transformers.utils.logging.set_verbosity_error()
torch.set_num_threads(max(1, len(os.sched_getaffinity(0))))


@pytest.fixture(scope="session")
def embedded_pair():  # type: ignore[no-untyped-def]
    """The embedded pair in float32, in which greedy decoding is exact."""
    from ouroboros_core import load_pair

    return load_pair(dtype="float32", device="cpu")
