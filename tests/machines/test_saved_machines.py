"""Machines as dicts for JSON, as text and as HTML."""

import copy
import dataclasses
import html.parser
import json
import random

import pytest

import namedax as nx
from namedax.errors import ArgumentError
from namedax.machines import Link, Machine
from tests.harness import said

ENTRIES = [name for name in nx.machines.__all__ if isinstance(getattr(nx.machines, name), (Machine, Link))]
ODD = Machine(
    {"bfloat16": 1 / 3, "int8": 7},
    memory=2**33 + 1,
    bandwidth=0.1 + 0.2,
    links={
        ...: Link(1e9, 0.0, "direct", reach=3, by_size=((1, 1 / 3), (2.5, 0.7))),
        "x": Link(3, 1e-300, "line", dimensions=2, closes=7),
        ("x", "y"): Link(5e9, 1e-6, "switch", start=1e-5, reach=4, beyond=Link(1, 2)),
    },
    overlap=True,
    name="odd <b> & \u00e4",
    launch=1e-6,
    efficiency={"bfloat16": 0.1},
    memory_efficiency=0.9,
    sources=("a <i>sheet</i>", "another"),
)


@pytest.mark.parametrize("name", ENTRIES)
def test_a_round_trip_is_exact(name):
    entry = getattr(nx.machines, name)
    again = type(entry).from_dict(json.loads(json.dumps(entry.to_dict(), allow_nan=False)))
    assert again == entry
    assert again.to_dict() == entry.to_dict()


def test_a_round_trip_of_every_field():
    for field in dataclasses.fields(Machine):
        assert getattr(ODD, field.name) != getattr(nx.machines.v5e, field.name)
    again = Machine.from_dict(json.loads(json.dumps(ODD.to_dict(), allow_nan=False)))
    assert again == ODD
    assert again.sources == ODD.sources
    assert type(again.memory) is int
    assert again.links[...].by_size == ODD.links[...].by_size
    assert again.links["x", "y"].beyond == Link(1, 2)
    assert Link.from_dict({"bandwidth": 1e9, "latency": 0}) == Link(1e9, 0)


GOOD = {"flops": {"float32": 1e12}, "memory": 1, "bandwidth": 1, "links": []}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            [1],
            "Machine.from_dict: expected a dict, as from Machine.to_dict(); got list. Pass the dict, for JSON that of "
            "json.loads(text).",
        ),
        (
            {"flops": {}, "memory": 1},
            "Machine.from_dict: the dict lacks 'bandwidth', 'links'. Pass the complete dict of Machine.to_dict().",
        ),
        (
            GOOD | {"memroy": 1},
            "Machine.from_dict: the dict has the unknown keys 'memroy'. Remove them, or choose from 'flops', 'memory', 'bandwidth', "
            "'links', 'overlap', 'name', 'launch', 'efficiency', 'memory_efficiency', 'host_bandwidth', 'sources'. Did you mean 'memory'?",
        ),
        (
            GOOD | {"links": {"x": 1}},
            "Machine.from_dict: links must be a list, got dict. Pass [{'axes': None, 'link': {...}}]; None is all axes.",
        ),
        (
            GOOD | {"links": [{"axes": 3, "link": {}}]},
            "Machine.from_dict: axes=3 must be None for all axes, a mesh axis, or a list of mesh axes, such as ['data', 'model'].",
        ),
        (
            GOOD | {"links": [{"axes": "x", "link": {"bandwidth": 1, "latency": 0}}] * 2},
            "Machine.from_dict: links has axes='x' twice. Keep one of them.",
        ),
        (
            GOOD | {"links": [{"axes": "x", "link": {"bandwidth": 1}}]},
            "Link.from_dict: the dict lacks 'latency'. Pass the complete dict of Link.to_dict().",
        ),
        (GOOD | {"memory": 10**400}, f"Machine: memory={10**400} must be a positive number of bytes, such as 1e9."),
        (GOOD | {"name": 3}, "Machine: name=3 must be a string, such as 'v5e'."),
        (GOOD | {"sources": None}, "Machine: sources=None must be a tuple of strings, such as ('a data sheet',)."),
        (GOOD | {"sources": "one"}, "Machine: sources='one' must be a tuple of strings, such as ('a data sheet',)."),
    ],
)
def test_messages_of_dicts(data, message):
    with pytest.raises(ArgumentError) as error:
        Machine.from_dict(data)
    assert said(error.value) == message


