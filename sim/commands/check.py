"""`evenhand sim check`: whether files are scenarios, without running them."""

import sys

from actors.errors import InvalidConfig
from sim.library import located
from sim.reading import load_scenario

__all__ = ["check"]

BAD_INPUT = 2


def check(*files: str) -> int:
    """Read scenarios, the files that they name and the code that they use, and say what is wrong with them.

    Parameters
    ----------
    files
        The scenarios: TOML files, or names of the library.
    """
    sys.path.insert(0, "")
    if not files:
        raise InvalidConfig("check needs a FILE at least")
    status = 0
    for file in files:
        try:
            path = located(file)
            scenario = load_scenario(path)
        except InvalidConfig as error:
            status = BAD_INPUT
            for line in str(error).split("\n"):
                print(f"evenhand: {line}", file=sys.stderr)
        else:
            users, kinds = len(scenario.each_user()), len(scenario.each_kind())
            print(f"{path}: a scenario: {users} users, {kinds} kinds, {len(scenario.checks)} checks")
    return status
