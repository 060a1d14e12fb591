"""namedax.models.show: what it prints of the models at their published sizes."""

from __future__ import annotations

import re

import pytest

import namedax as nx
from namedax.models import show
from namedax.models.command import main

# Billions of parameters, as published.
SIZES = {
    "deepseek": 671.03,
    "dit": 0.75,
    "gemma": 3.88,
    "gpt_oss": 20.91,
    "llama": 8.03,
    "mamba": 2.70,
    "mixtral": 30.53,
    "qwen2_vl": 2.21,
    "qwen3_next": 79.67,
    "t5": 2.85,
    "vit": 0.30,
    "whisper": 1.54,
}


@pytest.mark.parametrize("name", show.PUBLISHED)
def test_a_published_size_has_its_number_of_parameters(name):
    step = show.Step(name)
    assert step.count / 1e9 == pytest.approx(SIZES[name], abs=0.006)
    assert show.parameters(step).startswith(f"{step.title}: {step.count / 1e9:.2f} billion parameters\n\n")


@pytest.mark.fast(0)
@pytest.mark.full(1)
@pytest.mark.parametrize("layout", ["dp+tp", "fsdp", "pipeline+dp"])
@pytest.mark.parametrize("name", show.PUBLISHED)
def test_a_layout_has_the_communication_that_it_needs(name, layout):
    text = show.communication(show.Step(name), layout)
    kinds = set(re.findall(r"(all-reduce|all-gather|reduce-scatter|collective-permute)  +(\w+)", text))
    wanted = {"dp+tp": ("all-reduce", "model"), "fsdp": ("all-gather", "data"), "pipeline+dp": ("collective-permute", "stage")}
    # Less than a thousandth of the bytes is not shown: the activations of a pipeline, beside 671 billion gradients.
    is_shown = (name, layout) != ("deepseek", "pipeline+dp")
    assert (wanted[layout] in kinds) == is_shown


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_a_model_is_shown(capsys):
    assert main(["explain", "vit", "--layout", "fsdp"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("ViT-Large/16: 0.30 billion parameters\n")
    assert "A step under 'fsdp' on data=8: {'batch': 'data', 'embed_fsdp': 'data'}" in text
    assert main(["explain", "vit", "--layout", "{'embed_fsdp': 'data'}", "--mesh", "data=4"]) == 0
    assert "on data=4: {'embed_fsdp': 'data'}" in capsys.readouterr().out
    assert main(["plan", "vit", "--chips", "4", "--machine", "h100", "--tries", "4"]) == 0
    assert "Layouts of step on x=2, y=2 of h100" in capsys.readouterr().out


def test_experts_are_sent_to_by_all_to_alls():
    text = show.communication(show.Step("mixtral"), "ep+fsdp")
    assert re.search(r"all-to-all +data +batch, expert +forward", text)


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_a_model_without_a_fitting_layout_says_so():
    step = show.Step("llama")
    text = show.plan(step, 1, nx.machines.h100, 2)
    assert re.match(r"plan: none of \d+ layouts", text)
