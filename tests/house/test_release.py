"""The files of a release state one version, and the changelog stays short."""

import pathlib
import re

import pytest

import namedax as nx
from namedax.ops.namespaces import public_names

ROOT = pathlib.Path(__file__).parents[2]


def text(path):
    return (ROOT / path).read_text()


def test_the_version_is_the_same_everywhere():
    versions = {
        "CITATION.cff": re.search(r"^version: (\S+)$", text("CITATION.cff"), re.M)[1],
        "CHANGELOG.md": re.findall(r"^## \[(\d[\d.]*)\]", text("CHANGELOG.md"), re.M)[0],
        "release notes": re.findall(r"^## (\d[\d.]*)$", text("docs/about/releases.md"), re.M)[0],
    }
    assert versions == dict.fromkeys(versions, nx.__version__)
    date = re.search(r"^date-released: (\S+)$", text("CITATION.cff"), re.M)[1]
    assert f"## [{nx.__version__}] - {date}" in text("CHANGELOG.md")


def test_the_changelog_has_only_what_changed_for_users():
    changelog = text("CHANGELOG.md")
    assert len(changelog) < 24_000, "move what users do not notice to the bodies of commits"
    entries = re.findall(r"^- (?:.|\n(?!-|\n))*", changelog, re.M)
    assert len(entries) > 40
    assert [entry for entry in entries if len(entry) > 700] == []


def test_the_sdist_has_every_folder_of_the_checkout():
    """`make release-check` compares the files; this is for those who add a folder."""
    grafted = set(re.findall(r"^graft (\w+)$", text("MANIFEST.in"), re.M))
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and any(path.glob("*.py")) | any(path.glob("*.sh"))}
    assert {name for name in folders if not name.startswith(".")} - {"namedax", "build", "dist", "site", "out"} <= grafted


@pytest.mark.parametrize("name", public_names.DEPRECATED)
def test_deprecated_names_warn_and_work(name):
    new = public_names.DEPRECATED[name]
    with pytest.warns(
        DeprecationWarning, match=rf"^namedax\.{name} is deprecated.* Write namedax\.{new}, or namedax\.numpy\.{name}\.$"
    ) as warned:
        function = getattr(nx, name)
    assert warned[0].filename == __file__
    assert function is getattr(nx.numpy, name)
    assert new in nx.__all__
    assert name not in nx.__all__


def test_deprecated_names_end_as_announced():
    def numbers(version):
        return tuple(map(int, version.split(".")))

    assert numbers(nx.__version__) < numbers(public_names.DEPRECATED_UNTIL), "remove the names of public_names.DEPRECATED"
