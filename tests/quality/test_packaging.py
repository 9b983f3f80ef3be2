"""The name, the links, the imports, and what a wheel and a source distribution hold."""

import filecmp
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import specsim
from specsim.installation import DISTRIBUTION, EXTRAS, IMPORTERS

ROOT = Path(__file__).parents[2]
LINKED = ("reference", "gpu", "properties")
SHIPPED = (".py", ".pyi", ".toml", ".jinja")
FOLDERS = ("specsim", *LINKED)
NOT_IN_A_TREE = shutil.ignore_patterns("__pycache__", ".?*", "*.egg-info", "build", "dist", "shared", "specsim-cases")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
RUN_IN_A_SOURCE_DISTRIBUTION = (
    "tests/quality/test_citations.py",
    "tests/quality/test_layers.py::test_every_operation_stands_in_the_file_of_its_group",
    "tests/quality/test_sources.py::test_sources_are_found",
    "tests/quality/test_sources.py::test_counts_say_what_they_count",
    "tests/test_docs.py::test_the_pages_of_the_reference_are_those_of_the_tables",
    "tests/test_docs.py::test_the_page_quotes_the_example",
    "tests/test_docs.py::test_links_lead_somewhere",
)


def run(*arguments, cwd=ROOT):
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, check=False)


def run_python(code, cwd=ROOT):
    return run("-c", code, cwd=cwd)


def build(kind, tree, out):
    return run("-m", "build", f"--{kind}", "--no-isolation", "--skip-dependency-check", "--outdir", out, cwd=tree)


@pytest.fixture
def tree(tmp_path):
    """Return a copy of what is committed."""
    copy = tmp_path / "tree"
    shutil.copytree(ROOT, copy, symlinks=True, ignore=NOT_IN_A_TREE)
    for name in (".ci", ".gitignore", ".pre-commit-config.yaml"):
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, copy / name)
    return copy


def test_the_name_and_the_extras_are_those_of_the_project():
    assert PROJECT["name"] == DISTRIBUTION
    assert PROJECT["version"] == specsim.__version__
    extras = {name: PROJECT["optional-dependencies"][name] for name in EXTRAS}
    modules = {
        name: tuple(Requirement(entry).name.replace("-", "_") for entry in entries) for name, entries in extras.items()
    }
    assert modules == EXTRAS
    assert IMPORTERS.keys() == EXTRAS.keys()


