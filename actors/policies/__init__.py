"""The policies by name: `weighted_fair`, `{ policy = "aging", aging_seconds = 30 }`, or a user's own `module:Class`."""

import importlib
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import attrs

from actors.errors import InvalidConfig
from actors.policies.deficit import Deficit
from actors.policies.fair import WeightedFair
from actors.policies.noisy import NoisyNeighbour
from actors.policies.ordering import Accumulating, Aging, Arrival, Deadline, NaiveScore, OrderingPolicy, Strict
from actors.policies.sharing import Capped, Fifo, SharingPolicy
from actors.policies.sharing import Strict as StrictSharing
from actors.policies.turns import Lottery, RoundRobin

__all__ = ["ORDERING", "SHARING", "Registry"]

P = TypeVar("P")


@attrs.frozen
class Registry(Generic[P]):
    """The policies of one sort that have a name, and the way to any other.

    >>> ORDERING.make({"policy": "aging", "aging_seconds": 30})
    Aging(aging_seconds=30)
    >>> ORDERING.make("actors.policies.ordering:Strict")
    Strict()
    """

    sort: str
    protocol: Any
    classes: Mapping[str, type[Any]]

    def make(self, spec: object) -> P:
        """The policy meant by a name, a `module:Class`, a table with `policy` and options, or a ready object."""
        if isinstance(spec, str):
            return self._build(spec, {})
        if isinstance(spec, Mapping):
            options = dict(spec)
            if not isinstance(name := options.pop("policy", None), str):
                raise InvalidConfig(f"policy must name the {self.sort} policy, got {spec!r}")
            return self._build(name, options)
        return self._checked(spec)

    def name_of(self, policy: P) -> str:
        """The name a policy goes by: its registered one, else its `module:Class`."""
        for name, known in self.classes.items():
            if type(policy) is known:
                return name
        return f"{type(policy).__module__}:{type(policy).__qualname__}"

    def _build(self, name: str, options: dict[str, Any]) -> P:
        found = self.classes.get(name) or self._load(name)
        if attrs.has(found):
            self._refuse_unknown(name, found, options)
        try:
            made = found(**options)
        except InvalidConfig:
            raise
        except Exception as error:
            raise InvalidConfig(f"{self.sort} policy {name!r} refused its options {options!r}: {error}") from error
        return self._checked(made)

    def _refuse_unknown(self, name: str, found: type[Any], options: dict[str, Any]) -> None:
        known = [field.alias for field in attrs.fields(found)]
        names = ", ".join(sorted(known)) or "none"
        unknown = [
            f"{key} must be an option of {name} ({names}){suggestion(key, known)}"
            for key in options
            if key not in known
        ]
        if unknown:
            raise InvalidConfig("\n".join(unknown))

    def _load(self, name: str) -> type[Any]:
        module, colon, attribute = name.partition(":")
        if not (module and colon and attribute):
            known = sorted(self.classes)
            hint = suggestion(name, known)
            raise InvalidConfig(
                f"{self.sort} policy must be one of {', '.join(known)} or 'module:Class', got {name!r}{hint}"
            )
        try:
            found = getattr(importlib.import_module(module), attribute)
        except Exception as error:
            # Whatever a user's module raises when it is run; and TypeError for a relative name.
            raise InvalidConfig(f"{self.sort} policy must be importable, got {name!r}: {error}") from error
        if not isinstance(found, type):
            raise InvalidConfig(f"{self.sort} policy must be a class, got {name!r}: {found!r}")
        return found

    def _checked(self, policy: Any) -> P:
        if isinstance(policy, type):
            raise InvalidConfig(f"{self.sort} policy must be an object, got the class {policy.__name__}: call it")
        if not isinstance(policy, self.protocol):
            wanted = ", ".join(sorted(name for name in vars(self.protocol) if not name.startswith("_")))
            raise InvalidConfig(f"{self.sort} policy must have {wanted}, got {policy!r}")
        made: P = policy
        return made


def suggestion(word: str, known: list[str]) -> str:
    """What a misspelt word was probably meant to be, ready to append to an error.

    >>> suggestion("wieght", ["name", "weight"])
    " (did you mean 'weight'?)"
    """
    from difflib import get_close_matches

    close = get_close_matches(word, known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


SHARING: Registry[SharingPolicy] = Registry(
    "sharing",
    SharingPolicy,
    {
        "weighted_fair": WeightedFair,
        "deficit": Deficit,
        "round_robin": RoundRobin,
        "lottery": Lottery,
        "fifo": Fifo,
        "strict": StrictSharing,
        "noisy_neighbour": NoisyNeighbour,
        "capped": Capped,
    },
)
"""The sharing policies by name."""

ORDERING: Registry[OrderingPolicy] = Registry(
    "ordering",
    OrderingPolicy,
    {
        "aging": Aging,
        "accumulating": Accumulating,
        "strict": Strict,
        "fifo": Arrival,
        "deadline": Deadline,
        "naive_score": NaiveScore,
    },
)
"""The ordering policies by name."""
