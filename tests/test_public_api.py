"""What is public is documented, typed, and offered where one looks for it."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import tomllib
import typing
from importlib import metadata
from pathlib import Path

import pytest

import cursorkit
from cursorkit import errors, positions

ROOT = Path(__file__).parents[1]
MODULES = sorted((ROOT / "src" / "cursorkit").rglob("*.py"))

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def module_id(path: Path) -> str:
    """Return a module's path within the package."""
    return path.relative_to(ROOT / "src" / "cursorkit").as_posix()


def public_definitions(body: list[ast.stmt], prefix: str = "") -> list[tuple[str, Definition]]:
    """Return the public classes, functions and methods in a body, with dotted names."""
    found: list[tuple[str, Definition]] = []
    for node in body:
        if not isinstance(node, Definition) or node.name.startswith("_"):
            continue
        found.append((prefix + node.name, node))
        if isinstance(node, ast.ClassDef):
            found += public_definitions(node.body, f"{prefix}{node.name}.")
    return found


def unannotated(function: ast.FunctionDef | ast.AsyncFunctionDef, *, method: bool) -> list[str]:
    """Return the parameters of a function without an annotation, and "return"."""
    spec = function.args
    bound = method and not any(
        isinstance(node, ast.Name) and node.id == "staticmethod" for node in function.decorator_list
    )
    positional = [*spec.posonlyargs, *spec.args][1 if bound else 0 :]
    every = [*positional, *spec.kwonlyargs, *filter(None, [spec.vararg, spec.kwarg])]
    missing = [argument.arg for argument in every if argument.annotation is None]
    return missing if function.returns is not None else [*missing, "return"]


def is_overload(node: Definition) -> bool:
    """Return whether a definition is one overload of several: the last one has the docstring."""
    return any(isinstance(mark, ast.Name) and mark.id == "overload" for mark in node.decorator_list)


def shortcomings(source: str) -> list[str]:
    """Return what public definitions in a source lack: a docstring, or an annotation."""
    lines: list[str] = []
    for name, node in public_definitions(ast.parse(source).body):
        if ast.get_docstring(node) is None and not is_overload(node):
            lines.append(f"{name} has no docstring")
        if not isinstance(node, ast.ClassDef):
            missing = unannotated(node, method="." in name)
            lines += [f"{name} has no annotation for {each}" for each in missing]
    return lines


@pytest.mark.parametrize("path", MODULES, ids=module_id)
def test_everything_public_has_a_docstring_and_annotations(path: Path) -> None:
    """Each module, and each public class, function and method in it, is documented and typed."""
    source = path.read_text(encoding="utf-8")
    assert ast.get_docstring(ast.parse(source)), "the module has no docstring"
    assert shortcomings(source) == []


def test_the_check_finds_what_is_missing() -> None:
    """A public definition without docstring or annotation is found, a private one is left alone."""
    source = """
class Public:
    def method(self, given: int, missing, *more, key=None): ...
    @staticmethod
    def static(missing) -> None:
        "Documented."
    @overload
    def twice(self, a: int) -> int: ...
    def _private(self, a): ...
class _Private:
    def method(self, a): ...
"""
    assert shortcomings(source) == [
        "Public has no docstring",
        "Public.method has no docstring",
        "Public.method has no annotation for missing",
        "Public.method has no annotation for key",
        "Public.method has no annotation for more",
        "Public.method has no annotation for return",
        "Public.static has no annotation for missing",
    ]


@pytest.mark.parametrize("path", MODULES, ids=module_id)
def test_what_a_module_calls_public_is_in_its_all(path: Path) -> None:
    """A class or function is in its module's `__all__`, or its name starts with an underscore."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    public = {name for name, _ in public_definitions(tree.body) if "." not in name}
    listed: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            listed = ast.literal_eval(node.value)
    assert public - set(listed) == set()
    assert len(listed) == len(set(listed))


def test_all_is_sorted_without_repeats() -> None:
    """`cursorkit.__all__` is in alphabetical order, each name once."""
    assert cursorkit.__all__ == sorted(set(cursorkit.__all__))


@pytest.mark.parametrize("name", cursorkit.__all__)
def test_each_public_name_is_there_and_documented(name: str) -> None:
    """Each name of `cursorkit.__all__` can be imported, and has a docstring of its own."""
    public: object = getattr(cursorkit, name)
    assert inspect.isclass(public) or inspect.isfunction(public)
    assert public.__doc__
    if inspect.isclass(public):
        assert public.__doc__ != public.__base__.__doc__


@pytest.mark.parametrize("name", cursorkit.__all__)
def test_each_public_name_is_public_at_home(name: str) -> None:
    """Each name of `cursorkit.__all__` is in the `__all__` of the module that defines it."""
    home = importlib.import_module(getattr(cursorkit, name).__module__)
    assert name in home.__all__


def test_every_exception_is_public() -> None:
    """Whatever cursorkit raises can be caught by a name of the package itself."""
    exceptions = {name for name in errors.__all__ if inspect.isclass(getattr(errors, name))}
    assert exceptions - set(cursorkit.__all__) == set()


def test_every_kind_of_position_is_public() -> None:
    """Each member of the union `Position` is a name of the package itself."""
    kinds = {kind.__name__ for kind in typing.get_args(positions.Position)}
    assert kinds - set(cursorkit.__all__) == set()


def test_what_users_construct_is_public() -> None:
    """Each codec, paginator, page and item encoder is a name of the package itself."""
    users = re.compile(r".+Codec|.+Paginator|Page|.+Items")
    made: set[str] = set()
    for path in MODULES:
        name = module_id(path).removesuffix(".py").replace("/", ".")
        home = name.split(".")[0] in {"codecs", "paginators", "items"}
        if home and path.stem not in {"__init__", "base"}:
            made |= set(importlib.import_module(f"cursorkit.{name}").__all__)
    public = {name for name in made if users.fullmatch(name)}
    assert "SignedCodec" in public
    assert public - set(cursorkit.__all__) == set()


def test_the_installed_version_is_the_projects() -> None:
    """The version in pyproject.toml is the one that the installed package reports."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert metadata.version("cursorkit") == project["version"]