def test_mesh_axes_of_json_are_strings():
    on = Machine({"float32": 1}, 1, 1, {3: Link(1, 0)})
    with pytest.raises(ArgumentError) as error:
        on.to_dict()
    assert said(error.value) == (
        "Machine.to_dict: the mesh axis 3 of links is not a string, which JSON requires. Use strings as the names of mesh axes."
    )


def test_damaged_dicts_raise_errors_of_namedax():
    choose = random.Random(0)
    wrong = [None, True, -1, 0, 1e300, 10**400, float("nan"), "", "ring", [], {}, [[1]], {"a": 1}]
    whole = json.loads(json.dumps(ODD.to_dict()))
    raised = 0
    for _ in range(400):
        data = copy.deepcopy(whole)
        place = data
        while True:
            key = choose.choice(list(place) if isinstance(place, dict) else list(range(len(place))))
            if isinstance(place[key], (dict, list)) and place[key] and choose.random() < 0.7:
                place = place[key]
                continue
            if choose.random() < 0.3:
                del place[key]
            else:
                place[key] = choose.choice(wrong)
            break
        try:
            Machine.from_dict(data)
        except ArgumentError:
            raised += 1
    assert raised > 150  # the others are machines with other figures


def test_text():
    assert str(ODD).splitlines() == [
        "odd <b> & \u00e4: 8.59 GB at 0.3 B/s (90 % of it in estimates); an operation starts in 1 \u00b5s; communication overlaps with "
        "computation",
        "peak operations per second, and the part that estimates use:",
        "  bfloat16  0.3333 FLOP/s  10 %",
        "  int8      7 FLOP/s       100 %",
        "links of mesh axes for each device, and the part that estimates use:",
        "  all axes  direct  1 GB/s  33.3 % to 70 %  0 s latency                   3 devices",
        "  x         line    3 B/s   100 %           1e-300 s latency              any number of devices",
        "  x, y      switch  5 GB/s  100 %           1 \u00b5s latency, 10 \u00b5s to start  4 devices",
        "    beyond  ring    1 B/s   100 %           2 s latency                   any number of groups",
        "sources:",
        "  a <i>sheet</i>",
        "  another",
    ]
    assert str(nx.machines.v4).startswith("v4: 32 GiB at 1.2 TB/s; 15 GB/s from and to the host\n")
    assert str(nx.machines.h100).splitlines()[2].split() == ["bfloat16", "989.5", "TFLOP/s", "80.3", "%"]
    alone = Machine({"float32": 1e12}, memory=16e9, bandwidth=1e11, links={})
    assert str(alone).splitlines()[-1] == "  float32  1 TFLOP/s  100 %"


def test_html():
    class Cells(html.parser.HTMLParser):
        def __init__(self):
            super().__init__()
            self.tags, self.texts = [], []

        def handle_starttag(self, tag, attrs):
            self.tags.append(tag)

        def handle_endtag(self, tag):
            assert self.tags.pop() == tag

        def handle_data(self, data):
            self.texts.append(data)

    for on in (ODD, nx.machines.mi300x):
        cells = Cells()
        cells.feed(on._repr_html_())
        assert cells.tags == []
        words = [word for line in str(on).splitlines() for word in line.split()]
        inside = " ".join(cells.texts)
        assert all(word.rstrip(":") in inside for word in words)
    assert "<i>" not in ODD._repr_html_()
