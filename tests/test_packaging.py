"""What is said about the package in several places is said alike in all of them."""

import ast
import importlib
import importlib.metadata
import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest

import layoutkit

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
EXAMPLES = {"c/embed.c", "cython/check.py", "torch/digits.py"}
PREFIXES = ".ci/", ".github/", "bench/", "docs/", "examples/", "packaging/", "src/", "stress/", "tests/", "tools/"
MADE = {"build/docs"}  # by the commands themselves


def loaded(path):
    return yaml.safe_load((ROOT / path).read_text())


def commands(workflow):
    return [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]


def named_files(text):
    """What looks like a file of this repository; where there are wildcards, the part before them."""
    words = re.findall(r"[\w./*-]+", text)
    return {w.removeprefix("./").partition("*")[0] for w in words if w.removeprefix("./").startswith(PREFIXES)}


def test_versions_are_the_same():
    version = PROJECT["project"]["version"]
    assert layoutkit.__version__ == version
    assert loaded("CITATION.cff")["version"] == version
    assert loaded("packaging/conda/recipe.yaml")["context"]["version"] == version
    assert f"version: '{version}'" in (ROOT / "meson.build").read_text()
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text()


def test_licences_are_the_same():
    licence = PROJECT["project"]["license"]
    assert loaded("CITATION.cff")["license"] == licence
    assert loaded("packaging/conda/recipe.yaml")["about"]["license"] == licence


def test_wheels_are_built_for_the_pythons_that_the_classifiers_name():
    built = re.findall(r"cp3(\d+)(t?)-\*", PROJECT["tool"]["cibuildwheel"]["build"])
    minors = sorted(int(minor) for minor, threaded in built if not threaded)
    named = [re.fullmatch(r"Programming Language :: Python :: 3\.(\d+)", c) for c in PROJECT["project"]["classifiers"]]
    assert minors == sorted(int(found[1]) for found in named if found)
    assert PROJECT["project"]["requires-python"] == f">=3.{minors[0]}"
    tested = loaded(".github/workflows/ci.yml")["jobs"]["tests"]["strategy"]["matrix"]["python"]
    assert {f"3.{minors[0]}", f"3.{minors[-1]}"} <= set(tested)
    assert loaded("packaging/conda/recipe.yaml")["context"]["python_min"] == f"3.{minors[0]}"
    free = any("Free Threading" in c for c in PROJECT["project"]["classifiers"])
    assert free == any(threaded for _, threaded in built)


def test_wheels_are_built_where_the_tests_run():
    jobs = loaded(".github/workflows/release.yml")["jobs"], loaded(".github/workflows/ci.yml")["jobs"]
    assert jobs[0]["wheels"]["strategy"]["matrix"]["os"] == jobs[1]["tests"]["strategy"]["matrix"]["os"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda p: p.name)
def test_workflows_name_files_that_exist(path):
    workflow = loaded(path)
    missing = sorted(name for text in commands(workflow) for name in named_files(text) if not (ROOT / name).exists())
    assert [name for name in missing if name not in MADE] == []
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 240
        needs = job.get("needs", [])
        assert set([needs] if isinstance(needs, str) else needs) <= workflow["jobs"].keys()


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda p: p.name)
def test_workflows_have_no_more_rights_than_they_need(path):
    workflow = loaded(path)
    assert workflow["permissions"] == {"contents": "read"}
    writing = {name: job["permissions"] for name, job in workflow["jobs"].items() if "permissions" in job}
    want = {"release.yml": {"publish": {"id-token": "write"}},
            "docs.yml": {"publish": {"pages": "write", "id-token": "write"}}}  # fmt: skip
    assert writing == want.get(path.name, {})


@pytest.mark.parametrize("path", ["SECURITY.md", "docs/platforms.md"])
def test_pages_about_shipping_name_files_that_exist(path):
    assert [name for name in named_files((ROOT / path).read_text()) if not (ROOT / name).exists()] == []