def test_everything_that_says_how_to_install_says_the_name():
    """The distribution ``specsim`` of the Python Package Index is another project's."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    sources = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    wrong = re.compile(r"specsim\[|pip install[^\n`]*\bspecsim\b(?!-decoding)")
    files = [*pages, *sources, ROOT / "pyproject.toml"]
    found = [str(path.relative_to(ROOT)) for path in files if wrong.search(path.read_text(encoding="utf-8"))]
    assert not found, f"{found} name another distribution, but should name {DISTRIBUTION}"


def test_the_links_are_links_or_copies():
    """Only a source distribution has copies."""
    is_source_distribution = (ROOT / "PKG-INFO").is_file()
    for name in LINKED:
        place = ROOT / "specsim" / name
        if is_source_distribution:
            assert filecmp.dircmp(place, ROOT / name, ignore=["__pycache__"]).diff_files == []
        else:
            assert os.readlink(place) == f"../{name}"


@pytest.mark.parametrize("name", LINKED)
def test_another_name_is_refused(name):
    got = run_python(f"import {name}")
    assert got.returncode == 1
    assert got.stderr.splitlines()[-1] == f"ImportError: import this package as specsim.{name}, not as {name}"


def test_the_reference_needs_neither_torch_nor_hypothesis():
    code = (
        "import sys, specsim.reference as r; print([m for m in ('torch', 'triton', 'hypothesis') if m in sys.modules])"
    )
    assert run_python(code).stdout == "[]\n"


def test_the_command_line_starts_without_torch_and_hypothesis():
    code = "import sys, specsim.cli.main; print([m for m in ('torch', 'triton', 'hypothesis') if m in sys.modules])"
    assert run_python(code).stdout == "[]\n"


def test_constraints_are_exact_and_cover_the_dependencies():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines)
    assert len(pins) == len(lines)
    wanted = [
        *PROJECT["dependencies"],
        *(entry for extra in PROJECT["optional-dependencies"].values() for entry in extra),
    ]
    names = {entry.partition(">")[0] for entry in wanted if not entry.startswith(f"{DISTRIBUTION}[")}
    normal = {name.lower().replace("_", "-") for name in pins}
    assert names <= normal, f"constraints.txt lacks {names - normal}"


def pins_of(name):
    lines = (ROOT / f"constraints{name}.txt").read_text(encoding="utf-8").splitlines()
    return {canonicalize_name(one.partition("==")[0]): one.partition("==")[2] for one in lines if one[0] != "#"}


NEEDED = [
    Requirement(one)
    for one in (
        *PROJECT["dependencies"],
        *(entry for name in EXTRAS for entry in PROJECT["optional-dependencies"][name]),
    )
]


@pytest.mark.parametrize("needed", NEEDED, ids=[one.name for one in NEEDED])
def test_the_ranges_begin_and_end_with_what_is_checked(needed):
    """A range whose end is open ends with the next release that fails; torch is pinned, as it has builds for CUDA."""
    (lower,) = (Version(one.version) for one in needed.specifier if one.operator == ">=")
    lowest, newest = (Version(pins_of(name)[needed.name]) for name in ("-lowest", "-newest"))
    assert newest in needed.specifier
    if needed.name == "torch":
        assert str(lowest) == str(newest) == pins_of("")["torch"]
        return
    assert lowest == lower
    if needed.name == "triton":
        assert Version(f"{newest.major}.{newest.minor + 1}") not in needed.specifier


@pytest.mark.parametrize(
    ("absent", "module", "message"),
    [
        ("torch", "specsim.gpu", "specsim.gpu needs torch: pip install '{}[gpu]'"),
        ("torch triton", "specsim.gpu.worker.v2", "specsim.gpu needs torch and triton: pip install '{}[gpu]'"),
        ("hypothesis", "specsim.properties", "specsim.properties needs hypothesis: pip install '{}[properties]'"),
        (
            "scipy",
            "specsim.properties.operations.tree.laws",
            "specsim.properties needs scipy: pip install '{}[properties]'",
        ),
        (
            "prometheus_client",
            "specsim.host.exposition",
            "specsim.host.exposition needs prometheus_client: pip install '{}[metrics]'",
        ),
        (
            "matplotlib",
            "specsim.cli.benching.plots",
            "specsim.cli.benching.plots needs matplotlib: pip install '{}[plots]'",
        ),
        (
            "transformers",
            "specsim.checkpoints.folder",
            "specsim.checkpoints needs transformers: pip install '{}[models]'",
        ),
        ("jinja2", "specsim.reports", "specsim.reports needs jinja2: pip install '{}[report]'"),
        (
            "torch triton transformers hypothesis scipy prometheus_client matplotlib jinja2",
            "specsim.conformance.plugin",
            "",
        ),
        ("ray", "specsim.campaigns.cluster", "specsim.campaigns.cluster needs ray: pip install '{}[cluster]'"),
    ],
)
def test_what_is_missing_is_named_with_what_installs_it(absent, module, message):
    """The options of pytest are no part of the suite: they load in every run of pytest beside specsim."""
    got = run_python(f"import sys; sys.modules.update(dict.fromkeys('{absent}'.split())); import {module}")
    last = got.stderr.splitlines()[-1:]
    assert last == ([f"ImportError: {message.format(DISTRIBUTION)}"] if message else []), got.stderr
    assert got.returncode == (1 if message else 0)


def test_the_suite_runs_under_pytest():
    suite = ("--pyargs", "specsim.properties.conformance", "-p", "specsim.conformance.plugin", "-p", "no:specsim")
    chosen = ("--specsim-impl", "specsim.reference", "--specsim-examples", "2", "-k", "agreement.fill_bonus_tokens")
    got = run("-m", "pytest", "-q", "-p", "no:cacheprovider", *suite, *chosen)
    assert (got.returncode, got.stdout.splitlines()[-1][:8]) == (0, "1 passed"), got.stdout + got.stderr


def test_a_clone_without_links_does_not_build(tree, tmp_path):
    for name in LINKED:
        link = tree / "specsim" / name
        link.unlink()
        link.write_text(f"../{name}")
    got = build("wheel", tree, tmp_path)
    assert got.returncode != 0
    (line,) = {line for line in got.stdout.splitlines() + got.stderr.splitlines() if "core.symlinks" in line}
    assert line.startswith("error: specsim/reference, specsim/gpu, specsim/properties should be links")
    assert not list(tmp_path.glob("*.whl"))


def test_a_wheel_holds_the_linked_packages(tree, tmp_path):
    built = build("wheel", tree, tmp_path)
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    expected = {
        str(path.relative_to(ROOT)) if folder == "specsim" else f"specsim/{path.relative_to(ROOT)}"
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.suffix in SHIPPED
    }
    assert expected <= held, f"the wheel lacks {sorted(expected - held)}"
    assert not [name for name in held if name.split("/")[0] in (*LINKED, "tests") or name.endswith(".json")]


def test_a_source_distribution_builds_and_its_tests_run(tree, tmp_path):
    built = build("sdist", tree, tmp_path)
    assert built.returncode == 0, built.stdout + built.stderr
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        assert not [member.name for member in opened if member.issym()]
        opened.extractall(tmp_path, filter="data")
    unpacked = tmp_path / archive.name.removesuffix(".tar.gz")
    committed = {path.relative_to(tree) for path in tree.rglob("*") if path.is_file()}
    lacking = sorted(str(path) for path in committed if not (unpacked / path).is_file())
    assert not lacking, f"the source distribution lacks {lacking}"
    ran = run(
        "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:specsim", *RUN_IN_A_SOURCE_DISTRIBUTION, cwd=unpacked
    )
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr
    rebuilt = build("wheel", unpacked, tmp_path)
    assert rebuilt.returncode == 0, rebuilt.stdout + rebuilt.stderr
