"""Environments made by the install step of docs/examples/kernels-ci.yml; a list pins what they get.

That of the newest releases is made from nothing, and others take its torch where they pin the same.

``python -m tests.installed newest`` makes that of ``constraints-newest.txt``, and prints the folder that it lies in.
"""

import json
import os
import shutil
import subprocess
import sys
import venv
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.request import urlopen

import yaml
from filelock import FileLock

ROOT = Path(__file__).parents[1]
WORKFLOW = ROOT / "docs" / "examples" / "kernels-ci.yml"
JOB = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]["specsim"]
STEPS = {step["name"]: step["run"] for step in JOB["steps"] if "run" in step}
INDEX_OF_CPU_BUILDS = " --index-url https://download.pytorch.org/whl/cpu"
FROM_NOTHING = "newest"
"""The list whose environment shares no file with another one."""

WHEEL_IS_MADE_OF = ("specsim", "reference", "gpu", "properties", "pyproject.toml", "setup.py", "MANIFEST.in")


@dataclass(frozen=True)
class Installed:
    """An environment: the folder that it lies in, and the bytes of everything that pip took from an index."""

    folder: str
    downloads: dict[str, int]

    @property
    def python(self) -> str:
        """Return its interpreter."""
        return f"{self.folder}/venv/bin/python"

    def run(self, script: str, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a step as the workflow does: in bash, which ends at the first command that fails."""
        return subprocess.run(
            ["bash", "-e", "-c", script],
            cwd=cwd,
            env=self.surroundings(**more),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=900,
            check=False,
        )

    def surroundings(self, **more: str) -> dict[str, str]:
        """Return the environment's variables: no other specsim is found in it."""
        kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        path = f"{self.folder}/venv/bin{os.pathsep}{os.environ['PATH']}"
        return {**kept, **JOB["env"], "PATH": path, "PYTHONUTF8": "1", **more}


def install(name: str) -> Installed:
    """Make the environment of a list, unless it has been made of the same sources."""
    folder, pins = ROOT / "build" / "versions" / name, ROOT / f"constraints-{name}.txt"
    made = folder / "made.json"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        sources = _tracked()
        parts = [path for path in sources if path.parts[0] in WHEEL_IS_MADE_OF]
        changed = max((ROOT / path).lstat().st_mtime for path in [*parts, pins, WORKFLOW, Path(__file__)])
        if not made.exists() or made.stat().st_mtime < changed:
            shutil.rmtree(folder, ignore_errors=True)
            venv.create(folder / "venv", with_pip=True)
            if name != FROM_NOTHING:
                _link_torch(folder, pins)
            _copy(sources, folder / "specsim-source")
            made.write_text(json.dumps(asdict(_installed(folder, pins))))
    return Installed(**json.loads(made.read_text()))


def _link_torch(folder: Path, pins: Path) -> None:
    """Link the files of torch from the environment made from nothing, where that has the release that is pinned.

    The install step finds torch there, and installs what torch needs; to unpack it again would try nothing else.
    """
    there = folder.with_name(FROM_NOTHING)
    with FileLock(f"{there}.lock"):
        for found in there.glob(f"venv/lib/*/site-packages/{_torch_of(pins).replace('==', '-')}*.dist-info"):
            record = (found / "RECORD").read_text().splitlines()
            for part in {line.partition("/")[0] for line in record} - {".."}:
                here = folder / (found.parent / part).relative_to(there)
                if (found.parent / part).is_dir():
                    shutil.copytree(found.parent / part, here, copy_function=os.link, dirs_exist_ok=True)


def _torch_of(pins: Path) -> str:
    """Return the line of a list that pins torch."""
    (torch,) = (line for line in pins.read_text().splitlines() if line.startswith("torch=="))
    return torch


def _tracked() -> list[Path]:
    """Return the files of this tree, from its top."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [Path(name) for name in listed.split("\0") if name and os.path.lexists(ROOT / name)]


def _copy(sources: list[Path], place: Path) -> None:
    for path in sources:
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, place / path, follow_symlinks=False)


def _installed(folder: Path, pins: Path) -> Installed:
    """Run the install step; the index of torch's CPU builds is left out where pip finds the build without it."""
    environment = Installed(str(folder), {})
    options = {"PIP_CONSTRAINT": str(pins), "PIP_COMPILE": "0", "PIP_QUIET": "1"}
    is_here = environment.run(f"python -m pip install --dry-run --no-deps '{_torch_of(pins)}+cpu'", folder, **options)
    script = STEPS["Install"].replace(INDEX_OF_CPU_BUILDS, "" if is_here.returncode == 0 else INDEX_OF_CPU_BUILDS)
    downloads = {}
    for number, line in enumerate(script.splitlines()):
        report = folder / f"report-{number}.json"
        ended = environment.run(line, folder, **options, PIP_REPORT=str(report))
        if ended.returncode:
            raise RuntimeError(f"{line}\n{ended.stdout}")
        for one in json.loads(report.read_text())["install"]:
            if "archive_info" in one["download_info"]:
                downloads[one["metadata"]["name"]] = _size_of(one["download_info"]["url"])
    return Installed(str(folder), downloads)


def _size_of(url: str) -> int:
    """Return the bytes of a file that pip took, by its address."""
    with urlopen(url, timeout=60) as answer:
        return int(answer.headers["Content-Length"])


if __name__ == "__main__":
    print(install(sys.argv[1]).folder)
