"""The library of scenarios: what is in it, by which names it is reached, and that it is in the wheel."""

import tomllib
from pathlib import Path

import pytest

from actors import InvalidConfig
from sim import library
from sim.library import listing, located

ROOT = Path(__file__).parent.parent


def test_the_library_is_every_scenario_of_the_tree_with_its_first_comment() -> None:
    found = {listed.path: listed for listed in listing()}
    assert sorted(found) == sorted((ROOT / "scenarios").rglob("*.toml"))
    for path, listed in found.items():
        first = path.read_text(encoding="utf-8").splitlines()[0]
        assert f"# {listed.promise}" == first
        assert (listed.section, listed.name) == (path.parent.name, path.stem)


def test_names_are_enough_because_none_is_there_twice() -> None:
    names = [listed.name for listed in listing()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", ["noisy_neighbour", "fast/noisy_neighbour"])
def test_a_scenario_is_found_by_its_name(name: str) -> None:
    assert located(name) == ROOT / "scenarios" / "fast" / "noisy_neighbour.toml"


def test_a_file_goes_before_a_name_and_what_looks_like_a_file_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert located("none.toml") == Path("none.toml")
    (tmp_path / "noisy_neighbour").write_text("# mine", encoding="utf-8")
    assert located("noisy_neighbour") == Path("noisy_neighbour")


def test_a_name_that_is_not_there_gets_a_hint() -> None:
    with pytest.raises(InvalidConfig) as refused:
        located("noisy_neighbor")
    assert str(refused.value) == (
        "noisy_neighbor: must be a scenario file, or a name that `evenhand sim list` shows (did you mean 'noisy_neighbour'?)"
    )


def test_a_wheel_has_the_library_inside_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    included = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"]
    assert included["wheel"]["force-include"] == {"scenarios": "sim/scenarios"}
    # As it lies when installed: the package with the folder in it, and no tree around it.
    section = tmp_path / "sim" / "scenarios" / "fast"
    section.mkdir(parents=True)
    (section / "only_one.toml").write_text("# The only one.\n", encoding="utf-8")
    monkeypatch.setattr(library, "__file__", str(tmp_path / "sim" / "library.py"))
    assert [(listed.name, listed.promise) for listed in listing()] == [("only_one", "The only one.")]
