"""Hypothesis profiles: `default` for every run, `explore` (make explore) for a long look."""

import os

from hypothesis import HealthCheck, settings

_LENIENT = [HealthCheck.too_slow, HealthCheck.data_too_large]

settings.register_profile("default", max_examples=100, deadline=None, suppress_health_check=_LENIENT, print_blob=True)
settings.register_profile("explore", max_examples=3_000, deadline=None, suppress_health_check=_LENIENT, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
