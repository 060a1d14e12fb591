"""The files of a release state one version, and the changelog stays short."""

import pathlib
import re

import namedax as nx

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
