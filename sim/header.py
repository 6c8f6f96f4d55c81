"""What is run, with every option as it came out: the first line of a trace and of a report."""

from typing import Any

import attrs

from actors.policies import ORDERING, SHARING
from actors.trace import Header
from actors.version import installed_version
from sim.interleaving import interleaving_in_words
from sim.scenario import Scenario

__all__ = ["header_of", "options_of"]


def options_of(scenario: Scenario) -> dict[str, Any]:
    """Every option of the run, defaults included, as plain data.

    >>> from sim import Scenario
    >>> options = options_of(Scenario(name="demo", duration_seconds=10.0, kinds=(), users=()))
    >>> options["workers"], options["ordering"], options["ordering_options"]
    (8, 'aging', {'aging_seconds': 60.0})
    """
    runtime = scenario.runtime
    options: dict[str, Any] = {
        "workers": len(scenario.worker_classes()),
        "sharing": SHARING.name_of(runtime.sharing),
        "sharing_options": _plain(runtime.sharing),
        "ordering": ORDERING.name_of(runtime.ordering),
        "ordering_options": _plain(runtime.ordering),
    }
    options |= {name: value for name, value in _plain(runtime).items() if name not in options}
    options |= {
        "duration_seconds": scenario.duration_seconds,
        "warmup_seconds": scenario.warmup_seconds,
        "service_draws": scenario.service_draws,
        "interleaving": interleaving_in_words(scenario.interleaving),
        "weights": {user.name: user.weight for user in scenario.each_user() if user.weight != 1.0},
    }
    if scenario.workload is not None:
        options["workload"] = _plain(scenario.workload)
    return options


def header_of(scenario: Scenario) -> Header:
    """The first line of the run's trace."""
    return Header(scenario=scenario.name, seed=scenario.seed, version=installed_version(), options=options_of(scenario))


def _plain(thing: Any) -> dict[str, Any]:
    """Its fields, if it has any that can be told from outside; a policy of one's own need not."""
    if not attrs.has(type(thing)):
        return {}
    fields = {field.name: getattr(thing, field.name) for field in attrs.fields(type(thing))}
    return {name: value if isinstance(value, _PLAIN) else repr(value) for name, value in fields.items()}


_PLAIN = (str, int, float, bool, type(None), list, tuple, dict)
