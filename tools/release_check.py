"""What a release is checked by: builds sdist and wheel, installs the wheel into an empty environment, and uses it as a reader would.

    make release-check

The examples of README.md run there, outside of the checkout; names, types and stubs have to be in
the wheel, and the metadata has to be what an index accepts. On every supported Python that is here,
the wheel is installed with each of its extras into an environment of its own. Nothing is uploaded.
"""

from __future__ import annotations

import email
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
# In the wheel, beside the modules.
WANTED = ("namedax/py.typed",)
# Asked of the metadata.
FIELDS = (
    "Name",
    "Version",
    "Summary",
    "License-Expression",
    "Requires-Python",
    "Description-Content-Type",
)

# What documentation tells readers to install besides, and a module that each brings.
EXTRAS = {
    "all": "treescope",
    "draw": "matplotlib",
    "checkpoints": "orbax.checkpoint",
    "safetensors": "safetensors",
    "interop": "equinox",
    "examples": "sklearn",
}
# On each of these that is here; JAX has wheels for them.
VERSIONS = ("3.11", "3.12", "3.13", "3.14")


def main() -> int:
    """The exit status: 1 if something is not fit for a release."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        shutil.rmtree(ROOT / "dist", ignore_errors=True)
        run(sys.executable, "-m", "build", "--outdir", ROOT / "dist", ROOT)
        wheel, sdist = next((ROOT / "dist").glob("*.whl")), next((ROOT / "dist").glob("*.tar.gz"))
        run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist)
        problems = [*in_the_wheel(wheel), *in_the_sdist(sdist)]
        python = installed(wheel, out / "venv")
        example = out / "example.py"
        example.write_text(
            examples((ROOT / "README.md").read_text()) + "\nprint(f'loss {value:.4f}')\n"
        )
        run(python, example, cwd=out)
        run(
            python,
            "-c",
            "import namedax, importlib.metadata as m; assert namedax.__version__ =="
            " m.version('namedax')",
            cwd=out,
        )
        for version in VERSIONS:
            with_extras(version, wheel, out)
        # A checkout that is installed as it is wins over its own folder, which is no package, in
        # the directory above.
        (out / "namedax").symlink_to(ROOT)
        run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--editable", ROOT)
        run(python, "-c", "import namedax; namedax.named", cwd=out)
    for problem in problems:
        print(f"release-check: {problem}", file=sys.stderr)
    if not problems:
        print(f"release-check: {wheel.name} and {sdist.name} are fit for a release")
    return 1 if problems else 0


def run(*command: object, cwd: Path = ROOT) -> None:
    """Runs a command on eight simulated devices, where nothing but what is installed is found; fails if it does."""
    print("$", *map(str, command), flush=True)
    env = {
        **os.environ,
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        "JAX_PLATFORMS": "cpu",
    }
    env.pop("PYTHONPATH", None)
    subprocess.run([str(part) for part in command], check=True, cwd=cwd, env=env)


def installed(wheel: object, folder: Path, base: str = sys.executable) -> Path:
    """The Python of a new environment that has the wheel and what it needs, and nothing else."""
    run(base, "-m", "venv", folder)
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel)
    return python


def with_extras(version: str, wheel: Path, out: Path) -> None:
    """Install the wheel with each extra on a Python, if that is here, and import what it brings."""
    found = subprocess.run(
        [ROOT / "tools" / "find-python", version], capture_output=True, text=True, check=False
    )
    if found.returncode:
        print(f"release-check: there is no Python {version} here, so it was not tried")
        return
    for extra, module in EXTRAS.items():
        folder = out / f"{version}-{extra}"
        python = installed(f"{wheel}[{extra}]", folder, found.stdout.strip())
        run(
            python,
            "-c",
            f"import {module}, jax, namedax as nx;"
            " print(jax.__version__, nx.sum(nx.ones(named_shape={'k': 3}), 'k'))",
            cwd=out,
        )
        shutil.rmtree(folder)


def in_the_wheel(wheel: Path) -> list[str]:
    """What the wheel lacks: modules and stubs of the checkout, and fields of its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = email.message_from_bytes(
            archive.read(next(n for n in names if n.endswith(".dist-info/METADATA")))
        )
    ours = {
        str(p.relative_to(ROOT).as_posix())
        for kind in ("py", "pyi")
        for p in (ROOT / "namedax").rglob(f"*.{kind}")
    }
    problems = [f"the wheel lacks {name}" for name in sorted((ours | set(WANTED)) - names)]
    problems += [
        f"the wheel has {name}" for name in sorted(names) if not name.startswith("namedax")
    ]
    problems += [f"the metadata lack {field}" for field in FIELDS if not metadata[field]]
    return problems + [
        f"the wheel has no extra {extra}"
        for extra in EXTRAS
        if extra not in metadata.get_all("Provides-Extra", [])
    ]


def in_the_sdist(sdist: Path) -> list[str]:
    """What the sdist lacks of the checkout: who builds from it can test it and build the site; and what it has besides."""
    with tarfile.open(sdist) as archive:
        names = {
            member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()
        }
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split("\n")
    tracked = {name for name in listed if name and not name.startswith(".")}
    made = {name for name in names if name in ("PKG-INFO", "setup.cfg") or ".egg-info/" in name}
    return [
        *(f"the sdist lacks {name}" for name in sorted(tracked - names)),
        *(
            f"the sdist has {name}, which is not in the checkout"
            for name in sorted(names - tracked - made)
        ),
    ]


def examples(text: str) -> str:
    """The blocks of Python in a text, one after the other."""
    found = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    if not found:
        raise SystemExit("release-check: README.md has no example")
    return "\n".join(found)


if __name__ == "__main__":
    sys.exit(main())
