"""The house rules, as a test over the tree."""

import ast
import inspect
import re
import subprocess
import types
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

import actors
import sim
from sim import load_scenario, simulate

ROOT = Path(__file__).parent.parent
PACKAGES = ("actors", "sim")
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
CORES = [
    *(ROOT / "actors" / f"{name}.py" for name in ("queue", "shard", "scheduler", "supervisor", "moves", "lanes")),
    *sorted((ROOT / "actors" / "policies").rglob("*.py")),
]
SCENARIOS = sorted((ROOT / "scenarios").rglob("*.toml"))

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
SCENARIO_LINES_MAX = 59


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def imported(path: Path) -> set[str]:
    """The full names of all modules that a file imports, wherever in the file it does."""
    names: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports by a relative name"
            names.add(node.module or "")
            # `from actors import moves` imports actors.moves.
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def packages_of(names: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in names}


def in_the_tree() -> list[Path]:
    """Every file that is, or is about to be, under version control."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [path for line in listed.stdout.splitlines() if (path := ROOT / line).is_file()]


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_no_module_is_too_long(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= FILE_LINES_MAX


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_no_function_is_too_long(path: Path) -> None:
    lengths = {
        f"{node.name}, line {node.lineno}": (node.end_lineno or 0) - node.lineno + 1
        for node in ast.walk(tree_of(path))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
    assert {name: length for name, length in lengths.items() if length > FUNCTION_LINES_MAX} == {}


@pytest.mark.parametrize("path", sorted((ROOT / "actors").rglob("*.py")), ids=name_of)
def test_the_runtime_never_imports_the_simulator(path: Path) -> None:
    assert "sim" not in packages_of(imported(path))


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_only_one_file_may_touch_trios_private_names(path: Path) -> None:
    if path != ROOT / "sim" / "determinism.py":
        assert not re.search(r"\btrio(\.\w+)*\._", path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_there_is_no_pickle_and_no_eval(path: Path) -> None:
    assert not packages_of(imported(path)) & {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve"}
    called = {
        node.func.id
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not called & {"eval", "exec", "compile", "__import__"}


def with_all_it_imports(path: Path) -> Iterator[Path]:
    """A module and every module of `actors` that comes with it, except packages' own `__init__`."""
    seen, waiting = set(), [path]
    while waiting:
        here = waiting.pop()
        if here in seen:
            continue
        seen.add(here)
        yield here
        for name in imported(here):
            if name.startswith("actors."):
                waiting += [found for found in (ROOT.joinpath(*name.split(".")).with_suffix(".py"),) if found.exists()]


@pytest.mark.parametrize("path", CORES, ids=name_of)
def test_cores_are_pure_in_all_that_they_import(path: Path) -> None:
    assert path.exists()
    impure = {"trio", "time", "random", "datetime", "secrets", "uuid", "os", "socket", "threading", "asyncio"}
    found = {name_of(module): packages_of(imported(module)) & impure for module in with_all_it_imports(path)}
    assert {module: names for module, names in found.items() if names} == {}


def test_an_import_that_hides_in_a_function_is_found(tmp_path: Path) -> None:
    path = tmp_path / "core.py"
    path.write_text("def handle():\n    from time import monotonic\n    import os.path\n    return monotonic()\n")
    assert packages_of(imported(path)) == {"time", "os"}


def documented_constants(path: Path) -> set[str]:
    """The names that are assigned at the top of a module with a docstring below."""
    found: set[str] = set()
    for node, following in pairwise(tree_of(path).body):
        if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            found.update(target.id for target in targets if isinstance(target, ast.Name))
    return found


CONSTANTS = {name for path in MODULES for name in documented_constants(path)}
PUBLIC = [(package, name) for package in (actors, sim) for name in package.__all__]


@pytest.mark.parametrize(("package", "name"), PUBLIC, ids=lambda value: getattr(value, "__name__", value))
def test_every_public_name_exists_and_has_a_docstring(package: types.ModuleType, name: str) -> None:
    public = getattr(package, name)
    if isinstance(public, type):
        # Its own, not one that is inherited.
        assert (vars(public).get("__doc__") or "").strip()
    elif callable(public):
        assert (public.__doc__ or "").strip()
    else:
        assert name in CONSTANTS


@pytest.mark.parametrize("package", [actors, sim], ids=lambda package: package.__name__)
def test_a_package_exports_what_it_lists_and_nothing_else(package: types.ModuleType) -> None:
    assert len(set(package.__all__)) == len(package.__all__)
    exported = {
        name for name, value in vars(package).items() if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert exported == set(package.__all__)


def test_there_are_scenarios() -> None:
    assert SCENARIOS


@pytest.mark.parametrize("path", SCENARIOS, ids=name_of)
def test_a_scenario_says_what_it_is_about_is_short_and_passes(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert re.match(r"# \S", lines[0])
    assert len(lines) <= SCENARIO_LINES_MAX
    result = simulate(load_scenario(path))
    assert result.verdict == "pass", [check for check in result.checks if not check.passed]


@pytest.mark.parametrize("name", ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "LICENSE"])
def test_the_documents_exist(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8").strip()


# In pieces, so that this file does not break its own rule.
FOLDERS = ("work", "root", "tmp", "home")
MACHINE_PATH = re.compile(rf"(?<![\w.\])}}>-])/(?:{'|'.join(FOLDERS)})(?![\w-])")


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_path_of_a_machine_is_told_from_other_words(folder: str) -> None:
    for text in (f"cd /{folder}/main", f"'/{folder}'", f"see file:///{folder}/x."):
        assert MACHINE_PATH.search(text), text
    for text in (f"tenant/{folder}", f"/{folder}ers", f"example.org/{folder}/x", f"./{folder}", folder):
        assert not MACHINE_PATH.search(text), text


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="only a checkout knows which files are its own")
def test_no_file_knows_the_machine_it_was_written_on() -> None:
    found = []
    for path in in_the_tree():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [
            f"{name_of(path)}:{number}: {line.strip()}"
            for number, line in enumerate(text.splitlines(), start=1)
            if MACHINE_PATH.search(line)
        ]
    assert found == []