def test_forms_ask_for_the_configuration():
    forms = {path.name: loaded(path) for path in FORMS}
    assert len(forms) >= 3
    for form in forms.values():
        ids = [part["id"] for part in form["body"] if part["type"] != "markdown"]
        assert len(set(ids)) == len(ids)
    for name in ("wrong_result.yml", "slow_call.yml"):
        (config,) = (p for p in forms[name]["body"] if p.get("id") == "config")
        assert "python -m layoutkit" in config["attributes"]["label"] and config["validations"]["required"]
    assert "explain()" in (ROOT / ".github" / "ISSUE_TEMPLATE" / "slow_call.yml").read_text()


def test_the_recipe_requires_what_the_project_requires():
    recipe = loaded("packaging/conda/recipe.yaml")["requirements"]

    def joined(requirements):
        found = (re.match(r"([\w-]+)\s*(.*)", r) for r in requirements if isinstance(r, str) and "{" not in r)
        return {m[1]: m[2] for m in found}

    run, host = joined(recipe["run"]), joined(recipe["host"])
    assert {k: v for k, v in run.items() if k != "python"} == joined(PROJECT["project"]["dependencies"])
    assert joined(PROJECT["build-system"]["requires"]).items() <= host.items()
    script = loaded("packaging/conda/recipe.yaml")["build"]["python"]["entry_points"]
    assert script == [f"{name} = {where}" for name, where in PROJECT["project"]["scripts"].items()]


def test_metadata_are_told_without_compiling(tmp_path, monkeypatch):
    """pip would build the whole wheel to read them, and say nothing meanwhile."""
    mesonpy = pytest.importorskip("mesonpy", reason="the build backend")
    monkeypatch.chdir(ROOT)
    monkeypatch.syspath_prepend(ROOT / "packaging")
    backend = importlib.import_module(PROJECT["build-system"]["build-backend"])

    def refuse(*args, **kwargs):
        raise AssertionError(f"runs {args}")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    monkeypatch.setattr(mesonpy, "Project", refuse)
    for kind in ("wheel", "editable"):
        found = tmp_path / kind
        found.mkdir()
        written = found / getattr(backend, f"prepare_metadata_for_build_{kind}")(str(found))
        assert written.name == f"layoutkit-{PROJECT['project']['version']}.dist-info"
        said = importlib.metadata.PathDistribution(written)
        assert said.metadata["Name"] == "layoutkit" and said.version == PROJECT["project"]["version"]
        assert set(said.metadata.get_all("Provides-Extra")) == set(PROJECT["project"]["optional-dependencies"])
        groups = PROJECT["project"]["entry-points"] | {"console_scripts": PROJECT["project"]["scripts"]}
        told = {(group, name, value) for group, entries in groups.items() for name, value in entries.items()}
        assert {(e.group, e.name, e.value) for e in said.entry_points} == told
        assert (written / "METADATA").read_bytes() == bytes(mesonpy.Metadata.from_pyproject(PROJECT).as_rfc822())


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_examples_begin_with_the_command_that_runs_them(name):
    """`.ci/wheel` runs these commands as they stand, each in a copy and an environment of its own."""
    text = (ROOT / "examples" / name).read_text()
    found = re.findall(r"^[ *]*(python3 -m venv .*)$", "\n".join(text.splitlines()[:5]), re.M)
    assert len(found) == 1
    words = shlex.split(found[0])
    assert words[:4] == ["python3", "-m", "venv", ".venv"]
    files = [w for w in words if w.endswith(".py")]
    assert files in ([], [Path(name).name])
    assert f"examples/{name}" in (ROOT / ".ci" / "wheel").read_text()
    assert name.split("/")[0] in {p.name for p in (ROOT / "examples").iterdir()}


def test_contents_are_checked_by_what_the_source_has():
    """The lists of `.ci/contents.py` name files of this tree."""
    tree = ast.parse((ROOT / ".ci" / "contents.py").read_text())
    lists = {n.targets[0].id: n.value for n in tree.body if isinstance(n, ast.Assign) and isinstance(n.value, ast.Set)}
    assert set(lists) == {"IN_EVERY_SDIST", "IN_EVERY_WHEEL"}
    for name in ast.literal_eval(lists["IN_EVERY_SDIST"]):
        assert (ROOT / name).exists(), name
    for name in ast.literal_eval(lists["IN_EVERY_WHEEL"]):
        assert (ROOT / "src" / name).exists(), name
